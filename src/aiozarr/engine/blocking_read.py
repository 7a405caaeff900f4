"""Chunks of one array in a blocking store: read, decoded and scattered by a worker, many per hand-over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, takewhile
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.engine.blocking_queue import FILES_OF_TURN
from aiozarr.engine.decoder import ChunkOutput, EncodedChunks, decode_unpadded, encoded_buffer, thread_decoder
from aiozarr.engine.fetch_request import ObjectRequest, is_missing_status
from aiozarr.engine.in_flight import ChunkDelivery, ChunkSet
from aiozarr.engine.read import Read
from aiozarr.engine.read_operation import ReadOperation
from aiozarr.errors import ChecksumError, CodecError, LimitError, StoreError, located
from aiozarr.model import Range, Value
from aiozarr.schedule.events import RequestEvent
from aiozarr.stores.blocking import BlockingStore

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")


class BlockingRead(ObjectRequest):
    """A batch of chunks, which costs the loop as much as one chunk. Other readers can join a batch of one chunk.

    Attributes:
        outputs: the chunks that are wanted.
        fetched: bytes that were read.
    """

    __slots__ = (
        "_at",
        "_batched",
        "_events",
        "_is_bounded",
        "_operation",
        "_read",
        "_shared",
        "_whole",
        "fetched",
        "outputs",
    )

    def __init__(self, operation: ReadOperation, read: Read, outputs: Sequence[ChunkOutput], nbytes: int) -> None:
        super().__init__(operation, read.store, "", nbytes)
        self.outputs = outputs
        self.fetched = 0
        self.is_full_batch = len(outputs) > 1
        self._operation = operation
        self._read = read
        self._is_bounded = read.store.has_bounded_reads
        self._at = 0
        # Chunks that are read and decoded together, without an observer: as little as possible is done for each.
        single = read.layout.single
        is_plain = single is not None and single.pipeline.raw is None and self.timing is None
        self._batched = single.pipeline if single is not None and is_plain and len(outputs) > 1 else None
        # For those that join: the chunk, and its object once it is read, with None if it is not stored.
        self._shared: ChunkSet | None = None
        self._whole: tuple[Buffer | None] | None = None
        self._events: list[RequestEvent] = []  # for the observer, which is called on the loop

    def share(self, key: str, chunk: ChunkSet) -> None:
        """Let other reads join the only chunk of this read, stored under `key`. They get it when this read ends."""
        # If this read is cancelled before a worker begins it, they request the key.
        self.key = key
        self._shared = chunk

    async def send(self) -> None:
        raise AssertionError("requests to blocking stores are sent by workers")

    def send_blocking(self, store: BlockingStore) -> None:
        # A repetition goes on with the chunk that failed, or the first of its batch.
        while self._at < len(self.outputs) and not self.cancelled:
            done = self._read_batch(store, self._batched) if self._batched is not None else 0
            if not done:
                self._read_one(store, self.outputs[self._at])
            self._at += done or 1

    def _read_one(self, store: BlockingStore, output: ChunkOutput) -> None:
        self._set_key(output)
        part = self._fetch_part(store, output)
        if part is None:
            data = self._fetch_data(store, output)
            self._whole = (data,)
        else:
            data = part.data if part.size else None
        if self.timing is None:
            self._place(store, data, output, part)
        else:
            self._place_timed(store, data, output, part)

    def _read_batch(self, store: BlockingStore, pipeline: CodecPipeline) -> int:
        """Read and decode the next chunks together; return how many, or 0 if the next one must be read by itself."""
        decoder = thread_decoder(pipeline)
        if not decoder.max_batch:
            return 0
        out = self.outputs[self._at].out
        outputs = self.outputs[self._at : self._at + decoder.max_batch]
        if self._operation.makes_blocks:
            outputs = list(takewhile(lambda output: output.out is out, outputs))
        parts = [output.projection for output in outputs]
        batch = decoder.plan_batch(out, parts)
        if batch is None:
            return 0
        outputs = outputs[: batch.count]
        prefix, encode_key = self._read.prefix, self._read.layout.key_encoding.encode
        keys = [prefix + encode_key(output.projection.coords) for output in outputs]
        buffer, sizes, nbytes = encoded_buffer(), list[int | None](), 0
        while len(sizes) < len(keys) and not self.cancelled:
            some = keys[len(sizes) : len(sizes) + FILES_OF_TURN]
            read_some = partial(self._read_values, store, some, buffer[nbytes:])
            found = self._operation.state.blocking_queue.file_turns.take(read_some, len(some))
            sizes += found
            nbytes += sum(filter(None, found))
            if len(found) < len(some):
                break
        stored = [output for output, size in zip(outputs, sizes, strict=False) if size is not None]
        missing = [output for output, size in zip(outputs, sizes, strict=False) if size is None]
        stops = [0, *accumulate([size for size in sizes if size is not None])]
        data = buffer[:nbytes]
        # As they were planned, unless one was missing or too large.
        planned = len(stored) == batch.count
        if stored and not (planned and decoder.decode_batch(data, stops[:-1], batch)):

            def retry_damaged(number: int, error: CodecError) -> None:
                self._set_key(stored[number])
                self._retry_damaged(store, data[stops[number] : stops[number + 1]], stored[number], error)

            decoder.decode_chunks(
                EncodedChunks(data, stops[:-1], stops[1:]),
                out,
                [output.projection for output in stored],
                on_error=retry_damaged,
            )
        for output in missing:
            self._set_key(output)
            self._fill(store, output)
        return len(stored) + len(missing)

    def _set_key(self, output: ChunkOutput) -> None:
        self.key = self._read.prefix + self._read.layout.key_of(output.projection)

    def _read_values(self, store: BlockingStore, keys: Sequence[str], memory: memoryview) -> list[int | None]:
        sizes: list[int | None] = []
        while True:
            try:
                wanted = takewhile(lambda _: not self.cancelled, keys[len(sizes) :])
                store._read_values_now(wanted, memory[sum(filter(None, sizes)) :], sizes)
            except StoreError as error:
                self.key = keys[len(sizes)]
                if not is_missing_status(error, self.settings):
                    raise
                sizes.append(None)
            else:
                return sizes

    def _read_object(self, read: Callable[[str], T | None]) -> T | None:
        try:
            return read(self.key)
        except StoreError as error:
            if not is_missing_status(error, self.settings):
                raise
            return None

    def _fill(self, store: BlockingStore, output: ChunkOutput) -> None:
        if (error := self._operation.note_missing(store, self.key)) is not None:
            raise error
        output.projection.fill(output.out, self._read.layout.spec.fill_value)

    def _fetch_part(self, store: BlockingStore, output: ChunkOutput) -> NDArray[np.uint8] | None:
        """Return the wanted bytes of a chunk, none if it is not stored; None if all of it is read."""
        pipeline = self._read.layout.object_of(output.projection).pipeline
        if pipeline.raw is None:
            return None
        from aiozarr.engine.partial_chunk import ranges_of_chunk, read_ranges

        ranges = ranges_of_chunk(
            self._operation.state, self._operation.partial_planner, store, self.settings, pipeline, output.projection
        )
        return None if ranges is None else read_ranges(pipeline, ranges, partial(self._ask, store))

    def _fetch_data(self, store: BlockingStore, output: ChunkOutput) -> Buffer | None:
        # Variable-length chunks have no bound, and some stores take none.
        most = self._read.layout.object_of(output.projection).pipeline.max_stored_size if self._is_bounded else None
        bound: dict[str, Any] = {} if most is None else {"max_bytes": most}
        if self.timing is None:
            return self._read_object(partial(store._read_now, **bound))
        value = self._fetch_timed(store, None, **bound)
        return None if value is None else value.data

    def _ask(self, store: BlockingStore, part: Range) -> Value | None:
        return self._fetch(store, part) if self.timing is None else self._fetch_timed(store, part)

    def _place(
        self, store: BlockingStore, data: Buffer | None, output: ChunkOutput, part: NDArray[np.uint8] | None
    ) -> None:
        if data is None:
            self._fill(store, output)
        elif part is None:
            self._decode(store, data, output)
        else:
            from aiozarr.engine.partial_chunk import place_partial

            with located(store=self.store_url, key=self.key):
                place_partial(self._read.layout.object_of(output.projection).pipeline, part, output)

    def _fetch(self, store: BlockingStore, part: Range | None, **bound: Any) -> Value | None:
        value = self._read_object(partial(store.fetch_now, range=part, **bound))
        if value is not None:
            self.fetched += memoryview(value.data).nbytes
        return value

    def _fetch_timed(self, store: BlockingStore, part: Range | None, **bound: Any) -> Value | None:
        """As `_fetch`, with an event for the observer."""
        assert self.timing is not None
        failure: BaseException | None = None
        before, begun = self.fetched, monotonic()
        try:
            return self._fetch(store, part, **bound)
        except (StoreError, LimitError) as error:
            failure = error
            raise
        finally:
            size, seconds = self.fetched - before, monotonic() - begun
            self._events.append(
                RequestEvent(
                    operation="fetch",
                    store=self.store_url,
                    key=self.key,
                    range=part,
                    bytes_wanted=size,
                    bytes_fetched=size,
                    seconds=seconds,
                    attempts=1,
                    error=failure,
                    started=begun,
                    queue_seconds=begun - self.timing.ready,
                )
            )

    def _place_timed(
        self, store: BlockingStore, data: Buffer | None, output: ChunkOutput, part: NDArray[np.uint8] | None
    ) -> None:
        """As `_place`, with its time noted in the event of the request."""
        at, begun = len(self._events) - 1, monotonic()
        try:
            self._place(store, data, output, part)
        finally:
            ended = monotonic()
            # A damaged chunk was fetched once more meanwhile.
            spent = ended - begun - sum([again.seconds for again in self._events[at + 1 :]])
            self._events[at] = replace(
                self._events[at], chunks=1, decode_started=begun, decode_ended=ended, decode_seconds=spent
            )

    def _decode(self, store: BlockingStore, data: Buffer, output: ChunkOutput) -> None:
        try:
            self._decode_one(data, output)
        except CodecError as error:
            self._retry_damaged(store, data, output, error)

    def _decode_one(self, data: Buffer, output: ChunkOutput) -> None:
        decoder = thread_decoder(self._read.layout.object_of(output.projection).pipeline)
        decoder.decode(data, output.out, output.projection)

    def _retry_damaged(self, store: BlockingStore, data: Buffer, output: ChunkOutput, error: CodecError) -> None:
        """Read a damaged chunk once more; decode one that was stored without the part outside of the array."""
        with located(store=self.store_url, key=self.key):
            if isinstance(error, ChecksumError):
                again = self._fetch_data(store, output)
                if again is None:
                    raise error
                self._whole = (again,)
                self._decode_one(again, output)
            elif not decode_unpadded(self._read.layout.unpadded(output.projection), error, data, (output,)):
                raise error

    def completed(self, error: BaseException | None) -> None:
        if error is not None:
            self.held = 0  # the queue has given it back
        if self.timing is not None:
            for number, event in enumerate(self._events):
                # A repetition goes on with the chunk whose request has failed.
                self.timing.observer.report(
                    event, retries=int(number > 0 and self._events[number - 1].error is not None)
                )
            self._events.clear()
        self._operation.blocking_read_completed(self, self.outputs, error)
        if self._shared is None or not self._is_delivered(self._shared):
            self.release()

    def release(self) -> None:
        super().release()
        self._shared = self._whole = None  # no cycle, which would keep the bytes until the garbage collector runs

    def _is_delivered(self, chunk: ChunkSet) -> bool:
        """Have the chunk decoded for those that have joined, or requested by them if its object was not read.

        Returns: whether it is decoded, and this request released afterwards.
        """
        chunk.close((0,))
        if self._whole is None:
            for subscription in chunk.pop_joined(0):
                subscription.subscriber.request_again(subscription, self.key)
            return False
        # It is not cached: it may have changed since.
        delivery = ChunkDelivery(((chunk, (0,)),), None)
        delivery.request = self
        self.value = None if self._whole[0] is None else Value(self._whole[0], None, None)
        delivery.response_completed(self, None)
        return True
