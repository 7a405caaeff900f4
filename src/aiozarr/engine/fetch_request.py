"""The request for the bytes of one stored object, and the interface of the handlers that process its response."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from aiozarr.engine.operation import Operation
from aiozarr.engine.timing import RequestTiming
from aiozarr.engine.worker_pool import WorkItem, complete_all
from aiozarr.errors import ChangedError, ShortReadError, StoreError, UnauthenticatedError
from aiozarr.model import ByteRange, Range, Suffix, Value, Version
from aiozarr.schedule.requests import RequestQueue, ScheduledRequest
from aiozarr.settings import Settings
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.capabilities import NowaitStore, PendingFetch
from aiozarr.stores.contract import Store


def is_missing_status(error: StoreError, settings: Settings) -> bool:
    """Return whether `settings` take this refusal for "nothing is stored there".

    The store has already interpreted a 404, because a missing bucket or a failed redirect is no missing object.
    Refused credentials say nothing about an object either, except for a 401 that settings name.
    """
    if isinstance(error, UnauthenticatedError) and error.status != 401:
        return False
    if error.target is not None:
        return False  # there is a reference, so that something is stored
    if error.status is None or error.status == 404 or error.status not in settings.missing_status:
        return False
    from aiozarr.stores.http.missing_objects import NOT_A_MISSING_OBJECT  # local reads do not need it

    return not any(code in error.message for code in NOT_A_MISSING_OBJECT)


class ObjectRequest(ScheduledRequest):
    """A request for one stored object, or several, which the loop sends, or a worker if the store blocks.

    Attributes:
        value: the response. None if nothing is stored.
        is_full_batch: True if a worker's batch needs no other request beside it.
        fairness_key: the queue of its work in the worker pool.
        timing: times of the request, if the operation has an observer.
    """

    __slots__ = ("fairness_key", "is_full_batch", "key", "pool", "queue", "settings", "store", "timing", "value")

    def __init__(self, operation: Operation, store: Store, key: str, held: int) -> None:
        super().__init__(operation.policy, held)
        self.pool = operation.pool
        self.queue: RequestQueue = operation.queue_for(store)
        self.store = store
        self.key = key
        self.settings = operation.settings
        self.value: Value | None = None
        self.timing = None if operation.observer is None else RequestTiming(operation.observer, operation.ready_at)
        self.is_full_batch = False
        self.fairness_key: Hashable = operation.fairness_key

    @property
    def store_url(self) -> str:
        """The store's URL, without secrets."""
        return self.store.url

    @abstractmethod
    def send_blocking(self, store: BlockingStore) -> None:
        """Send as `send` does, in a worker."""

    def send_blocking_with(self, store: BlockingStore, others: Iterable[ObjectRequest]) -> int:
        """Send this request and the first of `others` together, once, in a worker.

        Returns:
            The number of requests that have succeeded; 0 if this one must be sent by itself.
        """
        return 0

    def start_blocking(self) -> Sequence[WorkItem]:
        """Return the work that follows the response in the same worker. On the loop, before a worker sends it."""
        return ()

    def completed_blocking(self, works: Sequence[WorkItem], error: BaseException | None) -> None:
        """Process the end of the worker's work, on the loop."""
        self.completed(error)

    def release(self) -> None:
        """Release the bytes that the request holds, and report its times. Further calls do nothing."""
        held, self.held = self.held, 0
        self.queue.charge(-held)
        self.value = None
        if self.timing is not None:
            self.timing.close()

    def may_contain(self, key: str, identity: Hashable) -> bool:
        """Return whether it may fetch bytes of the object `key`, which has this identity."""
        # The keys of one object, seen from several roots, end alike; only then is its identity worth the time.
        alike = self.key.endswith(key) or key.endswith(self.key)
        return alike and self.store.object_identity(self.key) == identity


class ResponseHandler(ABC):
    """Processes the response of a `FetchRequest`. All methods run on the loop."""

    @abstractmethod
    def response_completed(self, request: FetchRequest, error: BaseException | None) -> None:
        """Process the response, `request.value`, or `error`. `FetchRequest.release` must follow sooner or later."""

    def works(self, request: FetchRequest) -> Sequence[WorkItem]:
        """Return the work on the response for the worker that receives it from a blocking store."""
        return ()

    def wanted_bytes(self, fetched: int) -> int:
        """Return how many of the `fetched` bytes were wanted."""
        return fetched

    def next_owner(self) -> Operation | None:
        """Return an operation that waits for the response and may send the request; None if there is none."""
        return None


class _NoHandler(ResponseHandler):
    """Stands for the handler of a request that was released."""

    def response_completed(self, request: FetchRequest, error: BaseException | None) -> None:
        raise AssertionError("the request was released")


