"""Copies one object from store to store. The fetched object is compared with the listing before it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from hashlib import md5
from typing import TYPE_CHECKING

from aiozarr.concurrency import ByteSemaphore, for_each, map_concurrently
from aiozarr.engine import Engine, ScheduledStore
from aiozarr.errors import (
    ChangedError,
    ChecksumError,
    LimitError,
    ShortReadError,
    StoreError,
    UnsupportedOperationError,
)
from aiozarr.memory import empty_bytes
from aiozarr.metadata.format_rules import document_write_order
from aiozarr.model import Entry, Range, Value, Version
from aiozarr.schedule.events import Report, Totals
from aiozarr.settings import Settings
from aiozarr.stores import BlockingStore, LocalStore, Store, byte_view
from aiozarr.stores.capabilities import CopyFromStore, UploadStore
from aiozarr.transfer.copy_rules import Verify
from aiozarr.transfer.file_body import FileBody, open_body

if TYPE_CHECKING:
    from typing_extensions import Buffer


MAX_FETCHES = 4
"""Fetches of an object that keeps changing, before that is an error."""
REFETCH_SECONDS = 0.05
"""Delay before an object is fetched again; doubled for each further fetch."""
MAX_PREFETCHED_BYTES = 32 << 20
"""Metadata documents that are held in memory until they may be stored: thousands of ordinary ones."""
ASSUMED_DOCUMENT_BYTES = 64 << 10
"""The size of a document that is not listed: a larger one is fetched later."""
MAX_SERVER_REFUSALS = 3
"""Refused copies by a server, after which objects are fetched and stored; of uploads in pieces, likewise."""
MAX_UPLOADED_BYTES = 1 << 20
"""Larger files are read while they are sent, where the destination can."""
COMPARED_BYTES = 256 << 10
"""Bytes that are compared at once: they are copied for it, into a processor's cache."""
MAX_BATCHES_BYTES = 32 << 20
"""Bytes of small files that are held for their uploads: at 20 ms per request they are sent at 1.6 GB/s."""
MD5_DIGITS = 32
MIN_PARALLEL_BYTES = 64 << 10
"""Mean size of local files from which threads copy some at the same time. Below it, two copy as many as one."""
MIN_WORK_BYTES = 16 << 10
"""Cost of opening, renaming and closing a file in a worker, expressed in bytes."""


@dataclass(frozen=True, slots=True)
class FetchedObject:
    """An object that was fetched whole.

    Attributes:
        data: its bytes.
        size: its size in bytes by the store's response.
        version: its version, or None if the store has no versions.
    """

    data: Buffer
    size: int
    version: Version | None


@dataclass(frozen=True, slots=True)
class CopiedObject:
    """An object that was stored: its size in bytes, and whether it was replaced since it was listed."""

    size: int
    changed: bool = False


class CopyDecision(Enum):
    """The decision about a fetched object."""

    AS_LISTED = "it is the listed object"
    REPLACED = "it is a later object, and complete"
    REFETCH = "it may be truncated; another fetch decides"


def same_version(one: Version | None, other: Version | None) -> bool | None:
    """Return whether two versions are equal, or None if they cannot be compared.

    A listing may report less than a response, such as the ETag without the generation: what both report is compared.
    """
    if one is None or other is None:
        return None
    if one.generation is not None and other.generation is not None:
        return one.generation == other.generation
    if one.etag is not None and other.etag is not None:
        return one.etag.removeprefix("W/") == other.etag.removeprefix("W/")
    return None


def decide(listed: Entry, fetched: FetchedObject, *, previous_size: int | None, strict: bool) -> CopyDecision:
    """Decide whether `fetched` may be stored.

    Args:
        listed: the entry of the listing.
        fetched: the fetched object.
        previous_size: the size of the previous fetch, if there was one.
        strict: whether a size that differs from the listing's must be confirmed.
    """
    same = same_version(listed.version, fetched.version)
    if memoryview(fetched.data).nbytes != fetched.size:
        return CopyDecision.REFETCH
    if same is False:
        return CopyDecision.REPLACED
    if listed.size is None or listed.size == fetched.size:
        return CopyDecision.AS_LISTED
    # One version of an object has one size. Without versions, two fetches must agree on the size.
    if strict and (same or previous_size != fetched.size):
        return CopyDecision.REFETCH
    return CopyDecision.REPLACED


