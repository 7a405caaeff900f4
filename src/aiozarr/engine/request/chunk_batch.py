"""Many inner chunks of one shard that one reader wants: one batch on the loop, until another reader wants one of them.

A large read of a shard takes thousands of inner chunks. An inner chunk that is joined, decoded and closed by itself
costs the loop 20 to 25 µs, as much as a worker needs to decode a small one, and readers hardly ever join one. With
batches the loop's time for a local shard fell from 85 to 33 ms per 512 MiB (`docs/design/004-reading-and-writing.md`).
"""

from __future__ import annotations

from abc import abstractmethod
from asyncio import CancelledError
from collections.abc import Hashable, Iterable, Sequence
from time import monotonic
from typing import Any, NamedTuple

from numpy.typing import NDArray

from aiozarr.codecs import CodecPipeline
from aiozarr.engine.request.chunk_requests import ChunkRequest
from aiozarr.engine.request.chunk_work_items import DecodeChunk
from aiozarr.engine.request.in_flight import InFlightChunk, Subscriber, Subscription
from aiozarr.engine.workers.decoder import EncodedChunks, thread_decoder
from aiozarr.engine.workers.worker_pool import BATCH_BYTES, WorkItem
from aiozarr.errors import CodecError, located
from aiozarr.grid.projection import ChunkSelection
from aiozarr.model import Range, Version
from aiozarr.stores.contract import Store

MIN_BATCH_CHUNKS = 16
"""Fewer inner chunks are subscribed to one by one."""


class BatchSubscriber(Subscriber):
    """Receives the outcome of a batch: of its chunks together, and of those that were split out."""

    @abstractmethod
    def batch_done(self, count: int, nbytes: int) -> None:
        """So many chunks are in place, with so many bytes of elements if there is a progress callback."""

    @abstractmethod
    def batch_failed(self, count: int, error: BaseException) -> None:
        """So many chunks are not, because of `error`."""


class WantedRange(NamedTuple):
    """A chunk that has subscribers, and its bytes in the object."""

    chunk: InFlightChunk
    start: int
    length: int


class InnerChunkBatches(dict[Hashable, "list[InnerChunkBatch]"]):
    """The batches in flight, by the share key of their object and version."""


class InnerChunkBatch:
    """Inner chunks of one version of one shard. Lives on the I/O loop.

    Args:
        table: where other readers find it.
        subscriber: the reader.
        out: the array that the elements go to.
        pipeline: the codecs of inner chunks.
        object_id: stands for the object and its version; with an index, for the chunk.
        indices: the linear indices of the chunks.
        parts: for each, the elements that are wanted.
        starts, lengths: for each, its bytes in the object.

    Attributes:
        wanted: the chunks as single ones, if they were split before requests were made.
        given_up: True if its reader does not wait any more.
    """

    __slots__ = (
        "_located",
        "_requests",
        "_share_key",
        "_table",
        "given_up",
        "indices",
        "lengths",
        "object_id",
        "operation",
        "out",
        "parts",
        "pipeline",
        "starts",
        "subscriber",
        "wanted",
    )

    def __init__(
        self,
        table: InnerChunkBatches,
        subscriber: BatchSubscriber,
        out: NDArray[Any],
        pipeline: CodecPipeline,
        object_id: Hashable,
        indices: Sequence[int],
        parts: Sequence[ChunkSelection],
        starts: Sequence[int],
        lengths: Sequence[int],
    ) -> None:
        self.operation = subscriber.operation
        self.subscriber = subscriber
        self.out = out
        self.pipeline = pipeline
        self.object_id = object_id
        self.indices = indices
        self.parts = parts
        self.starts = starts
        self.lengths = lengths
        self.wanted: list[WantedRange] | None = None
        self.given_up = False
        self._share_key = self.operation.share_key(object_id)
        self._requests: list[BatchRequest] = []
        self._located: dict[int, tuple[BatchRequest, int]] | None = None
        self._table = table
        table.setdefault(self._share_key, []).append(self)

    def set_requests(self, requests: list[BatchRequest]) -> None:
        """These requests fetch the chunks."""
        self._requests = requests

    def split_all(self) -> list[WantedRange]:
        """Make single chunks of all, before requests are made."""
        if self.wanted is None:
            chunks = [self.subscribed_chunk(number) for number in range(len(self.indices))]
            self.wanted = list(map(WantedRange, chunks, self.starts, self.lengths))
            self._close()
        return self.wanted

    def split_out(self, indices: Iterable[int]) -> None:
        """Make single chunks of those of `indices` that are in flight: another reader is about to join them."""
        if not self._requests:
            self.split_all()
            return
        if self._located is None:
            self._located = {
                self.indices[number]: (request, number) for request in self._requests for number in request.members
            }
        for index in indices:
            found = self._located.pop(index, None)
            if found is not None:
                request, number = found
                request.split_out(number)

    def subscribed_chunk(self, number: int) -> InFlightChunk:
        """Return a new single chunk that the batch's reader subscribes to."""
        subscription = Subscription(self.subscriber, self.out, self.parts[number])
        self.operation.track(subscription)
        return self.single_chunk(number, subscription)

    def single_chunk(self, number: int, subscription: Subscription | None = None) -> InFlightChunk:
        """Return a new single chunk."""
        operation = self.operation
        share_key = operation.share_key((self.object_id, self.indices[number]))
        return InFlightChunk(operation.in_flight, share_key, self.pipeline, subscription)

    def may_contain(self, key: str, identity: Hashable) -> bool:
        """Return whether its chunks may be of the object `key`, which has this identity."""
        return any(request.may_contain(key, identity) for request in self._requests) or not self._requests

    def request_ended(self, request: BatchRequest) -> None:
        """One of its requests has ended."""
        self._requests.remove(request)
        self._located = None
        if not self._requests:
            self._close()

    def give_up(self) -> None:
        """Its reader does not wait any more. Readers that have joined a chunk do."""
        self.given_up = True
        self._close()
        for request in list(self._requests):
            request.give_up()

    def _close(self) -> None:
        """Let no reader join any more."""
        batches = self._table.get(self._share_key, [])
        if self in batches:
            batches.remove(self)
            if not batches:
                del self._table[self._share_key]


