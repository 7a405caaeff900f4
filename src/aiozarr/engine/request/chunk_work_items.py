"""The work items of one chunk: decode its bytes, copy a decoded chunk, or fill, and tell each subscriber the outcome.

A worker runs an item, or several small ones together. `finished` follows on the loop. The items know the request of
their chunk only as a `DecodedRequest`: one of `chunk_requests.py`, or the read of a blocking store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from aiozarr.codecs import CodecPipeline
from aiozarr.engine.request.in_flight import InFlightChunk, Subscription
from aiozarr.engine.timing import RequestTiming
from aiozarr.engine.workers.decoder import (
    ChunkDecoder,
    EncodedChunks,
    copy_to,
    decode_chunk,
    decode_to_new,
    decode_unpadded,
    kept_copy,
    thread_decoder,
)
from aiozarr.engine.workers.worker_pool import WorkItem, run_captured
from aiozarr.errors import CodecError, located
from aiozarr.grid.projection import ChunkSelection
from aiozarr.model import Range

if TYPE_CHECKING:
    from typing_extensions import Buffer


class DecodedRequest(Protocol):
    """A request as the decoding of its chunks knows it."""

    @property
    def store_url(self) -> str: ...

    @property
    def start(self) -> int | None:
        """First byte of the request in the object; None for a whole object."""

    key: str

    def chunk_decoded(self, chunk: InFlightChunk, values: NDArray[Any] | None) -> None: ...

    def submit(self, work: WorkItem) -> None: ...

    def chunk_closed(self) -> None: ...


class DecodeChunk(WorkItem):
    """Decode the bytes of one chunk and scatter its elements.

    Attributes:
        data: the bytes; None if nothing is stored.
        values: the decoded chunk, if caches want it.
        errors: subscriptions that fail although the chunk was read.
    """

    __slots__ = ("chunk", "data", "errors", "request", "values")

    def __init__(self, request: DecodedRequest, chunk: InFlightChunk, data: Buffer | None = None) -> None:
        super().__init__(chunk.pipeline.spec.nbytes)
        self.request = request
        self.chunk = chunk
        self.data = data
        self.values: NDArray[Any] | None = None
        self.errors: dict[Subscription, BaseException] | None = None

    def run_batch_from(self, batch: Sequence[WorkItem], at: int) -> int:
        decoder = None if at + 1 == len(batch) else thread_decoder(self.chunk.pipeline)
        if decoder is None or not decoder.max_batch:
            return super().run_batch_from(batch, at)
        works: list[DecodeChunk] = []
        for work in batch[at : at + decoder.max_batch]:
            # The exact type: a read that is observed wants the time of its own chunks.
            if type(work) is not type(self) or not work.may_be_batched(self.chunk.pipeline):
                break
            works.append(work)
        count = _decode_for_one(decoder, works)
        if not count and decoder.shares_batches and len(works) > 1:
            count = _decode_shared(decoder, works)
        return count or super().run_batch_from(batch, at)

    def may_be_batched(self, pipeline: CodecPipeline) -> bool:
        """Return whether `pipeline` decodes the chunk, and a reader still waits for it."""
        chunk = self.chunk
        if chunk.pipeline is not pipeline or self.data is None:
            return False
        return any([not subscription.subscriber.operation.stopped for subscription in chunk.subscriptions])

    def only_subscription(self) -> Subscription | None:
        """Return the only subscription, if no cache wants the chunk; None otherwise."""
        chunk = self.chunk
        if chunk.caches is not None or chunk.late or len(chunk.subscriptions) != 1:
            return None
        return chunk.subscriptions[0]

    def run(self) -> None:
        chunk, data = self.chunk, self.data
        if chunk.late:
            chunk.subscriptions += chunk.pop_late()
        for subscription in chunk.subscriptions:
            if not subscription.subscriber.operation.stopped:
                break
        else:
            # Stopped operations wait for this to end, and chunks of others wait after it.
            self.errors = {subscription: asyncio.CancelledError() for subscription in chunk.subscriptions}
            return
        if data is None:
            self._fill()
            return
        try:
            try:
                if chunk.caches is None:
                    decode_chunk(chunk.pipeline, data, chunk.subscriptions)
                else:
                    self.values = decode_to_new(chunk.pipeline, data, chunk.subscriptions)
            except CodecError as error:
                subscription = chunk.subscriptions[0]
                unpadded = subscription.subscriber.unpadded(subscription)
                if not decode_unpadded(unpadded, error, data, chunk.subscriptions):
                    raise
        except CodecError:
            # Not around the decoding: this is done for each small chunk.
            with located(store=self.request.store_url, key=self.request.key, range=self._range(data)):
                raise

    def take(self, values: NDArray[Any]) -> None:
        """Copy from the chunk, which was decoded with others; `values` are valid during the call. It does not raise."""
        chunk = self.chunk
        try:
            chunk.subscriptions += chunk.pop_late()
            if chunk.caches is not None:
                values = self.values = kept_copy(values)
            copy_to(values, chunk.subscriptions)
        except BaseException as error:  # of memory, for example: the others have their chunks
            self.error = error

    def _range(self, data: Buffer) -> Range | None:
        """Return the range of the object that `data` is; None for all of it."""
        chunk, start = self.chunk, self.request.start
        if start is None:
            return None
        stop = chunk.start + memoryview(data).nbytes if chunk.stop is None else chunk.stop
        return Range(start + chunk.start, stop - chunk.start)

    def _fill(self) -> None:
        """Give each subscriber what its own settings say of a chunk that is not stored."""
        chunk = self.chunk
        fill_value = chunk.pipeline.spec.fill_value
        for subscription in chunk.subscriptions:
            error = subscription.subscriber.missing_error(self.request.key)
            if error is None:
                subscription.projection.fill(subscription.out, fill_value)
            else:
                self.errors = self.errors or {}
                self.errors[subscription] = error

    def finished(self) -> None:
        chunk, request, error, errors = self.chunk, self.request, self.error, self.errors
        request.chunk_decoded(chunk, self.values)
        subscriptions, chunk.subscriptions = chunk.subscriptions, []
        late = chunk.pop_late() if chunk.late else []
        if error is not None:
            subscriptions, late = subscriptions + late, []
        elif self.values is not None:
            for subscription in late:
                subscription.chunk = None
                request.submit(CopyCached(subscription, self.values))
            late = []
        for subscription in subscriptions:
            failure = error if errors is None else errors.get(subscription)
            if failure is None:
                subscription.subscriber.chunk_done(subscription)
            else:
                subscription.subscriber.chunk_failed(subscription, failure)
            # No cycle may keep the reader's array alive until the garbage collector runs.
            subscription.chunk = None
        self.values = self.errors = None
        if late:
            # They came while the worker decoded: the bytes are here. Readers cannot join any more.
            chunk.subscriptions = late
            request.submit(DecodeChunk(request, chunk, self.data))
            return
        self.data = None
        chunk.request = None
        request.chunk_closed()


def _decode_for_one(decoder: ChunkDecoder, works: Sequence[DecodeChunk]) -> int:
    """Decode chunks that one reader alone wants as a batch, if they are all of `works`; return how many."""
    parts: list[ChunkSelection] = []
    out = None
    for work in works:
        subscription = work.only_subscription()
        if subscription is None or (out is not None and subscription.out is not out):
            if decoder.shares_batches:
                return 0
            break
        out = subscription.out
        parts.append(subscription.projection)
    plan = None if out is None else decoder.plan_batch(out, parts)
    if plan is None:
        return 0
    chunks = EncodedChunks.join([work.data for work in works[: plan.count] if work.data is not None])
    if not decoder.decode_batch(chunks.data, chunks.starts, plan):
        _decode_each(works[: plan.count])
    return plan.count


def _decode_shared(decoder: ChunkDecoder, works: Sequence[DecodeChunk]) -> int:
    """Decode chunks that several readers or caches want as a batch; return how many."""
    decoded = decoder.decode_shared([work.data for work in works if work.data is not None])
    if decoded is None:
        _decode_each(works)
        return len(works)
    for work, values in zip(works, decoded, strict=True):
        work.take(values)
    return len(works)


def _decode_each(works: Sequence[DecodeChunk]) -> None:
    """Decode one by one: all of them, or the rest would be tried together again for each."""
    for work in works:
        run_captured(work)


class TimedDecodeChunk(DecodeChunk):
    """As `DecodeChunk`, with its times noted for the request's event."""

    __slots__ = ("ended_at", "started_at", "timing")

    def __init__(self, request: DecodedRequest, chunk: InFlightChunk, timing: RequestTiming) -> None:
        super().__init__(request, chunk)
        self.timing = timing
        self.started_at = self.ended_at = 0.0

    def run_batch_from(self, batch: Sequence[WorkItem], at: int) -> int:
        begun = monotonic()
        count = super().run_batch_from(batch, at)
        if count > 1:
            # The time of chunks that were decoded together is divided among them, one after the other.
            share = (monotonic() - begun) / count
            for number, work in enumerate(batch[at : at + count]):
                if isinstance(work, TimedDecodeChunk):
                    work.started_at = begun + number * share
                    work.ended_at = work.started_at + share
        return count

    def run(self) -> None:
        self.started_at = monotonic()
        try:
            super().run()
        finally:
            self.ended_at = monotonic()

    def finished(self) -> None:
        self.timing.decoded(self.started_at, self.ended_at)
        super().finished()


