from __future__ import annotations

import asyncio
import pickle

import numpy as np
import pytest
from xarray import Variable
from xarray.core import indexing

import aiozarr
from aiozarr.integrations.xarray.lazy_array import LazyArray, is_text_object, load_variable, pending_view
from aiozarr.stores import MemoryStore

VALUES = np.arange(24.0).reshape(4, 6)
KEYS = [
    indexing.BasicIndexer((slice(None), slice(4, 0, -2))),
    indexing.BasicIndexer((2, slice(1, 3))),
    indexing.BasicIndexer((-1, 5)),
    indexing.OuterIndexer((np.array([3, 0]), np.array([1, 1, 5]))),
    indexing.OuterIndexer((2, np.array([1, 5]))),
    indexing.VectorizedIndexer((np.array([[0, 1], [2, 3]]), np.array([[5, 4], [3, 2]]))),
    indexing.BasicIndexer((slice(0, 0), slice(None))),
]


@pytest.fixture
async def array() -> aiozarr.Array:
    return await aiozarr.create_array(MemoryStore(), data=VALUES, chunks=(2, 3))


def expected(key: indexing.ExplicitIndexer) -> np.ndarray:
    return np.asarray(
        indexing.NumpyIndexingAdapter(VALUES).__getitem__(key)
        if isinstance(key, indexing.BasicIndexer)
        else indexing.NumpyIndexingAdapter(VALUES).oindex[key]
        if isinstance(key, indexing.OuterIndexer)
        else indexing.NumpyIndexingAdapter(VALUES).vindex[key]
    )


@pytest.mark.parametrize("key", KEYS, ids=repr)
@pytest.mark.parametrize("in_memory", [False, True])
async def test_each_kind_of_key_reads_as_numpy_blocking_and_awaited(
    array: aiozarr.Array, key: indexing.ExplicitIndexer, in_memory: bool
) -> None:
    lazy = LazyArray(array, VALUES if in_memory else None)
    np.testing.assert_array_equal(await lazy.async_getitem(key), expected(key))
    np.testing.assert_array_equal(await asyncio.to_thread(lambda: lazy[key]), expected(key))


async def test_the_ends_that_were_read_at_opening_are_not_read_again(array: aiozarr.Array) -> None:
    lazy = LazyArray(array, None, {(0, 0): np.array(7.0), (3, 5): np.array(8.0)})
    with aiozarr.record() as report:
        assert await lazy.async_getitem(indexing.BasicIndexer((0, slice(0, 1)))) == [7.0]
        assert await lazy.async_getitem(indexing.BasicIndexer((slice(-1, None), slice(-1, None)))) == [[8.0]]
    assert report.requests == 0
    assert (await lazy.async_getitem(indexing.BasicIndexer((slice(-2, None), slice(-1, None))))).shape == (2, 1)


async def test_a_pending_view_is_what_loading_reads_through_all_wrappers(array: aiozarr.Array) -> None:
    data = indexing.LazilyIndexedArray(LazyArray(array))
    variable = Variable(("y", "x"), data)[1:, [0, 5]][::2]
    view = pending_view(variable._data)
    assert view is not None
    assert view.shape == (2, 2)
    with aiozarr.record() as report:
        load_variable(variable, await view)
    np.testing.assert_array_equal(variable.values, VALUES[1:, [0, 5]][::2])
    assert report.requests > 0


@pytest.mark.parametrize("data", [VALUES, indexing.NumpyIndexingAdapter(VALUES), "text", None])
def test_data_of_others_have_no_pending_view(data: object) -> None:
    assert pending_view(data) is None


async def test_it_pickles_and_its_token_follows_the_metadata(array: aiozarr.Array) -> None:
    lazy = LazyArray(array)
    copy = pickle.loads(pickle.dumps(lazy))
    assert copy.__dask_tokenize__() == lazy.__dask_tokenize__()
    await array.resize((5, 6))
    assert LazyArray(array).__dask_tokenize__() != lazy.__dask_tokenize__()
    assert "float64" in repr(lazy)
    assert lazy._repr_inline_(3) == "..."


async def test_arrays_of_texts_are_told_from_other_objects() -> None:
    numbers = await aiozarr.create_array(MemoryStore(), data=VALUES)
    assert not is_text_object(numbers)


def test_many_short_lived_loops_read_at_once() -> None:
    array = aiozarr.sync.create_array(MemoryStore(), data=VALUES, chunks=(2, 3))
    lazy = LazyArray(array._async)
    for key in KEYS * 3:
        found = asyncio.run(lazy.async_getitem(key))
        np.testing.assert_array_equal(found, expected(key))