class BatchRequest(ChunkRequest):
    """Fetch one range of a shard, and hand its inner chunks to the workers.

    Attributes:
        batch: the batch.
        members: the chunks that were not split out, by their numbers in the batch.
    """

    __slots__ = ("_late", "_pieces", "batch", "members")

    def __init__(
        self,
        batch: InnerChunkBatch,
        store: Store,
        key: str,
        start: int,
        length: int,
        members: Sequence[int],
        version: Version | None,
    ) -> None:
        super().__init__(batch.operation, store, key, Range(start, length), [], cost=length, if_match=version)
        self.batch = batch
        self.members = dict.fromkeys(members)
        self.wanted_chunks = 1
        self._pieces: list[DecodeBatch] | None = None  # once they are with the workers
        self._late: dict[int, InFlightChunk] = {}

    def split_out(self, number: int) -> None:
        """Another reader is about to join a chunk."""
        if number not in self.members or number in self._late:
            return
        if self._pieces is not None:
            # It is decoded once more for late readers: its bytes are here until its piece is decoded.
            chunk = self._late[number] = self.batch.single_chunk(number)
            chunk.decoding_started = True
        else:
            chunk = self.batch.subscribed_chunk(number)
            self.chunks.append(chunk)
            del self.members[number]
            self.wanted_chunks += bool(self.members)
        chunk.request = self
        chunk.start, chunk.stop = self.bounds_of(number)

    def bounds_of(self, number: int) -> tuple[int, int]:
        """Return where a chunk begins and ends in the answer."""
        start = self.batch.starts[number] - (self.start or 0)
        return start, start + self.batch.lengths[number]

    def bounds_of_all(self, members: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return where chunks begin in the answer, and where they end."""
        first, lengths, starts = self.start or 0, self.batch.lengths, self.batch.starts
        begins = [starts[number] - first for number in members]
        return begins, [begin + lengths[number] for begin, number in zip(begins, members, strict=True)]

    def give_up(self) -> None:
        """The reader has left: chunks without other readers are not wanted, unless workers have them."""
        if self._pieces is not None or not self.members:
            return
        self.members.clear()
        self.chunk_abandoned()
        self.batch.operation.await_cancelled(self)

    def wanted_bytes(self, fetched: int) -> int:
        return super().wanted_bytes(fetched) + sum([self.batch.lengths[number] for number in self.members])

    def start_decoding(self) -> list[WorkItem]:
        works = super().start_decoding()
        size = max(1, BATCH_BYTES // max(1, self.batch.pipeline.spec.nbytes))
        members = list(self.members)
        self._pieces = [DecodeBatch(self, members[first : first + size]) for first in range(0, len(members), size)]
        self.undecoded += len(self._pieces)
        self.batch.operation.decoding += len(self._pieces)
        return [*works, *self._pieces]

    def attach_bytes(self, works: Sequence[WorkItem]) -> None:
        super().attach_bytes(works)
        if self.value is not None:
            view = memoryview(self.value.data)
            for piece in self._pieces or ():
                piece.data = view

    def piece_decoded(self, piece: DecodeBatch) -> None:
        """A worker has finished with a piece."""
        batch, error = self.batch, piece.error
        for number in piece.members:
            del self.members[number]
            chunk = self._late.pop(number, None) if self._late else None
            if chunk is not None:
                chunk.subscriptions = chunk.pop_late()
                self.undecoded += 1
                data = None if piece.data is None else piece.data[slice(*self.bounds_of(number))]
                self.submit(DecodeChunk(self, chunk, data))
        batch.operation.decoding -= 1
        if error is None:
            batch.subscriber.batch_done(len(piece.members), piece.nbytes)
        else:
            batch.subscriber.batch_failed(len(piece.members), error)
        self.chunk_closed()

    def close(self) -> None:
        # Batch and request refer to each other, and to the reader's array.
        self._pieces = []
        self.batch.request_ended(self)
        super().close()

    def fail(self, error: BaseException) -> None:
        count = len(self.members)
        self.members.clear()
        self.batch.operation.decoding -= len(self._pieces or ())
        late, self._late = self._late, {}
        for chunk in late.values():
            chunk.table.close(chunk)
            chunk.fail(error)
        super().fail(error)
        if count:
            self.batch.subscriber.batch_failed(count, error)


class DecodeBatch(WorkItem):
    """Decode some of the inner chunks that a request has fetched, one after the other."""

    __slots__ = ("data", "members", "nbytes", "request", "seconds")

    def __init__(self, request: BatchRequest, members: Sequence[int]) -> None:
        super().__init__(len(members) * request.batch.pipeline.spec.nbytes)
        self.request = request
        self.members = members
        self.data: memoryview | None = None
        self.nbytes = 0
        self.seconds: tuple[float, float] | None = None

    def run(self) -> None:
        request, batch = self.request, self.request.batch
        begun = 0.0 if request.timing is None else monotonic()
        parts = [batch.parts[number] for number in self.members]
        if self.data is None:
            self._fill(parts)
        else:
            self._decode(self.data, parts)
        if request.timing is not None:
            self.seconds = (begun, monotonic())
        if batch.operation.has_progress:
            self.nbytes = sum([part.size for part in parts]) * batch.out.dtype.itemsize

    def _fill(self, parts: Sequence[ChunkSelection]) -> None:
        batch = self.request.batch
        for part in parts:
            self._check_stopped()
            error = batch.subscriber.missing_error(self.request.key)
            if error is not None:
                raise error
            part.fill(batch.out, batch.pipeline.spec.fill_value)

    def _decode(self, data: memoryview, parts: Sequence[ChunkSelection]) -> None:
        batch = self.request.batch
        chunks = EncodedChunks(data, *self.request.bounds_of_all(self.members))
        thread_decoder(batch.pipeline).decode_chunks(
            chunks, batch.out, parts, on_error=self._locate, check=self._check_stopped
        )

    def _locate(self, number: int, error: CodecError) -> None:
        batch, member = self.request.batch, self.members[number]
        with located(
            store=self.request.store_url, key=self.request.key, range=Range(batch.starts[member], batch.lengths[member])
        ):
            raise error

    def _check_stopped(self) -> None:
        if self.request.batch.operation.stopped:
            raise CancelledError

    def finished(self) -> None:
        timing = self.request.timing
        if timing is not None and self.seconds is not None:
            timing.decoded(*self.seconds, chunks=len(self.members))
        self.request.piece_decoded(self)
        self.data = None
