"""The queue of one origin: who is asked for calls, and when."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterable

import pytest

from aiozarr.errors import StoreError
from aiozarr.schedule.budget import Budget
from aiozarr.schedule.call import Call, Source
from aiozarr.schedule.origin import Origin
from aiozarr.schedule.retry import RetryPolicy
from aiozarr.stores.prompt import Sent
from aiozarr.testing.virtual_time import run_virtual


class Request(Call):
    """Takes a second, and keeps its bytes."""

    def __init__(self, cost: int) -> None:
        super().__init__(RetryPolicy(0, 1.0), cost)
        self.error: BaseException | None = None

    async def send(self) -> None:
        await asyncio.sleep(1)

    def done(self, error: BaseException | None) -> None:
        self.error = error


class Caller(Source):
    """Hands out its calls, and counts how often it is asked for one more than there are."""

    max_requests: int | None = None
    max_bytes = 150

    def __init__(self, calls: Iterable[Request]) -> None:
        self.calls = list(calls)
        self.ends = 0

    def next(self) -> Call | None:
        self.ends += not self.calls
        return self.calls.pop(0) if self.calls else None

    def pending(self) -> int:
        return len(self.calls)


def test_who_has_handed_out_everything_is_asked_once_more_when_what_was_in_the_way_is_gone() -> None:
    async def scenario() -> None:
        origin = Origin()
        first, second = Request(100), Request(100)
        large, small = Caller([first, second]), Caller([Request(10)])
        origin.offer(large)
        origin.offer(small)
        await asyncio.sleep(2)  # the second call of `large` waits for room, and all workers have left
        assert (len(small.calls), small.ends) == (0, 0)
        second.cancelled = True
        origin.leave(large)
        await asyncio.sleep(0)
        assert isinstance(second.error, asyncio.CancelledError)
        assert small.ends == 1
        await origin.close()

    run_virtual(scenario())


class Prompt(Request):
    """Is sent at once, answered after a second with `outcomes` in turn (None: success), or by a worker as `Request`."""

    def __init__(self, origin: Origin, outcomes: Iterable[Exception | None] = (), *, retries: int = 0) -> None:
        super().__init__(1)
        self.policy = RetryPolicy(retries, 60.0)
        self.origin = origin
        self.outcomes = list(outcomes)
        self.at_hand = True
        self.ends: list[BaseException | None] = []
        self.waited_for = 0

    def begin(self) -> Sent | None:
        return Answer(self) if self.at_hand else None

    async def send(self) -> None:
        self.waited_for += 1
        await asyncio.sleep(1)
        if self.outcomes and (error := self.outcomes.pop(0)) is not None:
            raise error

    def cancel(self) -> None:
        super().cancel()
        self.origin.give_up(self)

    def done(self, error: BaseException | None) -> None:
        self.ends.append(error)
        self.origin.release(self.cost if error is None else 0)


class Answer:
    """The answer to a `Prompt` that is on its way."""

    def __init__(self, call: Prompt) -> None:
        self.call = call
        self.timer = asyncio.get_running_loop().call_later(1, self.come)

    def come(self) -> None:
        error = self.call.outcomes.pop(0) if self.call.outcomes else None
        self.call.origin.ended(self.call, error)

    def give_up(self) -> None:
        self.timer.cancel()


class Preparing(Prompt):
    """Notes for how many requests its store was told to make ready."""

    def __init__(self, origin: Origin, told: list[int], *, at_hand: bool) -> None:
        super().__init__(origin)
        self.told = told
        self.at_hand = at_hand

    def prepare(self, requests: int) -> None:
        self.told.append(requests)


def idle(origin: Origin) -> bool:
    """Return whether nothing is counted any more."""
    return (origin.budget.in_flight, origin.budget.bytes_in_flight) == (0, 0)


def test_calls_that_nobody_waits_for_keep_to_the_limit_and_follow_each_other() -> None:
    async def scenario() -> None:
        origin = Origin(Budget(3))
        calls = [Prompt(origin) for _ in range(10)]
        calls[4].at_hand = calls[5].at_hand = False
        begun = asyncio.get_running_loop().time()
        most = 0
        origin.offer(Caller(calls))
        while not all(call.ends for call in calls):
            most = max(most, origin.budget.in_flight)
            await asyncio.sleep(0.25)
        assert (most, asyncio.get_running_loop().time() - begun) == (3, 4)
        assert [call.ends for call in calls] == [[None]] * 10
        assert [call.waited_for for call in calls] == [0] * 4 + [1, 1] + [0] * 4
        assert all((call.attempts, call.seconds) == (1, 1) for call in calls)
        assert idle(origin)

    run_virtual(scenario())


def test_once_all_answers_of_a_turn_are_dealt_with_whoever_has_what_they_brought_is_told() -> None:
    class Faulty(Prompt):
        def done(self, error: BaseException | None) -> None:
            super().done(error)
            raise RuntimeError

    async def scenario() -> None:
        told: list[int] = []
        origin = Origin(after_answers=lambda: told.append(sum([len(call.ends) for call in calls])))
        calls = [Prompt(origin), Faulty(origin), Prompt(origin), Prompt(origin)]
        faults: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        origin.offer(Caller(calls))
        await asyncio.sleep(2)
        # Once for all of them, also where dealing with one has failed.
        assert (told, len(faults)) == ([4], 1)

    run_virtual(scenario())


def test_a_worker_repeats_what_has_failed_when_nobody_waited() -> None:
    async def scenario() -> None:
        origin = Origin()
        slow = StoreError("slow", retryable=True)
        mended, broken, other = (
            Prompt(origin, [slow, None], retries=3),
            Prompt(origin, [StoreError("no")], retries=3),
            Prompt(origin, [ValueError("odd")], retries=3),
        )
        origin.offer(Caller([mended, broken, other]))
        await asyncio.sleep(10)
        assert (mended.ends, mended.attempts, mended.waited_for) == ([None], 2, 1)
        assert mended.seconds > 2  # from its first sending on
        assert [type(error) for error in broken.ends + other.ends] == [StoreError, ValueError]
        assert (broken.attempts, broken.waited_for) == (1, 0)
        assert isinstance(broken.ends[0], StoreError)
        assert (broken.ends[0].attempts, broken.ends[0].elapsed) == (1, 1)
        assert idle(origin)

    run_virtual(scenario())


@pytest.mark.parametrize("moment", [0, 0.5, 1, 1.5])
@pytest.mark.parametrize("outcomes", [[], [StoreError("slow", retryable=True)]], ids=["answered", "refused"])
@pytest.mark.parametrize("at_hand", [True, False])
def test_a_call_ends_once_whenever_it_is_cancelled(moment: float, outcomes: list[Exception], at_hand: bool) -> None:
    """Also between its answer and the turn of the loop in which that is dealt with, before or behind it."""

    async def scenario(*, behind: bool) -> None:
        loop = asyncio.get_running_loop()
        origin = Origin()
        call = Prompt(origin, outcomes, retries=3)
        call.at_hand = at_hand
        if not behind:
            loop.call_later(moment, call.cancel)
        origin.offer(Caller([call]))
        await asyncio.sleep(0)
        if behind:
            loop.call_later(moment, call.cancel)
        await asyncio.sleep(10)
        assert len(call.ends) == 1
        assert call.ends[0] is None or isinstance(call.ends[0], asyncio.CancelledError)
        assert call.ends[0] is not None or moment >= 1
        assert idle(origin)

    run_virtual(scenario(behind=False))
    run_virtual(scenario(behind=True))


def test_closing_ends_what_nobody_waits_for_and_begins_nothing_more() -> None:
    async def scenario() -> None:
        origin = Origin(Budget(2))
        calls = [Prompt(origin) for _ in range(5)]
        origin.offer(Caller(calls))
        await asyncio.sleep(0.5)
        await origin.close()
        await asyncio.sleep(5)
        assert [len(call.ends) for call in calls] == [1, 1, 0, 0, 0]
        assert all(isinstance(call.ends[0], asyncio.CancelledError) for call in calls[:2])
        assert idle(origin)

    run_virtual(scenario())


def test_a_fault_of_one_call_harms_no_other() -> None:
    class Faulty(Prompt):
        def done(self, error: BaseException | None) -> None:
            super().done(error)
            raise ZeroDivisionError

    async def scenario() -> None:
        origin = Origin()
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
        first, second = Faulty(origin), Prompt(origin)
        origin.offer(Caller([first, second]))
        await asyncio.sleep(5)
        assert second.ends == [None]
        assert [type(fault) for fault in faults] == [ZeroDivisionError]

    run_virtual(scenario())


def test_no_cycle_is_left_of_a_refusal() -> None:
    """The error's traceback leads to frames, and no frame back to the error: arrays would wait for the collector."""

    async def scenario() -> weakref.ref[BaseException]:
        origin = Origin()
        call = Prompt(origin, [StoreError("no")])
        origin.offer(Caller([call]))
        await asyncio.sleep(2)
        error = call.ends.pop()
        assert error is not None
        return weakref.ref(error)

    gc.disable()
    try:
        assert run_virtual(scenario())() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("at_hand", [True, False])
