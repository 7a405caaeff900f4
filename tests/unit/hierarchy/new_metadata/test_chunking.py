"""Chunk and shard shapes, given or chosen."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.hierarchy.new_array_layout import (
    AUTO_CHUNK_BYTES,
    AUTO_SHARD_BYTES,
    auto_chunks,
    auto_divisor,
    auto_shards,
    resolve_chunking,
    resolve_chunks,
)

lengths = st.lists(st.integers(0, 1 << 62), max_size=5).map(tuple)
itemsizes = st.sampled_from([1, 2, 4, 8, 16])


@given(lengths, itemsizes)
def test_an_automatic_chunk_fits_the_array_and_the_target(shape: tuple[int, ...], itemsize: int) -> None:
    chunk = auto_chunks(shape, itemsize)
    assert len(chunk) == len(shape)
    assert all(1 <= part <= max(1, whole) for part, whole in zip(chunk, shape, strict=True))
    assert prod(chunk) * itemsize <= AUTO_CHUNK_BYTES


@given(lengths, itemsizes)
def test_an_automatic_chunk_is_not_smaller_than_it_need_be(shape: tuple[int, ...], itemsize: int) -> None:
    chunk = auto_chunks(shape, itemsize)
    whole = prod(max(1, length) for length in shape)
    assert prod(chunk) * itemsize * 4 > AUTO_CHUNK_BYTES or prod(chunk) == whole


@given(st.lists(st.integers(1, 1 << 20), max_size=4).map(tuple), itemsizes)
def test_an_automatic_chunk_of_a_shard_divides_it(shard: tuple[int, ...], itemsize: int) -> None:
    chunk = auto_divisor(shard, itemsize)
    assert all(outer % inner == 0 for outer, inner in zip(shard, chunk, strict=True))


@given(lengths, itemsizes)
def test_an_automatic_shard_is_a_multiple_of_its_chunk_within_the_target(shape: tuple[int, ...], itemsize: int) -> None:
    chunk = auto_chunks(shape, itemsize)
    shard = auto_shards(shape, chunk, itemsize)
    assert all(outer % inner == 0 for outer, inner in zip(shard, chunk, strict=True))
    assert prod(shard) * itemsize <= AUTO_SHARD_BYTES
    assert all(outer < 2 * max(1, whole) for outer, whole in zip(shard, shape, strict=True))


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        (5, (5, 5)),
        ((5, -1), (5, 30)),
        ([None, 7], (20, 7)),
        (None, (20, 30)),
        (False, (20, 30)),
        (True, (20, 30)),
        ("auto", (20, 30)),
        ((100, 100), (100, 100)),
    ],
)
def test_every_spelling_of_chunks_is_understood(chunks: object, expected: tuple[int, ...]) -> None:
    assert resolve_chunks((20, 30), chunks, None, 8) == (expected, None)  # type: ignore[arg-type]


def test_a_dimension_of_length_zero_has_chunks_of_length_one() -> None:
    assert resolve_chunks((0, 3), None, None, 8) == ((1, 3), None)


def test_chunks_of_an_array_without_dimensions_are_without_dimensions() -> None:
    assert resolve_chunks((), "auto", None, 8) == ((), None)
    assert resolve_chunks((), "auto", "auto", 8) == ((), ())


def test_chunks_are_chosen_inside_a_shard_that_is_given() -> None:
    chunk, shard = resolve_chunks((10_000, 10_000), "auto", (1000, 2000), 8)
    assert shard == (1000, 2000)
    assert 1000 % chunk[0] == 2000 % chunk[1] == 0
    assert prod(chunk) * 8 <= AUTO_CHUNK_BYTES


@pytest.mark.parametrize("chunks", [(5,), (5, 5, 5), (0, 5), (-2, 5), "small", 0])
def test_invalid_chunks_are_a_value_error(chunks: object) -> None:
    with pytest.raises(ValueError, match="chunks"):
        resolve_chunks((20, 30), chunks, None, 8)  # type: ignore[arg-type]


@pytest.mark.parametrize("chunks", [(True, 5), (2.5, 5), ("3", 5)])
def test_lengths_that_are_not_integers_are_a_type_error(chunks: object) -> None:
    with pytest.raises(TypeError):
        resolve_chunks((20, 30), chunks, None, 8)  # type: ignore[arg-type]


def test_a_shard_that_is_not_a_multiple_of_its_chunk_is_refused() -> None:
    with pytest.raises(ValueError, match="not a multiple"):
        resolve_chunks((20, 30), (4, 4), (8, 10), 8)


@pytest.mark.parametrize(
    ("chunks", "shards", "lengths", "outer", "inner"),
    [
        ([[2, 3, 5], [4, 3]], None, [[2, 3, 5], [4, 3]], (5, 4), None),
        ([[2, 2, 6], -1], None, [[[2, 2], 6], 7], (6, 7), None),
        ([[(2, 5)], 4], None, [[[2, 5]], 4], (2, 4), None),
        ((2, 2), [[2, 4, 4], 4], [[2, [4, 2]], 4], (4, 4), (2, 2)),
        ("auto", [[2, 4, 4], 4], [[2, [4, 2]], 4], (4, 4), (2, 4)),
    ],
)
def test_listed_lengths_make_a_rectilinear_grid(
    chunks: Any, shards: Any, lengths: list[Any], outer: tuple[int, ...], inner: tuple[int, ...] | None
) -> None:
    found = resolve_chunking((10, 7), chunks, shards, 4)
    assert (found.grid, found.configuration["chunk_shapes"]) == ("rectilinear", lengths)
    assert (found.outer, found.inner) == (outer, inner)


@pytest.mark.parametrize(
    ("chunks", "shards", "match"),
    [
        ([[2, 3], 7], None, "end at 5"),
        ([[], 7], None, "end at 0"),
        ([[0, 10], 7], None, "at least 1"),
        ([[(10, 0)], 7], None, "at least 1"),
        ([[10]], None, "dimensions"),
        ([[10], 7], (10, 7), "inside shards"),
        ((2, 2), [[2, 3, 5], 8], "does not divide"),
    ],
)
def test_listed_lengths_that_do_not_fit_are_refused(chunks: Any, shards: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        resolve_chunking((10, 7), chunks, shards, 4)


def test_listed_lengths_in_other_formats_are_an_error() -> None:
    with pytest.raises(TypeError, match="only format 3 supports"):
        resolve_chunks((10,), [[4, 6]], None, 4)
