"""Points of index arrays, sorted by chunk and counted."""

from __future__ import annotations

import numpy as np
import pytest

from aiozarr.grid.axes import AxisSelection, RegularAxis
from aiozarr.grid.index_groups import GroupSelection, SplitGroup, count_chunks_of_points, sort_by_chunk


@pytest.mark.parametrize("span", [1 << 8, 1 << 16, 1 << 20, 1 << 40])
def test_points_keep_their_order_in_each_chunk_for_any_size_of_the_grid(span: int) -> None:
    chunks = np.random.default_rng(1).integers(0, 500, 5000) * (span // 500 or 1) % span
    axis = RegularAxis(1, span)
    located = sort_by_chunk([axis], [chunks])
    assert located.order is not None
    assert np.array_equal(located.order, np.argsort(chunks, kind="stable"))
    assert np.array_equal(located.chunks[0], np.unique(chunks))
    assert count_chunks_of_points([axis], [chunks]) == len(located.starts) == len(np.unique(chunks))


def test_no_points_touch_no_chunk() -> None:
    none = np.zeros(0, np.int64)
    assert len(sort_by_chunk([RegularAxis(3, 9)], [none]).starts) == 0
    assert count_chunks_of_points([RegularAxis(3, 9)], [none]) == 0
    assert list(SplitGroup([RegularAxis(3, 9)], (0,), [none], slice(0, 0))) == []


def test_a_group_is_split_by_chunk_and_its_progressions_become_slices() -> None:
    axis = RegularAxis(4, 12)
    first, second, third = SplitGroup([axis], (0,), [np.array([9, 0, 2, 5, 4, 4])], slice(0, 6))
    assert isinstance(first, AxisSelection)
    assert (first.chunk, first.selection, first.out) == (0, slice(0, 4, 2), slice(1, 3))
    assert isinstance(second, GroupSelection)
    assert (second.chunks, second.inner[0].tolist(), second.out) == ((1,), [1, 0, 0], slice(3, 6))
    assert not second.is_complete
    assert isinstance(third, AxisSelection)
    assert (third.chunk, third.start, third.out) == (2, 1, slice(0, 1))
