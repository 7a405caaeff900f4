"""Views of an output over adjacent chunks."""

from __future__ import annotations

import numpy as np
import pytest

from aiozarr.grid.axes import regular_axes
from aiozarr.grid.byte_runs import MIN_ADJACENT_CHUNKS, adjacent_window
from aiozarr.grid.chunk_grid import project
from aiozarr.grid.transform import IndexTransform

SHAPE, CHUNKS = (6, 40), (3, 5)
SELECTIONS = list(project(regular_axes(CHUNKS, SHAPE), IndexTransform.identity(SHAPE).maps))


@pytest.mark.parametrize(
    ("at", "stop", "count"),
    [(0, 16, 8), (2, 16, 6), (8, 16, 8), (0, 5, 5), (5, 16, 1), (0, MIN_ADJACENT_CHUNKS - 1, 1)],
)
def test_the_window_covers_the_chunks_up_to_the_end_of_the_row(at: int, stop: int, count: int) -> None:
    out = np.zeros(SHAPE, int)
    window = adjacent_window(SELECTIONS, at, stop, out, CHUNKS)
    assert window is not None
    assert window.shape == (count, *CHUNKS)
    window[...] = np.arange(1, count + 1)[:, None, None]
    expected = np.zeros(SHAPE, int)
    for number in range(count):
        SELECTIONS[at + number].fill(expected, np.array(number + 1))
    assert np.array_equal(out, expected)


def test_chunks_along_the_first_dimension_are_adjacent_too() -> None:
    selections = list(project(regular_axes((2, 5), (12, 5)), IndexTransform.identity((12, 5)).maps))
    window = adjacent_window(selections, 0, 6, np.zeros((12, 5)), (2, 5))
    assert window is not None
    assert window.shape == (6, 2, 5)


def test_a_chunk_that_is_not_complete_has_no_window() -> None:
    maps = IndexTransform.identity(SHAPE).select((slice(1, None), slice(None))).maps
    selections = list(project(regular_axes(CHUNKS, SHAPE), maps))
    assert adjacent_window(selections, 0, 8, np.zeros((5, 40)), CHUNKS) is None
