"""Several views are read as one schedule."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr import sync
from aiozarr.stores import MemoryStore, Store


async def test_values_are_in_the_order_of_the_views_of_any_stores() -> None:
    arrays = []
    for number in range(3):
        array = await aiozarr.create_array(MemoryStore(), shape=(4, 5), dtype="i4", chunks=2)
        await array[...].write(number)
        arrays.append(array)
    found = await aiozarr.read_many([arrays[2][1:], arrays[0][0, 0], arrays[1][3:3], arrays[1]])
    assert [np.shape(values) for values in found] == [(3, 5), (), (0, 5), (4, 5)]
    assert np.array_equal(found[0], np.full((3, 5), 2))
    assert isinstance(found[1], np.int32)
    assert (found[3] == 1).all()


async def test_read_many_of_no_views() -> None:
    assert await aiozarr.read_many([]) == []


async def test_a_chunk_that_two_views_share_is_fetched_once(remote: Store) -> None:
    array = await aiozarr.create_array(remote, shape=10, dtype="i4", chunks=10)
    await array[...].write(np.arange(10))
    with aiozarr.record() as report:
        left, right = await aiozarr.read_many([array[:5], array[5:]])
    assert np.array_equal(np.concatenate([left, right]), np.arange(10))
    assert report.requests == 1


async def test_views_that_repeat_a_new_axis_are_read_with_others() -> None:
    array = await aiozarr.create_array(MemoryStore(), shape=4, dtype="i4", chunks=2)
    await array[...].write(np.arange(4))
    twice, whole = await aiozarr.read_many([array[None].oindex[[0, 0]], array])
    assert twice.tolist() == [[0, 1, 2, 3]] * 2
    assert whole.tolist() == [0, 1, 2, 3]


async def test_an_item_that_is_not_a_view_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"aiozarr.read_many takes aiozarr.View and aiozarr.Array, not builtins.list"):
        await aiozarr.read_many([[1]])  # type: ignore[list-item]


def test_blocking_and_asynchronous_views_do_not_mix() -> None:
    array = sync.create_array(MemoryStore(), shape=3, dtype="i4")
    wrong: list[Any] = [array.view[:2], array]
    for each in wrong:
        kind = type(each).__name__
        with pytest.raises(TypeError, match=rf"aiozarr.read_many takes aiozarr.View .* not aiozarr.sync.{kind}$"):
            asyncio.run(aiozarr.read_many([each]))
        with pytest.raises(TypeError, match=rf"aiozarr.sync.read_many takes .*aiozarr.sync.Array, not aiozarr.{kind}$"):
            sync.read_many([each._async])
    with pytest.raises(TypeError, match=r"aiozarr.sync.read_many takes .* not numpy.ndarray$"):
        sync.read_many([np.zeros(3)])  # type: ignore[list-item]
