"""What blocking arrays and groups have in common: closing, pickles, and the errors of the asynchronous names."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr import sync


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
