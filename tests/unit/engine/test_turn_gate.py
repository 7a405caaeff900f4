"""The gate that spreads short pieces of work over turns of a loop."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import suppress
from itertools import pairwise

import aiozarr
from aiozarr.common.concurrency import MAX_DIRECT_READS_PER_TURN, TurnGate, read_gate


async def _turns(gate: TurnGate, callers: int) -> list[list[int]]:
    """Return which of the callers have passed in each turn of the loop."""
    turns: list[list[int]] = [[]]

    async def pass_through(number: int) -> None:
        await gate.enter()
        turns[-1].append(number)

    tasks = [asyncio.ensure_future(pass_through(number)) for number in range(callers)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        turns.append([])
    return [turn for turn in turns if turn]


async def test_so_many_callers_pass_in_one_turn_first_come_first_served() -> None:
    assert await _turns(TurnGate(3), 8) == [[0, 1, 2], [3, 4, 5], [6, 7]]


async def test_callers_that_take_long_pass_in_smaller_numbers_until_they_are_short_again() -> None:
    now, cost = 0.0, 0.5
    passed: list[int] = [0]
    gate = TurnGate(8, 1.0, clock=lambda: now)

    async def work() -> None:
        nonlocal now
        await gate.enter()
        now += cost
        passed[-1] += 1

    async def run(callers: int) -> list[int]:
        passed[:] = [0]
        tasks = [asyncio.ensure_future(work()) for _ in range(callers)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            passed.append(0)
        return [count for count in passed if count]

    assert await run(14) == [8, 2, 2, 2]
    cost = 3.0
    assert await run(4) == [2, 1, 1]
    cost = 0.01
    assert await run(17) == [1, 8, 8]


async def test_a_cancelled_caller_leaves_its_place_to_others() -> None:
    gate = TurnGate(1)
    tasks = [asyncio.ensure_future(gate.enter()) for _ in range(3)]
    await asyncio.sleep(0)
    assert [task.done() for task in tasks] == [True, False, False]
    tasks[1].cancel()
    await asyncio.wait(tasks)
    await asyncio.sleep(0)
    assert gate.try_enter()


async def test_hundreds_of_reads_from_memory_let_other_tasks_run() -> None:
    array = await aiozarr.create_array("memory://turn-gate", shape=(8, 4), dtype="i4", chunks=(2, 4), overwrite=True)
    await array[...].write([[row] * 4 for row in range(8)])
    await array[...]  # the first read of a process makes the tables that immediate reads look into
    count = 10 * MAX_DIRECT_READS_PER_TURN
    tasks = [asyncio.ensure_future(array[number % 8, 0].read()) for number in range(count)]
    done = [0]
    while done[-1] < count:
        await asyncio.sleep(0)
        done.append(sum([task.done() for task in tasks]))
    assert max([after - before for before, after in pairwise(done)]) <= MAX_DIRECT_READS_PER_TURN
    assert [int(task.result()) for task in tasks] == [number % 8 for number in range(count)]
    assert read_gate() is read_gate()


def test_a_loop_that_is_closed_while_callers_wait_for_a_turn_is_collected() -> None:
    async def enter(callers: int) -> weakref.ref[asyncio.AbstractEventLoop]:
        for _ in range(callers):
            coroutine = read_gate().enter()
            with suppress(StopIteration):
                coroutine.send(None)
        return weakref.ref(asyncio.get_running_loop())

    closed_loop = asyncio.run(enter(100 * MAX_DIRECT_READS_PER_TURN))
    asyncio.run(enter(1))
    gc.collect()
    assert closed_loop() is None
