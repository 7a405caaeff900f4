"""The chunk grid `rectilinear`: its forms, invalid configurations, and resizes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Self

import pytest

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.grid import ChunkGrid, register_chunk_grid
from aiozarr.grid.chunk_grid import MAX_LENGTH_RUNS, _registry, resolve_grid
from aiozarr.grid.rectilinear import RectilinearGrid
from aiozarr.grid.transform import Strided


def resolve(chunk_shapes: Any, shape: tuple[int, ...], **more: Any) -> ChunkGrid:
    configuration = {"kind": "inline", "chunk_shapes": chunk_shapes, **more}
    return resolve_grid(SimpleNamespace(name="rectilinear", configuration=configuration), shape)


def test_all_forms_of_chunk_lengths_are_parsed() -> None:
    # The example of the registry's text.
    forms = [4, [1, 2, 3], [[4, 2]], [[1, 3], 3], [4, 4, 4]]
    grid = resolve(forms, (6,) * 5)
    assert [list(grid.edges(dimension)) for dimension in range(5)] == [
        [0, 4, 8],
        [0, 1, 3, 6],
        [0, 4, 8],
        [0, 1, 2, 3, 6],
        [0, 4, 8],
    ]
    assert (grid.shape, grid.largest_chunk) == ((2, 3, 2, 4, 2), (4, 3, 4, 3, 4))
    assert grid.to_json() == {"kind": "inline", "chunk_shapes": forms}
    assert grid == resolve(forms, (6,) * 5)
    assert hash(grid) == hash(resolve(forms, (6,) * 5))


def test_an_array_of_no_length_has_no_chunks_and_keeps_the_lengths_it_grows_into() -> None:
    grid = resolve([[3, 4], []], (0, 0))
    assert (grid.shape, list(grid.edges(0)), grid.largest_chunk) == ((0, 0), [0], (3, 1))
    assert grid.with_shape((5, 0)).shape == (2, 0)


def test_edges_are_a_sequence_that_is_never_listed() -> None:
    edges = resolve([[3, [1, 10**18]]], (10**18,)).edges(0)
    assert (edges[0], edges[1], edges[-1], edges[1:3]) == (0, 3, 10**18, [3, 4])
    with pytest.raises(IndexError):
        edges[10**18]


@pytest.mark.parametrize(
    ("chunk_shapes", "member"),
    [
        (None, ""),
        ([[4]], ""),
        ([[4], "4"], "[1]"),
        ([[4], True], "[1]"),
        ([[4], 0], "[1]"),
        ([[4], [2, 1]], "[1]"),
        ([[4], [2.0, 2]], "[1][0]"),
        ([[4], [2, -2, 4]], "[1][1]"),
        ([[4], [2, [2]]], "[1][1]"),
        ([[4], [[2, 2, 2]]], "[1][0]"),
        ([[4], [[2, 0], 4]], "[1][0][1]"),
        ([[4], [[2, True]]], "[1][0][1]"),
        ([[4], [[0, 2]]], "[1][0][0]"),
        ([[4], [[[2], 2]]], "[1][0][0]"),
    ],
)
def test_invalid_lengths_are_rejected_with_their_path(chunk_shapes: Any, member: str) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        resolve(chunk_shapes, (4, 4))
    assert caught.value.member == "chunk_grid.configuration.chunk_shapes" + member


@pytest.mark.parametrize(
    ("chunk_shapes", "more"),
    [
        ([[1] * (MAX_LENGTH_RUNS + 1)], {}),
        ([2**63], {}),
        ([[2**63]], {}),
        ([4], {"offset": 1}),
        ([4], {"kind": "separate"}),
    ],
)
def test_unsupported_forms_are_named(chunk_shapes: Any, more: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        resolve(chunk_shapes, (4,), **more)
    assert caught.value.member is not None


def test_a_kind_that_is_not_a_string_is_rejected() -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        resolve([4], (4,), kind=None)
    assert caught.value.member == "chunk_grid.configuration.kind"


def test_a_smaller_array_keeps_the_lengths_past_its_end() -> None:
    grid = resolve([[2, 3, 5], 4], (10, 8))
    smaller = grid.with_shape((4, 3))
    assert smaller.to_json() == grid.to_json()
    assert (smaller.shape, smaller.with_shape((10, 8))) == ((2, 1), grid)


@pytest.mark.parametrize(
    ("multiple", "length", "expected"),
    [
        (None, 12, [2, 3, 5, 2]),
        (None, 22, [2, 3, [5, 3], 2]),
        ((4,), 11, [2, 3, 5, 4]),
    ],
)
def test_chunks_added_by_a_resize_are_not_longer_than_existing_ones(
    multiple: tuple[int, ...] | None, length: int, expected: list[Any]
) -> None:
    grid = resolve([[2, 3, 5]], (10,)).with_shape((length,), multiple)
    assert grid.to_json()["chunk_shapes"] == [expected]


def test_a_third_party_grid_needs_only_edges() -> None:
    class Doubling(ChunkGrid):
        name = "doubling"

        def __init__(self, shape: tuple[int, ...]) -> None:
            self._shape = shape

        @classmethod
        def from_json(cls, configuration: Any, shape: Any) -> Self:
            return cls(tuple(shape))

        def to_json(self) -> dict[str, Any]:
            return {}

        @property
        def array_shape(self) -> tuple[int, ...]:
            return self._shape

        @property
        def shape(self) -> tuple[int, ...]:
            return tuple(length.bit_length() for length in self._shape)

        def edges(self, dimension: int) -> list[int]:
            return [2**power - 1 for power in range(self.shape[dimension] + 1)]

    register_chunk_grid(Doubling)
    try:
        grid = resolve_grid(SimpleNamespace(name="doubling", configuration={}), (9,))
        assert [part.chunk for part in grid.axes[0].split(Strided(0, 1, 9))] == [0, 1, 2, 3]
        assert grid.largest_chunk == (8,)
        assert grid.with_shape((20,)).shape == (5,)
    finally:
        del _registry.classes["doubling"]


def test_the_grid_itself_checks_its_lengths() -> None:
    with pytest.raises(ValueError, match="dimensions"):
        RectilinearGrid((4,), ())
    with pytest.raises(ValueError, match="end at"):
        RectilinearGrid((4,), (((1, 3),),))
