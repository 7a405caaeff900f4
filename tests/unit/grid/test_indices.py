"""Items of orthogonal and pointwise selections."""

from __future__ import annotations

import numpy as np
import pytest

from aiozarr.errors import SelectionError
from aiozarr.grid.indices import expand, parse_items, unmask, width, wrap


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
