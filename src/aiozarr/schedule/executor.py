"""The executor of requests: sends what the admission queue gives, at once where possible, else in a task.

A store that has an idle connection sends a request at once, without a task. That path serves most small chunks: a
task per request would cost 20 to 25 µs of CPU for each of them (design note 004).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from time import monotonic
from weakref import WeakValueDictionary

from aiozarr.errors import StoreError
from aiozarr.schedule.admission import AdmissionQueue, Budget
from aiozarr.schedule.coalesce import MergeLimits, RequestCostEstimator, merge_limits
from aiozarr.schedule.requests import RequestSource, ScheduledRequest, retry
from aiozarr.settings import Settings

MAX_DISPATCH_SECONDS = 0.005
"""Requests are started for this long in one turn of the loop; the rest follow in the next turn."""


class RequestExecutor:
    """The `RequestQueue` of one origin: all requests that the loop sends.

    The states of a request, and the calls that lead from one to the next::

        queued ──admit──> admitted ──start_nowait──> nowait ──respond──────────────> completed
          │                  │                        │  └──respond(StoreError)──┐       ↑
          │                  └──(store needs a task)──│─────────────────> task <─┘       │
          │                                           │                    └──retry ends─┤
          └──cancel───────────────────────────────────┴──cancel──────────────────────────┘

    Stores on a network have all their requests sent by the loop, blocking stores the single calls.

    A repetition keeps the place of its request in the budget, and does not wait in the queue again: its delay is the
    decision of `RetryPolicy` alone. A task executes one request after another while the queue admits requests that need
    a task.

    Args:
        budget: limits of requests and bytes in flight.
        after_responses: called after all responses that have arrived in one turn of the loop were processed.
    """

    is_blocking = False

    def __init__(self, budget: Budget | None = None, after_responses: Callable[[], None] | None = None) -> None:
        self._admission = AdmissionQueue(budget)
        self._after_responses = after_responses
        self._cost_estimator = RequestCostEstimator()
        self._next_dispatch: asyncio.Handle | None = None
        # Each task with the request that it was created for, until its first step has taken that.
        self._tasks: dict[asyncio.Task[None], ScheduledRequest | None] = {}
        self._nowait: set[ScheduledRequest] = set()
        self._responses: deque[tuple[ScheduledRequest, Exception | None]] = deque()
        self._is_closed = False
        self._clock: Callable[[], float] | None = None

    # --- sources ---------------------------------------------------------------------------------------------------

    def register(self, source: RequestSource) -> None:
        # Only while the server refuses everything does it matter when a source has begun.
        self._admission.register(source, 0.0 if self._admission.failing_since is None else self.now())

    def unregister(self, source: RequestSource) -> None:
        if self._admission.unregister(source):
            self._schedule_dispatch()

    def wake(self, source: RequestSource, *, now: bool = False) -> None:
        self._admission.add(source)
        if now:
            self._dispatch()
        else:
            self._schedule_dispatch()

    def submit_prepaid(self, requests: Sequence[ScheduledRequest]) -> None:
        self._admission.add_prepaid(requests)
        self._schedule_dispatch()

    def cancel(self, request: ScheduledRequest) -> None:
        if request.cancelled:
            return
        request.cancelled = True
        if request.task is not None:
            request.task.cancel()
        elif request.pending_fetch is not None:
            request.pending_fetch.give_up()
            request.pending_fetch = None
            asyncio.get_running_loop().call_soon(self._complete_cancelled, request)
        elif self._admission.withdraw(request):
            asyncio.get_running_loop().call_soon(request.completed, asyncio.CancelledError())
            self._schedule_dispatch()

    # --- limits and measurements -----------------------------------------------------------------------------------

    def merge_limits(self, settings: Settings) -> MergeLimits:
        gap = settings.merge_gap_bytes
        if gap == "auto":
            gap = self._cost_estimator.gap(self._running_clock()())
        return merge_limits(gap, settings.max_over_read, settings.max_request_bytes)

    def batch_bytes(self, nbytes: int) -> int:
        # Each stored object is a request of its own.
        return 0

    def charge(self, nbytes: int) -> None:
        if self._admission.charge(nbytes):
            self._schedule_dispatch()

    def observe(self, seconds: float, nbytes: int) -> None:
        self._cost_estimator.observe(seconds, nbytes)

    @property
    def budget(self) -> Budget:
        """The limits, and how much of them is in use."""
        return self._admission.budget

    @property
    def is_idle(self) -> bool:
        return self._admission.is_idle

    def __repr__(self) -> str:
        return f"RequestExecutor({self._admission!r}, tasks={len(self._tasks)}, nowait={len(self._nowait)})"

    def now(self) -> float:
        return self._running_clock()()

    def _running_clock(self) -> Callable[[], float]:
        """Return the clock of the loop. uvloop caches its time: where that is the machine's, return the machine's."""
        clock = self._clock
        if clock is None:
            clock = asyncio.get_running_loop().time
            self._clock = clock = monotonic if abs(clock() - monotonic()) < 1.0 else clock
        return clock

    # --- dispatch --------------------------------------------------------------------------------------------------

    def _schedule_dispatch(self) -> None:
        # Not at once: the caller may be a source that the queue is just asking.
        if self._next_dispatch is None:
            self._next_dispatch = asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self, *, in_task: bool = False) -> ScheduledRequest | None:
        """Start every request that the queue admits.

        Returns: `in_task`, a request that the calling task must execute, or None if there is none.
        """
        if self._is_closed:
            return None
        if self._next_dispatch is not None:
            self._next_dispatch.cancel()
            self._next_dispatch = None
        queue = self._admission
        request = own = None
        first = 0.0
        while (admitted := queue.admit()) is not None:
            request = admitted
            if request.cancelled:
                self._drop(request)
            elif not self._start_nowait(request):
                if in_task and own is None:
                    own = request
                else:
                    self._start_task(request)
            if not first:
                first = request.started
            elif request.started - first > MAX_DISPATCH_SECONDS:
                self._schedule_dispatch()
                break
        if request is not None and (count := queue.connections_to_open()):
            request.preconnect(count)
        return own

    # --- without a task --------------------------------------------------------------------------------------------

    def _start_nowait(self, request: ScheduledRequest) -> bool:
        clock = self._clock or self._running_clock()
        request.started = clock()
        if self._admission.failing_since is not None:
            request.waited = self._admission.waited(request, request.started)
        request.attempts += 1
        try:
            request.pending_fetch = request.start_nowait()
        except Exception:
            # The task that sends the request again gets the same exception.
            request.pending_fetch = None
        if request.pending_fetch is None:
            request.attempts -= 1
            return False
        self._nowait.add(request)
        return True

    def respond(self, request: ScheduledRequest, error: Exception | None) -> None:
        responses = self._responses
        responses.append((request, error))
        if len(responses) > 1:
            return
        if len(self._nowait) == 1 and request in self._nowait:
            # No other one can come.
            self._process_responses()
        else:
            # Responses arrive in bursts: all are received before the first is processed.
            asyncio.get_running_loop().call_soon(self._process_responses)

    def _process_responses(self) -> None:
        responses = self._responses
        try:
            while responses:
                self._process_response(*responses.popleft())
        finally:
            if responses:  # after an exception the others must still be processed
                asyncio.get_running_loop().call_soon(self._process_responses)
            else:
                if self._after_responses is not None:
                    self._after_responses()
                if self._next_dispatch is not None:
                    self._dispatch()  # what the responses have asked for need not wait for another turn

    def _process_response(self, request: ScheduledRequest, error: Exception | None) -> None:
        if request.pending_fetch is None:
            return  # cancelled meanwhile
        request.pending_fetch = None
        self._nowait.discard(request)
        if isinstance(error, StoreError):
            # A retry sleeps, which needs a task.
            self._start_task(request, error)
            return
        if error is None:
            clock = self._clock or self._running_clock()
            request.seconds = clock() - request.started
        self._admission.finish(request, error is None)
        request.completed(error)
        self._dispatch()

    def _complete_cancelled(self, request: ScheduledRequest) -> None:
        self._nowait.discard(request)
        self._drop(request)
        self._dispatch()

    def _drop(self, request: ScheduledRequest) -> None:
        self._admission.finish(request, succeeded=False)
        request.completed(asyncio.CancelledError())

    # --- in a task -------------------------------------------------------------------------------------------------

    def _start_task(self, request: ScheduledRequest, failure: StoreError | None = None) -> None:
        """Execute `request` in a new task. `failure`: the error of its first attempt, which had no task."""
        task = asyncio.get_running_loop().create_task(self._run_task(request, failure))
        self._tasks[task] = request
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        # A task that is cancelled before its first step runs none of its code, not even `finally`.
        request = self._tasks.pop(task)
        if request is not None:
            self._drop(request)

    async def _run_task(self, request: ScheduledRequest, failure: StoreError | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = None
        following: ScheduledRequest | None = request
        try:
            if request.cancelled:  # before this first step
                failure = None
                self._drop(request)
                following = self._dispatch(in_task=True)
            while following is not None:
                await self._execute(following, task, failure)
                failure = None
                following = self._dispatch(in_task=True)
        except Exception:
            # `completed` has raised. The requests of other sources go on.
            self._schedule_dispatch()
            raise
        finally:
            failure = None

    async def _execute(self, request: ScheduledRequest, task: asyncio.Task[None], failure: StoreError | None) -> None:
        queue = self._admission
        request.task = task
        error: BaseException | None = None
        try:
            await retry(request, request.send, self._clock or self._running_clock(), failure, queue.attempt_failed)
        except asyncio.CancelledError as cancelled:
            error = cancelled
            if not request.cancelled:
                raise
            task.uncancel()
        except Exception as refusal:
            error = refusal
        finally:
            request.task = None
            queue.finish(request, error is None)
            request.completed(error)
            # The traceback of the error holds this frame, which must not refer back to the error.
            error = failure = None

    async def close(self) -> None:
        """Cancel all requests in flight and wait for their ends. Requests that were not admitted are not sent."""
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for request in list(self._nowait):
            self.cancel(request)
        await asyncio.gather(*tasks, asyncio.sleep(0), return_exceptions=True)


MAX_UNUSED_QUEUES = 256
"""Origins whose measurements and limits are remembered while nothing uses them. A queue takes 4 to 5 KiB."""


class RequestQueues:
    """The queues of all origins whose requests one I/O thread sends.

    An origin has one queue as long as an operation uses it. Credentials are part of an origin: a service whose users
    bring their own meets new ones without end, so that old ones are forgotten.

    Args:
        after_responses: as for `RequestExecutor`.
    """

    def __init__(self, after_responses: Callable[[], None] | None = None) -> None:
        self._after_responses = after_responses
        self._queues: WeakValueDictionary[Hashable, RequestExecutor] = WeakValueDictionary()
        self._recent: OrderedDict[Hashable, RequestExecutor] = OrderedDict()

    def __len__(self) -> int:
        return len(self._queues)

    def of(self, origin: Hashable) -> RequestExecutor:
        """Return the one queue of an origin."""
        queue = self._recent.get(origin)
        if queue is not None:
            self._recent.move_to_end(origin)
            return queue
        queue = self._queues.get(origin)
        if queue is None:
            queue = self._queues[origin] = RequestExecutor(after_responses=self._after_responses)
        self._recent[origin] = queue
        if len(self._recent) > MAX_UNUSED_QUEUES:
            self._recent.popitem(last=False)
        return queue

    @property
    def is_idle(self) -> bool:
        """True if every queue is idle."""
        return not self.busy

    @property
    def busy(self) -> dict[Hashable, str]:
        """The state of the queues that are not idle, by origin."""
        return {origin: repr(queue) for origin, queue in list(self._queues.items()) if not queue.is_idle}

    async def close(self) -> None:
        """Cancel all requests in flight and wait for their ends."""
        for queue in list(self._queues.values()):
            await queue.close()
        self._queues.clear()
        self._recent.clear()
