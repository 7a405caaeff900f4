"""The selections of oindex, vindex and blocks, and the field names in a selection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import MemoryStore

DATA = np.arange(7 * 10, dtype="i4").reshape(7, 10)
RECORD = np.dtype([("a", "i4"), ("b", "f8"), ("inner", [("x", "i2"), ("y", "u1")])])


async def stored(data: np.ndarray[Any, Any] = DATA, **options: Any) -> aiozarr.Array:
    options = {"chunks": 3, **options}
    array = await aiozarr.create_array(MemoryStore(), "a", shape=data.shape, dtype=data.dtype, **options)
    await array[...].write(data)
    return array


def records() -> np.ndarray[Any, Any]:
    values = np.zeros((7, 5), RECORD)
    values["a"] = np.arange(35).reshape(7, 5)
    values["b"] = values["a"] / 2
    values["inner"]["x"] = -values["a"]
    values["inner"]["y"] = 9
    return values


async def test_blocks_are_the_stored_objects() -> None:
    array = await stored()
    assert np.array_equal(await array.blocks[1, 1:3], DATA[3:6, 3:9])
    assert np.array_equal(await array.blocks[-1], DATA[6:])
    assert np.array_equal(await array.blocks[..., -1], DATA[:, 9:])
    assert (await array.blocks[2:2]).shape == (0, 10)
    sharded = await stored(shards=6)
    assert np.array_equal(await sharded.blocks[0, 1], DATA[:6, 6:])
    await sharded.blocks[1].write(0)
    assert not (await sharded[6:]).any()


async def test_blocks_of_differing_lengths_are_those_of_the_grid() -> None:
    array = await stored(chunks=[[2, 4, 1], [10]])
    assert np.array_equal(await array.blocks[1], DATA[2:6])
    assert np.array_equal(await array.blocks[1:], DATA[2:])
    assert np.array_equal(await array.vindex[[0, 6, 2], [1, 1, 9]], DATA[[0, 6, 2], [1, 1, 9]])
    assert np.array_equal(await array.oindex[[5, 2, 0, 6], [9, 1]], DATA[[5, 2, 0, 6]][:, [9, 1]])


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (3, "block 3 is out of range for axis 0 with 3 blocks"),
        ((0, -5), "block -5 is out of range for axis 1"),
        (slice(None, None, 2), "has a step"),
        (slice(0.5, None), "not an integer"),
        (([0, 1],), "integers, slices"),
        (None, "integers, slices"),
        ((0, 0, 0), "too many indices"),
    ],
)
async def test_an_invalid_block_selection_is_refused_with_the_reason(selection: Any, words: str) -> None:
    array = await stored()
    with pytest.raises(aiozarr.SelectionError, match=words):
        array.blocks[selection]


async def test_an_unknown_field_is_a_selection_error_with_the_known_ones() -> None:
    array = await stored(records())
    with pytest.raises(aiozarr.SelectionError, match="no field 'c'; the fields are 'a', 'b', 'inner'"):
        array["c"]
    with pytest.raises(aiozarr.SelectionError, match="int32, without fields"):
        array["a"]["a"]
    with pytest.raises(aiozarr.SelectionError, match="duplicate field"):
        array[["a", "a"]]
    with pytest.raises(aiozarr.SelectionError, match="in one list"):
        array["a", ["b"]]
