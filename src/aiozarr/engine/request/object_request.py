"""Requests for one stored object, which the loop sends, or a worker if the store blocks."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from aiozarr.engine.operation import Operation
from aiozarr.engine.timing import RequestTiming, status_of
from aiozarr.engine.workers.worker_pool import WorkItem
from aiozarr.errors import ChangedError, ShortReadError, StoreError, UnauthenticatedError
from aiozarr.model import ByteRange, Range, Suffix, Value, Version
from aiozarr.schedule.events import RequestEvent
from aiozarr.schedule.queue import RequestQueue, ScheduledRequest
from aiozarr.settings import Settings
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.capabilities import NowaitStore, PendingFetch
from aiozarr.stores.contract import Store


def is_missing_status(error: StoreError, settings: Settings) -> bool:
    """Return whether `settings` take this refusal for "nothing is stored there".

    The store has already decided what a 404 means: that of a bucket, or after a redirect, is no missing object.
    Refused credentials say nothing about an object either, except for a 401 that settings name.
    """
    if isinstance(error, UnauthenticatedError) and error.status != 401:
        return False
    if error.target is not None:
        return False  # there is a reference, so that something is stored
    return error.status is not None and error.status != 404 and error.status in settings.missing_status


class ObjectRequest(ScheduledRequest):
    """A request for one stored object, or a range of it, to be fetched or stored.

    Attributes:
        is_full_batch: True if a worker's batch needs no other request beside it.
        fairness_key: the queue of its work in the worker pool.
        timing: times of the request, if the operation has an observer.
    """

    __slots__ = (
        "_close_callbacks",
        "fairness_key",
        "is_full_batch",
        "key",
        "pool",
        "queue",
        "settings",
        "store",
        "timing",
    )

    def __init__(self, operation: Operation, store: Store, key: str, cost: int) -> None:
        super().__init__(operation.policy, cost)
        self.pool = operation.pool
        self.queue: RequestQueue = operation.queue_of(store)
        self.store = store
        self.key = key
        self.settings = operation.settings
        self.timing = None if operation.observer is None else RequestTiming(operation.observer, operation.ready_at)
        self.is_full_batch = False
        self.fairness_key: Hashable = operation.fairness_key
        self._close_callbacks: list[Callable[[], None]] | None = None  # most have none

    @property
    def store_url(self) -> str:
        """The store's URL, without secrets."""
        return self.store.url

    def note_ready(self, ready: float | None) -> None:
        """Note that it could have been sent since `ready`; None for the beginning of its operation."""
        if ready is not None and self.timing is not None:
            self.timing.ready = ready

    @abstractmethod
    def send_blocking(self, store: BlockingStore) -> None:
        """As `send`, in a worker."""

    def send_blocking_with(self, store: BlockingStore, others: Iterable[ObjectRequest]) -> int:
        """Send this request and the first of `others` together, once, in a worker.

        Returns:
            The number of requests that have succeeded; 0 if this one must be sent by itself.
        """
        return 0

    def start_blocking(self) -> Sequence[WorkItem]:
        """The request goes to a worker: return the work that follows it there. On the loop."""
        return ()

    def decode_blocking(self, works: Sequence[WorkItem]) -> None:
        """The answer has come: do what follows, in the worker."""

    def finish_blocking(self, works: Sequence[WorkItem], error: BaseException | None) -> None:
        """The worker has finished. On the loop."""
        self.completed(error)

    def on_closed(self, callback: Callable[[], None]) -> None:
        """Call `callback` after `close`."""
        if self._close_callbacks is None:
            self._close_callbacks = []
        self._close_callbacks.append(callback)

    def close(self) -> None:
        """Nothing of the request is left: report its times, and call those that wait for its end."""
        if self.timing is not None:
            self.timing.close()
        if self._close_callbacks is not None:
            callbacks, self._close_callbacks = self._close_callbacks, None
            for callback in callbacks:
                callback()


class FetchOperation(Operation):
    """An operation whose requests become ready to be sent one by one. A subclass makes `_ready`."""

    _ready: deque[FetchRequest]

    def enqueue(self, request: FetchRequest) -> None:
        """Send `request` as soon as the queue has room. Call `resume` afterwards, unless the queue is asking now."""
        self._ready.append(request)

    def take_over(self, request: FetchRequest) -> None:
        """Send `request`, which another operation has left unsent."""
        self.enqueue(request)
        self.queue.wake(self)

    def abandon_ready(self) -> None:
        """Leave requests to other operations that wait for them; cancel the rest."""
        ready, self._ready = self._ready, deque()
        for request in ready:
            self.hand_over(request)

    def hand_over(self, request: FetchRequest) -> None:
        """Leave an unsent request to another operation that waits for it, or cancel it."""
        owner = request.next_owner()
        if owner is None:
            request.completed(asyncio.CancelledError())
        else:
            owner.take_over(request)


