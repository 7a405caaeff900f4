"""One request to a store, and the callers that have requests to send."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Protocol

from aiozarr.schedule.retry import Attempts, RetryPolicy
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
    """

    __slots__ = ("cancelled", "cost", "executor", "pending_fetch", "task")

    executor: NowaitExecutor

    def __init__(self, policy: RetryPolicy, cost: int) -> None:
        # Not by `Attempts.__init__`: this is called for each small chunk.
        self.policy = policy
        self.attempts = 0
        self.started = self.seconds = 0.0
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
