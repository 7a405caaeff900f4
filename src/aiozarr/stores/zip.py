"""A store in a zip archive: one member per key, on the local disk or behind any other store."""

from __future__ import annotations

import os
import zipfile
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, Self, TypeAlias
from urllib.parse import quote

from typing_extensions import Buffer

from aiozarr.errors import ChangedError, StoreError, UnsupportedOperationError
from aiozarr.model import (
    ByteRange,
    Entry,
    Precondition,
    Supports,
    Value,
    Version,
    check_key,
    check_prefix,
    resolve_range,
)
from aiozarr.settings import GIB
from aiozarr.stores.blocking import BlockingStore, in_thread, to_the_end
from aiozarr.stores.contract import Store, byte_view
from aiozarr.stores.local_errors import store_error
from aiozarr.stores.zip_archive import archives
from aiozarr.stores.zip_contents import Contents, Names
from aiozarr.stores.zip_format import Member

ZipMode: TypeAlias = Literal["r", "w", "a", "x"]


class ZipStore(Store):
    """The members of a zip archive.

    On the local disk it is read and written. Modes are those of `zipfile`: "r" reads, "w" starts a new archive in place
    of any other, "x" starts one where there is none, "a" changes one, or starts it. What is written goes into a
    temporary file, and becomes the archive when the store is closed: whole or not at all. Until then the stores of this
    process see it, and others see the archive as it was. A value may be replaced and erased like any other; the archive
    never holds a name twice. Two processes that change one archive at the same time overwrite each other's changes.

    Behind another store it is read: the directory once, then one range per value. A range of a value that is not
    compressed costs the bytes of that range.

    Stored, deflated, bzip2 and LZMA members are read; whole values are checked against their checksums. An archive with
    names that are no keys, a name twice, links, encrypted or overlapping members is refused.
    """

    _url: str
    _prefix: str
    _limit: int

    def __new__(cls, path_or_store: str | os.PathLike[str] | Store, *arguments: Any, **options: Any) -> Self:
        kind: Any = cls
        if cls is ZipStore:
            from aiozarr.stores.zip_remote import RemoteZipStore

            kind = RemoteZipStore if isinstance(path_or_store, Store) else LocalZipStore
        made: Self = object.__new__(kind)
        return made

    def __init__(
        self,
        path_or_store: str | os.PathLike[str] | Store,
        mode: ZipMode = "r",
        *,
        key: str | None = None,
        prefix: str = "",
        compression: int = zipfile.ZIP_STORED,
        max_member_bytes: int = GIB,
        durable: bool = False,
    ) -> None:
        """Describe the store; an archive that is read is opened by the first operation.

        Args:
            path_or_store: the path of the archive, or the store that holds it.
            mode: "r", "w", "x" or "a"; behind another store, "r".
            key: the archive's key in that store.
            prefix: what lies below it is the store: `""`, or ending with `/`.
            compression: of what is written: `zipfile.ZIP_STORED` or `zipfile.ZIP_DEFLATED`. Chunks are compressed
                already, and ranges are read from stored members only.
            max_member_bytes: what a compressed member may decompress to; beyond that `LimitError`.
            durable: flush the archive to the device before a close counts as done.

        Raises:
            ValueError, TypeError: an argument is not what it should be.
            PreconditionFailedError: the mode is "x", and there is something already.
        """
        raise NotImplementedError  # `__new__` makes one of the two kinds below

    def _describe(self, url: str, prefix: str, max_member_bytes: int) -> None:
        self._prefix = check_prefix(prefix)
        # More than one name with the ending: a mark says which of them is the archive.
        mark = "" if url.endswith(".zip") and url.count(".zip/") == 0 else "!"
        self._url = f"zip::{url}{mark}" + (f"/{quote(prefix[:-1])}" if prefix else "")
        self._limit = max_member_bytes

    @property
    def url(self) -> str:
        return self._url

    def _entry(self, member: Member, version: Version) -> Entry:
        return Entry(member.key[len(self._prefix) :], member.size, version)

    # Both kinds implement these; they are not abstract, because it is this class that users call.

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        raise NotImplementedError

    async def _names(self) -> Names:
        """Return what is there to be listed."""
        raise NotImplementedError

    def _version(self, names: Any, member: Member) -> Version:
        """Return the version of a member."""
        raise NotImplementedError

    async def stat(self, key: str) -> Entry | None:
        check_key(key, store=self._url)
        names = await self._names()
        member = names.members.get(self._prefix + key)
        return None if member is None else self._entry(member, self._version(names, member))

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        check_prefix(prefix, store=self._url)
        names = await self._names()
        for key in names.below(self._prefix + prefix):
            member = names.members.get(key)
            if member is not None:
                yield self._entry(member, self._version(names, member))

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        check_prefix(prefix, store=self._url)
        keys, prefixes = (await self._names()).children(self._prefix + prefix)
        strip = len(self._prefix)
        return [key[strip:] for key in keys], [each[strip:] for each in prefixes]


