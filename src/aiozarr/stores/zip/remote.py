"""A zip archive behind another store: its directory is fetched once, and then one range per value."""

from __future__ import annotations

import asyncio
import os
import zipfile
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from aiozarr.errors import ChangedError, ShortReadError, StoreError, UnsupportedOperationError
from aiozarr.model import ByteRange, Range, Suffix, Supports, Value, Version, check_key, resolve_range
from aiozarr.settings import GIB
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.contract import Store
from aiozarr.stores.tasks import together
from aiozarr.stores.zip.base import ZipMode, ZipStore
from aiozarr.stores.zip.contents import Duplicates, Names
from aiozarr.stores.zip.format import (
    LOCAL_HEADER,
    STORED,
    TAIL,
    End,
    Member,
    data_start,
    find_end,
    read_directory,
)
from aiozarr.stores.zip.members import check_limit, check_sum, expand

KEPT = 64 << 20
"""Up to this size, an archive behind a store that cannot read parts is kept in memory, and larger ones are not read."""

_IN_THREAD = 1 << 18
"""Bytes from which on checking and decompressing leave the event loop."""


@dataclass(frozen=True)
class _Archive:
    """The one archive that a directory was read from.

    Attributes:
        size: its bytes.
        version: its version; None where the store knows none, and then an archive of another size is another archive.
        whole: all of it, where the store cannot read parts.
    """

    size: int
    version: Version | None
    whole: memoryview | None = None

    @property
    def token(self) -> str:
        """What tells it from others."""
        version = self.version
        return f"{self.size:x}" if version is None else f"{version.etag or ''}{version.generation or ''}"


_NONE = _Archive(0, None)


@dataclass(eq=False)
class _Remote(Names):
    """The directory of an archive."""

    archive: _Archive = _NONE


