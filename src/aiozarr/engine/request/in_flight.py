"""Chunks in flight and their subscribers: each chunk is fetched once, decoded once, and scattered to all of them.

Readers share a request or a cached chunk by keys, which are pure functions of what was asked for and of settings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable
from typing import Any
from weakref import WeakValueDictionary

from numpy.typing import NDArray

from aiozarr.codecs import CodecPipeline
from aiozarr.engine.cache.chunks import ChunkCache
from aiozarr.engine.request.object_request import FetchOperation, FetchRequest
from aiozarr.grid.projection import ChunkSelection
from aiozarr.model import Range, Version
from aiozarr.settings import DEFAULT_SETTINGS, Settings
from aiozarr.stores.contract import Store

MAX_PENDING_RANGES = 128
"""An operation with so many ranges that wait for their requests begins no further objects."""


class InternedKey:
    """Stands for a value: as long as it is used, there is one object for all equal values.

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
    return (outcome_key(settings), settings.gap, settings.max_over_read, settings.max_request_bytes)


class ChunkOperation(FetchOperation):
    """An operation that subscribes to chunks.

    Attributes:
        shared: chunks that another operation's request delivers.
        pending_ranges: ranges that wait for the end of this turn of the loop, to be merged into requests.
        decoding: pieces of work on batches of inner chunks that the workers have.
        in_flight: the table of chunks in flight.
    """

    shared: int
    pending_ranges: int
    decoding: int
    in_flight: InFlightChunks

    @abstractmethod
    def share_key(self, chunk_id: Hashable) -> Hashable:
        """Return the key by which readers with the same settings share a request for `chunk_id`."""

    @abstractmethod
    def enqueue_chunks(
        self,
        store: Store,
        key: str,
        byte_range: Range | None,
        chunks: list[InFlightChunk],
        cost: int,
        if_match: Version | None = None,
    ) -> None:
        """Have the bytes of `chunks` fetched, about `cost` of them: by several requests if they are many."""

    @abstractmethod
    def track(self, subscription: Subscription) -> None:
        """Do not end before `subscription` has ended."""

    @abstractmethod
    def await_cancelled(self, request: FetchRequest) -> None:
        """Do not end before `request` has, if it is cancelled."""


class Subscriber(ABC):
    """Receives the outcome of chunks, on the I/O loop, once per subscription."""

    operation: ChunkOperation

    @abstractmethod
    def chunk_done(self, subscription: Subscription) -> None:
        """The subscription's elements are in place."""

    @abstractmethod
    def chunk_failed(self, subscription: Subscription, error: BaseException) -> None:
        """They are not, because of `error`."""

    @abstractmethod
    def missing_error(self, key: str) -> BaseException | None:
        """Nothing is stored under `key`: return the error, or None to read the fill value. Any thread."""

    def request_again(self, subscription: Subscription, key: str) -> None:
        """The read that was joined has no bytes of the whole object `key`: request them."""
        raise NotImplementedError

    def unpadded(self, subscription: Subscription) -> CodecPipeline | None:
        """Return the codecs for a chunk stored without the part outside of the array; None to refuse such chunks."""
        return None


class Subscription:
    """One reader's wish: which elements of a chunk go where."""

    __slots__ = ("chunk", "out", "projection", "subscriber")

    def __init__(self, subscriber: Subscriber, out: NDArray[Any], projection: ChunkSelection) -> None:
        self.subscriber = subscriber
        self.out = out
        self.projection = projection
        self.chunk: InFlightChunk | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the elements that are wanted."""
        return self.projection.size * self.out.dtype.itemsize


class InFlightChunks(dict[Hashable, "InFlightChunk"]):
    """The chunks that readers can join, by share key."""

    def close(self, chunk: InFlightChunk) -> bool:
        """Let no reader join `chunk` any more; return whether readers could until now."""
        if self.get(chunk.share_key) is not chunk:
            return False
        del self[chunk.share_key]
        return True


class InFlightChunk:
    """A chunk that is being fetched, and its subscriptions.

    It lives on the loop until a worker decodes it. From then on `subscriptions` belong to the worker, and later ones go
    to `late`.

    Attributes:
        table: where readers find it.
        share_key: readers of equal keys share it.
        start, stop: its bytes in the answer of its request; `stop` is None for all from `start` on.
        request: the request that fetches it.
        caches: the caches that the decoded chunk goes to, with its id there.
        late: subscriptions that have come since decoding started. A worker that begins takes them along. A deque is
            safe between threads.
    """

    __slots__ = (
        "caches",
        "decoding_started",
        "late",
        "pipeline",
        "request",
        "share_key",
        "start",
        "stop",
        "subscriptions",
        "table",
    )

    def __init__(
        self,
        table: InFlightChunks,
        share_key: Hashable,
        pipeline: CodecPipeline,
        subscription: Subscription | None = None,
    ) -> None:
        self.table = table
        self.share_key = share_key
        self.pipeline = pipeline
        if subscription is None:
            self.subscriptions: list[Subscription] = []
        else:
            self.subscriptions = [subscription]
            subscription.chunk = self
        self.start = 0
        self.stop: int | None = None
        self.request: FetchRequest | None = None
        self.decoding_started = False
        self.caches: dict[ChunkCache, Hashable] | None = None
        self.late: deque[Subscription] | None = None
        table[share_key] = self

    def join(self, subscription: Subscription) -> None:
        """Add another reader's subscription."""
        subscription.chunk = self
        if not self.decoding_started:
            self.subscriptions.append(subscription)
        elif self.late is None:
            self.late = deque((subscription,))
        else:
            self.late.append(subscription)

    def pop_late(self) -> list[Subscription]:
        """Remove and return the late subscriptions."""
        taken: list[Subscription] = []
        late = self.late
        while late:
            taken.append(late.popleft())
        return taken

    def pop_subscriptions(self) -> list[Subscription]:
        """Remove and return all subscriptions."""
        taken, self.subscriptions = self.subscriptions + self.pop_late(), []
        return taken

    def fail(self, error: BaseException) -> None:
        """Tell all subscribers that there are no bytes."""
        for subscription in self.pop_subscriptions():
            subscription.subscriber.chunk_failed(subscription, error)
            subscription.chunk = None
