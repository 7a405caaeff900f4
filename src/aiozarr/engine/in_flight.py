"""Chunks in flight: each is fetched once, decoded once, and copied to all readers that want it.

A reader that wants chunks that are not in flight makes a `ChunkSet`, of one chunk or of thousands. Other readers join
single chunks of it. It costs the loop as much as one chunk. An object per inner chunk took 20 to 25 µs of
each, as much as a worker needs to decode a small one (`docs/design/004-reading-and-writing.md`).

Whole small chunks and merged ranges have no task per request. 4,096 chunks of 32 KiB took 0.38 to 0.41 s with a task
for each, 0.34 to 0.36 s without: a task costs 20 to 25 µs, and 13 of the 22 objects per chunk that the garbage
collector walks through.

What stands for what, here and in the modules around:

=================================  ==================================================================================
`Store.identity`                   what a store reaches; equal stores share requests and caches
`Store.object_identity(key)`       a stored object, whichever store reaches it: changes are looked up by it
`ArrayLayout.decoding_id`          how chunks are decoded, with their shape, type and fill value
`Read.array_id`                    identity of the store, and `decoding_id`
`shard_id`                         a shard: identity of the store, key, and `decoding_id`; indexes are cached by it
`object_id`                        a chunk that is an object: `array_id` and key; a shard: `shard_id` and version
`chunk_id`                         a decoded chunk in a cache: `object_id`, and in a shard the position
`share_key`                        an `object_id` or `shard_id` for readers whose settings let a request end alike
`merge_id`                         the object and version of ranges that are merged into common requests
=================================  ==================================================================================
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakValueDictionary

from numpy.typing import NDArray

from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.engine.caches import ChunkCache
from aiozarr.engine.decoder import (
    ChunkDecoder,
    ChunkOutput,
    EncodedChunks,
    copy_to,
    decode_chunk,
    decode_to_new,
    decode_unpadded,
    kept_copy,
    thread_decoder,
)
from aiozarr.engine.fetch_request import FetchRequest, ObjectRequest, ResponseHandler
from aiozarr.engine.operation import Operation
from aiozarr.engine.worker_pool import BATCH_BYTES, WorkItem, run_captured
from aiozarr.errors import CodecError, located
from aiozarr.grid.projection import ChunkSelection
from aiozarr.model import Range
from aiozarr.settings import DEFAULT_SETTINGS, Settings
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from typing_extensions import Buffer


class InternedKey:
    """Stands for a value. As long as it is used, there is one object for all equal values.

    So it is hashed and compared as fast as possible. Every chunk of an array is looked up by it, four times.
    """

    __slots__ = ("__weakref__", "value")

    value: Hashable

    def __new__(cls, value: Hashable) -> InternedKey:
        interned = _interned.get(value)
        if interned is None:
            interned = super().__new__(cls)
            interned.value = value
            interned = _interned.setdefault(value, interned)
        return interned

    @classmethod
    def find(cls, value: Hashable) -> InternedKey | None:
        """Return the key of `value` if it is used somewhere. Any thread; keys are made on the I/O thread alone."""
        return _interned.get(value)


_interned: WeakValueDictionary[Hashable, InternedKey] = WeakValueDictionary()


def outcome_key(settings: Settings) -> Hashable:
    """Return the part of `settings` that decides how a request ends. Readers with equal ones share a request.

    Whether a chunk may be missing is not part of it: each reader decides that for itself.
    """
    return (settings.retries, settings.retry_seconds, settings.missing_status, settings.max_chunk_bytes)


DEFAULT_OUTCOME_KEY = outcome_key(DEFAULT_SETTINGS)


def merge_key(settings: Settings) -> Hashable:
    """Return the part of `settings` that must be equal for readers whose ranges are merged into one request."""
    return (outcome_key(settings), settings.merge_gap_bytes, settings.max_over_read, settings.max_request_bytes)


# --- readers -----------------------------------------------------------------------------------------------------


OperationT_co = TypeVar("OperationT_co", bound=Operation, covariant=True)


class Subscriber(ABC, Generic[OperationT_co]):
    """A reader of chunks. It receives the outcome of each subscription on the loop."""

    operation: OperationT_co

    @abstractmethod
    def chunks_completed(
        self, subscription: Subscription, count: int, nbytes: int, error: BaseException | None
    ) -> None:
        """Take the outcome of `count` chunks: they are in place, or `error` prevented that.

        `nbytes` is the size of their elements, if the operation has a progress callback.
        """

    @abstractmethod
    def note_missing(self, key: str) -> BaseException | None:
        """Return the error for a `key` that is not stored, or None to read the fill value. Any thread."""

    def request_again(self, subscription: Subscription, key: str) -> None:
        """Request the whole object `key`, which another read could not fetch for this one."""
        raise NotImplementedError

    def unpadded(self, projection: ChunkSelection) -> CodecPipeline | None:
        """Return the codecs for a chunk stored without the part outside of the array; None to refuse such chunks."""
        return None


class Subscription:
    """The elements that one reader wants of a chunk set, and their places in its output.

    Attributes:
        subscriber: receives the outcome.
        out: the array that the elements go to.
        parts: the elements of each chunk.
        chunk_set: where the chunks are in flight.
        number: the number of its chunk there, if another reader has made the chunk set.
        left: how many of its chunks have no outcome yet.
    """

    __slots__ = ("chunk_set", "left", "number", "out", "parts", "subscriber")

    def __init__(self, subscriber: Subscriber[Operation], out: NDArray[Any], parts: Sequence[ChunkSelection]) -> None:
        self.subscriber = subscriber
        self.out = out
        self.parts = parts
        self.left = len(parts)
        self.chunk_set: ChunkSet | None = None
        self.number = 0

    def completed(self, count: int, nbytes: int, error: BaseException | None) -> None:
        """Pass the outcome of `count` chunks on."""
        self.left -= count
        self.subscriber.chunks_completed(self, count, nbytes, error)
        if not self.left:
            # No cycle may keep the reader's array alive until the garbage collector runs.
            self.chunk_set = None


# --- chunk sets -----------------------------------------------------------------------------------------------------


MAX_SHORT_BYTES = 64 << 10
"""Chunks that the loop decodes if no thread is busy: that takes at most 0.1 ms."""

# One object for all chunk sets that no other reader joins, and for all work that is done for one reader: most of them.
_NOTHING: Any = MappingProxyType({})


class ChunksInFlight(dict[Hashable, "ChunkSet"]):
    """The chunk sets that readers can join, by share key. Those of one share key are a linked list."""

    def find(self, share_key: Hashable, position: int) -> tuple[ChunkSet, int] | None:
        """Return the chunk set that has the chunk at `position` in flight, with its number there."""
        chunk_set = self.get(share_key)
        while chunk_set is not None:
            number = chunk_set.number_of(position)
            if number is not None:
                return chunk_set, number
            chunk_set = chunk_set.following
        return None

    def add(self, chunk_set: ChunkSet) -> None:
        """Let readers join the chunks of `chunk_set`."""
        chunk_set.is_joinable = True
        chunk_set.following = self.get(chunk_set.share_key)
        self[chunk_set.share_key] = chunk_set

    def remove(self, chunk_set: ChunkSet) -> None:
        """Let no reader join the chunks of `chunk_set` any more."""
        chunk_set.is_joinable = False
        first = self[chunk_set.share_key]
        if first is not chunk_set:
            while first.following is not chunk_set:
                assert first.following is not None
                first = first.following
            first.following = chunk_set.following
        elif chunk_set.following is not None:
            self[chunk_set.share_key] = chunk_set.following
        else:
            del self[chunk_set.share_key]
        chunk_set.following = None  # or it would keep the arrays of other readers

    def invalidate(self, key: str | None, identity: Hashable) -> None:
        """Let no reader join chunks of the object `key`, which has this identity, or any (None), and cache none."""
        for chunk_set in list(self.chunk_sets()):
            if key is None or chunk_set.may_contain(key, identity):
                chunk_set.invalidate()

    def chunk_sets(self) -> Iterator[ChunkSet]:
        """Iterate over all chunk sets."""
        for first in self.values():
            chunk_set: ChunkSet | None = first
            while chunk_set is not None:
                yield chunk_set
                chunk_set = chunk_set.following


class ChunkSet:
    """Chunks of one version of one object that one reader has asked for first. Lives on the loop.

    Args:
        table: where other readers find it.
        share_key: stands for the object and its version, for readers with the same settings.
        pipeline: the codecs of the chunks.
        subscription: the elements that its reader wants; None if only other readers want some.
        object_id: an `InternedKey` for a shard, of which a chunk in caches has the position, too.
        positions: the positions of the chunks in the object; 0 for a chunk that is the object.
        starts, lengths: for each, its bytes in the object; empty for a chunk that is the object.
        caches: the caches that the decoded chunks go to.

    Attributes:
        joined: for the numbers of chunks, the subscriptions of other readers. A deque is safe between threads: the
            worker that decodes the chunk takes them from it.
        deliveries: bring its chunks; empty before requests are made.
        following: the next chunk set of the same object in the table.
        is_joinable: True while it is in the table.
    """

    __slots__ = (
        "_closed",
        "_numbers",
        "_table",
        "caches",
        "deliveries",
        "following",
        "is_joinable",
        "joined",
        "lengths",
        "object_id",
        "pipeline",
        "positions",
        "share_key",
        "starts",
        "subscription",
    )

    def __init__(
        self,
        table: ChunksInFlight,
        share_key: Hashable,
        pipeline: CodecPipeline,
        subscription: Subscription | None,
        object_id: Hashable,
        positions: Sequence[int] = (0,),
        starts: Sequence[int] = (),
        lengths: Sequence[int] = (),
    ) -> None:
        self._table = table
        self.share_key = share_key
        self.pipeline = pipeline
        self.subscription = subscription
        self.object_id = object_id
        self.positions = positions
        self.starts = starts
        self.lengths = lengths
        self.caches: Sequence[ChunkCache] = ()
        self.joined: dict[int, deque[Subscription]] = _NOTHING
        self.deliveries: tuple[ChunkDelivery, ...] = ()
        self.following: ChunkSet | None
        self.is_joinable: bool
        self._numbers: dict[int, int] | None = None
        self._closed: set[int] | None = None
        if subscription is not None:
            subscription.chunk_set = self
        table.add(self)

    def number_of(self, position: int) -> int | None:
        """Return the number of the chunk at a position of the object; None if it cannot be joined."""
        if len(self.positions) == 1:
            return 0 if position == self.positions[0] else None
        numbers = self._numbers
        if numbers is None:
            numbers = self._numbers = {position: number for number, position in enumerate(self.positions)}
        number = numbers.get(position)
        return None if number is None or (self._closed is not None and number in self._closed) else number

    def byte_range(self, number: int) -> Range:
        """Return the bytes of a chunk in the object."""
        return Range(self.starts[number], self.lengths[number])

    def chunk_id(self, number: int) -> Hashable:
        """Return the id of a chunk in caches."""
        # A chunk that is an object may have a place in another one: a reference.
        is_inner = type(self.object_id) is InternedKey
        return (self.object_id, self.positions[number]) if is_inner else self.object_id

    def join(self, subscription: Subscription, number: int) -> None:
        """Add another reader's subscription of one chunk."""
        subscription.chunk_set = self
        subscription.number = number
        if self.joined is _NOTHING:
            self.joined = {}
        joined = self.joined.get(number)
        if joined is None:
            self.joined[number] = deque((subscription,))
        else:
            joined.append(subscription)

    def pop_joined(self, number: int) -> list[Subscription]:
        """Remove and return the subscriptions of other readers. Any thread."""
        joined, taken = self.joined.get(number), []
        while joined:
            taken.append(joined.popleft())
        return taken

    def wanted(self, numbers: Sequence[int]) -> Sequence[int]:
        """Return the `numbers` of chunks that some reader waits for."""
        return numbers if self.subscription is not None else [each for each in numbers if self.joined.get(each)]

    def close(self, numbers: Iterable[int]) -> bool:
        """Let no reader join these chunks any more.

        Returns: False if readers could not before: this process may have changed the object meanwhile.
        """
        if not self.is_joinable:
            return False
        if len(self.positions) > 1:
            if self._closed is None:
                self._closed = set()
            self._closed.update(numbers)
            if len(self._closed) < len(self.positions):
                return True
        self._table.remove(self)
        return True

    def invalidate(self) -> None:
        """Let no reader join, and cache nothing, because this process has changed the object."""
        if self.is_joinable:
            self._table.remove(self)
        self.caches = ()

    def may_contain(self, key: str, identity: Hashable) -> bool:
        """Return whether its chunks may be of the object `key`, which has this identity."""
        return not self.deliveries or any(each.request.may_contain(key, identity) for each in self.deliveries)

    def leave(self, subscription: Subscription) -> None:
        """Drop the chunks of `subscription`, except those that a worker has, and cancel requests without readers."""
        if subscription is self.subscription:
            self.subscription = None
            if not self.deliveries:
                subscription.left = 0
            for delivery in self.deliveries:
                subscription.left -= 0 if delivery.is_decoding else len(delivery.numbers_of(self))
        else:
            number = subscription.number
            if any(delivery.is_decoding and number in delivery.numbers_of(self) for delivery in self.deliveries):
                return
            if (joined := self.joined.get(number)) and subscription in joined:
                joined.remove(subscription)
                subscription.left = 0
        if not self.deliveries and self.subscription is None:
            # Without readers they will not be requested.
            self.close([number for number in range(len(self.positions)) if not self.joined.get(number)])
        for delivery in self.deliveries:
            delivery.cancel_unwanted(subscription.subscriber.operation)

    def next_operation(self, numbers: Iterable[int]) -> Operation | None:
        """Return the operation of a reader that waits for one of `numbers`."""
        if self.subscription is not None:
            return self.subscription.subscriber.operation
        waiting = [joined[0] for number in numbers if (joined := self.joined.get(number))]
        return waiting[0].subscriber.operation if waiting else None


