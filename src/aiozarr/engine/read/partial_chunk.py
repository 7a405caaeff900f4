"""A part of an uncompressed chunk: ranges of its bytes, each fetched like a chunk, and put together."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.codecs.pipeline.raw_layout import RawLayout
from aiozarr.engine.plan.partial_plan import PartialChunkPlanner, Ranges
from aiozarr.engine.read.read_operation import ChunkGroup, ReadOperation
from aiozarr.engine.request.chunk_requests import RangeRequest
from aiozarr.engine.request.chunk_work_items import FillChunks, end_subscription
from aiozarr.engine.request.in_flight import InFlightChunk, Subscriber, Subscription
from aiozarr.engine.state import EngineState
from aiozarr.engine.workers.decoder import DecodeTarget
from aiozarr.engine.workers.worker_pool import WorkItem
from aiozarr.errors import ChangedError, CodecError, located
from aiozarr.grid.axes import AxisSelection
from aiozarr.grid.projection import ChunkProjection, ChunkSelection
from aiozarr.memory import empty
from aiozarr.model import Entry, Range, Value
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store


def ranges_of_chunk(
    state: EngineState,
    planner: PartialChunkPlanner,
    store: Store,
    settings: Settings,
    pipeline: CodecPipeline,
    part: ChunkSelection,
) -> Ranges | None:
    """Return the ranges to fetch of a chunk that is a stored object; None to fetch all of it."""
    # All of a chunk that is cached is wanted sooner or later.
    if pipeline.raw is None or settings.chunk_cache_bytes or not store.supports.partial_reads:
        return None
    return planner.ranges(part, pipeline, versioned=state.has_versions(store))


def ranges_suffice(pipeline: CodecPipeline, entry: Entry, ranges: Ranges) -> bool:
    """Return whether ranges of the object `entry` are enough, or all of it is to be fetched."""
    assert pipeline.raw is not None
    return entry.size in (None, pipeline.raw.nbytes) and (entry.version is not None or len(ranges) == 1)


class PartialChunk(Subscriber):
    """The bytes of a chunk, as far as they are wanted.

    The memory of the whole chunk is allocated, and only the ranges are touched: the system gives no more.

    Args:
        operation: the read.
        store: the store of the chunk.
        pipeline: the chunk's codecs, which leave its bytes as they are.
        raw: their layout of elements.
        ranges: the ranges.

    Attributes:
        missing: a key for each range that is not stored.
        states: versions and sizes of the object that ranges were fetched of.
    """

    def __init__(
        self, operation: ReadOperation, store: Store, pipeline: CodecPipeline, raw: RawLayout, ranges: Ranges
    ) -> None:
        self.operation = self._read_operation = operation
        self.missing: list[str] = []
        self.states: set[tuple[object, int | None]] = set()
        self._store = store
        self._pipeline = pipeline
        self._raw = raw
        self._ranges = ranges
        self._memory = chunk_memory(raw)
        self._group: ChunkGroup | None = None

    def subscribe(self, group: ChunkGroup, chunk_id: Hashable) -> list[tuple[InFlightChunk, int, int]]:
        """Subscribe to the ranges, so that `group` awaits them.

        Returns: those that are not in flight yet, with start and length in the chunk.
        """
        new = []
        self._group = group
        group.expect(len(self._ranges))
        for start, length in self._ranges:
            stop = start + length
            whole = AxisSelection(0, slice(0, length), slice(start, stop), 0, 1, length, start, length)
            subscription = Subscription(self, self._memory, ChunkProjection((whole,)))
            range_id = (chunk_id, start, length)
            chunk = self._read_operation.subscribe(subscription, range_id, _bytes_pipeline(length), cached=False)
            if chunk is not None:
                new.append((chunk, start, length))
        return new

    def place(self, target: Subscription) -> WorkItem:
        """Return the work that copies the elements to where `target` wants them."""
        if self.missing:
            return FillChunks([target], self._pipeline.spec.fill_value)
        return _PlacePartial(self, target)

    def place_in(self, target: DecodeTarget) -> None:
        """Copy the elements to where `target` wants them; in a worker.

        Raises:
            CodecError: the bytes are no elements.
        """
        place_partial(self._pipeline, self._memory, target)

    def is_one_version(self, state: EngineState) -> bool:
        """Return whether the ranges are of one version of a chunk of the right length, or all missing."""
        if self.missing:
            return len(self.missing) == len(self._ranges)
        if any(size not in (None, self._raw.nbytes) for _, size in self.states):
            return False
        versions = {version for version, _ in self.states}
        if None in versions and len(self._ranges) > 1:
            state.stores_without_versions.add(self._store.identity)
            return False
        return len(versions) == 1

    # --- outcomes of ranges -----------------------------------------------------------------------------------------

    def chunk_done(self, subscription: Subscription) -> None:
        request = None if subscription.chunk is None else subscription.chunk.request
        if isinstance(request, RangeRequest) and request.object_state is not None:
            self.states.add(request.object_state)
        self._ended(subscription, None)

    def chunk_failed(self, subscription: Subscription, error: BaseException) -> None:
        self._ended(subscription, error)

    def _ended(self, subscription: Subscription, error: BaseException | None) -> None:
        self._read_operation.subscription_ended(subscription, is_done=False)
        if self._group is not None:
            self._group.ended(1, error)

    def missing_error(self, key: str) -> BaseException | None:
        self.missing.append(key)
        return self._read_operation.missing_error(self._store, key)


class _PlacePartial(WorkItem):
    __slots__ = ("chunk", "target")

    def __init__(self, chunk: PartialChunk, target: Subscription) -> None:
        super().__init__(target.nbytes)
        self.chunk = chunk
        self.target = target

    def run(self) -> None:
        self.chunk.place_in(self.target)

    def finished(self) -> None:
        end_subscription(self.target, self.error)


async def read_partial_chunk(
    operation: ReadOperation,
    store: Store,
    key: str,
    chunk_id: Hashable,
    pipeline: CodecPipeline,
    ranges: Ranges,
    out: NDArray[Any],
    part: ChunkSelection,
) -> bool:
    """Read a part of a chunk that is a stored object.

    Returns: False if the ranges are not of one version of a chunk of the right length: then it must be read whole.
    """
    assert pipeline.raw is not None
    chunk = PartialChunk(operation, store, pipeline, pipeline.raw, ranges)
    group = ChunkGroup(operation, store, (ChangedError, CodecError))
    for each, start, length in chunk.subscribe(group, chunk_id):
        operation.enqueue(RangeRequest(operation, store, key, start, length, each))
    operation.resume()
    try:
        await group.wait()
    except (ChangedError, CodecError):
        return False
    if not chunk.is_one_version(operation.state):
        return False
    placed = ChunkGroup(operation, store, ())
    target = placed.add(out, part)
    operation.track(target)
    operation.submit(chunk.place(target), store)
    with located(store=store.url, key=key):
        await placed.wait()
    return True


def place_partial(pipeline: CodecPipeline, memory: NDArray[np.uint8], target: DecodeTarget) -> None:
    """Copy elements to where `target` wants them; `memory` is a chunk's, and holds the bytes that this takes.

    Raises:
        CodecError: the bytes are no elements.
    """
    raw = pipeline.raw
    assert raw is not None
    target.projection.scatter(target.out, raw.load(target.projection.gather(raw.array_over(memory.data))))


def read_ranges(
    pipeline: CodecPipeline, ranges: Ranges, fetch: Callable[[Range], Value | None]
) -> NDArray[np.uint8] | None:
    """Return a chunk's memory with `ranges` filled by `fetch`, or empty if nothing is stored; in a worker.

    Returns: None if they are not of one version of a chunk of the right length: then it must be read whole.
    """
    assert pipeline.raw is not None
    memory = chunk_memory(pipeline.raw)
    values = []
    for start, length in ranges:
        value = fetch(Range(start, length))
        values.append(value)
        if value is None:
            continue
        data = memoryview(value.data)
        if data.nbytes != length or value.size not in (None, len(memory)):
            return None
        memory.data[start : start + length] = data.cast("B")
    versions = {None if value is None else value.version for value in values}
    if None not in versions:
        return memory if len(versions) == 1 else None
    missing = values.count(None)
    if missing:
        return memory[:0] if missing == len(values) else None
    return memory if len(values) == 1 else None


def chunk_memory(raw: RawLayout) -> NDArray[np.uint8]:
    """Return memory for a whole chunk; in huge pages, two megabytes would be taken for each range however short."""
    memory: NDArray[np.uint8] = empty(raw.nbytes, np.uint8)
    return memory


@lru_cache(maxsize=64)
def _bytes_pipeline(length: int) -> CodecPipeline:
    """Return the codecs of a range: bytes as they are."""
    zero = np.zeros((), np.uint8)
    return CodecPipeline.resolve([{"name": "bytes"}], ArraySpec((length,), zero.dtype, zero))