class ObjectCopier:
    """Copies the objects of one copy operation.

    Attributes:
        server_side: number of objects that the server copied itself.
    """

    def __init__(
        self,
        engine: Engine,
        source: Store,
        destination: Store,
        *,
        verify: Verify,
        settings: Settings,
        report: Report,
        may_be_missing: bool = False,
    ) -> None:
        self.source = source
        self.destination = destination
        self._engine = engine
        self._verify: Verify = verify
        self._part_bytes = settings.max_request_bytes
        self._is_observed = settings.on_event is not None
        self._report = report
        self._may_be_missing = may_be_missing
        self.server_side = 0
        self._prefetched: dict[str, FetchedObject] = {}
        can_copy = isinstance(destination, CopyFromStore) and destination.can_copy_from(source)
        self._refusals_left = MAX_SERVER_REFUSALS if can_copy else 0
        self._scheduled_source = engine.scheduled(source, settings, report)
        self._scheduled_destination = engine.scheduled(destination, settings, report)
        self._memory = ByteSemaphore(settings.max_bytes_in_flight)
        self._batch_memory = ByteSemaphore(min(settings.max_bytes_in_flight, MAX_BATCHES_BYTES))
        self._small = asyncio.Lock()

    async def copy(self, entry: Entry) -> CopiedObject | None:
        """Copy one object.

        Returns: the object, or None if the entry is a folder marker or a chunk that may be missing.

        Raises:
            ChangedError: the object is gone, or was replaced again and again while it was fetched.
            ShortReadError: the source returns another number of bytes than it lists.
            ChecksumError: the stored bytes differ from the fetched ones.
            StoreError: a store failed.
        """
        if self._is_server_side and entry.size is not None and entry.version is not None:
            try:
                return await self._copy_by_server(entry, entry.size)
            except ChangedError:
                pass  # it is copied as it is now
            except UnsupportedOperationError:
                self._refusals_left -= 1
        if self._is_streamed(entry):
            return await self._upload(entry)
        return await self._copy_async(entry)

    def _is_streamed(self, entry: Entry) -> bool:
        """Return whether an object is a large file, and the destination takes it in pieces."""
        return (
            entry.size is not None
            and entry.size > MAX_UPLOADED_BYTES
            and isinstance(self.source, LocalStore)
            and isinstance(self.destination, UploadStore)
            and self.destination.can_upload(entry.size)
        )

    async def _upload(self, entry: Entry) -> CopiedObject | None:
        """Copy a file that is read while it is sent, and begin anew while it changes."""
        source = self.source
        assert isinstance(source, LocalStore)
        compared = 2 * self._part_bytes if self._verify == "checksum" else 0
        for attempt in range(MAX_FETCHES):
            if attempt:
                await asyncio.sleep(REFETCH_SECONDS * 2**attempt)
            async with self._memory.hold(compared), open_body(self._engine, source, entry.key) as body:
                if body is None:
                    raise ChangedError("the object was listed, and is gone", store=source.url, key=entry.key)
                try:
                    await self._store(entry.key, body)
                except ChangedError as error:
                    if error.store != source.url:
                        raise
                    continue
            self._scheduled_source.report_read(entry.key, body.nbytes)
            return CopiedObject(body.nbytes, changed=body.file.version != entry.version)
        raise self._unstable_error(entry, None)

    @property
    def _is_server_side(self) -> bool:
        return self._refusals_left > 0

    async def _copy_by_server(self, entry: Entry, size: int) -> CopiedObject:
        version = await self._scheduled_destination.copy_from(
            self.source, entry.key, entry.key, size=size, if_match=entry.version
        )
        if same_version(version, entry.version) is not True:
            if self._verify == "checksum":
                # Nothing says that the bytes are the same.
                raise UnsupportedOperationError("the server reports no checksum", store=self.destination.url)
            if entry.version is not None and entry.version.generation is None:
                # Some servers ignore the condition.
                present = await self._scheduled_source.stat(entry.key)
                if present is None or same_version(present.version, entry.version) is not True:
                    raise ChangedError("the object was replaced", store=self.source.url, key=entry.key)
        self.server_side += 1
        return CopiedObject(size)

    async def prefetch(self, entries: Iterable[Entry]) -> None:
        """Fetch small objects whose `copy` follows later, many at once; up to `MAX_PREFETCHED_BYTES` are held."""
        room = MAX_PREFETCHED_BYTES

        async def fetch(entry: Entry) -> None:
            nonlocal room
            size = ASSUMED_DOCUMENT_BYTES if entry.size is None else entry.size
            if size > room or self._is_server_side:
                return
            room -= size
            # An error is raised by `copy`, which fetches the object itself.
            with suppress(StoreError, LimitError):
                fetched = await read_object(self._scheduled_source, entry.key, size, self._part_bytes)
                if fetched is not None:
                    self._prefetched[entry.key] = fetched

        if not isinstance(self.source, BlockingStore):
            await for_each(fetch, entries)

    def accepts_batch(self, entry: Entry) -> bool:
        """Return whether `copy_batch` may copy the object: the source blocks, and it is small."""
        return (
            isinstance(self.source, BlockingStore)
            and entry.size is not None
            and entry.size <= self._part_bytes
            and not self._is_observed  # Events need one request at a time.
            and not self._is_streamed(entry)
        )

    async def copy_batch(self, entries: Sequence[Entry]) -> list[BaseException | bool]:
        """Copy objects of a blocking store, which one call of a worker reads and, if it can, stores as well.

        Returns: for each object True, or False if it is not as listed or an error may be temporary and `copy` must
            decide, or the error.
        """
        source, destination = self.source, self.destination
        assert isinstance(source, BlockingStore)
        if not isinstance(destination, BlockingStore):
            return await self._upload_batch(source, entries)
        reads, writes = Totals(), Totals()

        def copy() -> list[BaseException | bool]:
            found = self._read_batch(source, entries, reads)
            outcomes: list[BaseException | bool] = [
                each if isinstance(each, BaseException) else False for each in found
            ]
            fetched = [(number, each) for number, each in enumerate(found) if isinstance(each, FetchedObject)]
            writes.requests += len(fetched) * (2 if self._verify == "checksum" else 1)
            values = [(entries[number].key, each.data) for number, each in fetched]
            errors = store_now(destination, values, verify=self._verify)
            for (number, each), error in zip(fetched, errors, strict=True):
                if error is None:
                    writes.bytes_written += each.size
                    outcomes[number] = True
                elif not (isinstance(error, StoreError) and error.retryable):
                    outcomes[number] = error
            return outcomes

        sizes = [entry.size or 0 for entry in entries]
        # Little work per system call: several threads would wait for the interpreter's lock, in turn.
        is_small = sum(sizes) < MIN_PARALLEL_BYTES * len(sizes)
        async with self._memory.hold(sum(map(self._memory_bytes, sizes))), self._small if is_small else nullcontext():
            try:
                return await self._engine.run_in_worker(copy, sum([max(size, MIN_WORK_BYTES) for size in sizes]))
            finally:
                self._engine.invalidate(destination, None)
                self._report.add(source.url, reads)
                self._report.add(destination.url, writes)

    async def _upload_batch(self, source: BlockingStore, entries: Sequence[Entry]) -> list[BaseException | bool]:
        """Read objects in one call of a worker, and store them side by side."""
        reads = Totals()

        async def store(number: int) -> BaseException | bool:
            fetched = found[number]
            if not isinstance(fetched, FetchedObject):
                return False if fetched is None else fetched
            try:
                await self._store(entries[number].key, fetched.data)
            except Exception as error:
                return error
            return True

        sizes = [entry.size or 0 for entry in entries]
        async with self._batch_memory.hold(sum([self._memory_bytes(size) for size in sizes])):
            try:
                work = partial(self._read_batch, source, entries, reads)
                found = await self._engine.run_in_worker(work, sum([max(size, MIN_WORK_BYTES) for size in sizes]))
                return await map_concurrently(store, range(len(entries)), concurrency=len(entries))
            finally:
                self._report.add(source.url, reads)

    def _read_now(self, source: BlockingStore, entry: Entry, reads: Totals) -> FetchedObject | None:
        """Read one object in the calling worker. Return None if it is not as listed."""
        size = entry.size or 0
        reads.requests += 1
        value = source.fetch_now(entry.key, Range(0, self._part_bytes) if source.supports.clipped_reads else None)
        if value is None:
            return None
        fetched = FetchedObject(value.data, size if value.size is None else value.size, value.version)
        if decide(entry, fetched, previous_size=None, strict=True) is not CopyDecision.AS_LISTED:
            return None
        reads.bytes_wanted += size
        reads.bytes_fetched += size
        return fetched

    def _read_batch(
        self, source: BlockingStore, entries: Sequence[Entry], reads: Totals
    ) -> list[BaseException | FetchedObject | None]:
        """Read objects in the calling worker: each one's error, or None if it is not as listed or may be read later."""
        found: list[BaseException | FetchedObject | None] = []
        for entry in entries:
            try:
                found.append(self._read_now(source, entry, reads))
            except Exception as error:
                found.append(None if isinstance(error, StoreError) and error.retryable else error)
        return found

    async def _copy_async(self, entry: Entry) -> CopiedObject | None:
        """Copy between any stores, and fetch again while the object changes."""
        max_bytes = self._part_bytes if entry.size is None else entry.size
        previous_size: int | None = None
        for attempt in range(MAX_FETCHES):
            if attempt:
                await asyncio.sleep(REFETCH_SECONDS * 2**attempt)
            async with self._memory.hold(self._memory_bytes(max_bytes)):
                try:
                    fetched = self._prefetched.pop(entry.key, None)
                    if fetched is None:
                        fetched = await read_object(self._scheduled_source, entry.key, max_bytes, self._part_bytes)
                except ChangedError:
                    continue
                except LimitError as error:
                    # It has grown since it was listed: the next attempt reserves memory for its new size.
                    max_bytes = error.value or max_bytes
                    continue
                if fetched is None:
                    if entry.size == 0 or (self._may_be_missing and document_write_order(entry.key) is None):
                        # Some clients list the marker `a/` of a folder as an empty object `a`.
                        return None
                    raise ChangedError("the object was listed, and is gone", store=self.source.url, key=entry.key)
                strict = self._verify is not None
                decision = decide(entry, fetched, previous_size=previous_size, strict=strict)
                if decision is CopyDecision.REFETCH:
                    previous_size = fetched.size
                    continue
                await self._store(entry.key, fetched.data)
                return CopiedObject(fetched.size, changed=decision is CopyDecision.REPLACED)
        raise self._unstable_error(entry, previous_size)

    async def _store(self, key: str, data: Buffer | FileBody) -> None:
        """Store `data`, and with `verify="checksum"` read it back.

        Raises:
            ChecksumError: the stored bytes differ.
            StoreError: the bytes could not be stored or read back.
        """
        version = await self._send(key, data)
        if self._verify != "checksum" or await self._is_content_tag(version, data):
            return
        if await self._is_stored(key, data):
            return
        # A second time, because the bytes may have been damaged in transit.
        await self._send(key, data)
        if not await self._is_stored(key, data):
            raise ChecksumError("what was read back is not what was stored", store=self.destination.url, key=key)

    async def _send(self, key: str, data: Buffer | FileBody) -> Version | None:
        destination = self._scheduled_destination
        return await (destination.upload(key, data) if isinstance(data, FileBody) else destination.set(key, data))

    async def _is_content_tag(self, version: Version | None, data: Buffer | FileBody) -> bool:
        """Return whether the ETag of the stored object is the MD5 of `data`, so that these bytes are stored."""
        if version is None or not has_content_tag(version):
            return False
        return version.etag == await self._engine.run_in_worker(lambda: content_tag(data), _size(data))

    async def _is_stored(self, key: str, data: Buffer | FileBody) -> bool:
        """Return whether the destination returns `data`. A large object is read in parts, one after the other."""
        size = _size(data)
        if size <= self._part_bytes or not self.destination.supports.partial_reads:
            return await self._returns(key, None, await self._part_of(data, 0, size), size)
        for start in range(0, size, self._part_bytes):
            part = await self._part_of(data, start, min(self._part_bytes, size - start))
            if not await self._returns(key, Range(start, part.nbytes), part, size):
                return False
        return True

    async def _part_of(self, data: Buffer | FileBody, start: int, nbytes: int) -> memoryview:
        """Return a part of an object's bytes, which is read from its file now."""
        if not isinstance(data, FileBody):
            return byte_view(data)[start : start + nbytes]
        memory = empty_bytes(nbytes)
        await data.part(start, nbytes).read_into(0, memory)
        return memory

    async def _returns(self, key: str, byte_range: Range | None, expected: memoryview, size: int) -> bool:
        value = await self._scheduled_destination.fetch(key, byte_range, held=expected.nbytes)
        if value is None or value.size not in (None, size):
            return False
        data = value.data
        return await self._engine.run_in_worker(lambda: equal_bytes(expected, data), expected.nbytes)

    def _unstable_error(self, entry: Entry, seen_size: int | None) -> StoreError:
        if seen_size is None:
            return ChangedError(
                "the object was replaced each time it was fetched",
                store=self.source.url,
                key=entry.key,
                attempts=MAX_FETCHES,
            )
        return ShortReadError(
            f"the object has {entry.size} bytes in the listing and {seen_size} in responses, or these are truncated",
            retryable=False,
            store=self.source.url,
            key=entry.key,
            attempts=MAX_FETCHES,
        )

    def _memory_bytes(self, size: int) -> int:
        """Return the bytes that copying an object of `size` bytes holds in memory."""
        return size + min(size, self._part_bytes) if self._verify == "checksum" else size


