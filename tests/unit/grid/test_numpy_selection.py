"""Selections from pairs of numpy indices move the same elements as numpy does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.grid.axes import RegularAxis
from aiozarr.grid.numpy_selection import BoxSelector, output_extents, select_by_numpy
from aiozarr.grid.points import PointProjection
from aiozarr.grid.projection import ChunkProjection

CHUNK = np.arange(6 * 8).reshape(6, 8)
A = np.array

PAIRS: list[tuple[Any, Any, tuple[int, ...]]] = [
    ((slice(0, 6), slice(0, 8)), (slice(4, 10), slice(0, 8)), (12, 8)),
    ((slice(1, 6, 2), slice(3, 4)), (slice(0, 3), slice(2, 3)), (3, 5)),
    ((slice(0, None), 3), (slice(2, 8),), (9,)),
    ((np.int64(2), 3), (), ()),
    ((A(2), slice(1, 3)), (slice(0, 2),), (2,)),
    ((A([4, 1, 1]), slice(0, 8)), (slice(0, 3), slice(0, 8)), (3, 8)),
    ((A([1, 3, 5]), slice(0, 8, 3)), (A([2, 0, 1]), slice(0, 3)), (3, 3)),
    ((A([True, False, True, False, False, True]), slice(0, 2)), (slice(1, 4), slice(0, 2)), (4, 2)),
    (np.ix_([0, 5, 2], [7, 1]), np.ix_([1, 2, 4], [0, 3]), (5, 4)),
    (np.ix_([1, 3, 5], [0, 1]), np.ix_([0, 1, 2], [2, 3]), (3, 4)),
    ((A([0, 5, 2]), A([7, 1, 1])), (A([3, 0, 1]),), (4,)),
    ((A([0, 5, 2]), A([7, 1, 1])), (slice(1, 4),), (4,)),
    ((A([0, 5, 2, 2]), A([7, 1, 0, 3])), (A([2, 1, 3, 5]),), (6,)),
    ((A([0, 1, 2, 2]), A([0, 1, 0, 1])), (A([2, 1, 3, 5]),), (6,)),
    ((A([0, 5, 2, 2]), slice(0, 2)), (A([2, 1, 3, 5]), slice(0, 2)), (6, 2)),
    ((slice(0, 4), slice(0, 2)), (A([2, 1, 3, 5]), slice(0, 2)), (6, 2)),
    ((A([0, 5], np.uint8), A([7, 1], np.uint16)), (slice(None, 2),), (2,)),
]


@pytest.mark.parametrize(("inside", "outside", "shape"), PAIRS)
def test_elements_move_as_numpy_moves_them(inside: Any, outside: Any, shape: tuple[int, ...]) -> None:
    selection = select_by_numpy(0, CHUNK.shape, inside, outside)
    assert selection is not None
    read, expected = np.full(shape, -1), np.full(shape, -1)
    selection.scatter(read, selection.gather(CHUNK))
    expected[outside] = CHUNK[inside]
    assert np.array_equal(read, expected)
    values = np.arange(1000, 1000 + read.size).reshape(shape)
    written, wanted = CHUNK.copy(), CHUNK.copy()
    selection.put(written, selection.take(values))
    wanted[inside] = values[outside]
    assert np.array_equal(written, wanted)


@pytest.mark.parametrize(("inside", "outside", "shape"), PAIRS)
def test_inner_chunks_move_the_same_elements(inside: Any, outside: Any, shape: tuple[int, ...]) -> None:
    selection = select_by_numpy(7, CHUNK.shape, inside, outside)
    assert selection is not None
    read, expected = np.full(shape, -1), np.full(shape, -1)
    for part in selection.inner_chunks([RegularAxis(3, 6), RegularAxis(2, 8)]):
        row, column = part.coords
        part.scatter(read, part.gather(CHUNK[3 * row : 3 * row + 3, 2 * column : 2 * column + 2]))
    expected[outside] = CHUNK[inside]
    assert np.array_equal(read, expected)


def test_boxes_select_as_the_general_function_does() -> None:
    boxes = BoxSelector()
    for number, (inside, outside, _) in enumerate([*PAIRS, *PAIRS]):
        for is_complete in (False, True):
            found = boxes.select(number, CHUNK.shape if inside else (), inside, outside, is_complete=is_complete)
            plain = select_by_numpy(number, CHUNK.shape, inside, outside, is_complete=is_complete)
            if any(isinstance(each, np.ndarray) for each in (*inside, *outside)):
                assert found is None
            else:
                assert type(plain) is ChunkProjection
                assert found == ChunkProjection([plain[0], *[each._replace(chunk=0) for each in plain[1:]]])
    assert boxes.select(0, (), (), (), is_complete=True) == ChunkProjection()


def test_dimensions_that_the_output_lacks_are_dropped() -> None:
    selection = select_by_numpy(0, CHUNK.shape, np.ix_([4, 1], [3]), (slice(0, 2),), dropped=(1,))
    assert selection is not None
    out = np.zeros(2, int)
    selection.scatter(out, selection.gather(CHUNK))
    assert out.tolist() == [CHUNK[4, 3], CHUNK[1, 3]]
    of_slice = select_by_numpy(0, CHUNK.shape, (slice(2, 3), A([3, 1])), (slice(0, 2),), dropped=(0,))
    assert of_slice is not None
    of_slice.scatter(out, of_slice.gather(CHUNK))
    assert out.tolist() == [CHUNK[2, 3], CHUNK[2, 1]]


def test_index_arrays_that_are_progressions_become_slices() -> None:
    selection = select_by_numpy(3, CHUNK.shape, np.ix_([1, 3, 5], [0, 1]), np.ix_([0, 1, 2], [2, 3]))
    assert type(selection) is ChunkProjection
    assert selection.chunk_selection == (slice(1, 7, 2), slice(0, 2, 1))
    assert selection.coords == (3, 3)
    scattered = select_by_numpy(3, CHUNK.shape, (A([4, 0, 5]), slice(0, 8)), (slice(0, 3), slice(0, 8)))
    assert type(scattered) is PointProjection
    assert scattered.coords == (3, 3)


def test_a_complete_chunk_is_as_long_as_what_is_taken_of_it() -> None:
    inside, outside = (slice(0, 4), slice(0, 8)), (slice(0, 4), slice(0, 8))
    complete = select_by_numpy(0, CHUNK.shape, inside, outside, is_complete=True)
    assert complete is not None
    assert complete.is_complete
    assert complete.extents == (4, 8)
    partial = select_by_numpy(0, CHUNK.shape, inside, outside)
    assert partial is not None
    assert not partial.is_complete
    assert partial.extents == (6, 8)
    whole = select_by_numpy(0, CHUNK.shape, (slice(0, 6), slice(0, 8)), (slice(0, 6), slice(0, 8)))
    assert whole is not None
    assert whole.is_complete


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ((slice(0, 2),), (slice(0, 2),)),
        ((slice(0, 2), slice(0, 2)), (slice(0, 2),)),
        ((slice(0, 2), 1), (slice(0, 2), slice(0, 1))),
        ((slice(0, 2), slice(0, 2)), (slice(0, 3), slice(0, 2))),
        ((slice(0, 2), slice(0, 2)), (slice(0, 4, 2), slice(0, 2))),
        ((slice(0, 2), slice(0, 2)), (slice(-2, None), slice(0, 2))),
        ((slice(2, 2), slice(0, 2)), (slice(0, 0), slice(0, 2))),
        ((A([0, 1]), A([0, 1, 2])), (slice(0, 2),)),
        ((A([0, 1]), A([0, 1])), (slice(0, 2), slice(0, 2))),
        ((A([0.0, 1.0]), slice(0, 2)), (slice(0, 2), slice(0, 2))),
        ((None, slice(0, 2)), (slice(0, 1), slice(0, 2))),
        ((True, slice(0, 2)), (slice(0, 1), slice(0, 2))),
        ((..., slice(0, 2)), (slice(0, 1), slice(0, 2))),
        (("field", slice(0, 2)), (slice(0, 1), slice(0, 2))),
    ],
)
def test_other_pairs_are_no_selection(inside: Any, outside: Any) -> None:
    assert select_by_numpy(0, CHUNK.shape, inside, outside) is None
    assert BoxSelector().select(0, CHUNK.shape, inside, outside, is_complete=False) is None


def test_dropped_dimensions_hold_one_element() -> None:
    assert select_by_numpy(0, CHUNK.shape, np.ix_([4, 1], [3, 4]), (slice(0, 2),), dropped=(1,)) is None
    assert select_by_numpy(0, CHUNK.shape, (A([0, 1]), A([0, 1])), (slice(0, 2),), dropped=(1,)) is None


def test_the_output_has_the_last_position_of_all_chunks() -> None:
    chunks = [
        select_by_numpy(0, CHUNK.shape, (slice(0, 6), 2), (slice(0, 6),)),
        select_by_numpy(1, CHUNK.shape, (A([3, 0]), 2), (A([9, 4]),)),
    ]
    assert output_extents([each for each in chunks if each is not None]) == (10,)
    assert output_extents([]) == ()


def test_a_chunk_without_dimensions_has_one_element() -> None:
    selection = select_by_numpy(0, (), (), (), is_complete=True)
    assert selection is not None
    assert selection.is_complete
    out = np.zeros((), int)
    selection.scatter(out, selection.gather(np.array(5)))
    assert out == 5