class CopyCached(WorkItem):
    """Copy one reader's elements from a decoded chunk."""

    __slots__ = ("subscription", "values")

    def __init__(self, subscription: Subscription, values: NDArray[Any]) -> None:
        super().__init__(subscription.projection.size * values.dtype.itemsize)
        self.subscription = subscription
        self.values = values

    def run(self) -> None:
        projection = self.subscription.projection
        projection.scatter(self.subscription.out, projection.gather(self.values))

    def finished(self) -> None:
        end_subscription(self.subscription, self.error)


class FillChunks(WorkItem):
    """Write the fill value for chunks that are not stored."""

    __slots__ = ("fill_value", "subscriptions")

    def __init__(self, subscriptions: Sequence[Subscription], fill_value: NDArray[Any]) -> None:
        super().__init__(sum([each.projection.size for each in subscriptions]) * fill_value.dtype.itemsize)
        self.subscriptions = subscriptions
        self.fill_value = fill_value

    def run(self) -> None:
        for subscription in self.subscriptions:
            subscription.projection.fill(subscription.out, self.fill_value)

    def finished(self) -> None:
        for subscription in self.subscriptions:
            end_subscription(subscription, self.error)


def end_subscription(subscription: Subscription, error: BaseException | None) -> None:
    """Tell the subscriber how its subscription ended."""
    if error is None:
        subscription.subscriber.chunk_done(subscription)
    else:
        subscription.subscriber.chunk_failed(subscription, error)