class FetchRequest(ObjectRequest):
    """Fetch bytes of one object. A subclass says what follows.

    Attributes:
        range: the bytes; None for the whole object.
        if_match: the version that the object must have; None for any.
        max_bytes: the most bytes that the answer may have; None if they have no bound, or the store takes none.
        value: the answer. None if nothing is stored.
        lookups: requests besides the one for the bytes.
    """

    __slots__ = ("if_match", "lookups", "max_bytes", "range", "value")

    def __init__(
        self,
        operation: Operation,
        store: Store,
        key: str,
        byte_range: ByteRange | None,
        if_match: Version | None,
        cost: int,
        max_bytes: int | None = None,
    ) -> None:
        super().__init__(operation, store, key, cost)
        self.range = byte_range
        self.if_match = if_match
        self.max_bytes = max_bytes if max_bytes is not None and store.has_bounded_reads else None
        self.value: Value | None = None
        self.lookups = 0

    @property
    def start(self) -> int | None:
        """First byte of the range in the object; None for a whole object."""
        return self.range.start if type(self.range) is Range else None

    # --- without a task: the store calls `fetched` or `failed` ------------------------------------------------------

    def start_nowait(self) -> PendingFetch | None:
        store = self.store
        if not isinstance(store, NowaitStore) or (type(self.range) is Suffix and not store.supports.suffix_reads):
            return None
        if self.max_bytes is None:
            return store.fetch_nowait(self.key, self.range, self.condition, self)
        return store.fetch_nowait(self.key, self.range, self.condition, self, max_bytes=self.max_bytes)

    def preconnect(self, requests: int) -> None:
        if isinstance(self.store, NowaitStore):
            self.store.preconnect(requests)

    def fetched(self, value: Value | None) -> None:
        """The answer has come."""
        self.value = value
        try:
            self._check()
        except StoreError as error:
            self.executor.nowait_ended(self, error)
        else:
            self.executor.nowait_ended(self, None)

    def failed(self, error: Exception) -> None:
        """The store has failed."""
        if isinstance(error, StoreError) and is_missing_status(error, self.settings):
            self.fetched(None)
        else:
            self.executor.nowait_ended(self, error)

    def cancel(self) -> None:
        super().cancel()
        if self.pending_fetch is not None:
            self.executor.cancel_nowait(self)

    # --- by a task, or in a worker ----------------------------------------------------------------------------------

    async def send(self) -> None:
        try:
            self.value = await self._fetch()
        except StoreError as error:
            if not is_missing_status(error, self.settings):
                raise
            self.value = None
        self._check()

    async def _fetch(self) -> Value | None:
        if self.max_bytes is None:
            return await self.store.fetch(self.key, self.range, if_match=self.condition)
        return await self.store.fetch(self.key, self.range, if_match=self.condition, max_bytes=self.max_bytes)

    def send_blocking(self, store: BlockingStore) -> None:
        try:
            self.value = self._fetch_blocking(store)
        except StoreError as error:
            if not is_missing_status(error, self.settings):
                raise
            self.value = None
        self._check()

    def _fetch_blocking(self, store: BlockingStore) -> Value | None:
        if self.max_bytes is None:
            return store.fetch_now(self.key, self.range, if_match=self.condition)
        return store.fetch_now(self.key, self.range, if_match=self.condition, max_bytes=self.max_bytes)

    @property
    def condition(self) -> Version | None:
        """The version that the store is asked to check: None if there is none, or the store cannot."""
        version = self.if_match
        return None if version is None or not self.can_condition(version) else version

    def can_condition(self, version: Version | None) -> bool:
        """Return whether the store can be asked to check `version`."""
        return version is not None and not version.weak and self.store.supports.conditional_reads

    def _check(self) -> None:
        """Check, whether or not the store did, that the answer has the expected version and the range's length."""
        value = self.value
        if self.if_match is not None and (
            value is None or (value.version is not None and value.version != self.if_match)
        ):
            raise self.changed_error()
        if value is not None and type(self.range) is Range and self.range.length is not None:
            got = self._received_bytes(value)
            if got != self.range.length and self.if_match is not None:
                raise ShortReadError(
                    f"{got} bytes came where {self.range.length} were asked for",
                    store=self.store_url,
                    key=self.key,
                    range=self.range,
                )

    def _received_bytes(self, value: Value) -> int:
        """Return the number of bytes that came with `value`."""
        return memoryview(value.data).nbytes

    def changed_error(self) -> ChangedError:
        """Return the error for an answer of another version."""
        reason = "the object was replaced while it was being read"
        return ChangedError(reason, store=self.store_url, key=self.key, range=self.range)

    # --- the end ----------------------------------------------------------------------------------------------------

    def wanted_bytes(self, fetched: int) -> int:
        """Return how many of the `fetched` bytes were wanted."""
        return fetched

    def account(self, error: BaseException | None) -> None:
        """The request has ended: count the bytes that came in place of the estimate, and note its times."""
        fetched = 0 if self.value is None else self._received_bytes(self.value)
        if error is None:
            self.queue.charge(fetched - self.cost)
            self.cost = fetched
            self.queue.observe(self.seconds, fetched)
        if self.timing is not None and self.attempts:
            self._note(self.timing, fetched, error)

    def _note(self, timing: RequestTiming, fetched: int, error: BaseException | None) -> None:
        if self.lookups:
            timing.observer.report(
                RequestEvent(
                    operation="stat",
                    store=self.store_url,
                    key=self.key,
                    range=None,
                    bytes_wanted=0,
                    bytes_fetched=0,
                    seconds=0.0,
                    attempts=self.lookups,
                    started=self.started,
                    server=self.store.server,
                ),
                retries=0,
            )
        checks = None if self.value is None or error is not None else self.value.cache_checks
        if checks is not None:
            # No bytes have come, and perhaps no request was sent.
            event = self.event(self.range, 0, 0, checks, None, timing)
            timing.event = replace(event, operation="stat") if checks else None
            return
        # Chunks may share bytes, which come once.
        wanted = min(self.wanted_bytes(fetched), fetched) if error is None else 0
        timing.event = self.event(self.range, wanted, fetched, self.attempts, error, timing)

    def event(
        self,
        byte_range: ByteRange | None,
        wanted: int,
        fetched: int,
        attempts: int,
        error: BaseException | None,
        timing: RequestTiming,
    ) -> RequestEvent:
        """Return the event of this request."""
        return RequestEvent(
            operation="fetch",
            store=self.store_url,
            key=self.key,
            range=byte_range,
            bytes_wanted=wanted,
            bytes_fetched=fetched,
            # A cancelled request was cut off.
            seconds=self.seconds or self.queue.now() - self.started,
            attempts=attempts,
            error=error,
            started=self.started,
            queue_seconds=max(0.0, self.started - timing.ready),
            status=status_of(error, None if self.value is None else self.value.status),
            server=self.store.server,
        )

    # --- sharing ----------------------------------------------------------------------------------------------------

    def may_contain(self, key: str, identity: Hashable) -> bool:
        """Return whether it may fetch bytes of the object `key`, which has this identity."""
        # The keys of one object, seen from several roots, end alike; only then is its identity worth the time.
        alike = self.key.endswith(key) or key.endswith(self.key)
        return alike and self.store.object_identity(self.key) == identity

    def chunk_abandoned(self) -> None:
        """One of the request's chunks has no subscriber left."""

    def next_owner(self) -> FetchOperation | None:
        """Return another operation that waits for the answer; None if there is none."""
        return None


