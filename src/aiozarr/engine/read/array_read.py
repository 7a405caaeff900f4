"""The walk of a read over its plan: stored objects are begun one by one, as the queue has room."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from aiozarr.codecs import CodecPipeline
from aiozarr.engine.blocking_queue import MAX_BATCH_REQUESTS
from aiozarr.engine.progress import Progress
from aiozarr.engine.read.blocking_read import BlockingRead
from aiozarr.engine.read.read import Read
from aiozarr.engine.read.read_operation import MAX_COPYING, ChunkOutput, ReadOperation
from aiozarr.engine.request.in_flight import MAX_PENDING_RANGES, InFlightChunk, Subscriber, Subscription
from aiozarr.engine.request.object_request import FetchRequest
from aiozarr.engine.state import EngineState
from aiozarr.errors import ChecksumError
from aiozarr.grid.projection import ChunkSelection
from aiozarr.schedule.events import Report
from aiozarr.schedule.queue import ScheduledRequest
from aiozarr.settings import Settings

MAX_EAGER_OBJECTS = 64
"""A read of no more stored objects lets other readers join all of them from its beginning. At first, as many requests
may be in flight."""

MAX_STARTING = 64
"""Coroutines of stored objects that are created before the first of them has begun and asked for a request."""


class ArrayRead(ReadOperation):
    """Reads of one caller from the stores behind one queue, with their plan.

    Attributes:
        sorting: shards whose points are being sorted; no more at a time than there are threads.
    """

    def __init__(
        self,
        state: EngineState,
        reads: Sequence[Read],
        *,
        settings: Settings,
        report: Report | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        super().__init__(state, reads, settings=settings, report=report, progress=progress)
        self.sorting = 0
        self._begun = 0
        self._plan: Iterator[tuple[WholeChunks, ChunkSelection]] = (
            (chunks, part) for chunks in [WholeChunks(self, read) for read in reads] for part in chunks.read.parts
        )
        self._put_back: tuple[WholeChunks, ChunkSelection] | None = None
        self._is_planned = False
        self._bytes_left = self.bytes_total

    def start_eagerly(self) -> None:
        """Begin all of a small read at once: readers of the same chunks join it, however late its turn comes.

        A large one begins what it has requests for, and others join that.
        """
        super().start_eagerly()
        if self.queue.is_blocking or self.total > MAX_EAGER_OBJECTS:
            return
        try:
            while self.may_begin() and not self._is_busy and (step := self._next_step()) is not None:
                self._begun += 1
                self._begin(*step)
        except Exception as error:
            self.stop(error)

    def next_request(self) -> ScheduledRequest | None:
        if self.delays_reads:
            return None
        while not self.stopped:
            if self._ready:
                return self._ready.popleft()
            if not self.may_begin() or self._is_busy:
                return None
            step = self._next_step()
            if step is None:
                self._is_planned = True
                break
            if self.queue.is_blocking and step[0].read.layout.shard is None and not self.has_cache:
                if self.total == 1 and self._join_blocking(*step):
                    continue
                return self._blocking_read(*step)
            self._begun += 1
            self._begin(*step)
        self.check_end()
        return None

    def pending(self) -> int:
        return len(self._ready) + self.total - self._begun

    def is_complete(self) -> bool:
        return self._is_planned and not self._ready

    def _next_step(self) -> tuple[WholeChunks, ChunkSelection] | None:
        step, self._put_back = self._put_back, None
        return step or next(self._plan, None)

    @property
    def _is_busy(self) -> bool:
        """True if so much is in progress besides requests that further objects would only hold up others."""
        return (
            self.sorting >= self.pool.threads
            or self.starting >= MAX_STARTING
            or self.pending_ranges >= MAX_PENDING_RANGES
            or self._copying >= MAX_COPYING
        )

    # --- hooks of streams -------------------------------------------------------------------------------------------

    def may_begin(self) -> bool:
        """Return whether another stored object may be begun."""
        return True

    def target(self, read: Read, part: ChunkSelection) -> tuple[NDArray[Any], ChunkSelection]:
        """Return the array that a stored object's elements go to, and their place in it."""
        return read.out, part

    def object_completed(self, out: NDArray[Any]) -> None:
        pass

    # --- stored objects ---------------------------------------------------------------------------------------------

    def _begin(self, chunks: WholeChunks, part: ChunkSelection) -> None:
        read = chunks.read
        key = read.prefix + read.layout.key_of(part)
        out, placed = self.target(read, part)
        if read.layout.shard is not None:
            from aiozarr.engine.read.shard_read import ShardRead

            shard = ShardRead(self, read.layout, read.store, key, out, placed)
            self.sorting += shard.is_long
            self.start(shard.read)
            return
        pipeline = read.layout.largest.pipeline
        if pipeline.raw is None or not self._begin_partial(chunks, key, out, placed):
            chunks.request(key, out, placed)

    def _begin_partial(self, chunks: WholeChunks, key: str, out: NDArray[Any], part: ChunkSelection) -> bool:
        """Read a part of a chunk, if that is cheaper than all of it; return whether it is."""
        from aiozarr.engine.read.partial_chunk import ranges_of_chunk, read_partial_chunk

        read, chunk_id = chunks.read, (chunks.read.token, key)
        pipeline = read.layout.object_of(part).pipeline
        ranges = ranges_of_chunk(self.state, self.partial_planner, read.store, self.settings, pipeline, part)
        if ranges is None or self.is_in_flight(chunk_id):
            return False

        async def read_part() -> None:
            if await read_partial_chunk(self, read.store, key, chunk_id, pipeline, ranges, out, part):
                self.object_done(out)
            else:
                chunks.request(key, out, part)
                self.resume()

        self.start(read_part)
        return True

    def sorting_ended(self) -> None:
        self.sorting -= 1
        self.resume()

    # --- blocking stores --------------------------------------------------------------------------------------------

    def _join_blocking(self, chunks: WholeChunks, part: ChunkSelection) -> bool:
        """Join the only chunk of this read if another read of one chunk has it in flight; return whether it has."""
        chunk_id = chunks.chunk_id(part)
        if not self.is_in_flight(chunk_id):
            return False
        self._begun += 1
        chunks.request(chunk_id[1], *self.target(chunks.read, part))
        return True

    def _blocking_read(self, chunks: WholeChunks, part: ChunkSelection) -> BlockingRead:
        """Return a request for as many chunks of one array as make a batch."""
        read = chunks.read
        layout = read.layout
        nbytes = layout.object_of(part).spec.nbytes
        outputs = [ChunkOutput(*self.target(read, part))]
        # The last batches are small: all threads are finished at about the same time.
        batch_bytes = self.queue.batch_bytes(self._bytes_left)
        room = batch_bytes - nbytes
        while room > 0 and len(outputs) < MAX_BATCH_REQUESTS and self.may_begin():
            step = self._next_step()
            if step is None or step[0] is not chunks:
                self._put_back = step
                break
            if layout.single is None:
                nbytes = layout.object_of(step[1]).spec.nbytes
            outputs.append(ChunkOutput(*self.target(read, step[1])))
            room -= nbytes
        self._begun += len(outputs)
        self._bytes_left -= batch_bytes - room
        request = BlockingRead(self, read, outputs, batch_bytes - room)
        if self.total == 1:
            chunk_id = chunks.chunk_id(part)
            pipeline = layout.object_of(part).pipeline
            request.share(chunk_id[1], InFlightChunk(self.in_flight, self.share_key(chunk_id), pipeline))
        self.await_blocking(request)
        return request


