"""Arrays of chunks and shards that differ in length behave as numpy arrays, through resizes and appends."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import aiozarr
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore
from tests.support.strategies.arrays import basic_selections

FILL = -1


@st.composite
def divisions(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    """A shape, and lengths of its chunks, or of shards with the chunks in them."""
    inner = draw(st.none() | st.lists(st.integers(1, 3), min_size=1, max_size=2))
    ndim = len(inner) if inner is not None else draw(st.integers(1, 2))
    shape: list[int] = []
    outer: list[Any] = []
    for dimension in range(ndim):
        unit = 1 if inner is None else inner[dimension]
        lengths = [unit * n for n in draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))]
        outer.append(lengths if draw(st.integers(0, 3)) else lengths[0])
        shape.append(draw(st.integers(1, sum(lengths))))
    # At least one dimension is listed, else the grid is a regular one.
    if all(isinstance(each, int) for each in outer):
        outer[0] = [outer[0], -(-shape[0] // outer[0]) * outer[0]]
    return tuple(shape), {"chunks": outer} if inner is None else {"chunks": inner, "shards": outer}


@given(divisions(), st.sampled_from([MemoryStore, FakeStore]), st.data())
def test_arrays_of_differing_chunks_equal_numpys(
    case: tuple[tuple[int, ...], dict[str, Any]], kind: Any, data: st.DataObject
) -> None:
    shape, division = case

    async def run() -> None:
        array = await aiozarr.create_array(kind(), shape=shape, dtype="i2", fill_value=FILL, **division)
        expected = np.full(shape, FILL, "i2")
        for step in range(1, data.draw(st.integers(2, 5), "steps")):
            action = data.draw(st.sampled_from(["write", "write", "resize", "append"]), "action")
            if action == "write":
                selection = data.draw(basic_selections(expected.shape), "selection")
                expected[selection] = step
                await array[selection].write(step)
            elif action == "append":
                axis = data.draw(st.integers(0, expected.ndim - 1), "axis")
                count = data.draw(st.integers(0, 5), "count")
                added = np.full([*expected.shape[:axis], count, *expected.shape[axis + 1 :]], step, "i2")
                expected = np.concatenate([expected, added], axis)
                await array.append(added, axis)
            else:
                lengths = data.draw(st.tuples(*[st.integers(0, 12)] * expected.ndim), "lengths")
                kept = tuple([slice(min(a, b)) for a, b in zip(expected.shape, lengths, strict=True)])
                before, expected = expected, np.full(lengths, FILL, "i2")
                expected[kept] = before[kept]
                with warnings.catch_warnings():
                    # What an append has left in a chunk that the end cuts is cleared, and so not said.
                    warnings.simplefilter("error")
                    await array.resize(lengths, clear=True)
            assert array.shape == expected.shape
            assert np.array_equal(await array[...], expected)
            view = data.draw(basic_selections(expected.shape), "view")
            assert np.array_equal(await array[view], expected[view])
        again = await aiozarr.open_array(array.store)
        assert np.array_equal(await again[...], expected)

    asyncio.run(run())