async def read_object(source: ScheduledStore, key: str, max_bytes: int, part_bytes: int) -> FetchedObject | None:
    """Fetch one object whole and of one version. A large object is fetched in parts.

    Args:
        source: the store.
        key: the key of the object.
        max_bytes: the size up to which the object is fetched.
        part_bytes: the limit of one request.

    Returns: the object, or None if it is not stored.

    Raises:
        LimitError: the object has more than `max_bytes` bytes; `value` is its size.
        ChangedError: the object was replaced between its parts.
        StoreError: the object could not be fetched.
    """
    # A range bounds the response, whatever the listing said. An empty object has no byte to start at.
    supports = source.store.supports
    is_ranged = max_bytes > 0 and supports.partial_reads and supports.clipped_reads
    in_parts = is_ranged and max_bytes > part_bytes
    value: Value | None = None
    if not in_parts:
        cost = min(max_bytes, part_bytes)
        try:
            value = await source.fetch(key, Range(0, part_bytes) if is_ranged else None, held=cost)
        except ShortReadError:
            # A server may clip the range without the object's size. The whole object proves its length.
            value = await source.fetch(key, held=cost, max_bytes=cost)
        # A full part of an object of unknown size may have bytes behind it.
        in_parts = is_ranged and value is not None and value.size is None and len(byte_view(value.data)) >= part_bytes
    if in_parts:
        value = await source.fetch_in_parts(key, part_bytes=part_bytes, max_bytes=max_bytes)
    if value is None:
        return None
    size = memoryview(value.data).nbytes if value.size is None else value.size
    if size > max_bytes:
        raise LimitError("the object has grown", limit="max_bytes", value=size, allowed=max_bytes)
    return FetchedObject(value.data, size, value.version)


