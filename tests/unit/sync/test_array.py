"""A blocking array reads, writes and changes as the asynchronous one does."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

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


def test_a_view_is_selected_without_reading(array: sync.Array) -> None:
    with sync.record() as report:
        view = array.view[2:][None, :, ::-3]
        facts = (view.shape, view.ndim, view.size, view.dtype, view.nbytes, view.array)
    assert facts == ((1, 5, 4), 3, 20, np.dtype("i4"), 80, array)
    assert report.requests == 0
    assert np.array_equal(view.read(), DATA[2:][None, :, ::-3])
    assert repr(view) == f"<aiozarr.sync.View (1, 5, 4) int32 of {array.url}; .read() reads it>"


def test_a_view_reads_into_given_memory(array: sync.Array) -> None:
    out = np.zeros((10, 7), "i4").T
    assert array.view.read(out=out) is out
    assert np.array_equal(out, DATA)


def test_a_view_is_planned_exactly_or_in_bounds(array: sync.Array) -> None:
    view = array.view[:3]
    assert not view.plan().exact
    exact = view.probe()
    with sync.record() as report:
        view.read()
    assert (exact.requests, exact.bytes) == (report.requests, report.bytes_fetched)


def test_the_blocks_of_a_stream_make_up_the_view(array: sync.Array) -> None:
    found = np.zeros_like(DATA)
    for region, block in array.view.stream(prefetch=2):
        found[region] = block
    assert np.array_equal(found, DATA)


def test_leaving_a_stream_early_ends_it(array: sync.Array) -> None:
    blocks = array.view.stream(1)
    next(iter(blocks))
    del blocks
    assert np.array_equal(array[...], DATA)


def test_a_node_is_a_context_manager(tmp_path: Path) -> None:
    with sync.create_array(tmp_path, "a", shape=2, dtype="i4") as array:
        array[...] = [1, 2]
    with sync.open_group(tmp_path) as group:
        assert group["a"][...].tolist() == [1, 2]  # type: ignore[index]
    group.close()


def test_pickled_nodes_are_the_same_nodes(tmp_path: Path) -> None:
    array = sync.create_array(tmp_path, "a", shape=2, dtype="i4")
    array[...] = [1, 2]
    copies: Any = pickle.loads(pickle.dumps([array, sync.open_group(tmp_path), array.view[1:]]))
    assert copies[0][...].tolist() == [1, 2]
    assert copies[1]["a"].shape == (2,)
    assert copies[2].read().tolist() == [2]


def test_errors_are_those_of_the_asynchronous_names(array: sync.Array) -> None:
    with pytest.raises(IndexError):
        array[7]
    with pytest.raises(TypeError, match=r"the value 0\.5 at \(0, 0\).*casting='unsafe'"):
        array[...] = np.full((7, 10), 0.5)
    with pytest.raises(aiozarr.UnsupportedOperationError):
        sync.open_array(array.store, "g/a")[0] = 1
    with pytest.raises(aiozarr.NodeExistsError):
        sync.create_group(array.store, "g")
