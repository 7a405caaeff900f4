"""The executor of the requests of one origin: without a task, in tasks, cancelled, closed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterable

import pytest

from aiozarr.errors import StoreError, ThrottledError
from aiozarr.schedule.admission import START, Budget
from aiozarr.schedule.executor import MAX_UNUSED_QUEUES, RequestExecutor, RequestQueues
from aiozarr.schedule.requests import RequestSource, RetryPolicy, ScheduledRequest
from aiozarr.stores.capabilities import PendingFetch
from aiozarr.testing.virtual_time import in_virtual_time, run_virtual


class Slow(ScheduledRequest):
    """Takes a second in a task, and does not release its bytes."""

    def __init__(self, held: int) -> None:
        super().__init__(RetryPolicy(0, 1.0), held)
        self.error: BaseException | None = None

    async def send(self) -> None:
        await asyncio.sleep(1)

    def completed(self, error: BaseException | None) -> None:
        self.error = error


class Caller(RequestSource):
    """Hands out its requests, and counts how often it is asked when it has none."""

    max_requests: int | None = None
    max_bytes = 150

    def __init__(self, calls: Iterable[Slow]) -> None:
        self.calls = list(calls)
        self.ends = 0

    def next(self) -> ScheduledRequest | None:
        self.ends += not self.calls
        return self.calls.pop(0) if self.calls else None

    def pending(self) -> int:
        return len(self.calls)


@in_virtual_time
async def test_a_source_is_asked_again_when_its_request_that_waits_for_bytes_was_cancelled() -> None:
    executor = RequestExecutor()
    first, second = Slow(100), Slow(100)
    large, small = Caller([first, second]), Caller([Slow(10)])
    executor.wake(large)
    executor.wake(small)
    await asyncio.sleep(2)  # the second request of `large` waits for bytes, and no task is left
    assert (len(small.calls), small.ends) == (0, 0)
    executor.cancel(second)
    executor.unregister(large)
    await asyncio.sleep(0)
    assert isinstance(second.error, asyncio.CancelledError)
    assert small.ends == 1
    await executor.close()


class Immediate(Slow):
    """Is sent without a task if `is_nowait`.

    Each attempt takes a second and has the next of `outcomes`: an error, or None for success.
    """

    def __init__(
        self, executor: RequestExecutor, outcomes: Iterable[Exception | None] = (), *, retries: int = 0
    ) -> None:
        super().__init__(1)
        self.policy = RetryPolicy(retries, 60.0)
        self.executor = executor
        self.outcomes = list(outcomes)
        self.is_nowait = True
        self.ends: list[BaseException | None] = []
        self.task_attempts = 0

    def start_nowait(self) -> PendingFetch | None:
        return InFlight(self) if self.is_nowait else None

    async def send(self) -> None:
        self.task_attempts += 1
        await asyncio.sleep(1)
        if self.outcomes and (error := self.outcomes.pop(0)) is not None:
            raise error

    def completed(self, error: BaseException | None) -> None:
        self.ends.append(error)
        self.executor.charge(-self.held if error is None else 0)


class InFlight:
    """The request in flight of an `Immediate`."""

    def __init__(self, call: Immediate) -> None:
        self.call = call
        self.timer = asyncio.get_running_loop().call_later(1, self.end)

    def end(self) -> None:
        error = self.call.outcomes.pop(0) if self.call.outcomes else None
        self.call.executor.respond(self.call, error)

    def give_up(self) -> None:
        self.timer.cancel()


class Preconnecting(Immediate):
    """Records for how many requests its store was asked to open connections."""

    def __init__(self, executor: RequestExecutor, asked: list[int], *, is_nowait: bool) -> None:
        super().__init__(executor)
        self.asked = asked
        self.is_nowait = is_nowait

    def preconnect(self, requests: int) -> None:
        self.asked.append(requests)


def idle(executor: RequestExecutor) -> bool:
    """Return whether no request and no byte is counted."""
    return (executor.budget.in_flight, executor.budget.bytes_in_flight) == (0, 0)


@in_virtual_time
async def test_requests_without_a_task_keep_to_the_limit_and_follow_each_other() -> None:
    executor = RequestExecutor(Budget(3))
    calls = [Immediate(executor) for _ in range(10)]
    calls[4].is_nowait = calls[5].is_nowait = False
    begun = asyncio.get_running_loop().time()
    most = 0
    executor.wake(Caller(calls))
    while not all(call.ends for call in calls):
        most = max(most, executor.budget.in_flight)
        await asyncio.sleep(0.25)
    assert (most, asyncio.get_running_loop().time() - begun) == (3, 4)
    assert [call.ends for call in calls] == [[None]] * 10
    assert [call.task_attempts for call in calls] == [0] * 4 + [1, 1] + [0] * 4
    assert all((call.attempts, call.seconds) == (1, 1) for call in calls)
    assert idle(executor)


@in_virtual_time
async def test_the_callback_is_called_once_after_all_responses_of_a_turn() -> None:
    class Faulty(Immediate):
        def completed(self, error: BaseException | None) -> None:
            super().completed(error)
            raise RuntimeError

    asked: list[int] = []
    executor = RequestExecutor(after_responses=lambda: asked.append(sum([len(call.ends) for call in calls])))
    calls = [Immediate(executor), Faulty(executor), Immediate(executor), Immediate(executor)]
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    executor.wake(Caller(calls))
    await asyncio.sleep(2)
    # Once for all of them, although the processing of one has failed.
    assert (asked, len(faults)) == ([4], 1)


@in_virtual_time
async def test_a_task_retries_a_request_that_failed_without_one() -> None:
    executor = RequestExecutor()
    slow = StoreError("slow", retryable=True)
    mended, broken, other = (
        Immediate(executor, [slow, None], retries=3),
        Immediate(executor, [StoreError("no")], retries=3),
        Immediate(executor, [ValueError("odd")], retries=3),
    )
    executor.wake(Caller([mended, broken, other]))
    await asyncio.sleep(10)
    assert (mended.ends, mended.attempts, mended.task_attempts) == ([None], 2, 1)
    assert mended.seconds > 2  # from its first attempt
    assert [type(error) for error in broken.ends + other.ends] == [StoreError, ValueError]
    assert (broken.attempts, broken.task_attempts) == (1, 0)
    assert isinstance(broken.ends[0], StoreError)
    assert (broken.ends[0].attempts, broken.ends[0].elapsed) == (1, 1)
    assert idle(executor)


@pytest.mark.parametrize("moment", [0, 0.5, 1, 1.5])
@pytest.mark.parametrize("outcomes", [[], [StoreError("slow", retryable=True)]], ids=["answered", "refused"])
@pytest.mark.parametrize("is_nowait", [True, False])
def test_a_request_completes_once_whenever_it_is_cancelled(
    moment: float, outcomes: list[Exception], is_nowait: bool
) -> None:
    """Also between its response and the turn of the loop that processes it, before or after it."""

    async def scenario(*, after_wake: bool) -> None:
        loop = asyncio.get_running_loop()
        executor = RequestExecutor()
        call = Immediate(executor, outcomes, retries=3)
        call.is_nowait = is_nowait
        if not after_wake:
            loop.call_later(moment, executor.cancel, call)
        executor.wake(Caller([call]))
        await asyncio.sleep(0)
        if after_wake:
            loop.call_later(moment, executor.cancel, call)
        await asyncio.sleep(10)
        assert len(call.ends) == 1
        assert call.ends[0] is None or isinstance(call.ends[0], asyncio.CancelledError)
        assert call.ends[0] is not None or moment >= 1
        assert idle(executor)

    run_virtual(scenario(after_wake=False))
    run_virtual(scenario(after_wake=True))


@in_virtual_time
async def test_closing_cancels_requests_in_flight_and_starts_no_others() -> None:
    executor = RequestExecutor(Budget(2))
    calls = [Immediate(executor) for _ in range(5)]
    executor.wake(Caller(calls))
    await asyncio.sleep(0.5)
    await executor.close()
    await asyncio.sleep(5)
    assert [len(call.ends) for call in calls] == [1, 1, 0, 0, 0]
    assert all(isinstance(call.ends[0], asyncio.CancelledError) for call in calls[:2])
    assert idle(executor)


@in_virtual_time
async def test_an_exception_of_one_request_does_not_stop_the_others() -> None:
    class Faulty(Immediate):
        def completed(self, error: BaseException | None) -> None:
            super().completed(error)
            raise ZeroDivisionError

    executor = RequestExecutor()
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    first, second = Faulty(executor), Immediate(executor)
    executor.wake(Caller([first, second]))
    await asyncio.sleep(5)
    assert second.ends == [None]
    assert [type(fault) for fault in faults] == [ZeroDivisionError]


def test_an_error_is_in_no_reference_cycle() -> None:
    """No frame of the traceback refers to the error: else arrays would stay in memory until the collector runs."""

    async def scenario() -> weakref.ref[BaseException]:
        executor = RequestExecutor()
        call = Immediate(executor, [StoreError("no")])
        executor.wake(Caller([call]))
        await asyncio.sleep(2)
        error = call.ends.pop()
        assert error is not None
        return weakref.ref(error)

    gc.disable()
    try:
        assert run_virtual(scenario())() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("is_nowait", [True, False])
@in_virtual_time
async def test_only_requests_that_need_one_have_a_task(is_nowait: bool) -> None:
    executor = RequestExecutor()
    calls = [Immediate(executor) for _ in range(40)]
    for call in calls:
        call.is_nowait = is_nowait
    executor.wake(Caller(calls))
    await asyncio.sleep(0.5)
    assert executor.budget.in_flight == 40
    assert len(asyncio.all_tasks()) == 1 + (0 if is_nowait else 40)
    await asyncio.sleep(1)
    assert all(call.ends == [None] for call in calls)
    assert idle(executor)


@pytest.mark.parametrize("is_nowait", [True, False])
@in_virtual_time
async def test_bytes_are_counted_from_admission(is_nowait: bool) -> None:
    """Also those of requests whose task has not started."""
    executor = RequestExecutor()
    first, *others = calls = [Immediate(executor) for _ in range(9)]
    for call in calls:
        call.held = 50  # the budget has room for three
    for call in others:
        call.is_nowait = is_nowait
    executor.wake(Caller([first]))
    await asyncio.sleep(0.5)
    caller = Caller(others)
    executor.budget.cap(1)
    executor.wake(caller)
    executor.budget.uncap(1)
    most = 0
    while not all(call.ends for call in calls):
        most = max(most, executor.budget.bytes_in_flight)
        await asyncio.sleep(0)
        await asyncio.sleep(0.125)
    assert most == 150
    assert idle(executor)


@in_virtual_time
async def test_a_request_completes_even_if_its_task_is_cancelled_before_its_first_step() -> None:
    class Last(Immediate):
        def completed(self, error: BaseException | None) -> None:
            super().completed(error)
            # As in a shutdown of the loop: after the end of this request, before the first step of the next task.
            asyncio.get_running_loop().call_soon(cancel_all)

    def cancel_all() -> None:
        for task in asyncio.all_tasks():
            if task is not main:
                task.cancel()

    main: asyncio.Task[object] | None = None
    executor = RequestExecutor()

    main = asyncio.current_task()
    first, second = Last(executor), Immediate(executor)
    second.is_nowait = False
    executor.budget.cap(1)
    executor.wake(Caller([first, second]))
    await asyncio.sleep(5)
    assert first.ends == [None]
    assert [type(end) for end in second.ends] == [asyncio.CancelledError]
    assert (second.task_attempts, idle(executor)) == (0, True)


@pytest.mark.parametrize("is_nowait", [True, False])
@pytest.mark.parametrize(
    ("count", "ceiling", "fixed", "expected"),
    [
        (64, 512, None, []),  # the limit admits all
        (65, 512, None, [65]),
        (200, 512, None, [128, 136]),
        (2000, 512, None, [128, 256, 512]),
        (200, 64, None, []),  # the limit cannot grow
        (200, 100, None, [100]),
        (200, 512, 8, []),
    ],
)
@in_virtual_time
async def test_connections_are_opened_ahead_as_far_as_the_limit_may_grow_and_requests_are_queued(
    is_nowait: bool, count: int, ceiling: int, fixed: int | None, expected: list[int]
) -> None:
    executor, asked = RequestExecutor(Budget(ceiling)), list[int]()
    calls = [Preconnecting(executor, asked, is_nowait=is_nowait) for _ in range(count)]
    caller = Caller(calls)
    caller.max_requests, caller.max_bytes = fixed, count
    executor.register(caller)
    executor.wake(caller)
    while not all(call.ends for call in calls):
        await asyncio.sleep(0.25)
    assert asked == expected
    executor.unregister(caller)


@in_virtual_time
async def test_after_a_pause_connections_are_opened_again() -> None:
    executor, asked = RequestExecutor(), list[int]()
    for _ in range(2):
        calls = [Preconnecting(executor, asked, is_nowait=True) for _ in range(65)]
        caller = Caller(calls)
        executor.register(caller)
        executor.wake(caller)
        await asyncio.sleep(10)
        assert all(call.ends for call in calls)
        assert executor.budget.limit == START
    assert asked == [65, 65]


def test_unused_origins_are_forgotten_when_there_are_many_and_used_ones_keep_their_queue() -> None:
    queues = RequestQueues()
    used, recent = queues.of("used"), queues.of("recent")
    recent.budget.cap(3)
    unused = weakref.ref(queues.of("unused"))
    for number in range(3 * MAX_UNUSED_QUEUES):
        queues.of(number)
        assert queues.of("recent") is recent
    assert unused() is None
    assert len(queues) == MAX_UNUSED_QUEUES + 1  # and the used one
    assert queues.of("used") is used
    assert list(queues.busy) == ["recent"]


class Refused(ScheduledRequest):
    """Is refused by the server until `recovery`, a time of the loop."""

    def __init__(self, recovery: float) -> None:
        super().__init__(RetryPolicy(50, 4.0), 0)
        self.recovery = recovery
        self.outcome: list[BaseException | None] = []
        self.ended_at = 0.0

    async def send(self) -> None:
        await asyncio.sleep(0.02)
        if asyncio.get_running_loop().time() < self.recovery:
            raise ThrottledError("busy", status=503, retryable=True)

    def completed(self, error: BaseException | None) -> None:
        self.outcome.append(error)
        self.ended_at = asyncio.get_running_loop().time()


@pytest.mark.parametrize("recovery", [float("inf"), 1.0])
@in_virtual_time
async def test_readers_of_a_server_that_refuses_everything_share_one_deadline(recovery: float) -> None:
    executor = RequestExecutor()
    begun = asyncio.get_running_loop().time()
    requests = [Refused(begun + recovery) for _ in range(64)]
    for request in requests:
        caller = Caller([request])
        executor.register(caller)
        executor.wake(caller)
    while not all(request.outcome for request in requests):
        await asyncio.sleep(0.1)
    assert max(request.ended_at for request in requests) - begun <= 6
    failed = [error for request in requests for error in request.outcome if error is not None]
    assert len(failed) == (64 if recovery == float("inf") else 0)
    # A request that begins later has its own time, also while the server still refuses.
    late = Refused(asyncio.get_running_loop().time() + 1)
    caller = Caller([late])
    executor.register(caller)
    executor.wake(caller)
    await asyncio.sleep(10)
    assert late.outcome == [None]
    await executor.close()
