"""Chunk grids: their chunks, and rejected metadata."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.grid.chunk_grid import RegularGrid, resolve_grid


def resolve(configuration: dict[str, Any], shape: tuple[int, ...], name: str = "regular") -> Any:
    return resolve_grid(SimpleNamespace(name=name, configuration=configuration), shape)


def test_the_last_chunk_extends_past_the_array() -> None:
    grid = resolve({"chunk_shape": [4, 3]}, (10, 9))
    assert (grid.array_shape, grid.chunk_shape, grid.shape, grid.ndim) == ((10, 9), (4, 3), (3, 3), 2)
    assert list(grid.edges(0)) == [0, 4, 8, 12]
    assert list(grid.edges(1)) == [0, 3, 6, 9]
    assert grid == resolve_grid(SimpleNamespace(name="regular", configuration=grid.to_json()), (10, 9))
    assert hash(grid) == hash(RegularGrid((10, 9), (4, 3)))
    assert grid != RegularGrid((10, 9), (4, 9))


def test_no_dimensions_make_one_chunk_and_length_0_makes_none() -> None:
    assert resolve({"chunk_shape": []}, ()).shape == ()
    grid = resolve({"chunk_shape": [4, 3]}, (0, 9))
    assert grid.shape == (0, 3)
    assert list(grid.edges(0)) == [0]


def test_chunks_are_counted_exactly_at_any_size() -> None:
    grid = resolve({"chunk_shape": [1, 2]}, (2**63 - 1, 2**63 - 1))
    assert grid.shape == (2**63 - 1, 2**62)
    assert grid.edges(0)[2**63 - 1] == 2**63 - 1


@pytest.mark.parametrize(
    ("configuration", "member"),
    [
        ({}, ""),
        ({"chunk_shape": 4}, ""),
        ({"chunk_shape": "44"}, ""),
        ({"chunk_shape": [4]}, ""),
        ({"chunk_shape": [4, 0]}, "[1]"),
        ({"chunk_shape": [-4, 1]}, "[0]"),
        ({"chunk_shape": [True, 1]}, "[0]"),
        ({"chunk_shape": [4, 1.0]}, "[1]"),
        ({"chunk_shape": [4, "1"]}, "[1]"),
        ({"chunk_shape": [4, None]}, "[1]"),
    ],
)
def test_an_invalid_chunk_shape_is_rejected_with_its_path(configuration: dict[str, Any], member: str) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        resolve(configuration, (10, 9))
    assert caught.value.member == "chunk_grid.configuration.chunk_shape" + member


def test_unknown_grids_and_members_are_named() -> None:
    with pytest.raises(UnsupportedMetadataError, match="hexagonal") as caught:
        resolve({}, (4,), name="hexagonal")
    assert (caught.value.point, caught.value.name) == ("chunk_grid", "hexagonal")
    with pytest.raises(UnsupportedMetadataError) as caught:
        resolve({"chunk_shape": [4], "offset": [1]}, (4,))
    assert caught.value.member == "chunk_grid.configuration.offset"
    with pytest.raises(UnsupportedMetadataError) as caught:
        resolve({"chunk_shape": [2**63]}, (4,))
    assert caught.value.member == "chunk_grid.configuration.chunk_shape[0]"
    assert resolve({"chunk_shape": [4], "hint": {"must_understand": False}}, (4,)).shape == (1,)


@pytest.mark.parametrize(
    ("shape", "chunks"), [((4,), (2, 2)), ((4,), (0,)), ((4,), (-1,)), ((-1,), (1,)), ((0,), (-1,))]
)
def test_invalid_shapes_are_value_errors(shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="chunks of"):
        RegularGrid(shape, chunks)
