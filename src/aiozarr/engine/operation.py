"""The common part of a read and a write: its queue, its requests that are ready to be sent, its progress, its end."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from aiozarr.common.concurrency import wait_uncancelled
from aiozarr.engine.timing import RequestObserver
from aiozarr.engine.worker_pool import FunctionCall, WorkerPool
from aiozarr.errors import StoreError
from aiozarr.schedule.events import Report
from aiozarr.schedule.requests import RequestQueue, RequestSource, ScheduledRequest, retry_policy
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.common.progress import Progress

T = TypeVar("T")

LONG_OPERATION_BYTES = 16 << 20
LONG_OPERATION_OBJECTS = 64
"""An operation above either limit is long. Short ones do not wait for the decoding of all that a long one fetched."""


MAX_PENDING_RANGES = 128
"""An operation with this many ranges that wait for their requests begins no further objects."""

MAX_PENDING_LOCATED = 256
"""As `MAX_PENDING_RANGES`, for reads of located chunks: a thousand neighbours come in four requests, and decoding still
begins before the last of them."""

MAX_WAITING_REQUESTS = 64
"""Requests that wait for another origin before a read begins no further objects."""


class Operation(RequestSource):
    """One operation of one caller on the stores behind one request queue. Lives on the I/O loop.

    Attributes:
        total: stored objects that it touches.
        bytes_total: bytes of array elements that it moves.
        done: stored objects that are complete.
        has_progress: True if there is a progress callback.
        bytes_done: bytes of elements that are complete, if there is one.
        stopped: True after an error or a cancellation: nothing more is begun.
        shared: chunks that another operation's request delivers.
        stores_without_versions: stores that should report versions, and do not. Only reads have it.
        pending_ranges: ranges that wait for the end of this turn of the loop, to be merged into requests.
        max_pending_ranges: how many of them may wait before the operation begins no further objects.
        fairness_key: the queue of its work in the worker pool. A long operation has its own, short ones share one.
        observer: receives the operation's request events; None without a report and without `Settings.on_event`.
        ready_at: since when the next requests could have been sent, if there is an observer.
        joined_at: when it first joined a request of another operation; 0 if it has joined none.
    """

    stores_without_versions: set[Hashable]

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
        self.limit_to(settings)
        self.total = total
        self.bytes_total = bytes_total
        self.done = self.bytes_done = 0
        self.shared = self.pending_ranges = 0
        self.max_pending_ranges = MAX_PENDING_RANGES
        self.stopped = False
        is_long = bytes_total > LONG_OPERATION_BYTES or total > LONG_OPERATION_OBJECTS
        self.fairness_key: Hashable = self if is_long else None
        is_observed = report is not None or settings.on_event is not None
        self.observer = RequestObserver(settings, report) if is_observed else None
        self.ready_at = self.joined_at = 0.0
        self._progress = progress
        self.has_progress = progress is not None
        self._ready: deque[ScheduledRequest] = deque()
        self._awaited = 0  # cancelled requests, and calls in workers
        self._ended = False
        self._error: BaseException | None = None
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # --- requests ---------------------------------------------------------------------------------------------------

    def next(self) -> ScheduledRequest | None:
        try:
            return self._ready.popleft() if self._ready else self.next_request()
        except Exception as error:
            # The queue serves other callers too: a fault of this plan is this caller's alone.
            self.stop(error)
            return None

    @abstractmethod
    def next_request(self) -> ScheduledRequest | None:
        """As `next`, when no request is ready. An exception stops the operation."""

    def enqueue(self, request: ScheduledRequest) -> None:
        """Send `request` as soon as the queue has room. Call `resume` afterwards, unless the queue is asking now."""
        self._ready.append(request)

    def resume(self) -> None:
        """Have the queue ask again, because there may be more to send."""
        if not self._ended:
            self.queue.wake(self)

    def begin_wait(self) -> None:
        """Do not end before `end_wait` is called: a cancelled request, or the search for a chunk, is under way."""
        self._awaited += 1

    def end_wait(self) -> None:
        """Count a request or a call that was awaited, and has ended."""
        self._awaited -= 1
        self.check_end()

    def queue_for(self, store: Store) -> RequestQueue:
        """Return the queue that requests of this operation to `store` wait in."""
        return self.queue

    def note_join(self) -> None:
        """Record that the operation waits for a request of another one."""
        self.joined_at = self.joined_at or self.queue.now()

    def has_inherited(self, error: BaseException | None) -> bool:
        """Return whether `error` is of a request that another operation began, and most of whose time was over.

        The operation may send the request again, with all of the time that its settings allow.
        """
        if not self.joined_at or not isinstance(error, StoreError) or not error.retryable:
            return False
        return (error.elapsed or 0.0) > self.queue.now() - self.joined_at

    # --- workers ----------------------------------------------------------------------------------------------------

    def call_in_worker(
        self,
        function: Callable[[], T],
        on_completed: Callable[[BaseException | None], object],
        weight: int,
        store: str | None = None,
    ) -> None:
        """Have a worker call `function`, which belongs to no request. The operation does not end before.

        Args:
            function: the work, on `weight` bytes.
            on_completed: called on the loop with the error of the call.
            weight: a worker takes several small pieces of work at once.
            store: the URL of the store whose elements are decoded or copied, for the report; None for other work.
        """

        def completed(work: FunctionCall[T]) -> None:
            if self.observer is not None and store is not None:
                self.observer.add_decode_time(store, work.ended - work.started)
            on_completed(work.error)
            self.end_wait()

        self._awaited += 1
        self.pool.submit(FunctionCall(function, completed, weight), self.fairness_key)

    # --- the run ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Do everything; after an error or a cancellation nothing is in flight when this returns."""
        if not self.total:
            return
        self.ready_at = 0.0 if self.observer is None else self.queue.now()
        self.queue.register(self)
        self.start_eagerly()
        if self.pending():
            # Not in this turn if it could take all of the budget: those that begin in the same turn are served in turn.
            self.queue.wake(self, now=self.total == 1)
        else:
            self.check_end()  # it has joined the requests of others
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
        self.check_end()

    def check_end(self) -> None:
        """End the operation if it is complete or stopped, and nothing is in flight."""
        if self._ended or not (self.stopped or self.is_complete()) or not self.is_idle():
            return
        self._ended = True
        self.leave_queues()
        if self._future.done():
            return
        if self._error is None or isinstance(self._error, asyncio.CancelledError):
            self._future.set_result(None)
        else:
            self._future.set_exception(self._error)

    def leave_queues(self) -> None:
        """Have no queue ask for requests any more."""
        self.queue.unregister(self)

    # --- reports ----------------------------------------------------------------------------------------------------

    def report_progress(self, nbytes: int) -> None:
        """Call the progress callback: `nbytes` more of elements are in place."""
        if self._progress is not None:
            from aiozarr.common.progress import Progress

            # A shard that is read again counts once.
            self.bytes_done = min(self.bytes_done + nbytes, self.bytes_total)
            self._progress(Progress(self.done, self.total, self.bytes_done, self.bytes_total))

    @abstractmethod
    def abandon(self) -> None:
        """Drop what was not sent, and cancel what no other operation waits for."""

    def is_idle(self) -> bool:
        """Return whether nothing is in flight."""
        return not self._awaited

    def is_complete(self) -> bool:
        """Return whether all objects are complete."""
        return self.done == self.total

    @abstractmethod
    def add_to_report(self) -> None:
        """Add the operation to the caller's report."""


class OriginRequests(RequestSource):
    """Requests of a read that wait in the queue of another origin than the read itself.

    Args:
        operation: the read.
        queue: the queue of the origin.
    """

    def __init__(self, operation: Operation, queue: RequestQueue) -> None:
        self.limit_to(operation.settings)
        self.queue = queue
        self.ready: deque[ScheduledRequest] = deque()
        self._operation = operation
        queue.register(self)

    def add(self, request: ScheduledRequest) -> None:
        """Send `request` as soon as the queue has room."""
        self.ready.append(request)
        self.queue.wake(self)

    def next(self) -> ScheduledRequest | None:
        if len(self.ready) == MAX_WAITING_REQUESTS:
            self._operation.resume()
        return self.ready.popleft() if self.ready else None

    def pending(self) -> int:
        return len(self.ready)

    @property
    def is_full(self) -> bool:
        """True if the read should begin nothing else."""
        return len(self.ready) >= MAX_WAITING_REQUESTS

    def take_all(self) -> list[ScheduledRequest]:
        """Return the requests that were not sent, which are no longer this source's."""
        unsent = list(self.ready)
        self.ready.clear()
        return unsent
