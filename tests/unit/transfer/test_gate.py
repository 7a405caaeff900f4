"""The gate that bounds the bytes of a copy."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from aiozarr.testing.virtual_time import run_virtual
from aiozarr.transfer.gate import ByteGate


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 15), st.floats(0, 3), st.floats(0, 4)), max_size=30))
def test_never_more_than_the_limit_is_inside_unless_one_object_is_alone(
    visits: list[tuple[int, float, float]],
) -> None:
    async def scenario() -> None:
        gate = ByteGate(10)
        inside: list[int] = []

        async def visit(size: int, arrives: float, stays: float) -> None:
            await asyncio.sleep(arrives)
            async with gate.hold(size):
                inside.append(size)
                try:
                    assert sum(inside) <= 10 or max(inside) == sum(inside)
                    await asyncio.sleep(stays)
                finally:
                    inside.remove(size)

        tasks = [asyncio.ensure_future(visit(*each)) for each in visits]
        # Some are cancelled, waiting or inside: what they held, or would have held, must be free again.
        await asyncio.sleep(2)
        for task in tasks[::3]:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            assert result is None or isinstance(result, asyncio.CancelledError)
        assert gate.held == 0

    run_virtual(scenario())


def test_small_objects_do_not_keep_a_large_one_out_for_ever() -> None:
    async def scenario() -> list[str]:
        gate = ByteGate(10)
        order: list[str] = []

        async def visit(name: str, size: int) -> None:
            async with gate.hold(size):
                order.append(name)
                await asyncio.sleep(1)

        await asyncio.gather(visit("first", 6), visit("large", 10), visit("small", 1))
        return order

    assert run_virtual(scenario()) == ["first", "large", "small"]
