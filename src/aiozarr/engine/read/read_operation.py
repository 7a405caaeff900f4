"""A read as its requests and coroutines know it: its subscriptions, its tasks, its counts, its end."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from aiozarr.codecs import CodecPipeline
from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.engine.plan.multipart_plan import NO_SPLIT, split_limit
from aiozarr.engine.progress import Progress
from aiozarr.engine.read.read import Read
from aiozarr.engine.request.chunk_batch import BatchSubscriber, InnerChunkBatch
from aiozarr.engine.request.chunk_requests import ChunkRequest
from aiozarr.engine.request.chunk_work_items import CopyCached, FillChunks
from aiozarr.engine.request.in_flight import (
    DEFAULT_OUTCOME_KEY,
    ChunkOperation,
    InFlightChunk,
    Subscription,
    outcome_key,
)
from aiozarr.engine.request.object_request import FetchRequest, ObjectRequest
from aiozarr.engine.state import EngineState
from aiozarr.engine.workers.prefault import MIN_OUTPUT_BYTES, OutputPrefaulter, head_extent
from aiozarr.engine.workers.worker_pool import WorkItem
from aiozarr.errors import MissingChunkError
from aiozarr.grid.projection import ChunkSelection
from aiozarr.model import Range, Version
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.engine.plan.partial_plan import PartialChunkPlanner

MAX_COPYING = 256
"""Cached chunks that one read has before the workers; it begins no more before half of them are in place."""


def can_be_cached(pipeline: CodecPipeline) -> bool:
    """Return whether the size of a decoded chunk is known: objects, such as strings, have theirs elsewhere."""
    return not (pipeline.spec.is_variable or pipeline.spec.dtype.hasobject)


class ChunkOutput(NamedTuple):
    """The elements of one chunk that are wanted, and the array they go to."""

    out: NDArray[Any]
    projection: ChunkSelection


class ReadOperation(ChunkOperation):
    """Reads of one caller from the stores behind one queue. Lives on the I/O loop.

    Attributes:
        state: the shared state of the I/O thread.
        merge_limits: limits of merging ranges.
        cached: chunks that came from the cache.
        starting: coroutines that have not begun yet.
        batches: batches of inner chunks that its coroutines wait for.
    """

    def __init__(
        self,
        state: EngineState,
        reads: Sequence[Read],
        *,
        settings: Settings,
        report: Report | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        super().__init__(
            state.pool,
            state.queue_for(reads[0].store),
            settings=settings,
            report=report,
            progress=progress,
            total=sum([len(read.parts) for read in reads]),
            bytes_total=sum([read.out.nbytes for read in reads]),
        )
        self.state = state
        self.in_flight = state.in_flight
        self.merge_limits = self.queue.merge_limits(settings)
        self.shared = self.cached = 0
        self.pending_ranges = 0
        self.decoding = 0
        self.starting = 0
        self.batches: set[InnerChunkBatch] = set()
        self._ready = deque()
        self._cache = state.chunk_caches.of(settings.chunk_cache_bytes)
        self._missing = tuple([read.missing for read in reads if read.missing is not None])
        self._outcome_key = None if (key := outcome_key(settings)) == DEFAULT_OUTCOME_KEY else key
        # Parts of a file would all be read by the same disk.
        self._multipart_bytes = NO_SPLIT if self.queue.is_blocking else settings.max_request_bytes
        self._chunks_done = 0
        self._copying = 0
        self._subscriptions: set[Subscription] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._requests: set[ObjectRequest] = set()
        fresh = [read.fresh for read in reads if read.fresh is not None and read.fresh.nbytes >= MIN_OUTPUT_BYTES]
        self._prefault: OutputPrefaulter | None = None
        if fresh:
            # Only reads from memory and local files wait for the pages.
            head_bytes = head_extent(reads[0].out, reads[0].parts) if self.queue.is_blocking else 0
            self._prefault = OutputPrefaulter(state.pool, fresh, head_bytes)

    @fork_safe_cached_property
    def partial_planner(self) -> PartialChunkPlanner:
        """Decides which chunks are read in part."""
        from aiozarr.engine.plan.partial_plan import partial_planner

        return partial_planner(self.merge_limits, self.queue.is_blocking)

    def start_eagerly(self) -> None:
        if self._prefault is not None:
            self._prefault.begin(on_done=self.check_end, on_head_ready=self.resume)

    @property
    def delays_reads(self) -> bool:
        """True until the first pages of a new output are present, for reads from memory and local files."""
        return self._prefault is not None and self._prefault.delays_reads

    # --- chunks -----------------------------------------------------------------------------------------------------

    @property
    def has_cache(self) -> bool:
        """True if decoded chunks are cached."""
        return self._cache is not None

    def share_key(self, chunk_id: Hashable) -> Hashable:
        return chunk_id if self._outcome_key is None else (chunk_id, self._outcome_key)

    def is_in_flight(self, chunk_id: Hashable) -> bool:
        """Return whether the chunk is being fetched."""
        return self.share_key(chunk_id) in self.in_flight

    def serve_cached(self, subscription: Subscription, chunk_id: Hashable) -> bool:
        """Have the elements copied if the chunk is cached; return whether it is."""
        if self._cache is None:
            return False
        oldest = asyncio.get_running_loop().time() - self.settings.chunk_cache_seconds
        values = self._cache.get(chunk_id, oldest)
        if values is None:
            return False
        self.track(subscription)
        self._copying += 1
        self.cached += 1
        self.pool.submit(_CopyToRead(self, subscription, values), self.fairness_key)
        return True

    def copied(self) -> None:
        """The elements of a cached chunk are in place."""
        self._copying -= 1
        if self._copying in (0, MAX_COPYING // 2):
            self.resume()

    def subscribe(
        self, subscription: Subscription, chunk_id: Hashable, pipeline: CodecPipeline, *, cached: bool = True
    ) -> InFlightChunk | None:
        """Join the chunk if it is in flight; else return it as new: its bytes are still to be fetched.

        `cached`: it may go to the cache, because its id says whether it is still stored like that.
        """
        self._subscriptions.add(subscription)
        share_key = chunk_id if self._outcome_key is None else (chunk_id, self._outcome_key)
        found = self.in_flight.get(share_key)
        if found is None:
            chunk = InFlightChunk(self.in_flight, share_key, pipeline, subscription)
        else:
            chunk = found
            chunk.join(subscription)
            self.shared += 1
        cache = self._cache
        if cache is not None and cached and can_be_cached(pipeline) and cache.fits(pipeline.spec.nbytes):
            if chunk.caches is None:
                chunk.caches = {}
            chunk.caches[cache] = chunk_id
        return chunk if found is None else None

    def enqueue_chunks(
        self,
        store: Store,
        key: str,
        byte_range: Range | None,
        chunks: list[InFlightChunk],
        cost: int,
        if_match: Version | None = None,
    ) -> None:
        if cost > self._multipart_bytes and len(chunks) == 1 and (byte_range is None or if_match is not None):
            limit = split_limit(store, self.settings) if self.state.has_versions(store) else NO_SPLIT
            if limit < cost:
                from aiozarr.engine.request.multipart_request import MultipartRequest

                without_versions = self.state.stores_without_versions
                request = MultipartRequest(
                    self,
                    store,
                    key,
                    byte_range,
                    chunks[0],
                    cost=cost,
                    part_bytes=limit,
                    if_match=if_match,
                    stores_without_versions=without_versions,
                )
                if byte_range is not None:
                    request.note_ready(self.now())
                request.enqueue()
                return
        fetch = ChunkRequest(self, store, key, byte_range, chunks, cost=cost, if_match=if_match)
        if byte_range is not None:
            fetch.note_ready(self.now())
        self.enqueue(fetch)

    def track(self, subscription: Subscription) -> None:
        self._subscriptions.add(subscription)

    def subscription_ended(self, subscription: Subscription, *, is_done: bool) -> None:
        """A subscription has ended; `is_done`: the elements of a chunk are in place."""
        self._subscriptions.discard(subscription)
        if is_done:
            self._chunks_done += 1
            if self.has_progress:
                self.report_progress(subscription.nbytes)
        # A read whose objects are not all done has more to wait for.
        if self.stopped or self.done == self.total:
            self.check_end()

    def forget(self, subscription: Subscription) -> None:
        """Do not wait for `subscription` any more, which has failed."""
        self._subscriptions.discard(subscription)

    def add_done(self, chunks: int, nbytes: int) -> None:
        """So many chunks are in place, with so many bytes of elements."""
        self._chunks_done += chunks
        self.report_progress(nbytes)

    def object_done(self, out: NDArray[Any]) -> None:
        """All elements of a stored object are in `out`."""
        self.done += 1
        self.object_completed(out)

    @abstractmethod
    def object_completed(self, out: NDArray[Any]) -> None:
        """All elements of a stored object are in `out`: pass them on."""

    @abstractmethod
    def sorting_ended(self) -> None:
        """The points of a shard are sorted by inner chunk, or will not be."""

    def await_blocking(self, request: ObjectRequest) -> None:
        """Do not end before a batch of chunks of a blocking store has."""
        self._requests.add(request)

    def blocking_read_done(
        self, request: ObjectRequest, outputs: Sequence[ChunkOutput], error: BaseException | None
    ) -> None:
        """A worker has finished with a batch of chunks of a blocking store."""
        self._requests.discard(request)
        if error is not None:
            self.stop(error)
            return
        if not self.stopped:
            self.done += len(outputs)
            for output in outputs:
                self.object_completed(output.out)
            nbytes = 0
            if self.has_progress:
                nbytes = sum([each.projection.size * each.out.dtype.itemsize for each in outputs])
            self.add_done(len(outputs), nbytes)
        self.check_end()

    def missing_error(self, store: Store, key: str) -> BaseException | None:
        """Return the error for an object that is not stored; None to read the fill value. Any thread."""
        for keys in self._missing:
            keys.add(key)
        if self.settings.missing == "fill":
            return None
        return MissingChunkError(
            f"the chunk {key!r} is not stored, and Settings.missing is 'raise' (store {store.url})",
            store=store.url,
            key=key,
        )

    # --- workers and coroutines -------------------------------------------------------------------------------------

    def fill(self, subscriptions: Sequence[Subscription], fill_value: NDArray[Any], store: Store) -> None:
        """Have the fill value written: `store` holds nothing for these."""
        self._subscriptions.update(subscriptions)
        self.submit(FillChunks(subscriptions, fill_value), store)

    def submit(self, work: WorkItem, store: Store) -> None:
        """Have a worker do `work` on elements of an array in `store`, which belongs to no request."""
        self.pool.submit(work if self.observer is None else self.observer.timed(work, store.url), self.fairness_key)

    def start(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the coroutine of one stored object. An error stops the read, and the end of the read cancels it."""
        self.starting += 1
        task = asyncio.get_running_loop().create_task(self._run_coroutine(function))
        self._tasks.add(task)
        task.add_done_callback(self._coroutine_ended)

    async def _run_coroutine(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.starting -= 1
        if not self.starting:
            # It has waited for these before it begins further objects.
            self.resume()
        await function()

    def _coroutine_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None:
            self.check_end()
        else:
            try:
                self.stop(error)
            finally:
                error = None  # its traceback leads to the coroutine, which holds this read

    # --- the end ----------------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        if self._prefault is not None:
            self._prefault.stop()
        for request in list(self._requests):
            request.cancel()
        for batch in self.batches:
            # Not by their coroutines, which end later: a stopped read sends no requests, and others would join them.
            batch.give_up()
        for subscription in list(self._subscriptions):
            self._leave(subscription)
        for task in self._tasks:
            task.cancel()
        self.abandon_ready()

    def _leave(self, subscription: Subscription) -> None:
        chunk = subscription.chunk
        if chunk is None or chunk.decoding_started:
            return  # a worker has it, for a moment
        chunk.subscriptions.remove(subscription)
        self._subscriptions.discard(subscription)
        if not chunk.subscriptions:
            chunk.table.close(chunk)
            if chunk.request is not None:
                chunk.request.chunk_abandoned()
                self.await_cancelled(chunk.request)

    def await_cancelled(self, request: FetchRequest) -> None:
        if request.cancelled and request not in self._requests:
            self._requests.add(request)
            request.on_closed(partial(self._cancelled, request))

    def _cancelled(self, request: FetchRequest) -> None:
        self._requests.discard(request)
        self.check_end()

    def is_idle(self) -> bool:
        if self._subscriptions or self._tasks or self._requests or self.decoding:
            return False
        if self._prefault is None:
            return True
        if self.is_complete():
            self._prefault.stop()
        return not self._prefault.under_way

    def add_to_report(self) -> None:
        if self.report is not None:
            # A stopped read has not received all that it subscribed to.
            cached = min(self.cached, self._chunks_done)
            shared = min(self.shared, self._chunks_done - cached)
            self.report.operation(chunks=self._chunks_done, shared=shared, cached=cached)


class _CopyToRead(CopyCached):
    """As `CopyCached`, for a read that begins further objects when few copies are left."""

    __slots__ = ("operation",)

    def __init__(self, operation: ReadOperation, subscription: Subscription, values: NDArray[Any]) -> None:
        super().__init__(subscription, values)
        self.operation = operation

    def finished(self) -> None:
        super().finished()
        self.operation.copied()


class ChunkGroup(BatchSubscriber):
    """Subscriptions of one coroutine.

    Args:
        operation: the read.
        store: the store of the chunks.
        retried: errors that are raised when all other chunks have ended, because the coroutine reads them again.
    """

    def __init__(self, operation: ReadOperation, store: Store, retried: tuple[type[Exception], ...]) -> None:
        self.operation = self._read_operation = operation
        self._store = store
        self._retried = retried
        self._open = 0
        self._error: BaseException | None = None
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add(self, out: NDArray[Any], part: ChunkSelection) -> Subscription:
        """Return a subscription whose outcome is awaited."""
        self._open += 1
        return Subscription(self, out, part)

    def expect(self, count: int) -> None:
        """Await the outcome of so many chunks more; `ended` reports it."""
        self._open += count

    async def wait(self) -> None:
        """Wait until all have ended; raise the first error."""
        if self._open:
            await self._future
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback holds this frame

    def ended(self, count: int, error: BaseException | None = None) -> None:
        """So many chunks have ended, well or with `error`."""
        self._open -= count
        if self._future.done():
            # The coroutine has its error or was cancelled. Another error would refer to this group by its traceback.
            return
        if self._error is None:
            self._error = error
        is_over = not self._open or (error is not None and not isinstance(error, self._retried))
        if is_over:
            if error is not None and not isinstance(error, self._retried):
                self._error = error
            self._future.set_result(None)

    # --- outcomes ---------------------------------------------------------------------------------------------------

    def chunk_done(self, subscription: Subscription) -> None:
        self._read_operation.subscription_ended(subscription, is_done=True)
        self.ended(1)

    def chunk_failed(self, subscription: Subscription, error: BaseException) -> None:
        self._read_operation.subscription_ended(subscription, is_done=False)
        self.ended(1, error)

    def batch_done(self, count: int, nbytes: int) -> None:
        self._read_operation.add_done(count, nbytes)
        self.ended(count)
        self._read_operation.check_end()

    def batch_failed(self, count: int, error: BaseException) -> None:
        self.ended(count, error)
        self._read_operation.check_end()

    def missing_error(self, key: str) -> BaseException | None:
        return self._read_operation.missing_error(self._store, key)
