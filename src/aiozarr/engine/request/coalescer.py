"""Ranges of one object that several readers want in one turn of the loop, fetched by common requests."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from aiozarr.engine.operation import Operation
from aiozarr.engine.request.chunk_request import request_chunks
from aiozarr.engine.request.in_flight import ChunkBatch, merge_key
from aiozarr.model import Range, Version
from aiozarr.schedule.coalesce import MergeLimits, coalesce
from aiozarr.stores.contract import Store


@dataclass
class _ObjectRanges:
    """The ranges that are wanted of one version of one object, by readers with equal settings."""

    store: Store
    key: str
    version: Version | None
    merge_limits: MergeLimits
    batches: list[ChunkBatch] = field(default_factory=list)


class RangeCoalescer:
    """Collects the ranges of all readers until the turn is over, then makes requests of them. Lives on the I/O loop.

    One of the readers that want bytes of a request sends it: it counts for that reader, and obeys its limits. A reader
    that leaves afterwards leaves it to the others.

    Args:
        without_versions: stores that should report versions, and do not.
    """

    def __init__(self, without_versions: set[Hashable]) -> None:
        self._without_versions = without_versions
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
        object_id: Hashable,
        version: Version | None,
        merge_limits: MergeLimits,
        batches: Sequence[ChunkBatch],
    ) -> None:
        """Fetch the chunks of `batches`, of the object and version for which `object_id` stands."""
        merging = (object_id, merge_key(operation.settings))
        ranges = self._objects.get(merging)
        if ranges is None:
            ranges = self._objects[merging] = _ObjectRanges(store, key, version, merge_limits)
        if not self._operations:
            asyncio.get_running_loop().call_soon(self.flush)
        self._operations[operation] = None
        ranges.batches += batches
        operation.pending_ranges += sum([len(batch.positions) for batch in batches])

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
        wanted = [(batch, number) for batch in ranges.batches for number in batch.wanted(range(len(batch.positions)))]
        places = [(batch.starts[number], batch.lengths[number]) for batch, number in wanted]
        for merged in coalesce(places, ranges.merge_limits):
            numbers: dict[ChunkBatch, list[int]] = {}
            for member in merged.members:
                batch, number = wanted[member]
                numbers.setdefault(batch, []).append(number)
            slices = list(numbers.items())
            owner = slices[0][0].next_operation(slices[0][1])
            assert owner is not None
            for batch, some in slices:
                _count_shared(batch, some, owner)
            request_chunks(
                owner,
                self._without_versions,
                ranges.store,
                ranges.key,
                Range(merged.start, merged.length),
                slices,
                merged.length,
                ranges.version,
            )
            owners[owner] = None


def _count_shared(batch: ChunkBatch, numbers: Sequence[int], owner: Operation) -> None:
    """Count the chunks that the request of `owner` delivers to others.

    A reader that joined a chunk has counted it as shared. So it is, except for the owner of the request.
    """
    if batch.subscription is not None:
        operation = batch.subscription.subscriber.operation
        operation.shared += 0 if operation is owner else len(numbers)
    if batch.joined:
        for number in numbers:
            for at, subscription in enumerate(batch.joined.get(number, ())):
                operation = subscription.subscriber.operation
                is_first = batch.subscription is None and at == 0
                operation.shared += is_first - (operation is owner)
