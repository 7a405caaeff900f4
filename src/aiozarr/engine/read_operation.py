"""A read of one caller: the walk over its stored objects, its subscriptions, its counts, its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from aiozarr.codecs import CodecPipeline
from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.engine.decoder import ChunkOutput
from aiozarr.engine.fetch_request import FetchRequest, ObjectRequest
from aiozarr.engine.in_flight import (
    DEFAULT_OUTCOME_KEY,
    ChunkSet,
    CopyChunk,
    Subscription,
    outcome_key,
)
from aiozarr.engine.operation import MAX_PENDING_LOCATED, Operation, OriginRequests
from aiozarr.engine.prefault import MIN_OUTPUT_BYTES, OutputPrefaulter, head_extent
from aiozarr.engine.read import Read, StreamBlocks
from aiozarr.engine.state import EngineState
from aiozarr.errors import MissingChunkError
from aiozarr.grid.projection import ChunkSelection
from aiozarr.schedule.events import Report
from aiozarr.schedule.requests import RequestQueue, ScheduledRequest
from aiozarr.settings import Settings
from aiozarr.stores.capabilities import LocatingStore, Location, locate, locate_prepared
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.common.progress import Progress
    from aiozarr.engine.partial_plan import PartialChunkPlanner
    from aiozarr.engine.shard_index import IndexFetch, OnIndex

MAX_COPYING = 256
"""Cached chunks that one read has before the workers; it begins no more before half of them are in place."""

MAX_EAGER_OBJECTS = 64
"""A read of no more stored objects lets other readers join all of them from its beginning. At first, as many requests
may be in flight."""


class ReadOperation(Operation):
    """Reads of one caller from the stores behind one queue. Lives on the I/O loop.

    Args:
        state: the shared state of the I/O thread.
        reads: the reads.
        steps: yields a function for each stored object, or batch of them, which begins it.
        blocks: where the elements of each stored object go; None: to their places in the output of the read.

    Attributes:
        has_cache: True if decoded chunks are cached.
        index_fetches: the shard indexes that the read waits for, by the function that receives each.
        merge_limits: limits of merging ranges.
        begun: stored objects that were begun.
        bytes_left: bytes of the chunks of blocking reads that were not begun, also if only a part of them is selected.
        may_locate: True if a store may keep chunks in other objects than those under their keys.
        sorting: shards whose points are being sorted; no more at a time than there are threads.
    """

    def __init__(
        self,
        state: EngineState,
        reads: Sequence[Read],
        steps: Callable[[ReadOperation, Sequence[Read]], Iterator[Callable[[], object]]],
        *,
        settings: Settings,
        report: Report | None,
        progress: Callable[[Progress], None] | None = None,
        blocks: StreamBlocks | None = None,
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
        self.stores_without_versions = state.stores_without_versions
        self.merge_limits = self.queue.merge_limits(settings)
        self.begun = self.sorting = 0
        self.bytes_left = sum([len(read.parts) * read.layout.largest.spec.nbytes for read in reads])
        self._steps = steps(self, reads)
        self._blocks = blocks
        self._cache = state.chunk_caches.of(settings.chunk_cache_bytes)
        self.has_cache = self._cache is not None
        self._missing = tuple([read.missing for read in reads if read.missing is not None])
        self._outcome_key = None if (key := outcome_key(settings)) == DEFAULT_OUTCOME_KEY else key
        self._chunks_done = self._cached = self._copying = 0
        self._subscriptions: set[Subscription] = set()
        self.index_fetches: dict[OnIndex, IndexFetch] = {}
        self._blocking_reads: set[ObjectRequest] = set()
        self._store = reads[0].store
        self.may_locate = any([isinstance(read.store, LocatingStore) for read in reads])
        self._lookups: set[asyncio.Task[None]] = set()
        self._other_queues: dict[int, OriginRequests] = {}  # by the queue of another origin
        fresh = [read.fresh for read in reads if read.fresh is not None and read.fresh.nbytes >= MIN_OUTPUT_BYTES]
        self._prefault: OutputPrefaulter | None = None
        if fresh:
            # Only reads from memory and local files wait for the pages.
            head_bytes = head_extent(reads[0].out, reads[0].parts) if self.queue.is_blocking else 0
            self._prefault = OutputPrefaulter(state.pool, fresh, head_bytes)

    @fork_safe_cached_property
    def partial_planner(self) -> PartialChunkPlanner:
        """Decides which chunks are read in part."""
        from aiozarr.engine.partial_plan import partial_planner

        return partial_planner(self.merge_limits, self.queue.is_blocking)

    # --- the walk ---------------------------------------------------------------------------------------------------

    def start_eagerly(self) -> None:
        """Begin all of a small read at once, so that readers of the same chunks can join it before its turn comes.

        A large read begins an object when a request can be sent, and others can join it from then on.
        """
        if self._prefault is not None:
            self._prefault.begin(on_done=self.check_end, on_head_ready=self.resume)
        if self.queue.is_blocking or self.total > MAX_EAGER_OBJECTS:
            return
        try:
            while self.begun < self.total and self._may_begin() and (step := next(self._steps, None)) is not None:
                step()
        except Exception as error:
            self.stop(error)

    def next_request(self) -> ScheduledRequest | None:
        if self._prefault is not None and self._prefault.delays_reads:
            return None
        while not self.stopped:
            if not self._may_begin():
                return None
            step = next(self._steps, None)
            if step is None:
                break
            step()
            if self._ready:
                return self._ready.popleft()
        self.check_end()
        return None

    def _may_begin(self) -> bool:
        """Return whether another object may be begun, and would not only hold up others."""
        return (
            (self._blocks is None or self._blocks.has_room())
            and self.sorting < self.pool.threads
            and self.pending_ranges < self.max_pending_ranges
            and len(self._lookups) < self.max_pending_ranges
            and not (self._other_queues and self._waits_for_origins())
            and self._copying < MAX_COPYING
        )

    @property
    def makes_blocks(self) -> bool:
        """Whether the elements of each stored object go to an array of their own."""
        return self._blocks is not None

    def has_room(self) -> bool:
        """Return whether there is room for the elements of another stored object."""
        return self._blocks is None or self._blocks.has_room()

    def target(self, read: Read, part: ChunkSelection) -> ChunkOutput:
        """Return the array that a stored object's elements go to, and their places in it."""
        return ChunkOutput(read.out, part) if self._blocks is None else self._blocks.target(read, part)

    def pending(self) -> int:
        return len(self._ready) + self.total - self.begun

    # --- located chunks ---------------------------------------------------------------------------------------------

    def begin_located(self, store: Store, key: str, begin: Callable[[Location | None], None]) -> None:
        """Call `begin` with the location of a stored object, or later if a request has to find it first."""
        if not isinstance(store, LocatingStore):
            begin(None)
            return
        self.max_pending_ranges = MAX_PENDING_LOCATED
        try:
            location = locate(store, key)
        except LookupError:
            lookup = asyncio.get_running_loop().create_task(store.prepare(key))
        else:
            begin(location)
            return

        def completed(task: asyncio.Task[None]) -> None:
            self._lookups.discard(task)
            # An error is raised by the request for the key.
            if not task.cancelled() and not self.stopped:
                task.exception()
                try:
                    begin(locate_prepared(store, key))
                except Exception as error:
                    self.stop(error)
                self.resume()
            self.end_wait()

        self.begin_wait()
        self._lookups.add(lookup)
        lookup.add_done_callback(completed)

    def queue_for(self, store: Store) -> RequestQueue:
        return self.queue if store is self._store else self.state.queue_for(store)

    def enqueue(self, request: ScheduledRequest) -> None:
        queue = request.queue if self.may_locate and isinstance(request, ObjectRequest) else self.queue
        if queue is self.queue:
            self._ready.append(request)
            return
        origin = self._other_queues.get(id(queue))
        if origin is None:
            origin = self._other_queues[id(queue)] = OriginRequests(self, queue)
        origin.add(request)

    def _waits_for_origins(self) -> bool:
        """Return whether enough requests wait for other origins; further ones would only take memory."""
        return any(origin.is_full for origin in self._other_queues.values())

    # --- chunks -----------------------------------------------------------------------------------------------------

    def share_key(self, object_id: Hashable) -> Hashable:
        """Return the key by which readers with the same settings share the requests for an object."""
        return object_id if self._outcome_key is None else (object_id, self._outcome_key)

    def serve_cached(self, subscription: Subscription, chunk_id: Hashable, store: Store) -> bool:
        """Have the elements of one chunk copied if it is cached; return whether it is. Only if `has_cache`."""
        assert self._cache is not None
        oldest = asyncio.get_running_loop().time() - self.settings.chunk_cache_seconds
        values = self._cache.use(chunk_id, oldest)
        if values is None:
            return False
        self._subscriptions.add(subscription)
        self._copying += 1
        self._cached += 1
        self.pool.submit(CopyChunk(subscription, values, store, self._copied), self.fairness_key)
        return True

    def _copied(self) -> None:
        self._copying -= 1
        if self._copying in (0, MAX_COPYING // 2):
            self.resume()

    def join(self, subscription: Subscription, share_key: Hashable, position: int, *, cached: bool) -> bool:
        """Join the chunk at a position of an object if it is in flight; return whether it is."""
        entry = self.state.in_flight.find(share_key, position)
        if entry is None:
            return False
        chunk_set, number = entry
        chunk_set.join(subscription, number)
        self.note_join()
        self._subscriptions.add(subscription)
        self.shared += 1
        if cached and self._cache is not None:
            self._add_cache(chunk_set)
        return True

    def new_chunk_set(
        self,
        subscription: Subscription,
        share_key: Hashable,
        pipeline: CodecPipeline,
        object_id: Hashable,
        positions: Sequence[int] = (0,),
        starts: Sequence[int] = (),
        lengths: Sequence[int] = (),
        *,
        cached: bool,
    ) -> ChunkSet:
        """Return a set of chunks that are not in flight. The caller must request their bytes.

        `cached`: they may go to the cache, because their ids say whether they are still stored like that.
        """
        self._subscriptions.add(subscription)
        in_flight = self.state.in_flight
        chunk_set = ChunkSet(in_flight, share_key, pipeline, subscription, object_id, positions, starts, lengths)
        if cached and self._cache is not None:
            self._add_cache(chunk_set)
        return chunk_set

    def _add_cache(self, chunk_set: ChunkSet) -> None:
        """Have the chunks of `chunk_set` cached if their sizes are known, which excludes strings and other objects."""
        cache, spec = self._cache, chunk_set.pipeline.spec
        if cache is None or cache in chunk_set.caches or spec.is_variable or spec.dtype.hasobject:
            return
        if cache.fits(spec.nbytes):
            chunk_set.caches = (*chunk_set.caches, cache)

    def await_blocking(self, request: ObjectRequest) -> None:
        """Do not end before this batch of chunks of a blocking store has ended."""
        self._blocking_reads.add(request)

    # --- outcomes ---------------------------------------------------------------------------------------------------

    def subscription_completed(self, subscription: Subscription) -> None:
        """Note an outcome of a subscription; after the last one the read does not wait for it any more."""
        if not subscription.left:
            self._subscriptions.discard(subscription)
        if self.stopped:
            self.check_end()

    def add_chunks(self, chunks: int, nbytes: int) -> None:
        """Count chunks that are in place, with `nbytes` of elements."""
        self._chunks_done += chunks
        if self.has_progress:
            self.report_progress(nbytes)

    def objects_completed(self, outs: Sequence[NDArray[Any]], chunks: int = 0, nbytes: int = 0) -> None:
        """Count stored objects, and the last of their chunks: `outs` have all their elements.

        The last object ends the read.
        """
        self.done += len(outs)
        if self._blocks is not None:
            for out in outs:
                self._blocks.add(out)
        self.add_chunks(chunks, nbytes)
        if self.done == self.total:
            if self._prefault is not None:
                self._prefault.stop()
            self.check_end()

    def blocking_read_completed(
        self, request: ObjectRequest, outputs: Sequence[ChunkOutput], error: BaseException | None
    ) -> None:
        """Take the chunks of a blocking store that a worker has read."""
        self._blocking_reads.discard(request)
        if error is not None:
            self.stop(error)
        elif self.stopped:
            self.check_end()
        else:
            nbytes = 0
            if self.has_progress:
                nbytes = sum([each.projection.size * each.out.dtype.itemsize for each in outputs])
            self.objects_completed([output.out for output in outputs], len(outputs), nbytes)

    def note_missing(self, store: Store, key: str) -> BaseException | None:
        """Return the error for an object that is not stored; None to read the fill value. Any thread."""
        for keys in self._missing:
            keys.add(key)
        if self.settings.missing_chunks == "fill":
            return None
        return MissingChunkError(
            f"the chunk {key!r} is not stored, and Settings.missing_chunks is 'raise' (store {store.url})",
            store=store.url,
            key=key,
        )

    # --- the end ----------------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        if self._prefault is not None:
            self._prefault.stop()
        for blocking_read in self._blocking_reads:
            self.queue.cancel(blocking_read)
        for on_completed, fetch in self.index_fetches.items():
            fetch.leave(on_completed)
        self.index_fetches.clear()
        for subscription in list(self._subscriptions):
            if subscription.chunk_set is not None:
                subscription.chunk_set.leave(subscription)
                if not subscription.left:
                    self._subscriptions.discard(subscription)
        for lookup in self._lookups:
            lookup.cancel()
        ready = list(self._ready)
        self._ready.clear()
        for origin in self._other_queues.values():
            ready += origin.take_all()
        for request in ready:
            # Requests that other operations wait for are left to them.
            owner = request.handler.next_owner() if isinstance(request, FetchRequest) else None
            if owner is None:
                request.completed(asyncio.CancelledError())
            else:
                owner.enqueue(request)
                owner.resume()

    def leave_queues(self) -> None:
        self.queue.unregister(self)
        for origin in self._other_queues.values():
            origin.queue.unregister(origin)
        self._other_queues.clear()

    def is_idle(self) -> bool:
        if self._subscriptions or self.index_fetches or self._blocking_reads or self._awaited:
            return False
        return self._prefault is None or not self._prefault.under_way

    def add_to_report(self) -> None:
        if self.report is not None:
            # A stopped read has not received all that it subscribed to.
            cached = min(self._cached, self._chunks_done)
            shared = min(self.shared, self._chunks_done - cached)
            self.report.operation(chunks=self._chunks_done, shared=shared, cached=cached)
