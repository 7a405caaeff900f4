"""The objects of a read: each chunk is fetched whole or in part, each shard by its index, local chunks in batches.

A read that is streamed hands out its blocks as they are complete, a bounded number of them ahead of the consumer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from numpy.typing import NDArray

from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.common.concurrency import cancel_and_wait
from aiozarr.engine.blocking_queue import MAX_BATCH_REQUESTS
from aiozarr.engine.blocking_read import BlockingRead
from aiozarr.engine.decoder import ChunkOutput
from aiozarr.engine.fetch_request import ObjectRequest
from aiozarr.engine.in_flight import ChunkSet, Subscriber, Subscription
from aiozarr.engine.read import Read, StreamBlocks
from aiozarr.engine.read_operation import ReadOperation
from aiozarr.engine.state import EngineState
from aiozarr.errors import ChangedError, ChecksumError, CodecError, StoreError
from aiozarr.grid.projection import ChunkSelection, CoreRegion
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores.capabilities import Location


def read_steps(operation: ReadOperation, reads: Sequence[Read]) -> Iterator[Callable[[], object]]:
    """Yield a function for each stored object of `reads`, or batch of them, that begins to read it."""
    for read in reads:
        if read.layout.shard is not None:
            for part in read.parts:
                yield partial(_begin_shard, operation, read, part)
            continue
        chunks = WholeChunks(operation, read)
        if not operation.queue.is_blocking or operation.has_cache:
            begin = chunks.begin
            for part in read.parts:
                yield partial(begin, part)
            continue
        parts = iter(read.parts)
        for part in parts:
            if operation.total == 1 and chunks.join_only(part):
                return
            yield partial(_blocking_read, operation, chunks, part, parts)


def _begin_shard(operation: ReadOperation, read: Read, part: ChunkSelection) -> None:
    from aiozarr.engine.shard_read import ShardRead

    operation.begun += 1
    key = read.prefix + read.layout.key_of(part)
    shard = ShardRead(operation, read.layout, read.store, key, operation.target(read, part))
    if operation.may_locate:
        operation.begin_located(read.store, key, shard.begin)
    else:
        shard.begin()


def _blocking_read(
    operation: ReadOperation, chunks: WholeChunks, part: ChunkSelection, parts: Iterator[ChunkSelection]
) -> None:
    """Request `part` and as many of `parts` as make a batch."""
    read, layout = chunks.read, chunks.read.layout
    # The last batches are small: all threads are finished at about the same time.
    batch_bytes = operation.queue.batch_bytes(operation.bytes_left)
    nbytes = layout.object_of(part).spec.nbytes
    room = batch_bytes - nbytes
    outputs = [operation.target(read, part)]
    if layout.single is not None and not operation.makes_blocks:
        following = islice(parts, min(-(-max(0, room) // max(1, nbytes)), MAX_BATCH_REQUESTS - 1))
        outputs += [ChunkOutput(read.out, part) for part in following]
        room -= nbytes * (len(outputs) - 1)
    else:
        while room > 0 and len(outputs) < MAX_BATCH_REQUESTS and operation.has_room():
            other = next(parts, None)
            if other is None:
                break
            room -= layout.object_of(other).spec.nbytes
            outputs.append(operation.target(read, other))
    operation.begun += len(outputs)
    operation.bytes_left -= batch_bytes - room
    request = BlockingRead(operation, read, outputs, batch_bytes - room)
    if operation.total == 1:
        key, chunk_id = chunks.key_of(part), chunks.chunk_id(part)
        pipeline = layout.object_of(part).pipeline
        share_key = operation.share_key(chunk_id)
        request.share(key, ChunkSet(operation.state.in_flight, share_key, pipeline, None, chunk_id))
    operation.await_blocking(request)
    operation.enqueue(request)


class WholeChunks(Subscriber[ReadOperation]):
    """The chunks of one read that are stored objects.

    A chunk whose checksum does not match is fetched once more: bytes can be damaged on the way.
    """

    def __init__(self, operation: ReadOperation, read: Read) -> None:
        self.operation = operation
        self.read = read
        self._repeated: dict[str, ObjectRequest] = {}

    def key_of(self, part: ChunkSelection) -> str:
        """Return the key of a chunk."""
        return self.read.prefix + self.read.layout.key_of(part)

    def chunk_id(self, part: ChunkSelection) -> tuple[object, str]:
        """Return the id of a chunk, which consists of the id of the array and the key."""
        return self.read.array_id, self.key_of(part)

    def begin(self, part: ChunkSelection) -> None:
        """Read a part of a chunk, if that is cheaper than all of it, else all of it."""
        operation, read = self.operation, self.read
        operation.begun += 1
        key = self.key_of(part)
        output = operation.target(read, part)
        if operation.may_locate:
            operation.begin_located(read.store, key, partial(self._begin, key, output))
        else:
            self._begin(key, output)

    def _begin(self, key: str, output: ChunkOutput, location: Location | None = None) -> None:
        raw = self.read.layout.largest.pipeline.raw
        # A chunk that costs no more than the gap that a request reads over is fetched whole.
        is_whole = raw is None or raw.nbytes <= self.operation.merge_limits.gap
        if is_whole or not self._begin_partial(key, output, location):
            self.request(key, output, location)

    def _begin_partial(self, key: str, output: ChunkOutput, location: Location | None) -> bool:
        from aiozarr.engine.partial_chunk import PartialChunk, ranges_of_chunk

        operation, read = self.operation, self.read
        store = read.store if location is None else location.store
        chunk_id = (read.array_id, key)
        pipeline = read.layout.object_of(output.projection).pipeline
        if location is not None and pipeline.raw is not None and location.length != pipeline.raw.nbytes:
            return False
        ranges = ranges_of_chunk(
            operation.state, operation.partial_planner, store, operation.settings, pipeline, output.projection
        )
        if ranges is None or operation.share_key(chunk_id) in operation.state.in_flight:
            return False

        def completed(error: BaseException | None) -> None:
            is_uncertain = error is None and not chunk.is_one_version(operation.state)
            if operation.stopped:
                pass
            elif is_uncertain or isinstance(error, ChangedError | CodecError) or operation.has_inherited(error):
                self._locate_again(key, output)
            elif error is not None:
                self._stop(error, key)
            else:
                chunk.place(output, placed)

        def placed(error: BaseException | None) -> None:
            if error is not None:
                if isinstance(error, CodecError):
                    error.store, error.key = read.store.url, key
                operation.stop(error)
                return
            nbytes = output.projection.size * output.out.dtype.itemsize
            operation.objects_completed((output.out,), 1, nbytes)

        chunk = PartialChunk(operation, store, pipeline, ranges, completed, is_object=location is None)
        for chunk_set in chunk.subscribe(chunk_id, 0 if location is None else location.start):
            if location is not None:
                self._coalesce(chunk_set, location)
                continue
            slices = ((chunk_set, (0,)),)
            operation.state.coalescer.request(
                operation, store, key, chunk_set.byte_range(0), slices, chunk_set.lengths[0]
            )
        operation.resume()
        return True

    def request(self, key: str, output: ChunkOutput, location: Location | None = None) -> None:
        """Have a whole chunk fetched, from its `location` if it has one, unless it is cached or in flight."""
        operation, read = self.operation, self.read
        chunk_id = (read.array_id, key)
        pipeline = read.layout.object_of(output.projection).pipeline
        subscription = Subscription(self, output.out, (output.projection,))
        if operation.has_cache and operation.serve_cached(subscription, chunk_id, read.store):
            return
        limit = pipeline.max_stored_size
        if location is not None and limit is not None and location.length > limit:
            location = None  # the error of a request by its key is clearer
        share_key = operation.share_key(chunk_id)
        if share_key in operation.state.in_flight and operation.join(subscription, share_key, 0, cached=True):
            return
        if location is not None:
            places = ((0,), (location.start,), (location.length,))
            self._coalesce(
                operation.new_chunk_set(subscription, share_key, pipeline, chunk_id, *places, cached=True), location
            )
        else:
            chunk_set = operation.new_chunk_set(subscription, share_key, pipeline, chunk_id, cached=True)
            slices, nbytes = ((chunk_set, (0,)),), pipeline.spec.nbytes
            operation.state.coalescer.request(operation, read.store, key, None, slices, nbytes)

    def _coalesce(self, chunk_set: ChunkSet, location: Location) -> None:
        operation, store = self.operation, location.store
        merge_id = store.object_identity(location.key)
        operation.state.coalescer.add(operation, store, location.key, merge_id, None, [chunk_set])

    def _stop(self, error: BaseException, key: str) -> None:
        """Stop the read; an error about the target of a reference names the chunk, too."""
        if isinstance(error, StoreError) and error.target is not None:
            error.store, error.key = self.read.store.url, key
        self.operation.stop(error)

    def join_only(self, part: ChunkSelection) -> bool:
        """Join the only chunk of this read if another read of one chunk has it in flight; return whether it has."""
        operation, chunk_id = self.operation, self.chunk_id(part)
        if operation.share_key(chunk_id) not in operation.state.in_flight:
            return False
        operation.begun += 1
        self.request(chunk_id[1], operation.target(self.read, part))
        return True

    def _locate_again(self, key: str, output: ChunkOutput) -> None:
        self.operation.begin_located(self.read.store, key, partial(self.request, key, output))
        self.operation.resume()

    def chunks_completed(
        self, subscription: Subscription, count: int, nbytes: int, error: BaseException | None
    ) -> None:
        operation = self.operation
        if error is None:
            operation.subscription_completed(subscription)
            operation.objects_completed((subscription.out,), count, nbytes)
            return
        chunk_set = subscription.chunk_set
        request = chunk_set.deliveries[0].request if chunk_set is not None and chunk_set.deliveries else None
        may_repeat = isinstance(error, ChecksumError) and not operation.stopped
        key = self.key_of(subscription.parts[0])
        is_damaged = may_repeat and request is not None and self._is_first_damaged(key, request)
        if is_damaged or operation.has_inherited(error):
            self.request_again(subscription, key)
        else:
            self._stop(error, key)
            operation.subscription_completed(subscription)

    def request_again(self, subscription: Subscription, key: str) -> None:
        operation = self.operation
        if not operation.stopped:
            operation.ready_at = operation.queue.now()
            self._locate_again(key, ChunkOutput(subscription.out, subscription.parts[0]))
        subscription.left = 0
        operation.subscription_completed(subscription)
        operation.resume()

    def _is_first_damaged(self, key: str, request: ObjectRequest) -> bool:
        """Return whether `request` is the first for `key` with damaged bytes; several subscriptions may say so."""
        return self._repeated.setdefault(key, request) is request

    def note_missing(self, key: str) -> BaseException | None:
        return self.operation.note_missing(self.read.store, key)

    def unpadded(self, projection: ChunkSelection) -> CodecPipeline | None:
        return self.read.layout.unpadded(projection)


class BlockStream:
    """The blocks of one read, in the order in which they are complete. Lives on the I/O thread."""

    def __init__(
        self, state: EngineState, read: Read, *, settings: Settings, prefetch: int | None, report: Report | None
    ) -> None:
        queue = self._queue = StreamBlocks(settings, prefetch)
        self._operation = ReadOperation(state, [read], read_steps, settings=settings, report=report, blocks=queue)
        self._task: asyncio.Task[None] | None = None

    async def next(self) -> tuple[CoreRegion, NDArray[Any]] | None:
        """Return the next block and its region of the read's result; None after the last.

        Raises:
            StoreError, CodecError, MissingChunkError: the read has failed; nothing is in flight any more.
        """
        operation, queue = self._operation, self._queue
        if self._task is None:
            self._task = asyncio.ensure_future(operation.run())
            self._task.add_done_callback(lambda _: queue.arrived.set())
        while not queue.blocks:
            if self._task.done():
                self._task.result()
                return None
            queue.arrived.clear()
            await queue.arrived.wait()
        waited = not queue.has_room()
        block = queue.pop()
        if waited:
            operation.ready_at = operation.queue.now()
        operation.resume()
        return block

    async def aclose(self) -> None:
        """Stop the read and wait for its end."""
        self._queue.blocks.clear()
        if self._task is not None:
            await cancel_and_wait(self._task)