class AwaitableRequest(FetchRequest):
    """A fetch that coroutines await: the bridge between them and the queue, which asks for requests.

    After `wait` has returned, the bytes of `value` stay counted until `release`.
    """

    __slots__ = ("_ended", "error", "is_over")

    def __init__(
        self,
        operation: Operation,
        store: Store,
        key: str,
        byte_range: ByteRange | None,
        if_match: Version | None,
        cost: int,
        max_bytes: int | None = None,
    ) -> None:
        super().__init__(operation, store, key, byte_range, if_match, cost, max_bytes)
        self.error: BaseException | None = None
        self.is_over = False
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def completed(self, error: BaseException | None) -> None:
        self.account(error)
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        if error is not None:
            self.cost = 0  # the queue has given it back
        self.error = error
        self.is_over = True
        self._ended.set_result(None)

    async def wait(self) -> Value | None:
        """Wait for the answer and return it. If the coroutine is cancelled, so is the request, and awaited."""
        try:
            await asyncio.wait([self._ended])
        except asyncio.CancelledError:
            self.cancel()
            self.queue.drop_cancelled()
            while not self.is_over:
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([self._ended])
            self.release()
            raise
        if self.error is not None:
            self.close()
            try:
                raise self.error
            finally:
                self.error = None  # its traceback holds this frame
        return self.value

    def release(self) -> None:
        """The bytes are not needed any more."""
        cost, self.cost = self.cost, 0
        self.queue.release(cost)
        self.value = None
        self.close()