def test_one_worker_begins_all_calls_and_has_help_only_where_it_waits(at_hand: bool) -> None:
    async def scenario() -> None:
        origin = Origin()
        calls = [Prompt(origin) for _ in range(40)]
        for call in calls:
            call.at_hand = at_hand
        origin.offer(Caller(calls))
        await asyncio.sleep(0.5)
        assert origin.budget.in_flight == 40
        assert len(asyncio.all_tasks()) == 1 + (0 if at_hand else 40)
        await asyncio.sleep(1)
        assert all(call.ends == [None] for call in calls)
        assert idle(origin)

    run_virtual(scenario())


@pytest.mark.parametrize("at_hand", [True, False])
def test_bytes_are_counted_from_the_moment_a_call_is_taken(at_hand: bool) -> None:
    """Also of calls whose worker has not begun yet."""

    async def scenario() -> None:
        origin = Origin()
        first, *others = calls = [Prompt(origin) for _ in range(9)]
        for call in calls:
            call.cost = 50  # three of them fit
        for call in others:
            call.at_hand = at_hand
        origin.offer(Caller([first]))
        await asyncio.sleep(0.5)
        caller = Caller(others)
        origin.budget.cap(1)
        origin.offer(caller)
        origin.budget.uncap(1)
        most = 0
        while not all(call.ends for call in calls):
            most = max(most, origin.budget.bytes_in_flight)
            await asyncio.sleep(0)
            await asyncio.sleep(0.125)
        assert most == 150
        assert idle(origin)

    run_virtual(scenario())


