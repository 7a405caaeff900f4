"""Plans as tables: what `print(plan)` shows, and that only the first requests of a million chunks are listed."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.engine import Plan
from aiozarr.engine.plan import ROWS, PlanRow, table
from aiozarr.grid.axes import AxisSelection
from aiozarr.grid.projection import Projection
from aiozarr.model import Range
from aiozarr.stores import MemoryStore

Array = aiozarr.Array


async def new(**described: Any) -> Array:
    """An array of int32 without compression, at memory://plans."""
    settings = aiozarr.Settings(merge_gap_bytes=0, max_over_read=1.0)
    return await aiozarr.create_array(
        "memory://plans", "a", dtype="i4", overwrite=True, codecs=["bytes"], settings=settings, **described
    )


def shown(plan: Plan, text: str) -> None:
    """`print(plan)` prints this."""
    assert str(plan) == dedent(text).strip()


async def test_a_plan_of_bounds_lists_each_chunk_with_the_most_it_may_have() -> None:
    array = await new(shape=(6, 4), chunks=(2, 4))
    shown(
        array[1:, :2].plan(),
        """
        a selection of shape (5, 2) of memory://plans/a: bounds, without a look at what is stored
        3 chunks
        3 requests, at most 96 bytes
        round  key      range  chunks  bytes
            1  a/c/0/0  whole       1  <= 32
            1  a/c/1/0  whole       1  <= 32
            1  a/c/2/0  whole       1  <= 32
        """,
    )


async def test_an_exact_plan_says_which_chunks_are_not_stored() -> None:
    array = await new(shape=(6, 4), chunks=(2, 4))
    await array[:4].write(1)
    shown(
        await array[...].probe(),
        """
        a selection of shape (6, 4) of memory://plans/a: exact
        3 chunks, 1 of them not stored
        3 requests, 64 bytes: 64 wanted
        round  key      range  chunks  bytes
            1  a/c/0/0  whole       1     32
            1  a/c/1/0  whole       1     32
            1  a/c/2/0  whole       1      0  not stored
        """,
    )


async def test_bounds_of_shards_have_two_rounds() -> None:
    array = await new(shape=(8, 4), shards=(4, 4), chunks=(1, 2))
    shown(
        array[:, :2].plan(),
        """
        a selection of shape (8, 2) of memory://plans/a: bounds, without a look at what is stored
        8 chunks in 2 shards
        2 to 10 requests, at most 328 bytes
        round  key      range         chunks   bytes
            1  a/c/0/0  last 132       index  <= 132
            2  a/c/0/0  by the index       4   <= 32  in at most 4 requests
            1  a/c/1/0  last 132       index  <= 132
            2  a/c/1/0  by the index       4   <= 32  in at most 4 requests
        """,
    )


async def test_an_array_without_dimensions_has_one_chunk() -> None:
    array = await new(shape=())
    await array[...].write(3)
    shown(
        await array[...].probe(),
        """
        a selection of shape () of memory://plans/a: exact
        1 chunk
        1 request, 4 bytes: 4 wanted
        round  key  range  chunks  bytes
            1  a/c  whole       1      4
        """,
    )


@pytest.mark.parametrize("probe", [False, True])
async def test_nothing_is_asked_for_a_selection_without_elements(probe: bool) -> None:
    array = await new(shape=(6, 4), chunks=(2, 4))
    plan = (await array[2:2].probe()) if probe else array[2:2].plan()
    shown(
        plan,
        """
        a selection of shape (0, 4) of memory://plans/a: exact
        nothing is read: no requests
        """,
    )


async def test_the_rows_of_a_probe_are_in_the_order_of_the_plan_and_their_sums_in_its_figures() -> None:
    array = await new(shape=(8, 4), shards=(4, 4), chunks=(1, 2))
    await array[...].write(1)
    plan = await array[::2, :2].probe()
    assert plan.rows
    assert [row.key for row in plan.rows] == sorted(row.key for row in plan.rows)
    assert len(plan.rows) <= ROWS
    assert sum(row.requests for row in plan.rows) == plan.requests
    assert sum(row.bytes for row in plan.rows) == plan.bytes
    assert sum(row.bytes_wanted for row in plan.rows) == plan.bytes_wanted


async def test_fields_are_read_with_their_chunk() -> None:
    dtype = np.dtype([("x", "i4"), ("y", "f8")])
    array = await aiozarr.create_array(MemoryStore(), shape=4, dtype=dtype, chunks=2)
    assert [row.key for row in array["x"].plan().rows] == ["c/0", "c/1"]


def test_over_reading_and_split_objects_are_said() -> None:
    plan = Plan(1, 3, 4, 4, 1500, 1400, exact=True, sharded=True, missing=0)
    rows = [PlanRow(2, "c/0", Range(100, 1500), 3, 1500, 1400, requests=4, stored=True)]
    assert table(plan, rows).splitlines() == [
        "a read: exact",
        "3 chunks in 1 shard",
        "4 requests, 1,500 bytes: 1,400 wanted, 100 read over gaps",
        "round  key  range     chunks  bytes",
        "    2  c/0  100-1599       3  1,500  in 4 requests",
    ]
    assert plan.over_read == 100


async def test_a_plan_travels_with_its_rows_and_shows_in_a_notebook() -> None:
    array = await new(shape=(6, 4), chunks=(2, 4))
    for plan in (array[...].plan(), await array[...].probe()):
        again = pickle.loads(pickle.dumps(plan))
        assert again == plan
        assert str(again) == str(plan)
        assert plan._repr_html_().startswith("<pre>a selection of shape (6, 4)")
        assert "&lt;= 32" in array[...].plan()._repr_html_()


async def test_of_many_requests_the_first_are_shown_and_the_others_counted() -> None:
    array = await new(shape=(40,), chunks=(1,))
    await array[...].write(1)
    for plan, last in ((array[...].plan(), "... at most 30 requests more"), (await array[...].probe(), None)):
        lines = str(plan).splitlines()
        assert [line.split()[1] for line in lines if "a/c/" in line] == [f"a/c/{number}" for number in range(ROWS)]
        assert lines[-1] == (last or "... 30 requests more")


async def test_a_plan_of_a_hundred_million_chunks_prints_without_listing_them(monkeypatch: pytest.MonkeyPatch) -> None:
    array = await new(shape=(10, 10**7), chunks=(1, 1))

    along = Projection._along

    def first_of(projection: Projection, dimension: int) -> Iterator[AxisSelection]:
        for number, selection in enumerate(along(projection, dimension)):
            assert number < 2 * ROWS, "all chunks of a dimension were listed"
            yield selection

    monkeypatch.setattr(Projection, "_along", first_of)
    plan = array[...].plan()
    assert str(plan).endswith("... at most 99,999,990 requests more")
    assert [row.key for row in plan.rows] == [f"a/c/0/{number}" for number in range(ROWS)]


async def test_points_are_listed_where_they_are_few_and_counted_where_they_are_many() -> None:
    array = await new(shape=(100_000,), chunks=(10,))
    assert [row.key for row in array.vindex[[95, 3, 41]].plan().rows] == ["a/c/0", "a/c/4", "a/c/9"]
    plan = array.oindex[np.arange(0, 100_000, 5)].plan()
    assert plan.rows == ()
    assert str(plan).endswith("... at most 10,000 requests, not listed here")