_NO_HANDLER = _NoHandler()
_NO_BOUND: dict[str, int] = {}


class FetchRequest(ObjectRequest):
    """The record of one fetch: which bytes, of which version, how many are held and expected, how often it was tried.

    Args:
        operation: the operation that sends it, for which it counts.
        store, key: the object.
        byte_range: the bytes; None for the whole object.
        handler: receives the response.
        held: bytes that the budget counts.
        expected: bytes that the response is expected to have, which `held` is corrected by; None if another request
            holds them.
        if_match: the version that the object must have; None for any.
        max_bytes: the most bytes that the response may have; None if they have no bound.
        fetch: fetches the bytes otherwise than by one request to the store; None for that.

    Attributes:
        condition: `if_match`, if the store can check it.
        bound: the keyword that bounds the response, if the store takes one.
        version, size: of the object, from the latest response, each None if the store does not say.
        lookups: further requests, for example for the size of the object.
        placed_bytes: bytes that `fetch` has received elsewhere than in `value`.
        is_clipped: True if the store has sent a part of the range, and the object may have more.
    """

    __slots__ = (
        "_fetch",
        "_waiting",
        "bound",
        "condition",
        "expected",
        "handler",
        "if_match",
        "is_clipped",
        "lookups",
        "placed_bytes",
        "range",
        "size",
        "tolerates_clipping",
        "version",
    )

    def __init__(
        self,
        operation: Operation,
        store: Store,
        key: str,
        byte_range: ByteRange | None,
        handler: ResponseHandler,
        *,
        held: int,
        expected: int | None = None,
        if_match: Version | None = None,
        max_bytes: int | None = None,
        fetch: Callable[[FetchRequest], Awaitable[Value | None]] | None = None,
        tolerates_clipping: bool = False,
    ) -> None:
        super().__init__(operation, store, key, held)
        self.range = byte_range
        self.handler = handler
        self.expected = expected
        self.if_match = if_match
        self.condition = None if if_match is None or not can_condition(store, if_match) else if_match
        self.bound = {"max_bytes": max_bytes} if max_bytes is not None and store.has_bounded_reads else _NO_BOUND
        self.tolerates_clipping = tolerates_clipping
        self.is_clipped = False
        self.version: Version | None = None
        self.size: int | None = None
        self.lookups = self.placed_bytes = 0
        self._fetch = fetch
        self._waiting: list[Operation] | None = None  # most have none

    # --- without a task: the store calls `fetched` or `failed` ------------------------------------------------------

    def start_nowait(self) -> PendingFetch | None:
        store = self.store
        if self._fetch is not None or not isinstance(store, NowaitStore):
            return None
        if type(self.range) is Suffix and not store.supports.suffix_reads:
            return None
        return store._fetch_nowait(self.key, self.range, self.condition, self, **self.bound)

    def fetched(self, value: Value | None) -> None:
        """Take the response of a store that was asked without a task."""
        try:
            self.take(value)
        except StoreError as error:
            self.queue.respond(self, error)
        else:
            self.queue.respond(self, None)

    def failed(self, error: Exception) -> None:
        """Take the error of a store that was asked without a task."""
        if isinstance(error, StoreError) and self.take_refusal(error):
            self.fetched(None)
        else:
            self.queue.respond(self, error)

    def preconnect(self, requests: int) -> None:
        if isinstance(self.store, NowaitStore):
            self.store._preconnect(requests)

    # --- in a task, or in a worker ----------------------------------------------------------------------------------

    async def send(self) -> None:
        try:
            if self._fetch is not None:
                value = await self._fetch(self)
            else:
                value = await self.store.fetch(self.key, self.range, if_match=self.condition, **self.bound)
        except StoreError as error:
            if not self.take_refusal(error):
                raise
            value = None
        self.take(value)

    def send_blocking(self, store: BlockingStore) -> None:
        try:
            value = store.fetch_now(self.key, self.range, if_match=self.condition, **self.bound)
        except StoreError as error:
            if not self.take_refusal(error):
                raise
            value = None
        self.take(value)

    def take_refusal(self, error: StoreError) -> bool:
        """Take an error of the store for "nothing is stored", or for a part of the bytes; return whether it is one."""
        if isinstance(error, ShortReadError) and self.tolerates_clipping:
            self.is_clipped = True
            return True
        return is_missing_status(error, self.settings)

    def take(self, value: Value | None) -> None:
        """Take a response, after a check that it has the expected version and length, whether or not the store did.

        Raises:
            ChangedError: it is of another version.
            ShortReadError: it is shorter than the range.
        """
        self.value = value
        if value is not None:
            self.version, self.size = value.version, value.size
        if self.if_match is None:
            return
        if value is None or (value.version is not None and value.version != self.if_match):
            raise self.changed_error()
        if type(self.range) is Range and self.range.length is not None:
            received = self.received_bytes(value)
            if received != self.range.length:
                raise ShortReadError(
                    f"received {received} of the {self.range.length} bytes requested",
                    store=self.store_url,
                    key=self.key,
                    range=self.range,
                )

    def received_bytes(self, value: Value) -> int:
        """Return the number of bytes that came with `value`, or were placed elsewhere."""
        return memoryview(value.data).nbytes or self.placed_bytes

    def changed_error(self) -> ChangedError:
        """Return the error for a response of another version."""
        reason = "the object was replaced while it was being read"
        return ChangedError(reason, store=self.store_url, key=self.key, range=self.range)

    # --- the response -----------------------------------------------------------------------------------------------

    def completed(self, error: BaseException | None) -> None:
        self.account(error)
        if error is not None:
            self.held = 0  # the queue has given it back
        self.handler.response_completed(self, error)

    def start_blocking(self) -> Sequence[WorkItem]:
        return self.handler.works(self)

    def completed_blocking(self, works: Sequence[WorkItem], error: BaseException | None) -> None:
        if error is not None or not works:
            self.completed(error)
        else:
            self.account(None)
            complete_all(works)

    def account(self, error: BaseException | None) -> None:
        """Count the bytes that came in place of the expected ones, and note the times of the request."""
        fetched = 0 if self.value is None else self.received_bytes(self.value)
        if error is None:
            if self.expected is not None:
                self.queue.charge(fetched - self.held)
                self.held = fetched
            self.queue.observe(self.seconds, fetched)
        if self.timing is not None and self.attempts:
            self._note(self.timing, fetched, error)

    def release(self) -> None:
        super().release()
        self.handler = _NO_HANDLER  # no cycle
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            for operation in waiting:
                operation.end_wait()

    def hand_over(self, handler: ResponseHandler) -> None:
        """Leave the response, which has come, to another handler; `release` is left to it, too."""
        self.handler = handler
        handler.response_completed(self, None)

    def cancel_for(self, operation: Operation) -> None:
        """Cancel the request, which no operation needs. `operation` does not end before the request is released."""
        operation.begin_wait()
        if self._waiting is None:
            self._waiting = []
        self._waiting.append(operation)
        self.queue.cancel(self)

    # --- its event --------------------------------------------------------------------------------------------------

    def _note(self, timing: RequestTiming, fetched: int, error: BaseException | None) -> None:
        now, store, key = self.queue.now(), self.store, self.key
        event_of = partial(timing.event_of, self, store=store, key=key, now=now, error=error)
        if self.lookups:
            looked_up = event_of("stat", attempts=self.lookups, error=None)
            timing.observer.report(replace(looked_up, seconds=0.0, queue_seconds=0.0), retries=0)
        checks = None if self.value is None or error is not None else self.value.cache_checks
        if checks is not None:
            # No bytes have come, and perhaps no request was sent.
            timing.event = event_of("stat", range=self.range, attempts=checks) if checks else None
            return
        timing.event = event_of(
            "fetch",
            range=self.range,
            bytes_fetched=fetched,
            # Chunks may share bytes, which come once.
            bytes_wanted=min(self.handler.wanted_bytes(fetched), fetched) if error is None else 0,
            status=None if self.value is None else self.value.status,
        )


def can_condition(store: Store, version: Version | None) -> bool:
    """Return whether `store` can be asked to check `version`."""
    return version is not None and not version.weak and store.supports.conditional_reads


class AwaitedResponse(ResponseHandler):
    """The response of a request that a coroutine awaits. Its bytes stay counted until the request is released."""

    def __init__(self, next_owner: Callable[[], Operation | None]) -> None:
        self._next_owner = next_owner
        self._error: BaseException | None = None
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_completed(self) -> bool:
        """True once the request has its response, or its error."""
        return self._future.done()

    def next_owner(self) -> Operation | None:
        return self._next_owner()

    def response_completed(self, request: FetchRequest, error: BaseException | None) -> None:
        self._error = error
        self._future.set_result(None)

    async def wait(self, request: FetchRequest) -> Value | None:
        """Wait for the response of `request` and return it.

        If the coroutine is cancelled, so is the request, and awaited. After an error it is released.
        """
        try:
            await asyncio.wait([self._future])
        except asyncio.CancelledError:
            request.queue.cancel(request)
            while not self._future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([self._future])
            request.release()
            raise
        if self._error is not None:
            request.release()
            try:
                raise self._error
            finally:
                self._error = None  # its traceback holds this frame
        return request.value