def test_a_call_ends_also_where_its_worker_is_cancelled_before_it_has_begun() -> None:
    class Last(Prompt):
        def done(self, error: BaseException | None) -> None:
            super().done(error)
            # As when the loop is wound up: behind this call's end, before the task of the next has had its turn.
            asyncio.get_running_loop().call_soon(cancel_all)

    async def scenario() -> None:
        first, second = Last(origin), Prompt(origin)
        second.at_hand = False
        origin.budget.cap(1)
        origin.offer(Caller([first, second]))
        await asyncio.sleep(5)
        assert first.ends == [None]
        assert [type(end) for end in second.ends] == [asyncio.CancelledError]
        assert (second.waited_for, idle(origin)) == (0, True)

    def cancel_all() -> None:
        for task in asyncio.all_tasks():
            if "_go_on" in repr(task):
                task.cancel()

    origin = Origin()
    run_virtual(scenario())


@pytest.mark.parametrize("at_hand", [True, False])
@pytest.mark.parametrize(
    ("count", "ceiling", "fixed", "expected"),
    [
        (64, 512, None, []),  # there is room for all
        (65, 512, None, [65]),
        (200, 512, None, [128, 136]),
        (2000, 512, None, [128, 256, 512]),
        (200, 64, None, []),  # there is never more room
        (200, 100, None, [100]),
        (200, 512, 8, []),
    ],
)
def test_connections_are_asked_for_ahead_as_far_as_the_limit_may_grow_and_calls_are_left(
    at_hand: bool, count: int, ceiling: int, fixed: int | None, expected: list[int]
) -> None:
    async def scenario() -> None:
        origin, told = Origin(Budget(ceiling)), list[int]()
        calls = [Preparing(origin, told, at_hand=at_hand) for _ in range(count)]
        caller = Caller(calls)
        caller.max_requests, caller.max_bytes = fixed, count
        origin.enter(caller)
        origin.offer(caller)
        while not all(call.ends for call in calls):
            await asyncio.sleep(0.25)
        assert told == expected
        origin.leave(caller)

    run_virtual(scenario())


def test_after_a_pause_connections_are_asked_for_again() -> None:
    async def scenario() -> None:
        origin, told = Origin(), list[int]()
        for _ in range(2):
            calls = [Preparing(origin, told, at_hand=True) for _ in range(65)]
            caller = Caller(calls)
            origin.budget = Budget()  # as after refusals
            origin.enter(caller)
            origin.offer(caller)
            await asyncio.sleep(10)
            assert all(call.ends for call in calls)
        assert told == [65, 65]

    run_virtual(scenario())
