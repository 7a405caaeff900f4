"""Several coroutines at once: results in order, the first error alone, nothing left running."""

from __future__ import annotations

import asyncio

import pytest

from aiozarr.stores.tasks import each_bounded, map_bounded, together


async def test_results_come_in_order() -> None:
    async def later(number: int) -> int:
        for _ in range(5 - number):
            await asyncio.sleep(0)
        return number

    assert await together(later(n) for n in range(5)) == [0, 1, 2, 3, 4]
    assert await map_bounded(later, range(5), width=2) == [0, 1, 2, 3, 4]


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
        await together([slow(), failing()])
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

    await each_bounded(visit, iter(range(50)), width=7)
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

    task = asyncio.ensure_future(map_bounded(wait, range(9), width=3))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled == 3
