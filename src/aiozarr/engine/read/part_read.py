"""The read of a part of an uncompressed chunk: runs of its bytes, each fetched like a chunk, and put together."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.codecs.raw_layout import RawLayout
from aiozarr.engine.plan.part_plan import PartPlan, Ranges
from aiozarr.engine.read.read import Read
from aiozarr.engine.request.fetch import ChunkFetch
from aiozarr.engine.request.flight import Flight, Sink
from aiozarr.engine.work.decode import Target
from aiozarr.engine.work.pool import Work
from aiozarr.errors import ChangedError, CodecError
from aiozarr.grid.axes import DimPart
from aiozarr.grid.projection import ChunkProjection, Part
from aiozarr.memory import empty
from aiozarr.model import Entry, Range, Value, Version
from aiozarr.schedule.call import Call
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.engine.desk import Desk
    from aiozarr.engine.job import Job
    from aiozarr.engine.read.job import ReadJob


def ranges_of_chunk(
    desk: Desk, parts: PartPlan, store: Store, settings: Settings, pipeline: CodecPipeline, part: Part
) -> Ranges | None:
    """Return the ranges to fetch of a chunk that is a stored object; None where all of it is fetched."""
    # Of chunks that are kept, all is wanted sooner or later.
    if pipeline.raw is None or settings.chunk_cache_bytes or not store.supports.partial_reads:
        return None
    return parts.ranges(part, pipeline, versioned=desk.tells_versions(store))


def fit_together(pipeline: CodecPipeline, entry: Entry, ranges: Ranges) -> bool:
    """Return whether ranges of the object `entry` are enough, or all of it is to be fetched."""
    assert pipeline.raw is not None
    return entry.size in (None, pipeline.raw.nbytes) and (entry.version is not None or len(ranges) == 1)


def ask_for_part(job: ReadJob, read: Read, key: str, sink: Sink) -> bool:
    """Send for what `sink` wants of a chunk, where that is less than all of it; return whether it is."""
    store, token = read.store, (read.token, key)
    pipeline = read.layout.object_of(sink.projection).pipeline
    ranges = ranges_of_chunk(job.desk, job.parts, store, job.settings, pipeline, sink.projection)
    if ranges is None or job.sharing.flies(token):
        return False

    def fetch_whole() -> None:
        job.want(read, key, sink.out, sink.projection)
        job.queue.offer(job)

    part = PartRead(job, store, key, sink, pipeline, ranges, fetch_whole)
    for flight, start, length in part.flights(token):
        job.push(PartFetch(job, store, key, Range(start, length), flight))
    if len(ranges) > 1:  # there are as many at work as there are stored objects
        job.queue.offer(job)
    return True


class PartFetch(ChunkFetch):
    """Fetch one range of a chunk, and keep what the answer tells of the chunk as a whole."""

    __slots__ = ("size", "version")

    def __init__(self, job: Job, store: Store, key: str, byte_range: Range, flight: Flight) -> None:
        assert byte_range.length is not None
        super().__init__(job, store, key, byte_range, [flight], cost=byte_range.length)
        flight.stop = byte_range.length
        self.size: int | None = None
        self.version: Version | None = None

    def _check(self) -> None:
        super()._check()
        if self.value is not None:
            self.size, self.version = self.value.size, self.value.version


class PartRead:
    """A part of one chunk, for one reader. A `Waiter` for the runs.

    The memory of the whole chunk is asked for and only what was fetched is touched, which is all that the system then
    gives.

    Args:
        job: the read.
        store, key: the stored object that the chunk is, or is in.
        sink: where the elements go, and what is wanted of the chunk; its waiter is told how that ended.
        pipeline: the chunk's codecs.
        ranges: the runs.
        refused: called in place of the sink's waiter where the runs do not fit together: the chunk is to be fetched
            whole. None: they are of one version, because they were asked for on that condition.
    """

    def __init__(
        self,
        job: ReadJob,
        store: Store,
        key: str,
        sink: Sink,
        pipeline: CodecPipeline,
        ranges: Ranges,
        refused: Callable[[], None] | None = None,
    ) -> None:
        assert pipeline.raw is not None
        self._job = job
        self._store = store
        self._key = key
        self._sink = sink
        self._pipeline = pipeline
        self._raw = pipeline.raw
        self._ranges = ranges
        self._refused = refused
        self._open = len(ranges)
        self._absent: list[str] = []
        self._error: BaseException | None = None
        self._answers: set[tuple[Version | None, int | None]] = set()
        self._bytes = _memory(self._raw)

    def flights(self, token: Hashable) -> list[tuple[Flight, int, int]]:
        """Return the runs that are not on their way yet, with start and length; `token` is that of the chunk."""
        begun = []
        for start, length in self._ranges:
            stop = start + length
            run = DimPart(0, slice(0, length), slice(start, stop), 0, 1, length, start, length)
            sink = Sink(self, self._bytes, ChunkProjection((run,)), self._job)
            flight = self._job.sharing.wait_for(self._job, sink, (token, start, length), _plain(length), keep=False)
            if flight is not None:
                begun.append((flight, start, length))
        return begun

    # --- as a waiter -----------------------------------------------------------------------------------------------

    def landed(self, sink: Sink) -> None:
        request = sink.flight.request if sink.flight is not None else None
        if isinstance(request, PartFetch):
            self._answers.add((request.version, request.size))
        self._close(sink)

    def failed(self, sink: Sink, error: BaseException) -> None:
        first = self._error is None
        self._error = self._error or error
        mends = isinstance(error, ChangedError) or (self._refused is not None and isinstance(error, CodecError))
        if first and not mends:
            self._sink.waiter.failed(self._sink, error)
        self._close(sink)

    @property
    def gave_up(self) -> bool:
        return self._job.stopped

    def missing(self, sink: Sink, key: str) -> BaseException | None:
        self._absent.append(key)
        return self._sink.waiter.missing(self._sink, key)

    def adopt(self, request: Call) -> None:
        """Send `request`, which another reader has left unsent."""
        self._job.adopt(request)

    def unpadded(self, sink: Sink) -> None:
        """Return None: a run that is cut off is no run."""

    def _close(self, sink: Sink) -> None:
        self._open -= 1
        if not self._open and not self._job.stopped:
            self._end()
        # Only now: without anything to wait for the job would have ended.
        self._job.sink_closed(sink, landed=False)

    def _end(self) -> None:
        """All runs have come, or failed."""
        error = self._error
        if error is not None:
            if self._refused is not None and isinstance(error, CodecError | ChangedError):
                self._refused()
            elif isinstance(error, ChangedError):
                self._sink.waiter.failed(self._sink, error)
        elif self._refused is not None and not self._fit():
            self._refused()
        elif 0 < len(self._absent) < len(self._ranges):
            reason = "the object was removed while it was being read"
            self._sink.waiter.failed(self._sink, ChangedError(reason, store=self._store.url, key=self._key))
        elif self._absent:
            self._job.fill([self._sink], self._pipeline.spec.fill_value, self._store)
        else:
            self._job.expect(self._sink)
            self._job.submit(Assemble(self._sink, self), self._store)

    def _fit(self) -> bool:
        """Return whether the runs are of one state of a chunk that is as long as it should be."""
        if self._absent:
            return len(self._absent) == len(self._ranges)
        if any(size not in (None, self._raw.nbytes) for _, size in self._answers):
            return False
        versions = {version for version, _ in self._answers}
        if None in versions and len(self._ranges) > 1:
            self._job.desk.versionless.add(self._store.identity)
            return False
        return len(versions) == 1

    def assemble(self) -> None:
        """Put the elements where they go; in a worker."""
        try:
            place_part(self._pipeline, self._bytes, self._sink)
        except CodecError as error:
            error.store, error.key = self._store.url, self._key
            raise


class Assemble(Work):
    """Put the elements of a part in place, once its runs are there."""

    __slots__ = ("part", "sink")

    def __init__(self, sink: Sink, part: PartRead) -> None:
        super().__init__(sink.projection.size * sink.out.dtype.itemsize)
        self.sink = sink
        self.part = part

    def run(self) -> None:
        self.part.assemble()

    def finished(self) -> None:
        if self.error is None:
            self.sink.waiter.landed(self.sink)
        else:
            self.sink.waiter.failed(self.sink, self.error)


def place_part(pipeline: CodecPipeline, memory: NDArray[np.uint8], target: Target) -> None:
    """Put elements where `target` wants them; `memory` is a chunk's, and holds those of its bytes that this takes.

    Raises:
        CodecError: they are no elements.
    """
    raw = pipeline.raw
    assert raw is not None
    target.projection.scatter(target.out, raw.load(target.projection.gather(raw.array_over(memory.data))))


def read_part(
    pipeline: CodecPipeline, ranges: Ranges, fetch: Callable[[Range], Value | None]
) -> NDArray[np.uint8] | None:
    """Return a chunk's memory with `ranges` filled by `fetch`, or empty if nothing is stored; in a worker.

    None: they are not of one state of a chunk of the right length, so it has to be read whole.
    """
    assert pipeline.raw is not None
    memory = _memory(pipeline.raw)
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


def _memory(raw: RawLayout) -> NDArray[np.uint8]:
    """Return memory for a whole chunk; in huge pages, two megabytes would be taken for each run however short."""
    memory: NDArray[np.uint8] = empty(raw.nbytes, np.uint8)
    return memory


@lru_cache(maxsize=64)
def _plain(length: int) -> CodecPipeline:
    """Return the codecs of a run: bytes as they are."""
    zero = np.zeros((), np.uint8)
    return CodecPipeline.resolve([{"name": "bytes"}], ArraySpec((length,), zero.dtype, zero))
