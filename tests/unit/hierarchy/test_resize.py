"""Resizing: chunks outside, stale data and warnings, for regular grids, listed chunk lengths and shards."""

from __future__ import annotations

import warnings
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aiozarr
from aiozarr.grid.chunk_grid import MAX_LENGTH_RUNS
from aiozarr.hierarchy.resize import coordinates_outside, count_outside
from aiozarr.stores import MemoryStore

DATA = np.arange(1, 71, dtype="i4").reshape(10, 7)
DIVISIONS: list[dict[str, Any]] = [
    {"chunks": (4, 4)},
    {"chunks": [[2, 3, 5], [4, 3]]},
    {"chunks": [[2, 3, 5], 4]},
    {"chunks": (2, 2), "shards": (4, 4)},
    {"chunks": (2, 2), "shards": [[2, 4, 4], [4, 4]]},
]
divisions = pytest.mark.parametrize("division", DIVISIONS, ids=str)


async def stored(division: dict[str, Any], **more: Any) -> aiozarr.Array:
    array = await aiozarr.create_array(MemoryStore(), shape=DATA.shape, dtype="i4", fill_value=-1, **division, **more)
    await array[...].write(DATA)
    return array


def grown(rows: int, shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    """The first rows of `DATA` in an array of the fill value."""
    values = np.full(shape, -1, "i4")
    values[:rows, :7] = DATA[:rows]
    return values


@divisions
async def test_growing_into_area_that_was_never_stored_does_not_warn(division: dict[str, Any]) -> None:
    array = await stored(division)
    await array.resize((13, 9))
    assert np.array_equal(await array[...], grown(10, (13, 9)))


@divisions
async def test_stale_values_are_warned_of(division: dict[str, Any]) -> None:
    array = await stored(division)
    await array.resize((3, 7), delete_chunks=False)
    with pytest.warns(aiozarr.StaleDataWarning, match=r"clear=True"):
        await array.resize((10, 7))
    assert np.array_equal(await array[...], DATA)


@divisions
async def test_stale_values_in_chunks_across_the_old_edge_are_found(division: dict[str, Any]) -> None:
    array = await stored(division)
    await array.resize((3, 7))
    with pytest.warns(aiozarr.StaleDataWarning):
        await array.resize((13, 7))


@divisions
async def test_fill_values_across_the_old_edge_do_not_warn(division: dict[str, Any]) -> None:
    array = await stored(division)
    await array[3:].write(-1)
    await array.resize((3, 7))
    await array.resize((13, 7))
    assert np.array_equal(await array[...], grown(3, (13, 7)))


@divisions
@pytest.mark.parametrize("delete_chunks", [True, False])
async def test_clearing_fills_the_gained_area(division: dict[str, Any], delete_chunks: bool) -> None:
    array = await stored(division)
    await array.resize((3, 5), delete_chunks=delete_chunks)
    await array.resize((13, 9), clear=True)
    expected = np.full((13, 9), -1, "i4")
    expected[:3, :5] = DATA[:3, :5]
    assert np.array_equal(await array[...], expected)


async def test_clearing_stores_nothing_if_nothing_was_stored() -> None:
    array = await aiozarr.create_array(MemoryStore(), shape=(3, 3), dtype="i4", chunks=(4, 4))
    await array.resize((9, 9), clear=True)
    assert [key for key in await array.store.list() if key.startswith("c/")] == []


@divisions
@pytest.mark.parametrize("axis", [0, 1])
async def test_appending_overwrites_stale_values_and_does_not_warn(division: dict[str, Any], axis: int) -> None:
    array = await stored(division)
    kept = (3, 7) if axis == 0 else (10, 3)
    await array.resize(kept, delete_chunks=False)
    old = DATA[: kept[0], : kept[1]]
    added = -DATA[:6, :7] if axis == 0 else -DATA[:10, :6]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shape = await array.append(added, axis)
    assert shape == ((9, 7) if axis == 0 else (10, 9))
    assert np.array_equal(await array[...], np.concatenate([old, added], axis))


async def test_each_append_past_the_listed_chunks_adds_its_own() -> None:
    array = await stored({"chunks": [[2, 3, 5], 7]})
    await array.append(DATA[:4])
    await array.append(DATA[:3])
    assert array.chunks == ((2, 3, 5, 4, 3), (7,))
    assert np.array_equal(await array[...], np.concatenate([DATA, DATA[:4], DATA[:3]]))


async def test_equal_chunks_that_are_appended_make_one_run() -> None:
    array = await stored({"chunks": [[2, 3, 5], 7]})
    for _ in range(4):
        await array.append(DATA[:4])
    assert array.chunks[0] == (2, 3, 5, 4, 4, 4, 4)
    assert array._metadata.chunk_grid.configuration["chunk_shapes"][0] == [2, 3, 5, [4, 4]]


async def test_a_resize_that_would_make_too_many_runs_leaves_the_array_as_it_was() -> None:
    lengths = [1 + n % 2 for n in range(MAX_LENGTH_RUNS)]
    array = await aiozarr.create_array(MemoryStore(), shape=(sum(lengths),), dtype="i1", chunks=[lengths])
    with pytest.raises(aiozarr.UnsupportedMetadataError, match="runs"):
        await array.resize(sum(lengths) + 1)
    assert (await aiozarr.open_array(array.store)).shape == (sum(lengths),)


async def test_an_earlier_view_keeps_its_layout() -> None:
    array = await stored({"chunks": [[2, 3, 5], 7]})
    view = array[:5]
    await array.append(DATA)
    assert np.array_equal(await view, DATA[:5])


async def test_undecodable_chunks_do_not_fail_a_resize() -> None:
    array = await stored({"chunks": (4, 7)}, codecs=["bytes", "gzip"])
    await array.resize((3, 7))
    await array.store.set("c/0/0", b"no gzip")
    await array.resize((4, 7))
    assert array.shape == (4, 7)


async def test_the_search_for_stale_data_is_bounded() -> None:
    array = await aiozarr.create_array(MemoryStore(), shape=(1, 1), dtype="i1", chunks=(1, 1))
    await array.resize((1 << 60, 1 << 60))
    assert array.shape == (1 << 60, 1 << 60)


def test_a_blocking_resize_warns_too() -> None:
    array = aiozarr.sync.create_array(MemoryStore(), shape=(9,), dtype="i1", chunks=(2,))
    array[...] = 1
    array.resize(3)
    with pytest.warns(aiozarr.StaleDataWarning):
        array.resize(4)
    array.resize(3)
    array.resize(4, clear=True)
    assert array[...].tolist() == [1, 1, 1, 0]


TRANSPOSE = {"name": "transpose", "configuration": {"order": [1, 0]}}
CRC32C = {"name": "crc32c"}
GZIP = {"name": "gzip", "configuration": {"level": 1}}


@pytest.mark.parametrize(
    ("before", "inner", "behind"),
    [
        ([], [1, 2], []),
        ([], [1, 2], [CRC32C]),
        ([], [1, 2], [CRC32C, GZIP]),
        ([TRANSPOSE], [2, 1], []),
        ([TRANSPOSE, TRANSPOSE, TRANSPOSE], [2, 1], [CRC32C]),
    ],
)
async def test_chunks_that_are_added_can_be_divided_into_inner_chunks_whatever_other_codecs_there_are(
    before: list[Any], inner: list[int], behind: list[Any]
) -> None:
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    sharding = {
        "name": "sharding_indexed",
        "configuration": {"chunk_shape": inner, "codecs": [little], "index_codecs": [little]},
    }
    array = await aiozarr.create_array(
        MemoryStore(), shape=(3, 2), dtype="i4", chunks=[[1, 2], [2]], codecs=[*before, sharding, *behind]
    )
    await array[...].write(DATA[:3, :2])
    await array.append(DATA[:3, 2:3], 1)  # in a chunk of 2, as the inner chunks are
    assert array._metadata.chunk_grid.configuration["chunk_shapes"] == [[1, 2], [[2, 2]]]
    await array.append(DATA[:3, 3:4], 1)
    assert np.array_equal(await array[...], DATA[:3, :4])
    assert np.array_equal(await (await aiozarr.open_array(array.store))[...], DATA[:3, :4])


shapes = st.integers(0, 3).flatmap(lambda n: st.tuples(*[st.tuples(*[st.integers(0, 4)] * n)] * 2))


@given(shapes)
def test_coordinates_outside_are_those_of_the_old_grid_only(
    grids: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    old, new = grids
    found = list(coordinates_outside(old, new))
    expected = set(product(*map(range, old))) - set(product(*map(range, new)))
    assert sorted(found) == sorted(expected)
    assert count_outside(old, new) == len(found)


def test_a_huge_grid_is_walked_lazily() -> None:
    huge = 1 << 60
    assert list(islice(coordinates_outside((huge, huge), (1, 1)), 2)) == [(1, 0), (1, 1)]
    assert count_outside((huge, huge), (1, 1)) == huge * huge - 1
