"""A zip archive in another store: its directory is fetched once, then one range per value."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from aiozarr.common.concurrency import PerLoop, gather_all
from aiozarr.errors import ChangedError, ShortReadError, StoreError, UnsupportedOperationError
from aiozarr.model import ByteRange, Range, Suffix, Supports, Value, Version, check_key, resolve_range
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.contract import Store, check_max_bytes, too_large
from aiozarr.stores.zip.contents import KeyIndex, check_checksum, check_limit, packed_bound, unpack
from aiozarr.stores.zip.format import (
    LOCAL_HEADER_BYTES,
    MAX_END_BYTES,
    STORED,
    EndRecord,
    Member,
    find_data_start,
    find_end,
    read_directory,
)
from aiozarr.stores.zip.zip_store import ZipMode, ZipStore

MAX_WHOLE_ARCHIVE_BYTES = 64 << 20
"""Largest archive that is read from a store without partial reads: it is fetched whole and stays in memory."""

MIN_THREAD_BYTES = 1 << 18
"""Members of at least this size are verified and decompressed in a thread."""


@dataclass(frozen=True)
class _ArchiveState:
    """The state of the archive object that a directory was read from.

    Attributes:
        size: its size in bytes.
        version: its version; None if the store has no versions, and then only the size identifies it.
        whole: all its bytes, if the store has no partial reads.
    """

    size: int
    version: Version | None
    whole: memoryview | None = None

    @property
    def token(self) -> str:
        """Different for different archives."""
        version = self.version
        return f"{self.size:x}" if version is None else f"{version.etag or ''}{version.generation or ''}"


_MISSING = _ArchiveState(0, None)


@dataclass(eq=False)
class RemoteContents(KeyIndex):
    """The members of an archive in another store."""

    archive: _ArchiveState = _MISSING


class RemoteZipStore(ZipStore, in_store=True):
    """The archive at one key of another store; `ZipStore(store, key=...)` returns this class."""

    owns_store = False
    """Whether closing this store closes the other one."""

    def _locate(self, path_or_store: str | os.PathLike[str] | Store, mode: ZipMode, key: str | None) -> str:
        assert isinstance(path_or_store, Store)
        if mode != "r":
            raise UnsupportedOperationError(
                "an archive in another store is read-only; write it to the local disk and copy it there",
                store=path_or_store.url,
            )
        if key is None:
            raise TypeError("name an archive in a store with its key: ZipStore(store, key='data.zip')")
        self._store = path_or_store
        self._key = check_key(key)
        return self._store.url_of(key).removesuffix("/")

    def _begin(self, mode: ZipMode) -> None:
        self.supports = Supports(
            listable=True, conditional_reads=self._store.supports.conditional_reads, bounded_reads=True
        )
        self._loaded: RemoteContents | None = None
        self._locks = PerLoop(lambda _: asyncio.Lock())

    @property
    def server(self) -> str | None:
        return self._store.server

    @property
    def origin(self) -> Hashable:
        return self._store.origin

    @property
    def identity(self) -> Hashable:
        return (RemoteZipStore, self._store.identity, self._key, self._prefix)

    def __reduce__(self) -> tuple[Any, ...]:
        make, arguments = self._copied(self._store, "r", self._key)
        return (make, arguments, {"owns_store": self.owns_store})

    def __repr__(self) -> str:
        return f"ZipStore({self._store!r}, key={self._key!r}{f', prefix={self._prefix!r}' if self._prefix else ''})"

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        check_key(key, store=self._url)
        for attempt in (1, 2):
            contents = await self._index()
            member = contents.members.get(self._prefix + key)
            if member is None:
                return None
            version = self._version(contents, member)
            if if_match is not None and version != if_match:
                raise ChangedError("the value was replaced", store=self._url, key=key, range=range)
            start, stop = resolve_range(member.size, range)
            check_max_bytes(stop - start, max_bytes, store=self._url, key=key, range=range)
            try:
                return Value(await self._read(contents, member, start, stop, max_bytes), version, member.size)
            except ChangedError:
                # The archive was replaced: its new directory shows whether the value is the same.
                self._loaded = None
                if attempt == 2 or if_match is not None:
                    raise
        raise AssertionError

    async def aclose(self) -> None:
        """Discard the directory; the other store is closed if it was created for this one."""
        self._loaded = None
        if self.owns_store:
            await self._store.aclose()

    async def _index(self) -> RemoteContents:
        loaded = self._loaded
        if loaded is None:
            lock = self._locks.get()
            async with lock:
                loaded = self._loaded
                if loaded is None:
                    loaded = await self._load()
                    if loaded.archive is not _MISSING:  # a missing archive may be created later
                        self._loaded = loaded
        return loaded

    def _version(self, contents: RemoteContents, member: Member) -> Version:
        return Version(generation=f"{contents.archive.token}-{member.offset:x}-{member.crc:08x}")

    # --- the directory -------------------------------------------------------------------------------------------

    async def _load(self) -> RemoteContents:
        found = await self._find()
        if found is None:
            return RemoteContents({})
        archive, tail = found
        while not isinstance(end := find_end(tail, archive.size, self._url), EndRecord):
            tail = await self._range(archive, end, archive.size)
        at = end.start - (archive.size - len(tail))
        if at >= 0:
            data = tail[at : at + end.length]
        else:
            data = await self._range(archive, end.start, end.start + end.length)
        members, repeated = await in_thread(lambda: read_directory(data, end, self._url))
        return RemoteContents(members, repeated=repeated, archive=archive).check(self._duplicates, self._url)

    async def _find(self) -> tuple[_ArchiveState, bytes] | None:
        """Return the archive with its last bytes, or None if it is missing."""
        if self._store.supports.partial_reads:
            found = await self._find_end()
            if found is None or self._store.supports.partial_reads:
                return found
            # The response showed that the server ignores ranges: fetch all of it now, and from now on.
        return await self._fetch_whole()

    async def _find_end(self) -> tuple[_ArchiveState, bytes] | None:
        store, version = self._store, None
        byte_range: ByteRange = Suffix(MAX_END_BYTES)
        if not store.supports.suffix_reads:
            entry = await store.stat(self._key)
            if entry is None:
                return None
            byte_range = Range(max(0, self._known_size(entry.size) - MAX_END_BYTES))
            version = entry.version if store.supports.conditional_reads else None
        value = await store.fetch(self._key, byte_range, if_match=version, **self._bound(MAX_END_BYTES))
        if value is None:
            return None
        return _ArchiveState(self._known_size(value.size), value.version), bytes(memoryview(value.data))

    async def _fetch_whole(self) -> tuple[_ArchiveState, bytes] | None:
        """Fetch the archive whole, and return it with its last bytes, or None if it is missing."""
        entry = await self._store.stat(self._key)
        if entry is None:
            return None
        if self._known_size(entry.size) > MAX_WHOLE_ARCHIVE_BYTES:
            raise UnsupportedOperationError(
                f"the archive has {entry.size} bytes, but the server does not support ranges; without them, "
                f"archives of at most {MAX_WHOLE_ARCHIVE_BYTES} bytes can be read",
                store=self._url,
            )
        value = await self._store.fetch(self._key, None, if_match=None, **self._bound(MAX_WHOLE_ARCHIVE_BYTES))
        if value is None:
            return None
        data = memoryview(bytes(memoryview(value.data)))
        return _ArchiveState(len(data), value.version, data), bytes(data[-MAX_END_BYTES:])

    def _known_size(self, size: int | None) -> int:
        if size is None:
            raise UnsupportedOperationError("the store does not return the size of the archive", store=self._url)
        return size

    # --- members -------------------------------------------------------------------------------------------------

    async def _read(
        self, contents: RemoteContents, member: Member, start: int, stop: int, max_bytes: int | None
    ) -> bytes | memoryview:
        member.check_readable(self._url)
        if start == stop and member.size:
            return b""
        whole = stop - start == member.size
        if member.method == STORED and not whole:
            return await self._read_part(contents, member, start, stop)
        if member.method != STORED:
            check_limit(member, self._limit, self._url)
        # As many bytes as the bound allows, or the whole member without a bound.
        packed_size = member.packed_size if max_bytes is None else min(member.packed_size, packed_bound(stop))
        # Only the header has its own length, so some bytes more are fetched, up to the next member.
        until = min(member.end, member.likely_start + packed_size + 4096)
        data = memoryview(await self._range(contents.archive, member.offset, until))
        begin = self._data_start(contents, data[: LOCAL_HEADER_BYTES + len(member.raw)], member)
        packed = data[begin - member.offset : begin - member.offset + packed_size]
        if len(packed) < packed_size:  # a writer that aligns the data puts any number of bytes before it
            rest = await self._range(contents.archive, max(begin, until), begin + packed_size)
            packed = memoryview(bytes(packed) + rest)

        def unpack_packed() -> bytes | memoryview:
            if member.method == STORED:
                check_checksum(member, packed, self._url)
                return packed
            try:
                return unpack(member, [bytes(packed)], start, stop, self._url)
            except StoreError:
                if max_bytes is None or packed_size == member.packed_size:
                    raise
                # The rest of its bytes may complete it; they are more than these bytes are worth.
                key = member.key.removeprefix(self._prefix)
                raise too_large(member.packed_size, packed_size, store=self._url, key=key) from None

        is_small = max(member.size, packed_size) < MIN_THREAD_BYTES
        return unpack_packed() if is_small else await in_thread(unpack_packed)

    async def _read_part(self, contents: RemoteContents, member: Member, start: int, stop: int) -> bytes:
        """Fetch a range of an uncompressed member, and at the same time its header if that is needed."""
        begin = contents.starts.get(member.offset)
        if begin is not None:
            return await self._range(contents.archive, begin + start, begin + stop)
        gap = member.end - member.packed_size - member.likely_start
        if not gap and not member.extra:  # the header cannot be shorter, so the data begin here
            begin = contents.starts[member.offset] = member.likely_start
            return await self._range(contents.archive, begin + start, begin + stop)
        # Info-ZIP writes a few more bytes into the header than into the directory. A longer gap is a data descriptor.
        guess = member.likely_start + (gap if gap < 12 else 0)
        header, data = await gather_all(
            [
                self._range(contents.archive, member.offset, member.offset + LOCAL_HEADER_BYTES + len(member.raw)),
                self._range(contents.archive, guess + start, guess + stop),
            ]
        )
        begin = self._data_start(contents, header, member)
        return data if begin == guess else await self._range(contents.archive, begin + start, begin + stop)

    def _bound(self, max_bytes: int) -> dict[str, int]:
        return {"max_bytes": max_bytes} if self._store.has_bounded_reads else {}

    def _data_start(self, contents: RemoteContents, header: bytes | memoryview, member: Member) -> int:
        begin = contents.starts[member.offset] = find_data_start(bytes(header), member, self._url)
        return begin

    async def _range(self, archive: _ArchiveState, start: int, stop: int) -> bytes:
        """Return these bytes of this archive.

        Raises:
            ChangedError: the archive was replaced.
            StoreError: the bytes could not be read.
        """
        if archive.whole is not None:
            return bytes(archive.whole[start:stop])
        conditional = archive.version is not None and self._store.supports.conditional_reads
        value = await self._store.fetch(
            self._key,
            Range(start, stop - start),
            if_match=archive.version if conditional else None,
            **self._bound(stop - start),
        )
        if value is None:
            raise StoreError("the archive was removed while it was in use", store=self._url)
        if value.version != archive.version or value.size not in (None, archive.size):
            raise ChangedError("the archive was replaced", store=self._url)
        if not self._store.supports.partial_reads:
            self._loaded = None  # the server ignored the range: next time the archive is fetched whole
        data = bytes(memoryview(value.data))
        if len(data) != stop - start:
            raise ShortReadError(f"{len(data)} bytes of the archive were received, not {stop - start}", store=self._url)
        return data