class WholeChunks(Subscriber):
    """The chunks of one read that are fetched whole.

    A chunk whose checksum does not match is fetched once more: bytes can be damaged on the way.
    """

    def __init__(self, operation: ReadOperation, read: Read) -> None:
        self.operation = self._read_operation = operation
        self.read = read
        self._repeated: dict[str, FetchRequest] = {}

    def chunk_id(self, part: ChunkSelection) -> tuple[Hashable, str]:
        """Return the id of a chunk that is a stored object: that of the array, and the key."""
        return self.read.token, self.read.prefix + self.read.layout.key_of(part)

    def request(self, key: str, out: NDArray[Any], part: ChunkSelection) -> None:
        """Have a whole chunk fetched, unless it is cached or in flight."""
        operation, read = self._read_operation, self.read
        chunk_id = (read.token, key)
        pipeline = read.layout.object_of(part).pipeline
        subscription = Subscription(self, out, part)
        if operation.serve_cached(subscription, chunk_id):
            return
        chunk = operation.subscribe(subscription, chunk_id, pipeline)
        if chunk is not None:
            operation.enqueue_chunks(read.store, key, None, [chunk], pipeline.spec.nbytes)

    def chunk_done(self, subscription: Subscription) -> None:
        self._read_operation.object_done(subscription.out)
        self._read_operation.subscription_ended(subscription, is_done=True)

    def chunk_failed(self, subscription: Subscription, error: BaseException) -> None:
        operation = self._read_operation
        operation.forget(subscription)
        request = subscription.chunk.request if subscription.chunk is not None else None
        may_repeat = isinstance(error, ChecksumError) and not operation.stopped
        if may_repeat and request is not None and self._is_first_damaged(request):
            operation.ready_at = operation.now()
            self.request(request.key, subscription.out, subscription.projection)
            operation.resume()
        else:
            operation.stop(error)

    def request_again(self, subscription: Subscription, key: str) -> None:
        operation = self._read_operation
        operation.forget(subscription)
        if not operation.stopped:
            operation.ready_at = operation.now()
            self.request(key, subscription.out, subscription.projection)
        operation.resume()

    def _is_first_damaged(self, request: FetchRequest) -> bool:
        """Return whether `request` is the first for its key with damaged bytes; several subscriptions may say so."""
        return self._repeated.setdefault(request.key, request) is request

    def missing_error(self, key: str) -> BaseException | None:
        return self._read_operation.missing_error(self.read.store, key)

    def unpadded(self, subscription: Subscription) -> CodecPipeline | None:
        return self.read.layout.unpadded(subscription.projection)
