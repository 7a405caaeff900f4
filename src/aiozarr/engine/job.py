"""What a read and a write have in common: whose they are, where they queue, how they end."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Hashable

from aiozarr.engine.desk import Desk
from aiozarr.engine.progress import Progress
from aiozarr.engine.request.observed import Observer
from aiozarr.schedule.call import Call, Source
from aiozarr.schedule.events import Report
from aiozarr.schedule.origin import Origin
from aiozarr.schedule.retry import RetryPolicy
from aiozarr.settings import Settings

LONG_BYTES = 16 << 20
LONG_OBJECTS = 64
"""An operation on more than this is long: short ones do not wait until all that it has fetched is decoded."""


class Job(Source):
    """One operation of one caller on one origin. Lives on the I/O loop.

    Attributes:
        total: stored objects that it touches.
        bytes_total: bytes of array elements that it moves.
        done: stored objects that are finished.
        bytes_done: bytes of elements that are finished, where somebody wants to know.
        stopped: True once it has been given up: nothing more is begun.
        line: where its work stands in line before the workers: a long operation has a line of its own.
        observer: who is told of its requests; None: nobody is, and nothing is noted.
        ready_at: since when the requests that are asked of it could have been sent, where somebody observes.
    """

    def __init__(
        self,
        desk: Desk,
        queue: Origin,
        *,
        settings: Settings,
        recorder: Report | None,
        progress: Callable[[Progress], None] | None,
        total: int,
        bytes_total: int,
    ) -> None:
        self.desk = desk
        self.queue = queue
        self.settings = settings
        self.recorder = recorder
        self.policy = RetryPolicy(settings.retries, settings.retry_seconds)
        self.max_requests = None if settings.max_requests == "auto" else settings.max_requests
        self.max_bytes = settings.max_bytes_in_flight
        self.total = total
        self.bytes_total = bytes_total
        self.done = self.bytes_done = 0
        self.stopped = False
        self.line: Hashable = self if bytes_total > LONG_BYTES or total > LONG_OBJECTS else None
        self.observer = Observer.of(desk, settings, recorder)
        self.ready_at = 0.0
        self._progress = progress
        self._ended = False
        self._error: BaseException | None = None
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def next(self) -> Call | None:
        try:
            return self.take()
        except Exception as error:
            # Whoever asks serves other callers too: a fault of this plan is this caller's alone.
            self.stop(error)
            return None

    @abstractmethod
    def take(self) -> Call | None:
        """As `next`; what it raises ends the job."""

    async def run(self) -> None:
        """Do everything; after an error or a cancellation nothing is left under way when this returns."""
        if not self.total:
            return
        self.ready_at = self.now()
        self.queue.enter(self)
        self.announce()
        self.queue.offer(self)
        try:
            await self._future
        except asyncio.CancelledError as cancelled:
            self.stop(cancelled)
            await self._wait_for_end()
            raise
        finally:
            # The traceback of an error holds this frame: no way back may lead from the job to the error.
            self._error = None
            del self._future
            self.report()

    def announce(self) -> None:
        """Let other callers know what is wanted, before the first call is asked for."""
        # Most have nothing to tell; it is no abstract method for them to leave empty.
        return

    async def _wait_for_end(self) -> None:
        """Wait until nothing is under way any more, however often the caller is cancelled."""
        while not self._ended:
            self._future = asyncio.get_running_loop().create_future()
            try:
                await self._future
            except asyncio.CancelledError:
                continue

    def stop(self, error: BaseException) -> None:
        """Give up; the first error counts. The job ends once what is under way has ended."""
        if not self.stopped:
            self.stopped = True
            self._error = error
            self.abandon()
            self.queue.forget_cancelled()
        self.check_end()

    def check_end(self) -> None:
        """End the job if nothing of it is left."""
        if self._ended or not self.idle() or not (self.stopped or self.complete()):
            return
        self._ended = True
        self.queue.leave(self)
        if self._future.done():
            return
        if self._error is None or isinstance(self._error, asyncio.CancelledError):
            self._future.set_result(None)
        else:
            self._future.set_exception(self._error)

    def now(self) -> float:
        """Return the time by the clock of the queue; 0 where nobody observes."""
        return 0.0 if self.observer is None else self.queue.now()

    @property
    def watched(self) -> bool:
        """True where somebody wants to know how far the job has come."""
        return self._progress is not None

    def advanced(self, nbytes: int) -> None:
        """Tell whoever wants to know that `nbytes` more are in place."""
        if self._progress is not None:
            # A shard that is read again counts once.
            self.bytes_done = min(self.bytes_done + nbytes, self.bytes_total)
            self._progress(Progress(self.done, self.total, self.bytes_done, self.bytes_total))

    @abstractmethod
    def abandon(self) -> None:
        """Drop what was not sent, and cancel what nobody else waits for."""

    @abstractmethod
    def idle(self) -> bool:
        """Return whether nothing is under way."""

    @abstractmethod
    def complete(self) -> bool:
        """Return whether everything has been begun."""

    @abstractmethod
    def report(self) -> None:
        """Add the operation to the caller's report."""