class RemoteZipStore(ZipStore, behind_store=True):
    """The archive at one key of another store; `ZipStore(store, key=...)` makes it."""

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
        duplicates: Duplicates = "refuse",
        owns_store: bool = False,
    ) -> None:
        assert isinstance(path_or_store, Store)
        if mode != "r":
            raise UnsupportedOperationError(
                "an archive behind another store is only read; write it on the local disk and copy it there",
                store=path_or_store.url,
            )
        if key is None:
            raise TypeError("an archive in a store is named by its key: ZipStore(store, key='data.zip')")
        self._store = path_or_store
        self._key = check_key(key)
        self._owns = owns_store
        self._describe(self._store.url_of(key).removesuffix("/"), prefix, max_member_bytes, duplicates)
        self.supports = Supports(listable=True, conditional_reads=self._store.supports.conditional_reads)
        self._loaded: _Remote | None = None
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    @property
    def origin(self) -> Hashable:
        return self._store.origin

    @property
    def identity(self) -> Hashable:
        return (RemoteZipStore, self._store.identity, self._key, self._prefix)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self._store, self._key, self._prefix, self._limit, self._duplicates, self._owns))

    def __repr__(self) -> str:
        return f"ZipStore({self._store!r}, key={self._key!r}{f', prefix={self._prefix!r}' if self._prefix else ''})"

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        check_key(key, store=self._url)
        for attempt in (1, 2):
            names = await self._names()
            member = names.members.get(self._prefix + key)
            if member is None:
                return None
            version = self._version(names, member)
            if if_match is not None and version != if_match:
                raise ChangedError("the value was replaced", store=self._url, key=key, range=range)
            start, stop = resolve_range(member.size, range)
            try:
                return Value(await self._read(names, member, start, stop), version, member.size)
            except ChangedError:
                # Another archive lies there now: its directory is read, and tells whether the value is the same.
                self._loaded = None
                if attempt == 2 or if_match is not None:
                    raise
        raise AssertionError

    async def aclose(self) -> None:
        """Forget the directory; the other store is closed if it was made for this one."""
        self._loaded = None
        if self._owns:
            await self._store.aclose()

    async def _names(self) -> _Remote:
        loaded = self._loaded
        if loaded is None:
            lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
            async with lock:
                loaded = self._loaded
                if loaded is None:
                    loaded = await self._load()
                    if loaded.archive is not _NONE:  # one that is not there yet may come
                        self._loaded = loaded
        return loaded

    def _version(self, names: _Remote, member: Member) -> Version:
        return Version(generation=f"{names.archive.token}-{member.offset:x}-{member.crc:08x}")

    # --- the directory -------------------------------------------------------------------------------------------

    async def _load(self) -> _Remote:
        found = await self._find()
        if found is None:
            return _Remote({})
        archive, tail = found
        while not isinstance(end := find_end(tail, archive.size, self._url), End):
            tail = await self._range(archive, end, archive.size)
        at = end.start - (archive.size - len(tail))
        if at >= 0:
            data = tail[at : at + end.length]
        else:
            data = await self._range(archive, end.start, end.start + end.length)
        members, repeated = await in_thread(lambda: read_directory(data, end, self._url))
        return _Remote(members, repeated=repeated, archive=archive).check(self._duplicates, self._url)

    async def _find(self) -> tuple[_Archive, bytes] | None:
        """Return the archive with its last bytes; None where there is none."""
        if self._store.supports.partial_reads:
            found = await self._find_end()
            if found is None or self._store.supports.partial_reads:
                return found
            # Only the answer told that the server sends everything for every range: once more, and never again.
        return await self._take()

    async def _find_end(self) -> tuple[_Archive, bytes] | None:
        store, version = self._store, None
        byte_range: ByteRange = Suffix(TAIL)
        if not store.supports.suffix_reads:
            entry = await store.stat(self._key)
            if entry is None:
                return None
            byte_range = Range(max(0, self._known(entry.size) - TAIL))
            version = entry.version if store.supports.conditional_reads else None
        value = await store.fetch(self._key, byte_range, if_match=version)
        if value is None:
            return None
        return _Archive(self._known(value.size), value.version), bytes(memoryview(value.data))

    async def _take(self) -> tuple[_Archive, bytes] | None:
        """Fetch the archive whole."""
        entry = await self._store.stat(self._key)
        if entry is None:
            return None
        if self._known(entry.size) > KEPT:
            raise UnsupportedOperationError(
                f"the archive has {entry.size} bytes, and the server does not send parts; up to {KEPT} bytes it would "
                "be fetched whole",
                store=self._url,
            )
        value = await self._store.fetch(self._key)
        if value is None:
            return None
        data = memoryview(bytes(memoryview(value.data)))
        return _Archive(len(data), value.version, data), bytes(data[-TAIL:])

    def _known(self, size: int | None) -> int:
        if size is None:
            raise UnsupportedOperationError("the store does not tell the size of the archive", store=self._url)
        return size

    # --- members -------------------------------------------------------------------------------------------------

    async def _read(self, names: _Remote, member: Member, start: int, stop: int) -> bytes | memoryview:
        if start == stop and member.size:
            return b""
        whole = stop - start == member.size
        if member.method == STORED and not whole:
            return await self._part(names, member, start, stop)
        if member.method != STORED:
            check_limit(member, self._limit, self._url)
        # The header's length is told by the header alone: what lies up to the next member comes along.
        until = min(member.end, member.likely_start + member.stored + 4096)
        data = memoryview(await self._range(names.archive, member.offset, until))
        begin = self._data_start(names, data[: LOCAL_HEADER + len(member.raw)], member)
        packed = data[begin - member.offset : begin - member.offset + member.stored]
        if len(packed) < member.stored:  # a writer that aligns the data puts as much between as it likes
            rest = await self._range(names.archive, max(begin, until), begin + member.stored)
            packed = memoryview(bytes(packed) + rest)

        def unpack() -> bytes | memoryview:
            if member.method == STORED:
                check_sum(member, packed, self._url)
                return packed
            return expand(member, [bytes(packed)], start, stop, self._url)

        return unpack() if max(member.size, member.stored) < _IN_THREAD else await in_thread(unpack)

    async def _part(self, names: _Remote, member: Member, start: int, stop: int) -> bytes:
        """Fetch a range of a stored member, and beside it the header that tells whether it began where it seemed to."""
        begin = names.starts.get(member.offset)
        if begin is not None:
            return await self._range(names.archive, begin + start, begin + stop)
        gap = member.end - member.stored - member.likely_start
        if not gap and not member.extra:  # the header can be no shorter, so it cannot begin anywhere else
            begin = names.starts[member.offset] = member.likely_start
            return await self._range(names.archive, begin + start, begin + stop)
        # Info-ZIP writes a little more into the header than into the directory; what is longer is a data descriptor.
        guess = member.likely_start + (gap if gap < 12 else 0)
        header, data = await together(
            [
                self._range(names.archive, member.offset, member.offset + LOCAL_HEADER + len(member.raw)),
                self._range(names.archive, guess + start, guess + stop),
            ]
        )
        begin = self._data_start(names, header, member)
        return data if begin == guess else await self._range(names.archive, begin + start, begin + stop)

    def _data_start(self, names: _Remote, header: bytes | memoryview, member: Member) -> int:
        begin = names.starts[member.offset] = data_start(bytes(header), member, self._url)
        return begin

    async def _range(self, archive: _Archive, start: int, stop: int) -> bytes:
        """Return these bytes of this archive.

        Raises:
            ChangedError: another one lies there now.
            StoreError: the bytes could not be had.
        """
        if archive.whole is not None:
            return bytes(archive.whole[start:stop])
        conditional = archive.version is not None and self._store.supports.conditional_reads
        value = await self._store.fetch(
            self._key, Range(start, stop - start), if_match=archive.version if conditional else None
        )
        if value is None:
            raise StoreError("the archive was removed while it was in use", store=self._url)
        if value.version != archive.version or value.size not in (None, archive.size):
            raise ChangedError("the archive was replaced", store=self._url)
        if not self._store.supports.partial_reads:
            self._loaded = None  # this answer told that the server does not send parts: next time it is taken whole
        data = bytes(memoryview(value.data))
        if len(data) != stop - start:
            raise ShortReadError(f"{len(data)} bytes of the archive came, not {stop - start}", store=self._url)
        return data


def _restore(store: Store, key: str, prefix: str, limit: int, duplicates: Duplicates, owns: bool) -> ZipStore:
    return RemoteZipStore(store, key=key, prefix=prefix, max_member_bytes=limit, duplicates=duplicates, owns_store=owns)