class LocalZipStore(BlockingStore, ZipStore):
    """The archive on the local disk; `ZipStore(path)` makes it."""

    def __init__(
        self,
        path_or_store: str | os.PathLike[str] | Store,
        mode: ZipMode = "r",
        *,
        key: str | None = None,
        prefix: str = "",
        compression: int = zipfile.ZIP_STORED,
        max_member_bytes: int = GIB,
        durable: bool = False,
    ) -> None:
        if os.name != "posix":
            raise UnsupportedOperationError("archives on disk need a POSIX file system")
        if mode not in ("r", "w", "a", "x"):
            raise ValueError(f"mode is 'r', 'w', 'a' or 'x', not {mode!r}")
        if key is not None:
            raise TypeError("a key goes with a store; a path names the archive itself")
        if compression not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError("compression is zipfile.ZIP_STORED or zipfile.ZIP_DEFLATED")
        assert not isinstance(path_or_store, Store)
        path = os.path.abspath(os.fsencode(path_or_store))
        self._describe("file://" + quote(path), prefix, max_member_bytes)
        self._path = path
        self._mode = mode
        self._compression = compression
        self._durable = durable
        self._archive = archives.get(os.path.realpath(path), self._url)
        self.supports = Supports(writeable=mode != "r", listable=True, conditional_reads=True)
        self._wrote = mode in ("w", "x")
        if self._wrote:
            with self._translated("creating", None):
                self._archive.begin(empty=True, exclusive=mode == "x")

    @property
    def path(self) -> str:
        """The absolute path of the archive."""
        return os.fsdecode(self._path)

    @property
    def identity(self) -> Hashable:
        return (LocalZipStore, self._archive.path, self._prefix)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._archive.changed:
            raise UnsupportedOperationError("close the archive before it is pickled: others cannot see it yet")
        mode = "r" if self._mode == "r" else "a"
        return (_restore, (self.path, mode, self._prefix, self._compression, self._limit, self._durable))

    def __repr__(self) -> str:
        return f"ZipStore({self.path!r}, {self._mode!r}{f', prefix={self._prefix!r}' if self._prefix else ''})"

    # --- synchronous ---------------------------------------------------------------------------------------------

    def fetch_now(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        check_key(key, store=self._url)
        with self._translated("reading", key, range):
            contents = self._archive.contents()
            member = contents.members.get(self._prefix + key)
            if member is None:
                return None
            version = self._version(contents, member)
            if if_match is not None and version != if_match:
                raise ChangedError("the value was replaced", store=self._url, key=key, range=range)
            start, stop = resolve_range(member.size, range)
            return Value(contents.read(member, start, stop, self._limit, self._url), version, member.size)

    def set_now(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        check_key(key, store=self._url)
        if not self.supports.writeable:
            raise self._unsupported("write in mode 'r'")
        if precondition is not None:
            raise self._unsupported("write under a condition")
        data = byte_view(value)
        check_key(self._prefix + key, store=self._url)
        with self._translated("writing", key):
            self._wrote = True
            return self._version(*self._archive.put(self._prefix + key, data, self._compression))

    def erase_now(self, key: str) -> None:
        self._erase([check_key(key, store=self._url)])

    def _erase(self, keys: list[str]) -> None:
        if not self.supports.writeable:
            raise self._unsupported("erase in mode 'r'")
        with self._translated("erasing", None):
            self._wrote = True
            self._archive.drop([self._prefix + key for key in keys])

    def _commit(self) -> None:
        with self._translated("closing", None):
            if self._wrote:
                self._archive.commit(durable=self._durable)
                self._wrote = False
            else:
                self._archive.let_go()

    def _version(self, names: Contents, member: Member) -> Version:
        return Version(generation=f"{names.token}-{member.offset:x}")

    # --- coroutines ----------------------------------------------------------------------------------------------

    async def erase_values(self, keys: Iterable[str]) -> None:
        wanted = [check_key(key, store=self._url) for key in keys]
        await to_the_end(lambda: self._erase(wanted))

    async def aclose(self) -> None:
        """Make what was written the archive. What is written later becomes it with the next close."""
        await to_the_end(self._commit)

    async def _names(self) -> Contents:
        def look() -> Contents:
            with self._translated("listing", None):
                return self._archive.contents()

        return await in_thread(look)

    @contextmanager
    def _translated(self, doing: str, key: str | None, range: ByteRange | None = None) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise store_error(error, doing, store=self._url, key=key, range=range) from error


def _restore(path: str, mode: ZipMode, prefix: str, compression: int, limit: int, durable: bool) -> ZipStore:
    return ZipStore(path, mode, prefix=prefix, compression=compression, max_member_bytes=limit, durable=durable)
