"""The first requests of a plan are listed without a walk over the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.engine.plan.plan import ROWS
from aiozarr.grid.projection import Projection

Array = aiozarr.Array


async def new(**described: Any) -> Array:
    """An array of int32 without compression, at memory://plans."""
    settings = aiozarr.Settings(gap=0, max_over_read=1.0)
    return await aiozarr.create_array(
        "memory://plans", "a", dtype="i4", overwrite=True, codecs=["bytes"], settings=settings, **described
    )


async def test_of_many_requests_the_first_are_shown_and_the_others_counted() -> None:
    array = await new(shape=(40,), chunks=(1,))
    await array[...].write(1)
    for plan, last in ((array[...].plan(), "... at most 30 requests more"), (await array[...].plan(probe=True), None)):
        lines = str(plan).splitlines()
        assert [line.split()[1] for line in lines if "a/c/" in line] == [f"a/c/{number}" for number in range(ROWS)]
        assert lines[-1] == (last or "... 30 requests more")


async def test_a_plan_of_a_hundred_million_chunks_prints_without_listing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    array = await new(shape=(10, 10**7), chunks=(1, 1))

    def listed(_: Projection) -> Any:
        raise AssertionError("all chunks of a dimension were listed")

    monkeypatch.setattr(Projection, "_cached_dimensions", property(listed))
    plan = array[...].plan()
    assert str(plan).endswith("... at most 99,999,990 requests more")
    assert [row.key for row in plan.rows] == [f"a/c/0/{number}" for number in range(ROWS)]


async def test_points_are_listed_where_they_are_few_and_counted_where_they_are_many() -> None:
    array = await new(shape=(100_000,), chunks=(10,))
    assert [row.key for row in array.vindex[[95, 3, 41]].plan().rows] == ["a/c/0", "a/c/4", "a/c/9"]
    plan = array.oindex[np.arange(0, 100_000, 5)].plan()
    assert plan.rows == ()
    assert str(plan).endswith("... at most 10,000 requests, not listed here")
