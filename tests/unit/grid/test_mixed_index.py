"""One index of integers, slices and grouped index arrays."""

from __future__ import annotations

import numpy as np

from aiozarr.grid.mixed_index import MixedIndex

ARRAY = np.arange(4 * 5 * 6 * 7).reshape(4, 5, 6, 7)
ROWS, COLUMNS = np.array([3, 0, 3]), np.array([1, 2, 0])


def test_index_arrays_of_one_group_are_iterated_together_and_axes_follow_the_order() -> None:
    index = MixedIndex([ROWS, slice(1, 4), COLUMNS, 2], ["points", "slice", "points", "integer"], ["slice", "points"])
    expected = ARRAY[:, 1:4, :, 2].transpose(1, 0, 2)[:, ROWS, COLUMNS]
    assert np.array_equal(index.get(ARRAY), expected)


def test_index_arrays_of_different_groups_are_orthogonal() -> None:
    index = MixedIndex([ROWS, COLUMNS, slice(None), slice(0, 2)], [0, 1, 2, 3], [1, 3, 0, 2])
    assert np.array_equal(index.get(ARRAY), ARRAY[np.ix_(ROWS, COLUMNS)][..., :2].transpose(1, 3, 0, 2))


def test_an_index_without_index_arrays_makes_a_view() -> None:
    view = MixedIndex([slice(None), 1, slice(2), 0], [0, 1, 2, 3], [2, 0]).get(ARRAY)
    assert view.shape == (2, 4)
    assert np.shares_memory(view, ARRAY)


def test_values_are_assigned_in_the_order_of_the_axes_and_the_last_one_stays() -> None:
    index = MixedIndex([ROWS, slice(None)], ["points", "slice"], ["slice", "points"])
    array, values = np.zeros((4, 5), int), np.arange(1, 16).reshape(5, 3)
    index.set(array, values)
    assert np.array_equal(array[3], values[:, 2])
    assert np.array_equal(array[0], values[:, 1])
    assert not array[1:3].any()
    index.fill(array, np.array(7))
    assert (array[[0, 3]] == 7).all()
