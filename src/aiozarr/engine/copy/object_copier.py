"""Copies objects from store to store: the source's bytes, the destination's value, and the policy between them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from aiozarr.common.concurrency import ByteSemaphore, for_each
from aiozarr.engine.copy.copy_route import (
    CopyFacts,
    CopyPolicy,
    CopyRoute,
    content_tag,
    copy_route,
    equal_bytes,
    has_content_tag,
    is_replaced,
    same_version,
    size_of,
)
from aiozarr.engine.copy.local_files import FILE_WORK_BYTES, FileBody, new_file, open_body, store_now
from aiozarr.engine.engine import Engine
from aiozarr.errors import (
    ChangedError,
    ChecksumError,
    LimitError,
    PreconditionFailedError,
    ShortReadError,
    StoreError,
    UnsupportedOperationError,
)
from aiozarr.memory import empty_bytes
from aiozarr.metadata.format_rules import document_write_order
from aiozarr.model import Entry, IfAbsent, Precondition, Range, Value, Version
from aiozarr.schedule.events import Report, Totals, add_requests
from aiozarr.settings import Settings
from aiozarr.stores import BlockingStore, LocalStore, Store
from aiozarr.stores.contract import byte_view

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
"""Refused copies by a server, after which objects are fetched and stored."""
MAX_BATCHES_BYTES = 32 << 20
"""Bytes of small files that are held for their uploads: at 20 ms per request they are sent at 1.6 GB/s."""
MAX_FILE_BYTES = 64 << 20
"""The bytes that a file counts while its parts arrive: four files keep the default `max_bytes_in_flight` busy."""
MIN_PARALLEL_BYTES = 64 << 10
"""Mean size of local files from which threads copy some at the same time. Below it, two copy as many as one."""


@dataclass(frozen=True, slots=True)
class CopiedObject:
    """An object that was stored: its size in bytes, and whether it was replaced since it was listed."""

    size: int
    changed: bool = False


@dataclass(slots=True)
class _State:
    """The attempts to copy an object: its entry as it is now, and the size of an earlier response, if there was one."""

    present: Entry
    seen_size: int | None = None


class _ChangingError(Exception):
    """The object was replaced while it was copied, or its size is not certain: it is to be copied again."""


@dataclass(eq=False)
class ObjectCopier:
    """Copies objects between two stores. Lives on the I/O thread.

    Attributes:
        facts: the facts by which `copy_route` chooses.
        scheduled_source, scheduled_destination: the stores with retries and budget.
        server_side: number of objects that the server copied itself.
        prefetched: documents that were fetched before they are copied, by key.
        totals: the sums of requests that no event counts.
    """

    engine: Engine
    source: Store
    destination: Store
    policy: CopyPolicy
    _: KW_ONLY
    settings: Settings
    report: Report | None = None

    def __post_init__(self) -> None:
        source, destination, settings = self.source, self.destination, self.settings
        self.facts = CopyFacts.from_stores(source, destination, self.policy, settings)
        self.server_side = 0
        self.totals = self.report or Report()
        self._part_bytes = settings.max_request_bytes
        self._refusals_left = MAX_SERVER_REFUSALS
        self.prefetched: dict[str, Value] = {}
        self.scheduled_source = self.engine.scheduled(source, settings, self.report)
        self.scheduled_destination = self.engine.scheduled(destination, settings, self.report)
        self._memory = ByteSemaphore(settings.max_bytes_in_flight)
        self._batch_memory = ByteSemaphore(min(settings.max_bytes_in_flight, MAX_BATCHES_BYTES))
        self._small = asyncio.Lock()
        self._buffers: list[memoryview] = []

    def route(self, entry: Entry) -> CopyRoute:
        """Return the route of an object."""
        return copy_route(self.facts, entry)

    async def copy(self, entry: Entry, key: str | None = None, *, pinned: bool = False) -> CopiedObject | None:
        """Copy one object, or the bytes in `prefetched`, and begin again while it changes.

        Args:
            entry: the object as it is listed.
            key: its key at the destination, if that differs.
            pinned: copy the object only as it is listed.

        Returns: the object, or None if the entry is a folder marker or a chunk that may be missing.

        Raises:
            ChangedError: the object is gone, or was replaced again and again while it was fetched; `pinned`: once.
            ShortReadError: the source returns another number of bytes than it lists.
            ChecksumError: the stored bytes differ from the fetched ones.
            PreconditionFailedError: something is stored under the key, and the policy keeps that.
            StoreError: a store failed.
        """
        key = entry.key if key is None else key
        if entry.key not in self.prefetched and self.route(entry) is CopyRoute.SERVER:
            try:
                return await self._copy_by_server(entry, key)
            except ChangedError:
                pass  # some servers never hold a condition; what is fetched shows whether the object was replaced
            except UnsupportedOperationError:
                self._refusals_left -= 1
                if not self._refusals_left:
                    self.facts = replace(self.facts, copies_on_server=False)
        facts, state = replace(self.facts, copies_on_server=False), _State(entry)
        for attempt in range(MAX_FETCHES):
            if attempt:
                await asyncio.sleep(REFETCH_SECONDS * 2**attempt)
            try:
                match CopyRoute.WHOLE if pinned else copy_route(facts, state.present):
                    case CopyRoute.STREAMED:
                        copied = await self._stream(entry, key)
                    case CopyRoute.PARTS:
                        copied = await self._copy_parts(entry, state, key)
                    case _:
                        copied = await self._copy_whole(entry, state, key, pinned=pinned)
            except _ChangingError:
                continue
            is_marker = entry.size == 0  # some clients list the marker `a/` of a folder as an empty object `a`
            may_be_missing = self.policy.may_be_missing and document_write_order(entry.key) is None
            if copied is None and not is_marker and not may_be_missing:
                raise ChangedError("the object was listed but no longer exists", store=self.source.url, key=entry.key)
            return copied
        where: dict[str, Any] = {"store": self.source.url, "key": entry.key, "attempts": MAX_FETCHES}
        if state.seen_size is None:
            raise ChangedError("the object was replaced during every attempt to fetch it", **where)
        sizes = f"{entry.size} bytes in the listing and {state.seen_size} in responses"
        raise ShortReadError(f"the object has {sizes}, or the response was truncated", retryable=False, **where)

    async def _copy_by_server(self, entry: Entry, key: str) -> CopiedObject:
        assert entry.size is not None
        version = await self.scheduled_destination.copy_from(
            self.source, entry.key, key, size=entry.size, if_match=entry.version
        )
        if same_version(version, entry.version) is not True:
            if self.policy.verify == "checksum":
                # Nothing says that the bytes are the same.
                raise UnsupportedOperationError("the server reports no checksum", store=self.destination.url)
            if entry.version is not None and entry.version.generation is None:
                # Some servers ignore the condition.
                present = await self.scheduled_source.stat(entry.key)
                if present is None or same_version(present.version, entry.version) is not True:
                    raise ChangedError("the object was replaced", store=self.source.url, key=entry.key)
        self.server_side += 1
        return CopiedObject(entry.size)

    async def _stream(self, entry: Entry, key: str) -> CopiedObject | None:
        """Copy a file that is read while it is sent."""
        source = self.source
        assert isinstance(source, LocalStore)
        compared = 2 * self._part_bytes if self.policy.verify == "checksum" else 0
        async with self._memory.hold(compared), open_body(self.engine, source, entry.key) as body:
            if body is None:
                return None
            try:
                await self._store(key, body)
            except ChangedError as error:
                if error.store != source.url:
                    raise
                raise _ChangingError from error
            self.scheduled_source.report_file(entry.key, read=body.nbytes)
            return CopiedObject(body.nbytes, changed=body.file.version != entry.version)

    async def _copy_parts(self, entry: Entry, state: _State, key: str) -> CopiedObject:
        """Copy an object whose parts are written into the new file while they arrive."""
        present, destination = state.present, self.destination
        assert isinstance(destination, LocalStore)
        assert present.size is not None
        try:
            async with (
                self._memory.hold(min(present.size, MAX_FILE_BYTES)),
                new_file(self.engine, destination, key, present.size, self._buffers) as file,
            ):
                await self.scheduled_source.fetch_version(present, file, part_bytes=self.facts.part_bytes)
                await file.commit(IfAbsent() if self.policy.if_absent else None)
        except (ChangedError, LimitError, ShortReadError) as error:
            # Without a version, the next attempt fetches it whole. So does one after a second version.
            state.present = Entry(entry.key, present.size)
            if isinstance(error, ChangedError) and present is entry:
                with suppress(StoreError):
                    state.present = await self.scheduled_source.stat(entry.key) or state.present
            raise _ChangingError from error
        self.engine.invalidate(destination, key)
        self.scheduled_destination.report_file(key, written=present.size)
        return CopiedObject(present.size, changed=same_version(entry.version, present.version) is False)

    async def _copy_whole(self, entry: Entry, state: _State, key: str, *, pinned: bool) -> CopiedObject | None:
        """Fetch an object and store it.

        Raises:
            ChangedError: the object was replaced since it was listed, and `pinned` is true.
        """
        max_bytes = self._part_bytes if state.present.size is None else state.present.size
        async with self._memory.hold(self._memory_bytes(max_bytes)):
            fetched = self.prefetched.pop(entry.key, None)
            try:
                fetched = fetched or await self._fetch(entry.key, max_bytes)
            except ChangedError as error:
                raise _ChangingError from error
            except LimitError as error:
                # It has grown since it was listed: the next attempt reserves memory for its new size, if that is known.
                state.present = Entry(entry.key, error.value or 8 * max_bytes)
                raise _ChangingError from error
            if fetched is None:
                return None
            strict = self.policy.verify is not None
            changed = is_replaced(entry, fetched, previous_size=state.seen_size, strict=strict)
            if changed is None:
                state.seen_size = size_of(fetched)
                raise _ChangingError
            if changed and pinned:
                raise ChangedError("the object was replaced", store=self.source.url, key=entry.key)
            await self._store(key, fetched.data)
            return CopiedObject(size_of(fetched), changed)

    async def _fetch(self, key: str, max_bytes: int) -> Value | None:
        """Fetch one object whole and of one version, or return None if it is not stored.

        Raises:
            LimitError: the object has more than `max_bytes` bytes; `value` is its size.
            ChangedError: the object was replaced between its parts.
            StoreError: the object could not be fetched.
        """
        value = await self.scheduled_source.fetch_whole(key, part_bytes=self._part_bytes, max_bytes=max_bytes)
        if value is not None and (size := size_of(value)) > max_bytes:
            raise LimitError("the object has grown", limit="max_bytes", value=size, allowed=max_bytes)
        return value

    async def prefetch(self, entries: Iterable[Entry]) -> None:
        """Fetch small objects whose `copy` follows later, many at once; up to `MAX_PREFETCHED_BYTES` are held."""
        room = MAX_PREFETCHED_BYTES

        async def fetch(entry: Entry) -> None:
            nonlocal room
            size = ASSUMED_DOCUMENT_BYTES if entry.size is None else entry.size
            if size > room or self.route(entry) is CopyRoute.SERVER:
                return
            room -= size
            # An error is raised by `copy`, which fetches the object itself.
            with suppress(StoreError, LimitError):
                fetched = await self._fetch(entry.key, size)
                if fetched is not None:
                    self.prefetched[entry.key] = fetched

        if not isinstance(self.source, BlockingStore):
            await for_each(fetch, entries)

    # --- small files -------------------------------------------------------------------------------------------------

    async def copy_batch(self, entries: Sequence[Entry]) -> Sequence[object]:
        """Copy objects of a blocking store, which one call of a worker reads and, if it can, stores as well.

        Returns: for each object True, or False if it is not as listed or an error may be temporary and `copy` must
            decide, or the error.
        """
        source, destination = self.source, self.destination
        assert isinstance(source, BlockingStore)
        reads, writes = Totals(), Totals()
        outcomes: list[Value | Exception | bool] = []

        def read() -> None:
            outcomes.extend([self._read_now(source, entry, reads) for entry in entries])

        def copy() -> None:
            assert isinstance(destination, BlockingStore)
            read()
            values = {number: value for number, value in enumerate(outcomes) if isinstance(value, Value)}
            objects = [(entries[number].key, value.data) for number, value in values.items()]
            writes.requests += len(values) * (2 if self.policy.verify == "checksum" else 1)
            errors = store_now(destination, objects, verify=self.policy.verify)
            for (number, value), error in zip(values.items(), errors, strict=True):
                outcomes[number] = error is None or _lasting_error(error)
                writes.bytes_written += size_of(value) if error is None else 0

        async def store(number: int) -> None:
            value = outcomes[number]
            if isinstance(value, Value):
                try:
                    await self._store(entries[number].key, value.data)
                    outcomes[number] = True
                except Exception as error:
                    outcomes[number] = error

        sizes = [entry.size or 0 for entry in entries]
        held = sum(map(self._memory_bytes, sizes))
        work_bytes = sum([max(size, FILE_WORK_BYTES) for size in sizes])
        try:
            if isinstance(destination, BlockingStore):
                # Little work per system call: several threads would wait for the interpreter's lock, in turn.
                is_small = sum(sizes) < MIN_PARALLEL_BYTES * len(sizes)
                async with self._memory.hold(held), self._small if is_small else nullcontext():
                    await self.engine.run_in_worker(copy, work_bytes)
            else:
                async with self._batch_memory.hold(held):
                    await self.engine.run_in_worker(read, work_bytes)
                    await for_each(store, range(len(entries)), concurrency=len(entries))
            return outcomes
        finally:
            add_requests(self.totals, source.url, reads)
            if isinstance(destination, BlockingStore):
                self.engine.invalidate(destination, None)
                add_requests(self.totals, destination.url, writes)

    def _read_now(self, source: BlockingStore, entry: Entry, reads: Totals) -> Value | Exception | bool:
        """Read one object in the calling worker: its error, or False if it is not as listed or may be read later."""
        reads.requests += 1
        part = Range(0, self._part_bytes) if source.supports.clipped_reads else None
        try:
            value = source.fetch_now(entry.key, part)
        except Exception as error:
            return _lasting_error(error)
        if value is None or is_replaced(entry, value, previous_size=None, strict=True) is not False:
            return False
        reads.bytes_wanted += entry.size or 0
        reads.bytes_fetched += entry.size or 0
        return value

    # --- the value at the destination --------------------------------------------------------------------------------

    async def _store(self, key: str, data: Buffer | FileBody) -> None:
        """Store `data`, and with `verify="checksum"` read it back.

        Raises:
            ChecksumError: the stored bytes differ.
            StoreError: the bytes could not be stored or read back.
        """
        if self.policy.if_absent:
            version = await self.scheduled_destination.if_absent(lambda condition: self._send(key, data, condition))
        else:
            version = await self._send(key, data, None)
        if self.policy.verify != "checksum" or await self._is_content_tag(version, data):
            return
        if await self._is_stored(key, data):
            return
        # A second time, because the bytes may have been damaged in transit.
        await self._send(key, data, None)
        if not await self._is_stored(key, data):
            raise ChecksumError("the bytes read back differ from those stored", store=self.destination.url, key=key)

    async def _send(self, key: str, data: Buffer | FileBody, precondition: Precondition | None) -> Version | None:
        destination = self.scheduled_destination
        if not isinstance(data, FileBody):
            return await destination.set(key, data, precondition=precondition)
        try:
            return await destination.upload(key, data, precondition=precondition)
        except PreconditionFailedError:
            # A repeated request finds the bytes of the one whose response was lost.
            if not await self._is_stored(key, data):
                raise
            return None

    async def _is_content_tag(self, version: Version | None, data: Buffer | FileBody) -> bool:
        """Return whether the ETag of the stored object is the MD5 of `data`, so that these bytes are stored."""
        if version is None or not has_content_tag(version):
            return False

        def tag() -> str:
            return f'"{data.file.md5()}"' if isinstance(data, FileBody) else content_tag(data)

        return version.etag == await self.engine.run_in_worker(tag, _size(data))

    async def _is_stored(self, key: str, data: Buffer | FileBody) -> bool:
        """Return whether the destination returns `data`. A large object is read in parts, one after the other."""
        size = _size(data)
        is_ranged = size > self._part_bytes and self.destination.supports.partial_reads
        part_bytes = self._part_bytes if is_ranged else max(size, 1)
        for start in range(0, max(size, 1), part_bytes):
            if isinstance(data, FileBody):
                part = empty_bytes(min(part_bytes, size - start))
                await data.part(start, part.nbytes).read_into(0, part)
            else:
                part = byte_view(data)[start : start + part_bytes]
            byte_range = Range(start, part.nbytes) if is_ranged else None
            value = await self.scheduled_destination.fetch(key, byte_range, held=part.nbytes)
            if value is None or value.size not in (None, size):
                return False
            if not await self.engine.run_in_worker(partial(equal_bytes, part, value.data), part.nbytes):
                return False
        return True

    def _memory_bytes(self, size: int) -> int:
        """Return the bytes that copying an object of `size` bytes holds in memory."""
        return size + min(size, self._part_bytes) if self.policy.verify == "checksum" else size


def _lasting_error(error: Exception) -> Exception | bool:
    """Return an error that will occur again, or False if it may be temporary."""
    return False if isinstance(error, StoreError) and error.retryable else error


def _size(data: Buffer | FileBody) -> int:
    return data.nbytes if isinstance(data, FileBody) else memoryview(data).nbytes
