"""A blocking array reads, writes and changes as the asynchronous one does."""

from __future__ import annotations

import numpy as np
import pytest

import aiozarr
from aiozarr import sync
from aiozarr.stores import MemoryStore

DATA = np.arange(7 * 10, dtype="i4").reshape(7, 10)


def test_indexing_reads_and_assignment_writes(array: sync.Array) -> None:
    assert np.array_equal(array[...], DATA)
    assert isinstance(array[1, 2], np.int32)
    expected = DATA.copy()
    expected[::2, 3:5] = [[-1, -2]]
    array[::2, 3:5] = [[-1, -2]]
    assert np.array_equal(array[::-1], expected[::-1])


def test_numpy_converts_a_blocking_array(array: sync.Array) -> None:
    assert np.array_equal(np.asarray(array), DATA)
    assert np.asarray(array, dtype="f8").dtype == "f8"
    assert np.array_equal(np.add(array.view[:2], 1), DATA[:2] + 1)
    assert np.asarray(array.view[0, 0]).shape == ()
    with pytest.raises(ValueError, match="copy"):
        array.__array__(copy=False)


def test_an_array_has_a_length_and_rows(array: sync.Array) -> None:
    assert len(array) == 7
    assert [row.tolist() for row in array] == DATA.tolist()
    empty = sync.create_array(MemoryStore(), shape=(), dtype="i4")
    with pytest.raises(TypeError, match="length"):
        len(empty)


def test_the_facts_of_an_array_are_those_of_the_asynchronous_one(array: sync.Array) -> None:
    assert (array.shape, array.ndim, array.size, array.nbytes, array.dtype) == ((7, 10), 2, 70, 280, "i4")
    assert (array.chunks, array.shards, array.order, array.fill_value) == ((3, 3), None, "C", 0)
    assert (array.path, array.zarr_format, array.read_only, array.attrs) == ("g/a", 3, False, {"n": 1})
    assert (array.dimension_names, array.settings) == (None, aiozarr.Settings())
    assert array.url == f"{array.store.url}/g/a"
    assert array.metadata.shape == (7, 10)
    assert repr(array) == f"<aiozarr.sync.Array {array.url} int32 (7, 10) chunks (3, 3)>"
    assert array.info().objects_stored == 12


def test_the_shape_and_the_attributes_of_an_array_change(array: sync.Array) -> None:
    array.update_attributes({"m": 2})
    assert array.append(np.zeros((1, 10), "i4")) == (8, 10)
    array.resize((4, 4))
    array.replace_attributes({"k": 3})
    reopened = sync.open_array(array.store, "g/a")
    assert reopened.shape == array.shape == (4, 4)
    assert reopened.attrs == array.attrs == {"k": 3}
    assert np.array_equal(reopened[...], DATA[:4, :4])
