"""One dimension of a regular grid, compared with its elements listed one by one."""

from __future__ import annotations

import numpy as np
import pytest

from aiozarr.grid.axes import AxisSelection, RegularAxis
from aiozarr.grid.transform import Constant, Strided

AXIS = RegularAxis(4, 18)
SELECTIONS = [
    Strided(0, 1, 18),
    Strided(2, 1, 9),
    Strided(17, -1, 18),
    Strided(1, 3, 6),
    Strided(0, 6, 3),
    Strided(0, 1, 0),
]


@pytest.mark.parametrize("selected", SELECTIONS)
def test_a_selection_is_split_by_chunk_in_the_order_of_the_output(selected: Strided) -> None:
    pieces = list(AXIS.split(selected, 10))
    assert len(pieces) == AXIS.count(selected)
    indices, positions = [], []
    for piece in pieces:
        chunk = range(piece.chunk * 4, piece.chunk * 4 + 4)
        indices += chunk[piece.selection]
        assert piece.out is not None
        positions += range(piece.out.start, piece.out.stop)
        assert piece.offset == piece.out.start
        assert piece.is_complete == (len(chunk[piece.selection]) == min(18 - chunk.start, 4))
        assert list(chunk[piece.start :: piece.step][: piece.taken]) == list(chunk[piece.selection])
    assert indices == [selected.start + selected.step * i for i in range(selected.count)]
    assert positions == list(range(10, 10 + selected.count))


def test_one_index_has_no_axis_in_the_output() -> None:
    assert list(AXIS.split(Constant(17), 3)) == [AxisSelection(4, 1, None, 1, 1, 1, 3, 2)]
    assert AXIS.count(Constant(17)) == 1


def test_a_selection_of_a_chunk_is_a_map_of_the_chunk() -> None:
    assert [each.as_map() for each in AXIS.split(Strided(2, 1, 4))] == [Strided(2, 1, 2), Strided(0, 1, 2)]
    assert [each.as_map() for each in AXIS.split(Constant(5))] == [Constant(1)]


def test_indices_are_located_in_their_chunks() -> None:
    chunks, inner = AXIS.locate(np.arange(18))
    assert np.array_equal(chunks * 4 + inner, np.arange(18))
    assert np.array_equal(chunks, AXIS.chunks_of(np.arange(18)))
    assert [AXIS.chunk_start(4), AXIS.chunk_length(4), AXIS.chunk_extent(4), AXIS.chunks] == [16, 4, 2, 5]
