"""Conversion of arrays between the shape of a view and its core shape."""

from __future__ import annotations

import numpy as np

from aiozarr.grid.advanced import select_pointwise
from aiozarr.grid.axis_layout import core_array, new_array, view_region
from aiozarr.grid.transform import IndexTransform


def test_an_output_with_gaps_between_the_axes_of_points_needs_a_copy() -> None:
    view = select_pointwise(IndexTransform.identity((5,)), [[0, 1, 2], [3, 4, 0]])
    assert core_array(view, np.zeros((2, 3), int)) is not None
    gaps = np.zeros((2, 4), int)[:, :3]
    assert core_array(view, gaps) is None
    copied = core_array(view, gaps, may_copy=True)
    assert copied is not None
    assert copied.shape == (6,)


def test_a_new_array_has_a_core_array_that_is_a_view_of_it() -> None:
    # The axes of the points are the first and the last of the view.
    view = select_pointwise(IndexTransform.identity((5, 6)), [[0, 1], [3, 4]]).select((slice(None), None, slice(None)))
    array = new_array(view, np.dtype("i4"))
    core = core_array(view, array)
    assert core is not None
    assert (array.shape, core.shape) == ((2, 1, 2, 6), (4, 6))
    core[...] = np.arange(24).reshape(4, 6)
    assert np.array_equal(array.reshape(4, 6), core)


def test_a_block_of_core_elements_has_a_region_of_the_view() -> None:
    view = IndexTransform.identity((5, 6)).select((slice(1, 4), None))
    region, block = view_region(view, (slice(0, 2), slice(2, 5)), np.arange(6).reshape(2, 3))
    assert (region, block.shape) == ((slice(0, 2), slice(0, 1), slice(2, 5)), (2, 1, 3))