class ChunkDelivery(ResponseHandler):
    """The chunks that one response brings, of one set or several, on their way to the workers.

    Attributes:
        request: brings the bytes.
        slices: the chunk sets, with the numbers of the chunks that the response has of each.
        start: the first byte of the response in the object; None for a whole object.
        is_decoding: True once workers have the chunks.
    """

    __slots__ = ("_undecoded", "_works", "is_decoding", "request", "slices", "start")

    request: ObjectRequest
    slices: Sequence[tuple[ChunkSet, Sequence[int]]]

    def __init__(self, slices: Sequence[tuple[ChunkSet, Sequence[int]]], start: int | None) -> None:
        self.slices = slices
        self.start = start
        self.is_decoding = False
        self._undecoded = 0
        self._works: Sequence[DecodeChunks] = ()
        for chunk_set, _ in slices:
            chunk_set.deliveries = (*chunk_set.deliveries, self)

    def numbers_of(self, chunk_set: ChunkSet) -> Sequence[int]:
        """Return the numbers of the chunks of `chunk_set` that the response brings."""
        return next((numbers for each, numbers in self.slices if each is chunk_set), ())

    def bounds(self, chunk_set: ChunkSet, numbers: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return where chunks begin in the response, and where they end."""
        first, starts, lengths = self.start or 0, chunk_set.starts, chunk_set.lengths
        begins = [starts[number] - first for number in numbers]
        return begins, [begin + lengths[number] for begin, number in zip(begins, numbers, strict=True)]

    def wanted_bytes(self, fetched: int) -> int:
        if not self.slices[0][0].lengths:
            return fetched
        return sum(
            [chunk_set.lengths[number] for chunk_set, numbers in self.slices for number in chunk_set.wanted(numbers)]
        )

    def next_owner(self) -> Operation | None:
        for chunk_set, numbers in self.slices:
            if (operation := chunk_set.next_operation(numbers)) is not None:
                return operation
        return None

    def cancel_unwanted(self, operation: Operation) -> None:
        """Cancel the request if no reader waits for its chunks; `operation` waits for its end."""
        request = self.request
        if self.is_decoding or request.cancelled or self.next_owner() is not None:
            return
        for chunk_set, numbers in self.slices:
            chunk_set.close(numbers)
        assert isinstance(request, FetchRequest)
        request.cancel_for(operation)

    # --- to the workers ---------------------------------------------------------------------------------------------

    def response_completed(self, request: ObjectRequest, error: BaseException | None) -> None:
        if error is not None:
            self.is_decoding = True
            self._fail(request, error)
            return
        works = self._begin_decoding()
        if not works:
            self._release(request)
        for work in works:
            request.pool.submit(work, request.fairness_key)

    def works(self, request: ObjectRequest) -> Sequence[DecodeChunks]:
        self._works = self._begin_decoding()
        return self._works

    def _begin_decoding(self) -> list[DecodeChunks]:
        """Return the decoding of the chunks in pieces; subscriptions that come from now on are late."""
        self.is_decoding = True
        works: list[DecodeChunks] = []
        for chunk_set, brought in self.slices:
            numbers = chunk_set.wanted(brought)
            if len(numbers) < len(brought):
                chunk_set.close(set(brought) - set(numbers))
            if len(numbers) == 1:
                works.append(DecodeChunks(self, chunk_set, chunk_set.subscription, numbers))
                continue
            size = max(1, BATCH_BYTES // max(1, chunk_set.pipeline.spec.nbytes))
            works += [
                DecodeChunks(self, chunk_set, chunk_set.subscription, numbers[at : at + size])
                for at in range(0, len(numbers), size)
            ]
        self._undecoded = len(works)
        return works

    def _fail(self, request: ObjectRequest, error: BaseException) -> None:
        # A subscriber may ask for the chunk again at once, and must not join this one.
        for chunk_set, numbers in self.slices:
            chunk_set.close(numbers)
        # Before the first outcome: a reader that stops leaves its other chunks.
        waiting: list[tuple[Subscription | None, int]] = []
        for chunk_set, numbers in self.slices:
            waiting += [
                (each, 1)
                for number in list(chunk_set.joined)
                if number in numbers
                for each in chunk_set.pop_joined(number)
            ]
            if not self._works:
                waiting.append((chunk_set.subscription, len(numbers)))
        # A reader that has left the chunk set waits for the worker.
        waiting += [(work.subscription, len(work.numbers)) for work in self._works]
        for subscription, count in waiting:
            if subscription is not None:
                subscription.completed(count, 0, error)
        self._release(request)

    def decoded(self, work: DecodeChunks) -> None:
        """End one piece of the decoding: decode for late subscriptions, or release the bytes after the last piece."""
        request = self.request
        if request.timing is not None:
            request.timing.decoded(work.started, work.ended, chunks=len(work.numbers))
        late = [number for number in work.numbers if work.chunk_set.joined.get(number)] if work.chunk_set.joined else []
        if late:
            # They came while the worker decoded: the bytes are here. Readers cannot join any more.
            request.pool.submit(DecodeChunks(self, work.chunk_set, None, late), request.fairness_key)
            return
        self._undecoded -= 1
        if not self._undecoded:
            self._release(request)

    def _release(self, request: ObjectRequest) -> None:
        # Chunk sets and deliveries refer to each other, and to the readers' arrays.
        self.slices = self._works = ()
        request.release()


class DecodeChunks(WorkItem):
    """Decode some chunks of a chunk set and copy their elements to the outputs of all readers.

    Attributes:
        subscription: what the reader of the chunk set wants; None if it has left.
        numbers: the chunks.
        targets: for chunks that other readers want as well, their subscriptions.
        values: decoded chunks, if caches want them.
        errors: for chunks that were decoded one by one, the error, or None; `error` holds for the others.
        refusals: subscriptions that fail although the chunks are as they should be.
    """

    __slots__ = ("chunk_set", "delivery", "errors", "numbers", "refusals", "subscription", "targets", "values")

    def __init__(
        self, delivery: ChunkDelivery, chunk_set: ChunkSet, subscription: Subscription | None, numbers: Sequence[int]
    ) -> None:
        super().__init__(len(numbers) * chunk_set.pipeline.spec.nbytes)
        self.delivery = delivery
        self.chunk_set = chunk_set
        self.subscription = subscription
        self.numbers = numbers
        self.targets: dict[int, list[Subscription]] = _NOTHING
        self.values: dict[int, NDArray[Any]] = _NOTHING
        self.errors: dict[int, BaseException | None] = _NOTHING
        self.refusals: dict[Subscription, BaseException] = _NOTHING

    def _expect_several(self) -> None:
        """Make room for outcomes that differ between chunks or readers."""
        if self.targets is _NOTHING:
            self.targets, self.values, self.errors, self.refusals = {}, {}, {}, {}

    # --- in a worker ------------------------------------------------------------------------------------------------

    def run_together(self, batch: Sequence[WorkItem], at: int) -> int:
        decoder = None if at + 1 == len(batch) else thread_decoder(self.chunk_set.pipeline)
        if decoder is None or not decoder.max_batch:
            return 0
        works: list[DecodeChunks] = []
        for work in batch[at : at + decoder.max_batch]:
            if not isinstance(work, DecodeChunks) or not work._may_be_batched(self.chunk_set.pipeline):
                break
            works.append(work)
        begun = monotonic()
        count = _decode_for_one(decoder, works)
        if not count and decoder.shares_batches and len(works) > 1:
            count = _decode_together(decoder, works)
        if not count:
            return 0
        # The time of chunks that were decoded together is divided among them, one after the other.
        share = (monotonic() - begun) / count
        for number, work in enumerate(works[:count]):
            work.started = begun + number * share
            work.ended = work.started + share
        return count

    def _may_be_batched(self, pipeline: CodecPipeline) -> bool:
        """Return whether this is one chunk that `pipeline` decodes, and a reader still waits for it."""
        if len(self.numbers) != 1 or self.chunk_set.pipeline is not pipeline or self.delivery.request.value is None:
            return False
        return self._reader() is not None or any(
            [not each.subscriber.operation.stopped for each in list(self.chunk_set.joined.get(self.numbers[0], ()))]
        )

    def _reader(self) -> Subscription | None:
        """Return the subscription of the chunk set's reader unless that has stopped."""
        subscription = self.subscription
        return None if subscription is None or subscription.subscriber.operation.stopped else subscription

    @property
    def is_short(self) -> bool:
        return self.weight <= MAX_SHORT_BYTES

    def only_reader(self) -> Subscription | None:
        """Return the only subscription, if no cache wants the chunk; None otherwise."""
        chunk_set = self.chunk_set
        return (
            None if chunk_set.caches or (chunk_set.joined and chunk_set.joined.get(self.numbers[0])) else self._reader()
        )

    def encoded(self, number: int) -> Buffer:
        """Return the bytes of a chunk, which is stored."""
        value = self.delivery.request.value
        assert value is not None
        if not self.chunk_set.lengths:
            return value.data
        (begin,), (end,) = self.delivery.bounds(self.chunk_set, (number,))
        return memoryview(value.data)[begin:end]

    def take_targets(self, number: int) -> list[ChunkOutput]:
        """Take the subscriptions of other readers, and return all outputs of a chunk."""
        subscription, targets = self._reader(), []
        if subscription is not None:
            targets.append(ChunkOutput(subscription.out, subscription.parts[number]))
        if self.chunk_set.joined:
            joined = self.targets[number] = self.targets.get(number, []) + self.chunk_set.pop_joined(number)
            targets += [
                ChunkOutput(each.out, each.parts[0]) for each in joined if not each.subscriber.operation.stopped
            ]
        return targets

    def run(self) -> None:
        chunk_set, reader = self.chunk_set, self._reader()
        alone: Sequence[int] = self.numbers
        value = self.delivery.request.value
        if value is None:
            self._fill(reader)
            return
        if chunk_set.caches or chunk_set.joined:
            shared = self.numbers if chunk_set.caches else [each for each in self.numbers if chunk_set.joined.get(each)]
            self._decode_for_several(shared)
            alone = [number for number in self.numbers if number not in self.errors]
        if not alone:
            return
        if reader is None:
            # Stopped operations wait for this to end, and chunks of others wait after it.
            raise asyncio.CancelledError
        if len(alone) == 1:
            self._decode_one(alone[0], [ChunkOutput(reader.out, reader.parts[alone[0]])])
            return
        thread_decoder(chunk_set.pipeline).decode_chunks(
            EncodedChunks(memoryview(value.data), *self.delivery.bounds(chunk_set, alone)),
            reader.out,
            [reader.parts[number] for number in alone],
            on_error=partial(self._raise_located, alone),
            check=self._check_stopped,
        )

    def _check_stopped(self) -> None:
        if self._reader() is None:
            raise asyncio.CancelledError

    def _fill(self, reader: Subscription | None) -> None:
        """Fill the elements of a chunk that is not stored, or refuse, as the settings of each reader say."""
        self._expect_several()
        chunk_set, key = self.chunk_set, self.delivery.request.key
        fill_value = chunk_set.pipeline.spec.fill_value
        if reader is None and self.subscription is not None:
            self.refusals[self.subscription] = asyncio.CancelledError()
        for number in self.numbers:
            targets = [] if reader is None else [(reader, reader.parts[number])]
            if chunk_set.joined:
                joined = self.targets[number] = chunk_set.pop_joined(number)
                targets += [(each, each.parts[0]) for each in joined]
            for subscription, part in targets:
                error = subscription.subscriber.note_missing(key)
                if error is None:
                    part.fill(subscription.out, fill_value)
                else:
                    self.refusals[subscription] = error

    def _decode_for_several(self, numbers: Sequence[int]) -> None:
        """Decode chunks that several readers or caches want, and several together if that is cheaper."""
        self._expect_several()
        decoder = thread_decoder(self.chunk_set.pipeline)
        size = decoder.max_batch if decoder.shares_batches else 1
        for at in range(0, len(numbers), max(1, size)):
            some = numbers[at : at + max(1, size)]
            decoded = decoder.decode_shared([self.encoded(number) for number in some]) if len(some) > 1 else None
            for place, number in enumerate(some):
                try:
                    if decoded is None:
                        self._decode_one(number, self.take_targets(number))
                    else:
                        self.take(number, decoded[place])
                except BaseException as error:
                    self.errors[number] = error
                else:
                    self.errors[number] = None

    def take(self, number: int, values: NDArray[Any]) -> None:
        """Copy from a chunk that was decoded with others; `values` are valid during the call."""
        self._expect_several()
        if self.chunk_set.caches:
            values = self.values[number] = kept_copy(values)
        copy_to(values, self.take_targets(number))

    def _decode_one(self, number: int, targets: Sequence[ChunkOutput]) -> None:
        chunk_set = self.chunk_set
        if not targets:
            raise asyncio.CancelledError
        data = self.encoded(number)
        try:
            if chunk_set.caches:
                self.values[number] = decode_to_new(chunk_set.pipeline, data, targets)
            else:
                decode_chunk(chunk_set.pipeline, data, targets)
        except CodecError as error:
            if not decode_unpadded(self._unpadded(targets), error, data, targets):
                self._raise_located((number,), 0, error)

    def _unpadded(self, targets: Sequence[ChunkOutput]) -> CodecPipeline | None:
        subscription = self._reader() or next((each for some in self.targets.values() for each in some), None)
        return None if subscription is None else subscription.subscriber.unpadded(targets[0].projection)

    def _raise_located(self, numbers: Sequence[int], at: int, error: CodecError) -> None:
        request, chunk_set, number = self.delivery.request, self.chunk_set, numbers[at]
        part = chunk_set.byte_range(number) if chunk_set.lengths else None
        try:
            with located(store=request.store_url, key=request.key, range=part):
                raise error
        finally:
            del error  # its traceback holds this frame

    # --- on the loop ------------------------------------------------------------------------------------------------

    def work_completed(self) -> None:
        chunk_set, numbers, subscription, request = (
            self.chunk_set,
            self.numbers,
            self.subscription,
            self.delivery.request,
        )
        # If readers could not join until now, this process may have changed the object since its bytes were read.
        if chunk_set.close(numbers) and self.values:
            now = asyncio.get_running_loop().time()
            for cache in chunk_set.caches:
                for number, values in self.values.items():
                    cache.add(chunk_set.chunk_id(number), request.store, request.key, values, now)
        succeeded = self.error is None and not self.refusals and not any(self.errors.values())
        if subscription is not None:
            self._complete(subscription, numbers, succeeded=succeeded)
        if self.targets is not _NOTHING:
            for number, targets in self.targets.items():
                for each in targets:
                    self._complete(each, (number,), succeeded=succeeded)
            for number, values in self.values.items():
                for each in chunk_set.pop_joined(number):
                    request.pool.submit(CopyChunk(each, values, request.store), request.fairness_key)
        self.delivery.decoded(self)
        self.targets = self.values = self.errors = self.refusals = _NOTHING

    def _complete(self, subscription: Subscription, numbers: Sequence[int], *, succeeded: bool) -> None:
        if succeeded and not subscription.subscriber.operation.has_progress:
            subscription.completed(len(numbers), 0, None)
            return
        errors = self.errors
        if not errors:
            error = self.error if self.error is not None or not self.refusals else self.refusals.get(subscription)
            failed: Sequence[int] = () if error is None else numbers
        else:
            failed = [number for number in numbers if errors.get(number, self.error) is not None]
            error = errors.get(failed[0], self.error) if failed else None
        count, nbytes = len(numbers) - len(failed), 0
        if count:
            if subscription.subscriber.operation.has_progress:
                parts = subscription.parts
                good = parts if len(parts) == 1 else [parts[number] for number in numbers if number not in failed]
                nbytes = sum([part.size for part in good]) * subscription.out.dtype.itemsize
            subscription.completed(count, nbytes, None)
        if failed:
            subscription.completed(len(failed), 0, error)


class CopyChunk(WorkItem):
    """Copy the elements that one reader wants from a decoded chunk. `on_completed` is called before the outcome."""

    __slots__ = ("on_completed", "store", "subscription", "values")

    def __init__(
        self,
        subscription: Subscription,
        values: NDArray[Any],
        store: Store,
        on_completed: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(subscription.parts[0].size * values.dtype.itemsize)
        self.subscription = subscription
        self.values = values
        self.store = store
        self.on_completed = on_completed

    def run(self) -> None:
        part = self.subscription.parts[0]
        part.scatter(self.subscription.out, part.gather(self.values))

    def work_completed(self) -> None:
        observer = self.subscription.subscriber.operation.observer
        if observer is not None:
            observer.add_decode_time(self.store.url, self.ended - self.started)
        if self.on_completed is not None:
            self.on_completed()
        self.subscription.completed(1, self.weight, self.error)


def _decode_for_one(decoder: ChunkDecoder, works: Sequence[DecodeChunks]) -> int:
    """Decode chunks that one reader alone wants as a batch, if they are all of `works`; return how many."""
    parts: list[ChunkSelection] = []
    out = None
    for work in works:
        subscription = work.only_reader()
        if subscription is None or (out is not None and subscription.out is not out):
            if decoder.shares_batches:
                return 0
            break
        out = subscription.out
        parts.append(subscription.parts[work.numbers[0]])
    plan = None if out is None else decoder.plan_batch(out, parts)
    if plan is None:
        return 0
    planned = works[: plan.count]
    chunks = EncodedChunks.join([work.encoded(work.numbers[0]) for work in planned])
    if not decoder.decode_batch(chunks.data, chunks.starts, plan):
        _decode_each(planned)
    return plan.count


def _decode_together(decoder: ChunkDecoder, works: Sequence[DecodeChunks]) -> int:
    """Decode chunks that several readers or caches want as a batch; return how many."""
    decoded = decoder.decode_shared([work.encoded(work.numbers[0]) for work in works])
    if decoded is None:
        _decode_each(works)
        return len(works)
    for work, values in zip(works, decoded, strict=True):
        try:
            work.take(work.numbers[0], values)
        except BaseException as error:  # of memory, for example: the others have their chunks
            work.error = error
    return len(works)


def _decode_each(works: Sequence[DecodeChunks]) -> None:
    """Decode all of them one by one. Otherwise the rest would be tried together again after each."""
    for work in works:
        run_captured(work)
