"""Coroutines run together, calls are shared, and cancelled tasks are waited for."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import AsyncIterator
from weakref import ref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiozarr.common.concurrency import (
    ByteSemaphore,
    PerLoop,
    SingleFlight,
    cancel_and_wait,
    for_each,
    for_each_of,
    gather_all,
    map_concurrently,
    random_jitter,
    wait_uncancelled,
)
from aiozarr.engine.group_commit import delays
from aiozarr.errors import StoreError
from aiozarr.testing.virtual_time import in_virtual_time, run_virtual


async def test_results_come_in_order() -> None:
    async def later(number: int) -> int:
        for _ in range(5 - number):
            await asyncio.sleep(0)
        return number

    assert await gather_all(later(n) for n in range(5)) == [0, 1, 2, 3, 4]
    assert await map_concurrently(later, range(5), concurrency=2) == [0, 1, 2, 3, 4]


async def test_the_first_error_is_raised_itself_once_the_others_have_ended() -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("slow")

    async def failing() -> None:
        try:
            raise KeyError("cause")
        except KeyError as cause:
            raise ValueError("mine") from cause

    with pytest.raises(ValueError, match="mine") as caught:
        await gather_all([slow(), failing()])
    assert ended == ["slow"]
    assert isinstance(caught.value.__cause__, KeyError)


async def test_no_more_than_the_width_are_under_way() -> None:
    under_way = most = 0

    async def visit(_: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1

    await for_each(visit, iter(range(50)), concurrency=7)
    assert most == 7


async def test_a_cancellation_cancels_all() -> None:
    cancelled = 0

    async def wait(_: int) -> None:
        nonlocal cancelled
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled += 1
            raise

    task = asyncio.ensure_future(map_concurrently(wait, range(9), concurrency=3))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled == 3


def test_a_second_cancellation_while_a_shared_call_ends_logs_no_error() -> None:
    async def main() -> list[str]:
        logged: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context["message"]))

        async def call() -> None:
            try:
                await asyncio.sleep(10)
            finally:
                await asyncio.sleep(10)
                raise RuntimeError("no caller is left")

        waiting = asyncio.create_task(SingleFlight[str]().run("k", call))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.sleep(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(100)
        assert len(asyncio.all_tasks()) == 1
        return logged

    assert run_virtual(main()) == []


def test_a_new_call_starts_after_the_last_one_has_ended_or_was_forgotten() -> None:
    async def main() -> None:
        single_flight, count = SingleFlight[str](), 0

        async def call() -> int:
            nonlocal count
            count += 1
            number = count
            await asyncio.sleep(5)
            return number

        def run() -> asyncio.Task[int]:
            return asyncio.create_task(single_flight.run("k", call))

        early = [run(), run()]
        await asyncio.sleep(1)
        single_flight.forget(lambda key: key == "k")
        late = [run(), run()]
        await asyncio.sleep(1)
        single_flight.forget(lambda key: key == "another")
        last = run()
        assert await asyncio.gather(*early, *late, last) == [1, 1, 2, 2, 2]
        assert await run() == 3
        assert not single_flight._calls

    run_virtual(main())


@in_virtual_time
async def test_a_shared_call_that_cancels_itself_cancels_its_callers() -> None:
    async def call() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    with pytest.raises(asyncio.CancelledError):
        await SingleFlight[str]().run("k", call)


@in_virtual_time
async def test_each_caller_of_a_shared_call_gets_an_error_of_its_own() -> None:
    single_flight = SingleFlight[str]()

    async def call() -> None:
        await asyncio.sleep(1)
        raise StoreError("no") from ValueError("cause")

    errors = await asyncio.gather(*(single_flight.run("k", call) for _ in range(3)), return_exceptions=True)
    assert len({id(error) for error in errors}) == 3
    assert [(type(error), str(error.__cause__)) for error in errors if error] == [(StoreError, "cause")] * 3


@pytest.mark.parametrize("cancellations", [0, 1, 5])
@in_virtual_time
async def test_cancelled_tasks_are_waited_for_however_often_the_waiter_is_cancelled(cancellations: int) -> None:
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(10)
            ended.append(name)
            raise RuntimeError("dropped")

    tasks = [asyncio.create_task(work(name)) for name in "ab"]
    await asyncio.sleep(1)
    waiting = asyncio.create_task(cancel_and_wait(*tasks))
    for _ in range(cancellations):
        await asyncio.sleep(1)
        waiting.cancel("stop")
    if cancellations:
        with pytest.raises(asyncio.CancelledError, match="stop"):
            await waiting
    else:
        await waiting
    assert ended == ["a", "b"]


async def test_waiting_leaves_results_and_errors_to_the_caller() -> None:
    done, failed = asyncio.get_running_loop().create_future(), asyncio.get_running_loop().create_future()
    done.set_result(1)
    failed.set_exception(ValueError("no"))
    await wait_uncancelled(done, failed)
    assert done.result() == 1
    with pytest.raises(ValueError, match="no"):
        failed.result()


def test_delays_leave_the_state_of_random_to_the_program() -> None:
    before = random.getstate()
    assert 0 <= random_jitter() < 1
    assert next(delays(5, 1.0)) < 1
    assert random.getstate() == before


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 15), st.floats(0, 3), st.floats(0, 4)), max_size=30))
@in_virtual_time
async def test_never_more_than_the_limit_is_held_unless_one_object_is_alone(
    holders: list[tuple[int, float, float]],
) -> None:
    semaphore = ByteSemaphore(10)
    held: list[int] = []

    async def hold(size: int, arrives: float, stays: float) -> None:
        await asyncio.sleep(arrives)
        async with semaphore.hold(size):
            held.append(size)
            try:
                assert sum(held) <= 10 or max(held) == sum(held)
                await asyncio.sleep(stays)
            finally:
                held.remove(size)

    tasks = [asyncio.ensure_future(hold(*each)) for each in holders]
    # Some are cancelled, waiting or holding: all bytes must be released.
    await asyncio.sleep(2)
    for task in tasks[::3]:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert result is None or isinstance(result, asyncio.CancelledError)
    assert semaphore.held == 0


@in_virtual_time
async def test_items_of_an_iterator_are_shared_and_pulled_as_they_are_needed() -> None:
    pulled, done = 0, list[int]()

    async def numbers() -> AsyncIterator[int]:
        nonlocal pulled
        for number in range(40):
            pulled += 1
            yield number

    async def work(number: int) -> None:
        assert pulled <= len(done) + 3
        await asyncio.sleep(1)
        done.append(number)
        if number == 15:
            raise StoreError("no")

    with pytest.raises(StoreError):
        await for_each_of(work, numbers(), concurrency=3)
    assert done == list(range(len(done)))
    assert 16 <= len(done) <= pulled <= len(done) + 3


def test_small_objects_do_not_starve_a_large_one() -> None:
    async def scenario() -> list[str]:
        semaphore = ByteSemaphore(10)
        order: list[str] = []

        async def hold(name: str, size: int) -> None:
            async with semaphore.hold(size):
                order.append(name)
                await asyncio.sleep(1)

        await asyncio.gather(hold("first", 6), hold("large", 10), hold("small", 1))
        return order

    assert run_virtual(scenario()) == ["first", "large", "small"]


def test_a_closed_loop_is_collected_although_its_value_refers_to_it() -> None:
    futures = PerLoop(lambda loop: loop.create_future())
    closed, running = asyncio.new_event_loop(), asyncio.new_event_loop()
    assert futures.get(closed) is futures.get(closed)
    closed.close()
    assert futures.get(running).get_loop() is running
    closed_loop = ref(closed)
    del closed
    gc.collect()
    assert closed_loop() is None
    running.close()
