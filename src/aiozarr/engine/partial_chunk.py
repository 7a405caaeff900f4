"""A part of an uncompressed chunk: ranges of its bytes, each fetched like a chunk, and put together."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.chunk_layouts import RawLayout
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.engine.decoder import ChunkOutput
from aiozarr.engine.fetch_request import FetchRequest
from aiozarr.engine.in_flight import ChunkSet, Subscriber, Subscription
from aiozarr.engine.partial_plan import PartialChunkPlanner, Ranges
from aiozarr.engine.read_operation import ReadOperation
from aiozarr.engine.state import EngineState
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


class PartialChunk(Subscriber[ReadOperation]):
    """The bytes of a chunk that a read needs.

    The memory of the whole chunk is allocated, and only the ranges are touched: the system gives no more.

    Args:
        operation: the read.
        store: the store of the chunk.
        pipeline: the chunk's codecs, which leave its bytes as they are.
        ranges: the ranges.
        on_completed: called when all ranges have their outcome, with the first error.
        is_object: whether the chunk is a stored object, whose size and version are checked.
    """

    def __init__(
        self,
        operation: ReadOperation,
        store: Store,
        pipeline: CodecPipeline,
        ranges: Ranges,
        on_completed: Callable[[BaseException | None], object],
        *,
        is_object: bool = False,
    ) -> None:
        assert pipeline.raw is not None
        self.operation = operation
        self._store = store
        self._pipeline = pipeline
        self._nbytes = pipeline.raw.nbytes if is_object else None
        self._ranges = ranges
        self._on_completed = on_completed
        self._memory = chunk_memory(pipeline.raw)
        self._left = len(ranges)
        self._missing = 0
        self._states: set[tuple[object, int | None]] = set()  # versions and sizes of the object, of all ranges
        self._error: BaseException | None = None

    def subscribe(self, chunk_id: Hashable, start: int) -> list[ChunkSet]:
        """Subscribe to the ranges of the chunk that begins at `start` of its object.

        Returns: those that are not in flight yet.
        """
        operation = self.operation
        new = []
        for first, length in self._ranges:
            whole = AxisSelection(0, slice(0, length), slice(first, first + length), 0, 1, length, first, length)
            subscription = Subscription(self, self._memory, (ChunkProjection((whole,)),))
            share_key = operation.share_key((chunk_id, first, length))
            if not operation.join(subscription, share_key, 0, cached=False):
                pipeline = _bytes_pipeline(length)
                places = ((0,), (start + first,), (length,))
                new.append(operation.new_chunk_set(subscription, share_key, pipeline, None, *places, cached=False))
        return new

    def chunks_completed(
        self, subscription: Subscription, count: int, nbytes: int, error: BaseException | None
    ) -> None:
        chunk_set = subscription.chunk_set
        if error is None and chunk_set is not None and chunk_set.deliveries:
            request = chunk_set.deliveries[0].request
            if isinstance(request, FetchRequest):
                self._states.add((request.version, request.size))
        self._error = self._error or error
        self._left -= 1
        if not self._left:
            self._on_completed(self._error)
        self.operation.subscription_completed(subscription)

    def note_missing(self, key: str) -> BaseException | None:
        self._missing += 1
        return self.operation.note_missing(self._store, key)

    def is_one_version(self, state: EngineState) -> bool:
        """Return whether the ranges are of one version of a chunk of the right length, or all missing."""
        if self._missing:
            return self._missing == len(self._ranges)
        if self._nbytes is not None and any(size not in (None, self._nbytes) for _, size in self._states):
            return False
        versions = {version for version, _ in self._states}
        if None in versions and len(self._ranges) > 1:
            state.stores_without_versions.add(self._store.identity)
            return False
        return len(versions) == 1

    def place(self, output: ChunkOutput, on_completed: Callable[[BaseException | None], object]) -> None:
        """Have a worker copy the elements to `output`. `on_completed` is called with its error, or None."""
        if self._missing:
            place: Callable[[], None] = partial(output.projection.fill, output.out, self._pipeline.spec.fill_value)
        else:
            place = partial(place_partial, self._pipeline, self._memory, output)
        nbytes = output.projection.size * output.out.dtype.itemsize
        self.operation.call_in_worker(place, on_completed, nbytes, self._store.url)


def place_partial(pipeline: CodecPipeline, memory: NDArray[np.uint8], target: ChunkOutput) -> None:
    """Copy elements to the places of `target`, from the memory of a chunk that holds their bytes.

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
