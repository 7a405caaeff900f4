"""Virtual time: the clock jumps, order is kept, and a deadlock is an error."""

from __future__ import annotations

import asyncio
import threading

import pytest

from aiozarr.common.concurrency import random_jitter
from aiozarr.testing.virtual_time import DeadlockError, run_virtual


def test_sleeping_costs_no_time_and_moves_the_clock() -> None:
    async def main() -> float:
        assert asyncio.get_running_loop().time() == 0.0
        for _ in range(8):
            await asyncio.sleep(0.05)
        assert asyncio.get_running_loop().time() == 0.4
        await asyncio.sleep(1e6)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 1_000_000.4


def test_timers_fire_in_the_order_of_their_times() -> None:
    order: list[int] = []

    async def note(number: int, seconds: float) -> None:
        await asyncio.sleep(seconds)
        order.append(number)

    async def main() -> None:
        await asyncio.gather(note(3, 30), note(1, 10), note(2, 20), note(0, 0))

    run_virtual(main())
    assert order == [0, 1, 2, 3]


def test_timeouts_and_cancellation_work() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 3600.0


def test_delays_between_attempts_are_repeated_by_their_seed() -> None:
    async def drawn() -> list[float]:
        return [*await asyncio.gather(*[asyncio.to_thread(random_jitter) for _ in range(3)]), random_jitter()]

    assert run_virtual(drawn(), seed=1) == run_virtual(drawn(), seed=1) != run_virtual(drawn(), seed=2)
    assert random_jitter() != random_jitter()


def test_a_task_that_nothing_can_wake_is_a_deadlock_error_with_its_name() -> None:
    async def main() -> None:
        await asyncio.gather(asyncio.create_task(asyncio.Event().wait(), name="the one that waits"))

    with pytest.raises(DeadlockError, match="the one that waits"):
        run_virtual(main())


def test_the_default_executor_runs_at_once_in_no_time() -> None:
    async def main() -> tuple[int, float]:
        here = await asyncio.to_thread(threading.get_ident)
        with pytest.raises(ZeroDivisionError):
            await asyncio.get_running_loop().run_in_executor(None, lambda: 1 // 0)
        return here, asyncio.get_running_loop().time()

    assert run_virtual(main()) == (threading.get_ident(), 0.0)


def test_the_clock_stands_still_while_threads_are_at_work() -> None:
    at_work = True

    async def main() -> float:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def work() -> None:
            nonlocal at_work
            at_work = False
            loop.call_soon_threadsafe(done.set)

        threading.Timer(0.05, work).start()
        await done.wait()
        return loop.time()

    assert run_virtual(main(), busy=lambda: at_work) == 0.0


def test_threads_that_never_report_are_a_deadlock_error() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError, match="threads"):
        run_virtual(main(), busy=lambda: True, patience=0.01)
