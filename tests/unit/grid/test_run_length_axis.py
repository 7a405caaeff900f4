"""An axis of chunks of differing lengths equals its chunks listed one by one."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.grid.axes import RegularAxis
from aiozarr.grid.run_length_axis import RunLengthAxis
from aiozarr.grid.transform import Constant, IndexTransform, Strided

RUNS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 4)), min_size=1, max_size=5)


@st.composite
def axes(draw: st.DrawFn) -> tuple[RunLengthAxis, list[int]]:
    """An axis, and where its chunks begin and the last one ends."""
    runs = draw(RUNS)
    edges = [0, *accumulate([length for length, count in runs for _ in range(count)])]
    extent = draw(st.integers(0, edges[-1]))
    inside = [edge for edge in edges if edge < extent]
    return RunLengthAxis(runs, extent), [*inside, edges[len(inside)]] if inside else [0]


@st.composite
def axes_and_selections(draw: st.DrawFn) -> tuple[RunLengthAxis, list[int], Strided]:
    axis, edges = draw(axes())
    transform = IndexTransform.identity((axis.extent,)).select(draw(st.slices(axis.extent)))
    selected = transform.maps[0]
    assert isinstance(selected, Strided)
    return axis, edges, selected


def chunk_of(edges: list[int], index: int) -> int:
    return max(chunk for chunk, edge in enumerate(edges) if edge <= index)


@given(axes())
def test_chunk_starts_are_sums_of_chunk_lengths(case: tuple[RunLengthAxis, list[int]]) -> None:
    axis, edges = case
    assert axis.chunks == len(edges) - 1
    assert [axis.chunk_start(chunk) for chunk in range(axis.chunks + 1)] == edges
    lengths = [axis.chunk_length(chunk) for chunk in range(axis.chunks)]
    assert lengths == list(np.diff(edges))
    assert sum(axis.chunk_extent(chunk) for chunk in range(axis.chunks)) == axis.extent
    assert axis.longest() == max(lengths, default=1)
    assert axis.is_uniform == (len(set(lengths)) <= 1)


@given(axes_and_selections())
def test_a_selection_is_split_by_chunk(case: tuple[RunLengthAxis, list[int], Strided]) -> None:
    axis, edges, selected = case
    indices = [selected.start + selected.step * at for at in range(selected.count)]
    chunks = [chunk_of(edges, index) for index in indices]
    assert axis.count(selected) == len(set(chunks))
    found: list[int] = []
    for part in axis.split(selected, offset=7):
        places = range(edges[part.chunk], edges[part.chunk + 1])[part.selection]
        assert part.out == slice(7 + len(found), 7 + len(found) + part.taken)
        assert part.extent == axis.chunk_extent(part.chunk)
        found += places
    assert found == indices
    if indices:
        assert axis.longest(selected) == max(axis.chunk_length(chunk) for chunk in chunks)
        assert [part.chunk for part in axis.split(Constant(indices[0]))] == chunks[:1]


@given(axes())
def test_indices_are_located_in_their_chunks(case: tuple[RunLengthAxis, list[int]]) -> None:
    axis, edges = case
    chunks, inner = axis.locate(np.arange(axis.extent))
    assert chunks.tolist() == [chunk_of(edges, index) for index in range(axis.extent)]
    assert inner.tolist() == [index - edges[chunk_of(edges, index)] for index in range(axis.extent)]


def test_equal_lengths_behave_as_a_regular_axis() -> None:
    runs, regular = RunLengthAxis([(4, 2), (4, 1)], 10), RegularAxis(4, 10)
    assert runs.is_uniform
    assert list(runs.split(Strided(9, -2, 5))) == list(regular.split(Strided(9, -2, 5)))


def test_huge_numbers_of_chunks_are_counted_and_located() -> None:
    end = 2**63 - 1
    axis = RunLengthAxis([(3, 1), (1, 10**18), (5, 10**30)], end)
    assert axis.chunks == 1 + 10**18 + -(-(end - 3 - 10**18) // 5)
    assert axis.count(Strided(0, 1, end)) == axis.chunks
    assert axis.count(Strided(end - 1, -3, 10**18)) == 6 * 10**17
    assert next(axis.split(Strided(10**18 + 3, 1, 10))).chunk == 10**18 + 1
    assert axis.chunk_start(axis.chunks) >= end


def test_chunks_that_end_before_the_array_are_rejected() -> None:
    with pytest.raises(ValueError, match="end at 8, the array at 9"):
        RunLengthAxis([(4, 2)], 9)
