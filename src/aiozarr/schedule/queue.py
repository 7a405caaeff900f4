"""Requests, the sources that have them, and the interface of the queue that serves them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Protocol

from aiozarr.schedule.coalesce import MergeLimits
from aiozarr.schedule.retry import Attempts, RetryPolicy
from aiozarr.settings import Settings
from aiozarr.stores.capabilities import PendingFetch


class NowaitExecutor(Protocol):
    """Sends requests without a task. A request reports its end, or that it is cancelled."""

    def nowait_ended(self, request: ScheduledRequest, error: Exception | None) -> None:
        """A request that `start_nowait` has sent has its response, or has failed with `error`."""

    def cancel_nowait(self, request: ScheduledRequest) -> None:
        """Cancel a request that `start_nowait` has sent. Its `completed` is called in the next turn of the loop."""


class ScheduledRequest(Attempts, ABC):
    """One request. A `RequestSource` hands it to the queue, which calls `completed` exactly once.

    Times are by the clock of the queue.

    Attributes:
        cost: bytes of memory that the request holds until `RequestQueue.release`. An estimate until its response.
        cancelled: True after `cancel`.
        executor: the executor that sends the request, from `start_nowait` on.
        task: the task that sends the request, or None.
        pending_fetch: the request in flight, if no task waits for it, or None.
        queued_since: when the operation of the request began to have requests.
    """

    __slots__ = ("cancelled", "cost", "executor", "pending_fetch", "queued_since", "task")

    executor: NowaitExecutor

    def __init__(self, policy: RetryPolicy, cost: int) -> None:
        # Not by `Attempts.__init__`: this is called for each small chunk.
        self.policy = policy
        self.attempts = 0
        self.started = self.seconds = self.waited = self.queued_since = 0.0
        self.cost = cost
        self.cancelled = False
        self.task: asyncio.Task[object] | None = None
        self.pending_fetch: PendingFetch | None = None

    def start_nowait(self) -> PendingFetch | None:
        """Send the request without waiting. Its response calls `executor.nowait_ended`.

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
        """The request has ended, with its response or with `error` (`CancelledError` after `cancel`). Must not raise.

        After success the bytes of the request stay counted until `RequestQueue.release`. After an error they are not.
        """

    def cancel(self) -> None:
        """Stop the request. `completed` follows."""
        self.cancelled = True
        if self.task is not None:
            self.task.cancel()


class RequestSource(ABC):
    """A caller that hands out its requests when the queue asks for them.

    Attributes:
        max_requests: a fixed limit on the requests in flight at the origin while the source is registered, or None
            for the adaptive limit.
        max_bytes: limit on the bytes in flight at the origin.
    """

    max_requests: int | None
    max_bytes: int

    @abstractmethod
    def next(self) -> ScheduledRequest | None:
        """Return the next request, or None if there is none now. `RequestQueue.wake` makes the queue ask again."""

    @abstractmethod
    def pending(self) -> int:
        """Return about how many requests `next` would return now. An overestimate costs little."""


class RequestQueue(Protocol):
    """Sends the requests of its sources, round-robin between them. Lives on one event loop.

    `RequestExecutor` serves the stores of a network, `BlockingQueue` those that block a worker thread.
    """

    @property
    def is_blocking(self) -> bool:
        """True if worker threads send the requests."""
        ...

    def register(self, source: RequestSource) -> None:
        """A source begins. Its fixed limit of requests holds from now on."""

    def unregister(self, source: RequestSource) -> None:
        """A source has ended. The queue does not ask it for requests any more."""

    def wake(self, source: RequestSource) -> None:
        """Ask `source` for requests from now on, until its `next` returns None."""

    def drop_cancelled(self) -> None:
        """End a request that was cancelled while it waited for bytes."""

    def submit_prepaid(self, requests: Sequence[ScheduledRequest]) -> None:
        """Send requests whose bytes are counted already, before all others: their responses free bytes."""

    def cancel_prepaid(self, requests: Iterable[ScheduledRequest]) -> list[ScheduledRequest]:
        """Do not send prepaid requests.

        Returns: those of `requests` that were not sent. Their `completed` is not called.
        """
        ...

    def merge_limits(self, settings: Settings) -> MergeLimits:
        """Return how far ranges of one object are merged into one request, for a caller with these settings."""
        ...

    def batch_bytes(self, nbytes: int) -> int:
        """Return how many bytes one request of an operation on `nbytes` should cover, or 0 for one per object."""
        ...

    def charge(self, nbytes: int) -> None:
        """Count `nbytes` more bytes in flight, or fewer if negative: a response may differ from its cost."""

    def release(self, nbytes: int) -> None:
        """`nbytes` bytes of a response are not held any more."""

    def observe(self, seconds: float, nbytes: int) -> None:
        """A response of `nbytes` took `seconds`: improve the estimate of the cost of a request."""

    def now(self) -> float:
        """Return the time by the clock that the requests are timed with."""
        ...

    @property
    def is_idle(self) -> bool:
        """True if no request is queued or in flight."""
        ...
