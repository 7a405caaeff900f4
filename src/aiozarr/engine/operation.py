"""The common part of a read and a write: its queue, its requests that are ready to be sent, its end."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Hashable
from contextlib import suppress

from aiozarr.common.concurrency import wait_uncancelled
from aiozarr.engine.progress import Progress
from aiozarr.engine.timing import RequestObserver
from aiozarr.engine.workers.worker_pool import WorkerPool
from aiozarr.schedule.events import Report
from aiozarr.schedule.queue import RequestQueue, RequestSource, ScheduledRequest
from aiozarr.schedule.retry import retry_policy
from aiozarr.settings import Settings

LONG_OPERATION_BYTES = 16 << 20
LONG_OPERATION_OBJECTS = 64
"""An operation above either limit is long. Short ones do not wait for the decoding of all that a long one fetched."""


class Operation(RequestSource):
    """One operation of one caller on the stores behind one request queue. Lives on the I/O loop.

    Attributes:
        total: stored objects that it touches.
        bytes_total: bytes of array elements that it moves.
        done: stored objects that are finished.
        bytes_done: bytes of elements that are finished, if there is a progress callback.
        stopped: True after an error or a cancellation: nothing more is begun.
        fairness_key: the queue of its work in the worker pool. A long operation has its own, short ones share one.
        observer: receives the operation's request events; None without a report and without `Settings.on_event`.
        ready_at: since when the next requests could have been sent, if there is an observer.
    """

    def __init__(
        self,
        pool: WorkerPool,
        queue: RequestQueue,
        *,
        settings: Settings,
        report: Report | None,
        progress: Callable[[Progress], None] | None,
        total: int,
        bytes_total: int,
    ) -> None:
        self.pool = pool
        self.queue = queue
        self.settings = settings
        self.report = report
        self.policy = retry_policy(settings.retries, settings.retry_seconds)
        self.max_requests = None if settings.max_requests == "auto" else settings.max_requests
        self.max_bytes = settings.max_bytes_in_flight
        self.total = total
        self.bytes_total = bytes_total
        self.done = self.bytes_done = 0
        self.stopped = False
        is_long = bytes_total > LONG_OPERATION_BYTES or total > LONG_OPERATION_OBJECTS
        self.fairness_key: Hashable = self if is_long else None
        self.observer = RequestObserver.of(settings, report)
        self.ready_at = 0.0
        self._resuming = False
        self._progress = progress
        self._ended = False
        self._error: BaseException | None = None
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def next(self) -> ScheduledRequest | None:
        try:
            return self.next_request()
        except Exception as error:
            # The queue serves other callers too: a fault of this plan is this caller's alone.
            self.stop(error)
            return None

    @abstractmethod
    def next_request(self) -> ScheduledRequest | None:
        """As `next`; an exception stops the operation."""

    def resume(self) -> None:
        """Have the queue ask for requests after this turn of the loop, in which there may be more to send."""
        if not self._resuming:
            self._resuming = True
            asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        self._resuming = False
        if not self._ended:
            self.queue.wake(self)

    async def run(self) -> None:
        """Do everything; after an error or a cancellation nothing is in flight when this returns."""
        if not self.total:
            return
        self.ready_at = self.now()
        self.queue.register(self)
        self.start_eagerly()
        self.queue.wake(self)
        try:
            await self._future
        except asyncio.CancelledError as cancelled:
            self.stop(cancelled)
            await self._wait_for_end()
            raise
        finally:
            # The traceback of an error holds this frame: no reference may lead from the operation to the error.
            self._error = None
            del self._future
            self.add_to_report()

    def start_eagerly(self) -> None:
        """Start what other callers may share, before the queue asks for the first request."""
        # Optional: a write has nothing to share.
        return

    async def _wait_for_end(self) -> None:
        """Wait until nothing is in flight, however often the caller is cancelled."""
        if not self._ended:
            self._future = asyncio.get_running_loop().create_future()
            with suppress(asyncio.CancelledError):
                await wait_uncancelled(self._future)
            self._future.result()

    def stop(self, error: BaseException) -> None:
        """Give up; the first error counts. The operation ends once nothing is in flight."""
        if not self.stopped:
            self.stopped = True
            self._error = error
            self.abandon()
            self.queue.drop_cancelled()
        self.check_end()

    def check_end(self) -> None:
        """End the operation if nothing of it is left."""
        if self._ended or not self.is_idle() or not (self.stopped or self.is_complete()):
            return
        self._ended = True
        self.queue.unregister(self)
        if self._future.done():
            return
        if self._error is None or isinstance(self._error, asyncio.CancelledError):
            self._future.set_result(None)
        else:
            self._future.set_exception(self._error)

    def now(self) -> float:
        """Return the time by the clock of the queue; 0 without an observer."""
        return 0.0 if self.observer is None else self.queue.now()

    @property
    def has_progress(self) -> bool:
        """True if there is a progress callback."""
        return self._progress is not None

    def report_progress(self, nbytes: int) -> None:
        """Call the progress callback: `nbytes` more of elements are in place."""
        if self._progress is not None:
            # A shard that is read again counts once.
            self.bytes_done = min(self.bytes_done + nbytes, self.bytes_total)
            self._progress(Progress(self.done, self.total, self.bytes_done, self.bytes_total))

    @abstractmethod
    def abandon(self) -> None:
        """Drop what was not sent, and cancel what no other operation waits for."""

    @abstractmethod
    def is_idle(self) -> bool:
        """Return whether nothing is in flight."""

    @abstractmethod
    def is_complete(self) -> bool:
        """Return whether everything has been begun."""

    @abstractmethod
    def add_to_report(self) -> None:
        """Add the operation to the caller's report."""
