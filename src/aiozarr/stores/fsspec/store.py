"""A store in any file system of fsspec, with ranges, listings and errors of the store contract."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlsplit

from typing_extensions import Buffer

from aiozarr.common.concurrency import for_each
from aiozarr.errors import StoreError, UnsupportedOperationError
from aiozarr.model import ByteRange, Entry, Precondition, Supports, Value, Version, check_key, check_prefix
from aiozarr.stores.contract import Store, byte_view, directory_url, split_root, too_large, with_root
from aiozarr.stores.fsspec.errors import is_missing_file, translate
from aiozarr.stores.fsspec.file_system_calls import FileSystemCalls
from aiozarr.stores.fsspec.files import UNKNOWN_SIZE, FileLister, FileReader
from aiozarr.stores.fsspec.instances import digest, reveals, secrets_of, traits_of
from aiozarr.stores.fsspec.root import FileSystemRoot, resolve_root
from aiozarr.stores.local.store import LocalStore

ERASE_CONCURRENCY = 32
"""Files that are removed at the same time."""

MAX_WRITE_ATTEMPTS = 8
"""Attempts to write a file with a missing directory, because others may remove the new directory while it is empty."""


class FsspecStore(Store):
    """Values in an fsspec file system, below a path.

    A blocking file system works in threads. An asynchronous file system runs on fsspec's own loop, in fsspec's own
    thread, whichever loop calls it. A file system with `asynchronous=True` is replaced by an instance with the same
    arguments on that loop. fsspec has neither conditional requests nor versions, so no operation is conditional, and
    writes are as atomic as the file system makes them. Local files are handled by a `LocalStore`, which writes them
    whole or not at all. fsspec's caches (`simplecache::` and others) are refused, because they return outdated values.

    The file system owns its sessions and closes them; closing the store closes nothing. After a fork, the file system
    is created again with the same arguments; if that fails, `ForkedProcessError` is raised.
    """

    def __init__(self, fs_or_url: Any, *, path: str | None = None, **storage_options: Any) -> None:
        """Create the store; the file system of a URL is created, and connects, with the first operation.

        Args:
            fs_or_url: a file system of fsspec, a mapper (`fs.get_mapper(...)`), or a URL that fsspec opens, or
                a chain such as `tar://a.zarr::s3://bucket/x.tar`. `s3fs://` and `gcsfs://` are `s3://` and `gs://`.
            path: with a file system, the path of the root in it.
            storage_options: with a URL, options of the file system; in a chain, `{"s3": {...}}` for a link. For S3,
                Google and Azure, our names of common options are accepted too.

        Raises:
            ImportError: fsspec, or the package of the protocol, is not installed. The message names it.
            UnknownSchemeError: fsspec does not know the protocol, or it is a cache.
            TypeError: fsspec's file system does not have one of our options.
        """
        self._of(resolve_root(fs_or_url, path, storage_options))

    def _of(self, source: FileSystemRoot) -> None:
        self._recipe = recipe = source.recipe
        self._base, self._tail, self._url = source.base, source.tail, source.url
        self._traits = traits = traits_of(recipe.kind)
        self._calls = FileSystemCalls(recipe, traits)
        self._reader = FileReader(self._calls, traits)
        self._fingerprint = recipe.fingerprint
        self._secrets = secrets_of(recipe, source.base + source.tail)
        self._local = LocalStore(source.base or "/") if recipe.kind.__name__ == "LocalFileSystem" else None
        self.supports = Supports(
            writable=traits.writable,
            listable=traits.listable,
            suffix_reads=traits.suffixes,
            clipped_reads=traits.clips,
            bounded_reads=True,
        )
        if self._local is not None:
            self.supports = replace(self._local.supports, conditional_erases=False)

    @property
    def fs(self) -> Any:
        """The file system, created at the first access."""
        return self._calls.fs

    @property
    def url(self) -> str:
        """The URL that the store was created with, or the URL of its root in the file system, without secrets."""
        return self.url_of("")

    def url_of(self, path: str) -> str:
        """Return the URL of `path`, percent-encoded in web addresses only."""
        if self._local is not None:
            return self._local.url_of(path)
        encoded = self._traits.encoded or self._base.startswith(("http://", "https://"))
        above = self._url if self._url.endswith("://") else f"{self._url.removesuffix('/')}/"
        return directory_url(f"{above}{quote(path) if encoded else path}" if path else self._url)

    @property
    def origin(self) -> Hashable:
        """The file system, identified by its arguments; for web addresses, also the server."""
        server = urlsplit(self._base).netloc.rpartition("@")[2] if self._traits.encoded else ""
        return (FsspecStore, self._fingerprint, server)

    @property
    def identity(self) -> Hashable:
        """The file system, identified by its arguments, and the path of the root."""
        return self._place(self._base)

    def object_identity(self, key: str) -> Hashable:
        """The file system, identified by its arguments, and the whole path."""
        return self._place(self._base + key)

    def _place(self, path: str) -> Hashable:
        # Paths may be URLs with a password or a signature.
        return (FsspecStore, digest(f"{self._fingerprint}\n{path}\n{self._tail}"))

    def parent_store(self) -> tuple[Store, str] | None:
        """Return the store of the directory above, in the same file system; a bucket or a server has none."""
        base, name = split_root(self._base)
        url = self._url.removesuffix(f"/{name}")
        if not name or base in ("", "/") or base.endswith("://") or url == self._url:
            return None
        local = None if self._local is None else LocalStore(base)
        return with_root(self, _base=base, _url=url, _local=local), name

    def __reduce__(self) -> tuple[Any, ...]:
        # A file system is pickled as its arguments, including secrets.
        return (_restored, (type(self), FileSystemRoot(self._recipe, self._base, self._tail, self._url)))

    # --- reading -------------------------------------------------------------------------------------------------

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        """Read `key`, or its bytes in `range`.

        With `max_bytes`, at most one byte more is requested. A server that ignores ranges may send more.

        Returns:
            The bytes and the object's size, or None if the key is not stored.

        Raises:
            ShortReadError: fewer bytes were received than requested.
            UnsupportedOperationError: `if_match` is given.
            LimitError: the result has more than `max_bytes` bytes.
            StoreError: the bytes could not be read.
        """
        if self._local is not None:
            return await self._local.fetch(key, range, if_match=if_match, max_bytes=max_bytes)
        check_key(key, store=self._url)
        if if_match is not None:
            raise UnsupportedOperationError(
                "fsspec does not support conditional requests", store=self._url, key=key, range=range
            )
        with self._translated(key, range):
            if max_bytes is None:
                return await self._reader.read(self._path(key), range)
            value = await self._reader.read_at_most(self._path(key), range, max_bytes)
        if value is not None and memoryview(value.data).nbytes > max_bytes:
            raise too_large(value.size if range is None else None, max_bytes, store=self.url, key=key, range=range)
        return value

    async def stat(self, key: str) -> Entry | None:
        """Return an entry with the size of `key`, or None if the key is not stored.

        The size is None if the file system does not know it.
        """
        if self._local is not None:
            return await self._local.stat(key)
        check_key(key, store=self._url)
        with self._translated(key):
            size = await self._reader.size_of(self._path(key))
        return None if size is None else Entry(key, None if size == UNKNOWN_SIZE else size)

    # --- writing -------------------------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        """Store `value` under `key`; missing directories are created.

        Raises:
            UnsupportedOperationError: the file system cannot be written to, or `precondition` is given.
            StoreError: the value could not be stored.
        """
        if self._local is not None:
            return await self._local.set(key, value, precondition=precondition)
        check_key(key, store=self._url)
        self._require_writable("set")
        if precondition is not None:
            raise UnsupportedOperationError("fsspec does not support conditional requests", store=self._url, key=key)
        data = bytes(byte_view(value))
        with self._translated(key):
            await self._write(self._path(key), data)
        return None

    async def _write(self, path: str, data: bytes) -> None:
        for attempt in range(MAX_WRITE_ATTEMPTS):
            try:
                await self._calls.write("pipe_file", path, data)
            except Exception as error:
                # Only after a failure, because object stores have no directories, and some file systems would create a
                # bucket.
                if attempt == MAX_WRITE_ATTEMPTS - 1 or not self._traits.directories or not _may_lack_directory(error):
                    raise
            else:
                return
            await self._calls.write("makedirs", path.rpartition("/")[0], exist_ok=True)

    async def erase(self, key: str) -> None:
        """Remove `key`. A missing key is not an error."""
        if self._local is not None:
            await self._local.erase(key)
            return
        check_key(key, store=self._url)
        self._require_writable("erase")
        with self._translated(key):
            await self._remove(self._path(key))

    async def _remove(self, path: str) -> None:
        try:
            await self._calls.write("rm_file", path)
        except Exception as error:
            if not is_missing_file(error) and await self._reader.size_of(path) is not None:
                raise
        if self._traits.prunes:
            with contextlib.suppress(Exception):  # the first directory that is not empty, or cannot be removed
                while (path := path.rpartition("/")[0]).startswith(self._base) and path:
                    await self._calls.write("rmdir", path)

    async def erase_values(self, keys: Iterable[str]) -> None:
        """Remove all of `keys`, a few at a time."""
        await for_each(self.erase, [check_key(key, store=self._url) for key in keys], concurrency=ERASE_CONCURRENCY)

    async def erase_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix` (`""`, or ending with `/`)."""
        if self._local is not None:
            await self._local.erase_prefix(prefix)
            return
        check_prefix(prefix, store=self._url)
        self._require_writable("erase")
        await self.erase_values([entry.key async for entry in self.scan(prefix)])

    # --- listing -------------------------------------------------------------------------------------------------

    def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        """Iterate over all files whose keys start with `prefix`, directory by directory if there are any.

        Names that are not valid keys are skipped: directories and their markers, empty segments.
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

        Empty directories are prefixes, if the file system has them.
        """
        if self._local is not None:
            return await self._local.list_dir(prefix)
        check_prefix(prefix, store=self._url)
        if not self._traits.listable:
            raise self._unsupported("list_dir")
        with self._translated(prefix):
            return await self._lister().list_dir(prefix)

    def _lister(self) -> FileLister:
        return FileLister(self._calls, self._traits, self._base)

    # --- paths and errors ----------------------------------------------------------------------------------------

    def _path(self, key: str) -> str:
        return f"{self._base}{quote(key) if self._traits.encoded else key}{self._tail}"

    def _require_writable(self, operation: str) -> None:
        if not self._traits.writable:
            raise self._unsupported(operation)

    @contextmanager
    def _translated(self, key: str, range: ByteRange | None = None) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            found = self._located(error, key, range)
            # A store error from below has its own cause; `error` may be a consequence of it.
            cause = error if found.__traceback__ is None else found.__cause__
            # Messages of file systems may contain URLs with passwords and signatures.
            raise found from (None if reveals(error, self._secrets) else cause)

    def _located(self, error: Exception, key: str, range: ByteRange | None) -> StoreError:
        found = translate(error)
        found.store, found.key, found.range = self._url, key, range
        return found


def _may_lack_directory(error: Exception) -> bool:
    return is_missing_file(error) or type(error).__name__ == "error_perm"  # ftplib has one error for all refusals


def _restored(kind: type[FsspecStore], source: FileSystemRoot) -> FsspecStore:
    store = kind.__new__(kind)
    store._of(source)
    return store
