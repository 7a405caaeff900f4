"""Requests, the decision whether a failed one is sent again, and the interface of the queues that send them.

Stores say whether a request may be repeated (`StoreError.retryable`): for HTTP, `stores.http.object_client` reads it
from the status. Resumable uploads to Google Cloud (`stores.gcs.upload`) resume within one attempt, under limits of
their own.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar

from aiozarr.common.concurrency import random_jitter
from aiozarr.errors import StoreError, StoreTimeoutError, ThrottledError
from aiozarr.schedule.coalesce import MergeLimits
from aiozarr.settings import Settings
from aiozarr.stores.capabilities import PendingFetch

BASE_DELAY = 0.1
MAX_DELAY = 5.0


class RetryPolicy(NamedTuple):
    """At most `retries` repetitions, none of which begins later than `seconds` after the first attempt."""

    retries: int = 5
    seconds: float = 40.0

    def delay(self, error: BaseException, *, attempt: int, elapsed: float, jitter: float) -> float | None:
        """Decide whether a failed request is sent again.

        Args:
            error: the error of the latest attempt.
            attempt: number of attempts so far.
            elapsed: seconds since the first attempt began.
            jitter: a random number in [0, 1).

        Returns: the seconds to wait before the next attempt, or None if there is no next attempt.
        """
        if not isinstance(error, StoreError) or not error.retryable or attempt > self.retries:
            return None
        # Jitter between half and all of the exponential step: callers that failed together do not return together.
        delay = min(MAX_DELAY, BASE_DELAY * 2 ** (attempt - 1)) * (0.5 + jitter / 2)
        if error.retry_after is not None:
            delay = max(delay, error.retry_after)
        return delay if elapsed + delay <= self.seconds else None


@lru_cache(64)
def retry_policy(retries: int, seconds: float) -> RetryPolicy:
    """Return the one policy of these limits: each operation has one, and few differ."""
    return RetryPolicy(retries, seconds)


def retry_delay(error: BaseException, settings: Settings) -> float | None:
    """Return the seconds to wait after a first attempt that failed outside of a queue; None: there is no next one."""
    policy = retry_policy(settings.retries, settings.retry_seconds)
    return policy.delay(error, attempt=1, elapsed=0.0, jitter=random_jitter())


def is_overload(error: BaseException) -> bool:
    """Return whether `error` is a sign that fewer requests should be in flight."""
    return isinstance(error, ThrottledError | StoreTimeoutError)


T = TypeVar("T")


class ScheduledRequest(ABC):
    """The record of one request. A `RequestSource` hands it to the queue, which calls `completed` exactly once.

    Times are by the clock of the queue.

    Attributes:
        policy: decides whether a failed attempt is repeated.
        held: bytes of memory that the budget counts for the request, from its admission until `RequestQueue.charge`
            gives them back.
        attempts: number of attempts so far.
        started: time of the first attempt.
        seconds: from `started` to the end of the latest attempt.
        has_timed_out: True after an attempt that made no progress.
        waited: seconds before `started` in which the request waited for a server that failed all others. They count as
            seconds of retries: many requests that fail one after the other share one deadline.
        queued_since: when the operation of the request began to have requests.
        cancelled: True after `RequestQueue.cancel`.
        task: the task that sends the request, or None.
        pending_fetch: the request in flight, if no task waits for it, or None.
    """

    __slots__ = (
        "attempts",
        "cancelled",
        "has_timed_out",
        "held",
        "pending_fetch",
        "policy",
        "queued_since",
        "seconds",
        "started",
        "task",
        "waited",
    )

    def __init__(self, policy: RetryPolicy, held: int) -> None:
        self.policy = policy
        self.held = held
        self.attempts = 0
        self.started = self.seconds = self.waited = self.queued_since = 0.0
        self.cancelled = self.has_timed_out = False
        self.task: asyncio.Task[object] | None = None
        self.pending_fetch: PendingFetch | None = None

    def start_nowait(self) -> PendingFetch | None:
        """Send the request without waiting. `RequestQueue.respond` is called when its response has come.

        Returns: the request in flight, or None if it was not sent because that needs a task.
        """
        return None

    def preconnect(self, requests: int) -> None:
        """Open connections for this number of concurrent requests, without waiting. Must not raise."""
        return

    @abstractmethod
    async def send(self) -> None:
        """Send the request once and store its response in this object. Each attempt calls it again."""

    @abstractmethod
    def completed(self, error: BaseException | None) -> None:
        """Process the response, or `error` (`CancelledError` after `RequestQueue.cancel`). Must not raise.

        After success the bytes of the request stay counted until `RequestQueue.charge` gives them back. After an error
        they are not.
        """

    def delay_after(self, error: StoreError, now: float, jitter: float) -> float | None:
        """Record a failed attempt.

        Returns: the seconds to wait before the next attempt, or None if the caller must raise `error`. `error` then
            has the number of attempts and the seconds since the first.
        """
        self.seconds = now - self.started
        elapsed = self.seconds + self.waited
        if isinstance(error, StoreTimeoutError) and not self.has_timed_out:
            # The attempt may have lasted longer than `RetryPolicy.seconds`, and is repeated all the same.
            self.has_timed_out, elapsed = True, 0.0
        delay = self.policy.delay(error, attempt=self.attempts, elapsed=elapsed, jitter=jitter)
        if delay is None:
            error.attempts, error.elapsed = self.attempts, self.seconds
        return delay


async def retry(
    request: ScheduledRequest,
    send: Callable[[], Awaitable[T]],
    clock: Callable[[], float],
    failure: StoreError | None = None,
    on_failure: Callable[[StoreError, float, float], None] | None = None,
) -> T:
    """Await `send()` until it succeeds or the policy gives up.

    Args:
        request: receives number and times of the attempts.
        send: makes one attempt.
        clock: returns the time in seconds.
        failure: the error of a first attempt that is recorded in `request` already.
        on_failure: called after each failed attempt with its error, the time of its beginning, and the present time.

    Raises:
        StoreError: the error of the last attempt, with `attempts` and `elapsed`.
    """
    sent_at = request.started
    if failure is None:
        sent_at = request.started = clock()
    while True:
        if failure is not None:
            now = clock()
            if on_failure is not None:
                on_failure(failure, sent_at, now)
            delay = request.delay_after(failure, now, random_jitter())
            if delay is None:
                try:
                    raise failure
                finally:
                    # The traceback of the error holds this frame, which must not refer back to the error.
                    failure = None
            failure = None
            await asyncio.sleep(delay)
            sent_at = clock()
        request.attempts += 1
        try:
            result = await send()
        except StoreError as error:
            failure = error
        else:
            request.seconds = clock() - request.started
            return result


class RequestSource(ABC):
    """A caller that hands out its requests when the queue asks for them.

    Attributes:
        max_requests: a fixed limit on the requests in flight at the origin while the source is registered, or None
            for the adaptive limit.
        max_bytes: limit on the bytes in flight at the origin.
    """

    max_requests: int | None
    max_bytes: int

    def limit_to(self, settings: Settings) -> None:
        """Take the limits of requests and bytes from `settings`."""
        self.max_requests = None if settings.max_requests == "auto" else settings.max_requests
        self.max_bytes = settings.max_bytes_in_flight

    @abstractmethod
    def next(self) -> ScheduledRequest | None:
        """Return the next request, or None if there is none now. `RequestQueue.wake` makes the queue ask again."""

    @abstractmethod
    def pending(self) -> int:
        """Return about how many requests `next` would return now. An overestimate costs little."""


class RequestQueue(Protocol):
    """Sends the requests of its sources, round-robin between them. Lives on one event loop.

    `RequestExecutor` serves the stores that the loop sends requests to, `BlockingQueue` those that block a worker
    thread.
    """

    @property
    def is_blocking(self) -> bool:
        """True if worker threads send the requests."""
        ...

    def register(self, source: RequestSource) -> None:
        """Let the limits of `source` hold from now on."""

    def unregister(self, source: RequestSource) -> None:
        """Ask `source` for no more requests; its limits do not hold any more."""

    def wake(self, source: RequestSource, *, now: bool = False) -> None:
        """Ask `source` for requests, from a later turn of the loop on, until its `next` returns None.

        `now`: ask it in this turn, because it begins and is in the midst of nothing.
        """

    def cancel(self, request: ScheduledRequest) -> None:
        """Stop a request, whether it waits or is in flight. Its `completed` follows in a later turn of the loop.

        A request that its source has not handed out yet is only marked.
        """

    def submit_prepaid(self, requests: Sequence[ScheduledRequest]) -> None:
        """Send requests whose bytes are counted already, before all others, because their responses free bytes."""

    def respond(self, request: ScheduledRequest, error: Exception | None) -> None:
        """Take the response of a request that `ScheduledRequest.start_nowait` has sent, or its error."""

    def merge_limits(self, settings: Settings) -> MergeLimits:
        """Return how far ranges of one object are merged into one request, for a caller with these settings."""
        ...

    def batch_bytes(self, nbytes: int) -> int:
        """Return how many bytes one request of an operation on `nbytes` should cover, or 0 for one per object."""
        ...

    def charge(self, nbytes: int) -> None:
        """Count `nbytes` more bytes in flight, or fewer if negative.

        A response may have another size than was expected, and in the end it is not held any more.
        """

    def observe(self, seconds: float, nbytes: int) -> None:
        """Improve the estimate of the cost of a request: a response of `nbytes` took `seconds`."""

    def now(self) -> float:
        """Return the time by the clock that the requests are timed with."""
        ...

    @property
    def is_idle(self) -> bool:
        """True if no request is queued or in flight."""
        ...
