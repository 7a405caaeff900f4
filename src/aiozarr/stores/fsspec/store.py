"""A store in any file system of fsspec: ranges, listings and errors as the contract has them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

from typing_extensions import Buffer

from aiozarr.errors import StoreError, UnsupportedOperationError
from aiozarr.model import ByteRange, Entry, Precondition, Supports, Value, Version, check_key, check_prefix
from aiozarr.stores.contract import Store, byte_view, directory_url, rooted_at, split_root
from aiozarr.stores.fsspec.calls import Calls
from aiozarr.stores.fsspec.errors import lacks, translate
from aiozarr.stores.fsspec.listing import Lister
from aiozarr.stores.fsspec.reading import UNKNOWN, read, size_of
from aiozarr.stores.fsspec.secrets import reveals, secrets_of
from aiozarr.stores.fsspec.served import hashed
from aiozarr.stores.fsspec.source import Source, find_source
from aiozarr.stores.fsspec.traits import traits_of
from aiozarr.stores.local.store import LocalStore
from aiozarr.stores.tasks import each_bounded

ERASERS = 32
"""Files that are removed at once."""

TRIES = 8
"""How often a file is written whose directory is not there: others may remove one that has just been made, as empty."""


class FsspecStore(Store):
    """Values in a file system of fsspec, below a path.

    The file system may be blocking, which then works in threads, or asynchronous: its coroutines run on its own loop
    (fsspec's, in a thread of its own), whatever loop calls. Where it was made with `asynchronous=True`, a twin by the
    same arguments serves. fsspec sends no conditions and tells no versions: nothing here is conditional, and writes
    are as atomic as the file system makes them; files of this machine are those of a `LocalStore`, whole or not
    written. What replaces values behind a cache (`simplecache::`, ...) is not seen through it, so it is not written to.

    Sessions belong to the file system and are closed by it; closing the store closes nothing. After a fork, the file
    system is made again by the same arguments; where that fails, `ForkedProcessError` is raised.
    """

    def __init__(self, fs_or_url: Any, *, path: str | None = None, **storage_options: Any) -> None:
        """Describe the store; the file system of a URL is made, and connects, with the first operation.

        Args:
            fs_or_url: a file system of fsspec, a mapper (`fs.get_mapper(...)`), or a URL that fsspec opens, chained
                ones too: `simplecache::s3://bucket/a.zarr`. `s3fs://` and `gcsfs://` are `s3://` and `gs://`.
            path: with a file system, where in it the root is.
            storage_options: with a URL, what the file system takes; in a chain, `{"s3": {...}}` for a link. For S3,
                Google and Azure, our and obstore's names of common options are known too.

        Raises:
            ImportError: fsspec, or the package of the protocol, is not installed; the message says which.
            UnknownSchemeError: fsspec does not know the protocol.
            TypeError: fsspec's file system has nothing for an option of ours.
        """
        self._of(find_source(fs_or_url, path, storage_options))

    def _of(self, source: Source) -> None:
        self._recipe = recipe = source.recipe
        self._base, self._tail, self._url = source.base, source.tail, source.url
        self._traits = traits = traits_of(recipe.kinds)
        self._calls = Calls(recipe, traits)
        self._fingerprint = recipe.fingerprint
        self._secrets = secrets_of(recipe, source.base + source.tail)
        self._local = LocalStore(source.base or "/") if recipe.kinds[0].__name__ == "LocalFileSystem" else None
        self.supports = Supports(
            writeable=traits.writeable,
            listable=traits.listable,
            suffix_reads=traits.suffixes,
        )
        if self._local is not None:
            self.supports = self._local.supports

    @property
    def fs(self) -> Any:
        """The file system that does the work, made now if it was not."""
        return self._calls.fs

    @property
    def url(self) -> str:
        """The URL that the store was made by, or its file system has for its root, without secrets."""
        return self.url_of("")

    def url_of(self, path: str) -> str:
        """Return the URL of `path`: percent-encoded in web addresses, and as it is elsewhere in fsspec."""
        if self._local is not None:
            return self._local.url_of(path)
        encoded = self._traits.encoded or self._base.startswith(("http://", "https://"))
        above = self._url if self._url.endswith("://") else f"{self._url.removesuffix('/')}/"
        return directory_url(f"{above}{quote(path) if encoded else path}" if path else self._url)

    @property
    def origin(self) -> Hashable:
        """The file system by its arguments; for web addresses, also the server."""
        server = urlsplit(self._base).netloc.rpartition("@")[2] if self._traits.encoded else ""
        return (FsspecStore, self._fingerprint, server)

    @property
    def identity(self) -> Hashable:
        """The file system by its arguments, and the path of the root."""
        return self._place(self._base)

    def place_of(self, key: str) -> Hashable:
        """The file system by its arguments, and the whole path."""
        return self._place(self._base + key)

    def _place(self, path: str) -> Hashable:
        # Paths may be web addresses with a password, or a signature behind them.
        return (FsspecStore, hashed(f"{self._fingerprint}\n{path}\n{self._tail}"))

    def rooted_above(self) -> tuple[Store, str] | None:
        """Return the store of the directory above, in the same file system; a bucket or a server has none."""
        base, name = split_root(self._base)
        url = self._url.removesuffix(f"/{name}")
        if not name or base in ("", "/") or base.endswith("://") or url == self._url:
            return None
        local = None if self._local is None else LocalStore(base)
        return rooted_at(self, _base=base, _url=url, _local=local), name

    def __reduce__(self) -> tuple[Any, ...]:
        # A file system pickles as its arguments, secrets that were given among them.
        return (_restored, (type(self), Source(self._recipe, self._base, self._tail, self._url)))

    # --- reading -------------------------------------------------------------------------------------------------

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        """Return the bytes of `key` in `range` (None: all), or None where nothing is stored.

        Raises:
            ShortReadError: fewer bytes came than there are.
            UnsupportedOperationError: `if_match` is given.
            StoreError: the bytes could not be had.
        """
        if self._local is not None:
            return await self._local.fetch(key, range, if_match=if_match)
        check_key(key, store=self._url)
        if if_match is not None:
            raise UnsupportedOperationError("fsspec sends no conditions", store=self._url, key=key, range=range)
        with self._translated(key, range):
            return await read(self._calls, self._traits, self._path(key), range)

    async def stat(self, key: str) -> Entry | None:
        """Return the size of `key` (None: the file system tells none), or None where nothing is stored."""
        if self._local is not None:
            return await self._local.stat(key)
        check_key(key, store=self._url)
        with self._translated(key):
            size = await size_of(self._calls, self._traits, self._path(key))
        return None if size is None else Entry(key, None if size == UNKNOWN else size)

    # --- writing -------------------------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        """Store `value` under `key`; directories that are missing are made.

        Raises:
            UnsupportedOperationError: the file system cannot be written to, or `precondition` is given.
            StoreError: the value could not be stored.
        """
        if self._local is not None:
            return await self._local.set(key, value, precondition=precondition)
        check_key(key, store=self._url)
        self._check_writeable("set")
        if precondition is not None:
            raise UnsupportedOperationError("fsspec sends no conditions", store=self._url, key=key)
        data = bytes(byte_view(value))
        with self._translated(key):
            await self._write(self._path(key), data)
        return None

    async def _write(self, path: str, data: bytes) -> None:
        for attempt in range(TRIES):
            try:
                await self._calls.write("pipe_file", path, data)
            except Exception as error:
                # Only here: object stores have no directories, and some of their file systems would make a bucket.
                if attempt == TRIES - 1 or not self._traits.directories or not _may_lack_directory(error):
                    raise
            else:
                return
            await self._calls.write("makedirs", path.rpartition("/")[0], exist_ok=True)

    async def erase(self, key: str) -> None:
        """Remove `key`; a key that is not stored is no error."""
        if self._local is not None:
            await self._local.erase(key)
            return
        check_key(key, store=self._url)
        self._check_writeable("erase")
        with self._translated(key):
            await self._remove(self._path(key))

    async def _remove(self, path: str) -> None:
        try:
            await self._calls.write("rm_file", path)
        except Exception as error:
            if not lacks(error) and await size_of(self._calls, self._traits, path) is not None:
                raise
        if self._traits.prunes:
            with contextlib.suppress(Exception):  # the first directory that is not empty, or not ours to remove
                while (path := path.rpartition("/")[0]).startswith(self._base) and path:
                    await self._calls.write("rmdir", path)

    async def erase_values(self, keys: Iterable[str]) -> None:
        """Remove all of `keys`, some at a time."""
        await each_bounded(self.erase, [check_key(key, store=self._url) for key in keys], width=ERASERS)

    async def erase_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix` (`""`, or ending with `/`)."""
        if self._local is not None:
            await self._local.erase_prefix(prefix)
            return
        check_prefix(prefix, store=self._url)
        self._check_writeable("erase")
        await self.erase_values([entry.key async for entry in self.scan(prefix)])

    # --- listing -------------------------------------------------------------------------------------------------

    def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        """Iterate over all files whose keys start with `prefix`, directory by directory where there are any.

        Names that are no keys are left out: directories and their markers, empty segments.
        """
        if self._local is not None:
            return self._local.scan(prefix)
        check_prefix(prefix, store=self._url)
        if not self._traits.listable:
            raise self._unsupported("scan")
        return self._entries(prefix)

    async def _entries(self, prefix: str) -> AsyncIterator[Entry]:
        with self._translated(prefix):
            async with aclosing(self._lister().scan(prefix)) as pages:
                async for page in pages:
                    for entry in page:
                        yield entry

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys directly below `prefix`, and the prefixes (ending with `/`) one level below it.

        Directories without any file show up as prefixes, where the file system keeps such directories.
        """
        if self._local is not None:
            return await self._local.list_dir(prefix)
        check_prefix(prefix, store=self._url)
        if not self._traits.listable:
            raise self._unsupported("list_dir")
        with self._translated(prefix):
            return await self._lister().list_dir(prefix)

    def _lister(self) -> Lister:
        return Lister(self._calls, self._traits, self._base)

    # --- paths and errors ----------------------------------------------------------------------------------------

    def _path(self, key: str) -> str:
        return f"{self._base}{quote(key) if self._traits.encoded else key}{self._tail}"

    def _check_writeable(self, operation: str) -> None:
        if not self._traits.writeable:
            raise self._unsupported(operation)

    @contextmanager
    def _translated(self, key: str, range: ByteRange | None = None) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            found = self._located(error, key, range)
            # One of ours that was raised below has its own cause; `error` may have come of it.
            cause = error if found.__traceback__ is None else found.__cause__
            # File systems say in their own words whom they have asked, passwords and signatures among them.
            raise found from (None if reveals(error, self._secrets) else cause)

    def _located(self, error: Exception, key: str, range: ByteRange | None) -> StoreError:
        found = translate(error)
        found.store, found.key, found.range = self._url, key, range
        return found


def _may_lack_directory(error: Exception) -> bool:
    return lacks(error) or type(error).__name__ == "error_perm"  # ftplib knows one refusal for everything


def _restored(kind: type[FsspecStore], source: Source) -> FsspecStore:
    store = kind.__new__(kind)
    store._of(source)
    return store
