"""The interface of a request queue: what operations and their requests know of the queue that serves them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from aiozarr.schedule.coalesce import MergeLimits
from aiozarr.schedule.scheduled_request import RequestSource, ScheduledRequest
from aiozarr.settings import Settings


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