def _size(data: Buffer | FileBody) -> int:
    return data.nbytes if isinstance(data, FileBody) else memoryview(data).nbytes


def content_tag(data: Buffer | FileBody) -> str:
    """Return the MD5 of `data` as an ETag."""
    if isinstance(data, FileBody):
        return f'"{data.file.md5()}"'
    return f'"{md5(byte_view(data), usedforsecurity=False).hexdigest()}"'


def has_content_tag(version: Version) -> bool:
    """Return whether an ETag may be the MD5 of the content: it has that form, and is no multipart upload's."""
    if version.etag is None or version.generation is not None:
        return False
    tag = version.etag.strip('"')
    return len(tag) == MD5_DIGITS and all(digit in "0123456789abcdef" for digit in tag)


def store_now(
    destination: BlockingStore, values: Sequence[tuple[str, Buffer]], *, verify: Verify
) -> list[Exception | None]:
    """Store objects in the calling worker, together if the store can, and return the error of each."""
    if len(values) > 1 and verify != "checksum":
        # After an error each is stored by itself, and has its own outcome.
        with suppress(Exception):
            destination.set_values_now(values)
            return [None] * len(values)
    errors: list[Exception | None] = []
    for key, data in values:
        try:
            write_now(destination, key, data, verify=verify)
        except Exception as error:
            errors.append(error)
        else:
            errors.append(None)
    return errors


def write_now(destination: BlockingStore, key: str, data: Buffer, *, verify: Verify) -> None:
    """Store an object in the calling worker, and with `verify="checksum"` read it back.

    Raises:
        ChecksumError: twice, the stored bytes were not those of `data`.
        StoreError: the bytes could not be stored or read back.
    """
    destination.set_now(key, data)
    if verify != "checksum":
        return
    for attempt in range(2):
        stored = destination.fetch_now(key)
        if stored is not None and equal_bytes(stored.data, data):
            return
        if not attempt:
            destination.set_now(key, data)
    raise ChecksumError("what was read back is not what was stored", store=destination.url, key=key)


def equal_bytes(one: Buffer, other: Buffer) -> bool:
    """Return whether two buffers have the same bytes."""
    first, second = byte_view(one), byte_view(other)
    # memoryviews compare byte by byte, as Python objects; bytes compare memory.
    return first.nbytes == second.nbytes and all(
        bytes(first[at : at + COMPARED_BYTES]) == bytes(second[at : at + COMPARED_BYTES])
        for at in range(0, first.nbytes, COMPARED_BYTES)
    )
