"""Orthogonal and pointwise selections: rejected items, empty arrays, new axes, and transforms as values."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from aiozarr.errors import SelectionError
from aiozarr.grid.advanced import expand, parse_items, select_orthogonal, select_pointwise, unmask, width, wrap
from aiozarr.grid.transform import Constant, Indexed, IndexTransform

SELECT = {"oindex": select_orthogonal, "vindex": select_pointwise}


def test_a_transform_of_index_arrays_is_pickled_and_compared() -> None:
    view = select_pointwise(IndexTransform.identity((5, 6)), ([1, 2], [3, 4]))
    copied = pickle.loads(pickle.dumps(view))
    assert copied == view
    assert hash(copied) == hash(view)
    assert view != select_pointwise(IndexTransform.identity((5, 6)), ([1, 2], [3, 5]))
    assert Indexed(0, np.array([1])) != Constant(1)


@pytest.mark.parametrize(
    ("how", "selection", "words"),
    [
        ("oindex", [5], "index 5 is out of range for axis 0 of size 5"),
        ("oindex", (slice(None), [0, -7, 3]), "index -7 is out of range for axis 1 of size 6"),
        ("oindex", (None, 0, 6), "index 6 is out of range"),
        ("oindex", np.array([2**64 - 1], "u8"), f"index {2**64 - 1} is out of range for axis 0"),
        ("vindex", ([0], [[1], [6]]), "index 6 is out of range for axis 1 of size 6"),
        ("vindex", ([0, 1, 2], [0, 1]), r"shapes \(3,\), \(2,\) do not broadcast"),
        ("vindex", np.zeros((5, 5), bool), r"mask of shape \(5, 5\) does not match"),
        ("vindex", (np.zeros((5, 6), bool), 0), "too many indices: 3 for"),
        ("oindex", np.zeros((5, 6), bool), "use `vindex`"),
        ("oindex", [[0, 1]], "index array of 2 axes"),
        ("oindex", np.zeros(4, bool), r"mask of shape \(4,\) does not match"),
        ("oindex", (0, 0, 0), "too many indices"),
        ("vindex", (..., ..., 0), "single ellipsis"),
        ("oindex", [0.0, 1.0], "array of float64"),
        ("vindex", (np.array([1.5]), 0), "array of float64"),
        ("oindex", ["a"], "array of <U1"),
        ("oindex", "a", "is a str"),
        ("oindex", True, "single bool"),
        ("vindex", np.True_, "single bool"),
        ("oindex", 1.0, "is a float"),
        ("vindex", [[0, 1], [2]], "ragged"),
        ("vindex", ([0, 1], slice(None, None, 0)), "step of 0"),
    ],
)
def test_invalid_selections_are_rejected_with_the_reason(how: str, selection: Any, words: str) -> None:
    with pytest.raises(SelectionError, match=words):
        SELECT[how](IndexTransform.identity((5, 6)), selection)


def test_empty_index_arrays_select_nothing() -> None:
    whole = IndexTransform.identity((5, 6))
    assert select_orthogonal(whole, []).shape == (0, 6)
    assert select_orthogonal(whole, (slice(None), np.array([]))).shape == (5, 0)
    assert select_pointwise(whole, ([], [])).shape == (0,)
    assert select_pointwise(whole, np.zeros((5, 6), bool)).shape == (0,)


def test_a_new_axis_is_repeated_by_an_index_array() -> None:
    view = IndexTransform.identity((5,)).select((None, slice(None)))
    assert select_orthogonal(view, ([0], [1, 2])).shape == (1, 2)
    assert select_pointwise(view, ([0, 0], [1, 2])).shape == (2,)
    assert select_pointwise(view, ([], slice(None))).shape == (0, 5)
    twice = select_orthogonal(view, [0, -1])
    assert (twice.shape, twice.core_shape, twice.repeats) == ((2, 5), (5,), True)
    assert select_pointwise(view, [[0, 0, 0]] * 2).shape == (2, 3, 5)
    assert not twice.select(1).repeats
    with pytest.raises(SelectionError, match="index 1 is out of range"):
        select_orthogonal(view, [0, 1])


def test_items_are_integers_slices_new_axes_and_arrays() -> None:
    integer, everything, ellipsis, new_axis, array = parse_items((np.int8(3), slice(None), ..., None, [1, 2]))
    assert (integer, everything, ellipsis, new_axis) == (3, slice(None), ..., None)
    assert isinstance(array, np.ndarray)
    assert array.dtype.kind == "i"


def test_missing_axes_are_complete_and_masks_may_cover_several() -> None:
    mask = np.zeros((2, 3), bool)
    assert expand([1, ..., 2], 4, wide_masks=False) == [1, slice(None), slice(None), 2]
    assert expand([1], 2, wide_masks=False) == [1, slice(None)]
    assert len(expand([mask], 4, wide_masks=True)) == 3
    assert [width(mask, wide_masks=True), width(mask, wide_masks=False), width(None, wide_masks=True)] == [2, 1, 0]
    with pytest.raises(SelectionError, match="too many indices"):
        expand([1, 2, 3], 2, wide_masks=False)


def test_a_mask_is_the_indices_of_its_true_elements() -> None:
    mask = np.random.default_rng(0).random((3, 4, 5)) < 0.4
    found = unmask(mask, 1, (2, 3, 4, 5))
    assert [each.tolist() for each in found] == [each.tolist() for each in np.nonzero(mask)]


def test_negative_indices_count_from_the_end_and_the_result_is_a_copy() -> None:
    given = np.array([0, 4], np.int64)
    assert wrap(np.array([-1, 0, -5], "i1"), 0, 5).tolist() == [4, 0, 0]
    assert not np.shares_memory(wrap(given, 0, 5), given)
    with pytest.raises(SelectionError, match="index 5 is out of range for axis 2 of size 5"):
        wrap(np.array([5]), 2, 5)
