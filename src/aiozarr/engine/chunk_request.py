"""The requests for chunks: one for each response, or parts side by side for a chunk that is too large for one.

Ranges of one object that several readers want in one turn of the loop are fetched by common requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from aiozarr.engine.fetch_request import AwaitedResponse, FetchRequest
from aiozarr.engine.in_flight import ChunkDelivery, ChunkSet, merge_key
from aiozarr.engine.object_read import MultipartRead, PartLimits
from aiozarr.engine.operation import Operation
from aiozarr.model import Range, Value, Version
from aiozarr.schedule.coalesce import NO_SPLIT, MergeLimits, coalesce, first_part, split_limit
from aiozarr.stores.contract import Store

MAX_SIZE_FACTOR = 4
"""How many times larger than its codecs make it an object may be, because some writers leave old bytes in it."""


def request_chunks(
    operation: Operation,
    store: Store,
    key: str,
    byte_range: Range | None,
    slices: Sequence[tuple[ChunkSet, Sequence[int]]],
    expected: int,
    if_match: Version | None = None,
) -> None:
    """Have `operation` fetch the bytes of chunks, about `expected` of them, by several requests if they are many.

    Args:
        operation: sends the requests.
        store: the store of the object.
        key: the object.
        byte_range: the bytes; None for the whole object, which is one chunk.
        slices: the chunk sets, with the numbers of the chunks.
        expected: the number of bytes.
        if_match: the version that the object must have.
    """
    pipeline = slices[0][0].pipeline
    delivery = ChunkDelivery(slices, None if byte_range is None else byte_range.start)
    if expected > operation.settings.max_request_bytes and not operation.queue_for(store).is_blocking:
        is_single = len(slices) == 1 and len(slices[0][1]) == 1
        is_versioned = store.identity not in operation.stores_without_versions
        limit = split_limit(store, operation.settings) if is_versioned else NO_SPLIT
        if is_single and (byte_range is None or if_match is not None) and limit < expected:
            _LargeChunk(operation, store, key, byte_range, delivery, expected, limit, if_match).begin()
            return
    request = FetchRequest(
        operation,
        store,
        key,
        byte_range,
        delivery,
        held=expected,
        expected=expected,
        if_match=if_match,
        # A range bounds itself.
        max_bytes=pipeline.max_stored_size if byte_range is None else None,
    )
    delivery.request = request
    if byte_range is not None and request.timing is not None:
        request.timing.ready = operation.queue.now()
    operation.enqueue(request)


class _LargeChunk:
    """The fetch of one chunk in parts, each of which is a request. One record, `whole`, gets all their bytes.

    The first part counts with the bytes of all, and the others count nothing: no part waits for room that another one
    holds.
    """

    def __init__(
        self,
        operation: Operation,
        store: Store,
        key: str,
        byte_range: Range | None,
        delivery: ChunkDelivery,
        expected: int,
        part_bytes: int,
        if_match: Version | None,
    ) -> None:
        self._operation = operation
        self._delivery = delivery
        self._whole = FetchRequest(operation, store, key, byte_range, delivery, held=0, if_match=if_match)
        self._whole.timing = None
        delivery.request = self._whole
        pipeline = delivery.slices[0][0].pipeline
        known = pipeline.encoded_size if byte_range is None else byte_range.length
        most = pipeline.max_encoded_size
        reason = f"and a chunk encodes to {most} at most"
        limits = PartLimits(first_part(known, part_bytes), part_bytes, MAX_SIZE_FACTOR * most, reason)
        self._held = pipeline.spec.nbytes
        self._read = MultipartRead(
            store,
            key,
            byte_range,
            if_match,
            limits,
            self._run_request,
            on_size=self._charge,
            on_wasted=self._note_wasted,
        )
        self._first, self._response = self._new_request(self._read.first, expected)
        if byte_range is not None and self._first.timing is not None:
            self._first.timing.ready = operation.queue.now()

    def begin(self) -> None:
        """Enqueue the first part; a task fetches the others and puts them together."""
        self._operation.enqueue(self._first)
        self._whole.task = asyncio.get_running_loop().create_task(self._read.read())
        self._whole.task.add_done_callback(self._completed)

    def _new_request(self, part: Range | None, held: int) -> tuple[FetchRequest, AwaitedResponse]:
        async def fetch(_: FetchRequest) -> Value | None:
            # Into memory that the head of a response decides about.
            return await self._read.fetch(part)

        response = AwaitedResponse(self._delivery.next_owner)
        whole = self._whole
        return FetchRequest(self._operation, whole.store, whole.key, part, response, held=held, fetch=fetch), response

    async def _run_request(self, part: Range | None, *, is_first: bool) -> Value | None:
        if is_first and not self._response.is_completed:
            return await self._response.wait(self._first)
        request, response = self._new_request(part, self._held if is_first else 0)
        if is_first:
            # The object was replaced: it is read again in the place of the request that has ended.
            self._first.release()
            self._first, self._response = request, response
        request.queue.submit_prepaid([request])
        try:
            return await response.wait(request)
        finally:
            if not is_first:
                request.release()

    def _charge(self, nbytes: int) -> None:
        self._first.queue.charge(nbytes - self._first.held)
        self._first.held = nbytes

    def _note_wasted(self) -> None:
        first = self._first
        if first.value is not None and first.value.version is None:
            self._operation.stores_without_versions.add(first.store.identity)
        if first.timing is not None and first.timing.event is not None:
            first.timing.event = replace(first.timing.event, bytes_wanted=0)

    def _completed(self, task: asyncio.Task[object]) -> None:
        """Hand the bytes to the workers, or fail, when all requests have ended."""
        whole, first = self._whole, self._first
        error: BaseException | None = asyncio.CancelledError() if task.cancelled() else task.exception()
        try:
            if error is None and (value := task.result()) is not None:
                assert isinstance(value, Value)
                whole.value = value
                whole.held, first.held = first.held, 0
            # Its times are reported when the bytes are decoded.
            whole.timing, first.timing = first.timing, None
            first.release()
            self._delivery.response_completed(whole, error)
        finally:
            error = None  # its traceback leads to this request


@dataclass
class _ObjectRanges:
    """The ranges that are wanted of one version of one object, by readers with equal settings."""

    store: Store
    key: str
    version: Version | None
    merge_limits: MergeLimits
    chunk_sets: list[ChunkSet] = field(default_factory=list)


class RangeCoalescer:
    """Collects the ranges of all readers until the turn is over, then makes requests of them. Lives on the I/O loop.

    One of the readers that want bytes of a request sends it: it counts for that reader, and obeys its limits. A reader
    that leaves afterwards leaves it to the others.
    """

    request = staticmethod(request_chunks)
    """Requests chunks that need not be merged with others. Reads that make no requests do not load this module."""

    def __init__(self) -> None:
        self._objects: dict[Hashable, _ObjectRanges] = {}
        self._operations: dict[Operation, None] = {}

    @property
    def is_idle(self) -> bool:
        """True if no ranges wait."""
        return not self._objects

    def add(
        self,
        operation: Operation,
        store: Store,
        key: str,
        merge_id: Hashable,
        version: Version | None,
        chunk_sets: Sequence[ChunkSet],
    ) -> None:
        """Fetch the chunks of `chunk_sets`, of the object and version for which `merge_id` stands."""
        ranges_id = (merge_id, merge_key(operation.settings))
        ranges = self._objects.get(ranges_id)
        if ranges is None:
            merge_limits = operation.queue_for(store).merge_limits(operation.settings)
            ranges = self._objects[ranges_id] = _ObjectRanges(store, key, version, merge_limits)
        if not self._operations:
            asyncio.get_running_loop().call_soon(self.flush)
        self._operations[operation] = None
        ranges.chunk_sets += chunk_sets
        operation.pending_ranges += sum([len(chunk_set.positions) for chunk_set in chunk_sets])

    def flush(self) -> None:
        """Make the requests now: after the responses of a turn, or at its end."""
        if not self._operations:
            return
        objects, self._objects = self._objects, {}
        operations, self._operations = self._operations, {}
        to_resume: dict[Operation, None] = {}
        for operation in operations:
            if operation.pending_ranges >= operation.max_pending_ranges:
                to_resume[operation] = None
            operation.pending_ranges = 0
        for ranges in objects.values():
            self._request(ranges, to_resume)
        for operation in to_resume:
            operation.resume()

    def _request(self, ranges: _ObjectRanges, owners: dict[Operation, None]) -> None:
        """Make requests for the ranges that still have readers, and add the operations that send them to `owners`."""
        wanted = [
            (chunk_set, number)
            for chunk_set in ranges.chunk_sets
            for number in chunk_set.wanted(range(len(chunk_set.positions)))
        ]
        places = [(chunk_set.starts[number], chunk_set.lengths[number]) for chunk_set, number in wanted]
        for merged in coalesce(places, ranges.merge_limits):
            numbers: dict[ChunkSet, list[int]] = {}
            for member in merged.members:
                chunk_set, number = wanted[member]
                numbers.setdefault(chunk_set, []).append(number)
            slices = list(numbers.items())
            owner = slices[0][0].next_operation(slices[0][1])
            assert owner is not None
            for chunk_set, some in slices:
                _count_shared(chunk_set, some, owner)
            part = Range(merged.start, merged.length)
            request_chunks(owner, ranges.store, ranges.key, part, slices, merged.length, ranges.version)
            owners[owner] = None


def _count_shared(chunk_set: ChunkSet, numbers: Sequence[int], owner: Operation) -> None:
    """Count the chunks that the request of `owner` delivers to others.

    A reader that joined a chunk has counted it as shared. So it is, except for the owner of the request.
    """
    if chunk_set.subscription is not None:
        operation = chunk_set.subscription.subscriber.operation
        operation.shared += 0 if operation is owner else len(numbers)
    if chunk_set.joined:
        for number in numbers:
            for at, subscription in enumerate(chunk_set.joined.get(number, ())):
                operation = subscription.subscriber.operation
                is_first = chunk_set.subscription is None and at == 0
                operation.shared += is_first - (operation is owner)
