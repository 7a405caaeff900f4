"""One request, and whoever has requests to send: what the queue of an origin knows of both."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod

from aiozarr.schedule.retry import RetryPolicy
from aiozarr.stores.prompt import Sent


class Call(ABC):
    """One request, from the moment it is taken.

    Attributes:
        policy: when it is repeated.
        cost: bytes it holds in memory until `Origin.release`; an estimate where the size is not known.
        attempts: how often it was sent.
        started: when it was first sent, by the clock of its queue.
        seconds: from then to its end, once it has ended.
        under_way: the request, where no worker waits for it.
    """

    __slots__ = ("attempts", "cancelled", "cost", "policy", "seconds", "started", "under_way", "worker")

    def __init__(self, policy: RetryPolicy, cost: int) -> None:
        self.policy = policy
        self.cost = cost
        self.attempts = 0
        self.started = self.seconds = 0.0
        self.cancelled = False
        self.worker: asyncio.Task[None] | None = None
        self.under_way: Sent | None = None

    def begin(self) -> Sent | None:
        """As `send`, without waiting for the answer, with which `Origin.ended` is called; None: nothing was sent."""
        return None

    def prepare(self, requests: int) -> None:
        """As many requests as this may soon be under way at once: make ready for them. Must not raise."""
        return

    @abstractmethod
    async def send(self) -> None:
        """Send the request once and keep its answer; called again where the policy repeats it."""

    @abstractmethod
    def done(self, error: BaseException | None) -> None:
        """The call has ended, with its answer or with `error` (`CancelledError`: it was cancelled). Must not raise.

        After success the call's bytes stay counted until `Origin.release`; after an error they no longer are.
        """

    def cancel(self) -> None:
        """Stop the call; `done` follows."""
        self.cancelled = True
        if self.worker is not None:
            self.worker.cancel()


class Source(ABC):
    """A caller's work, as calls that it hands out when asked.

    Attributes:
        max_requests: a fixed limit on the origin's requests in flight while the source is at work; None: adaptive.
        max_bytes: limit on the origin's bytes in flight.
    """

    max_requests: int | None
    max_bytes: int

    @abstractmethod
    def next(self) -> Call | None:
        """Return the next call; None where there is none at the moment (`Origin.offer` brings the source back)."""

    @abstractmethod
    def pending(self) -> int:
        """Return about how many calls `next` would hand out now; more than there are costs little."""
