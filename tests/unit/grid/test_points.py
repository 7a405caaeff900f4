"""Index arrays compared with numpy: selected elements, and their transfer from and to chunks."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiozarr.grid.advanced import select_orthogonal, select_pointwise
from aiozarr.grid.axes import regular_axes
from aiozarr.grid.axis_layout import core_array, new_array, view_region
from aiozarr.grid.chunk_grid import count_chunks, project
from aiozarr.grid.points import MixedIndex, ScatteredPoints, scatter_points
from aiozarr.grid.projection import ChunkProjection
from aiozarr.grid.transform import Constant, Indexed, IndexTransform, Strided
from tests.support.numpy_indexing import APPLY, Step, steps

SELECT = {"basic": IndexTransform.select, "oindex": select_orthogonal, "vindex": select_pointwise}
Case = tuple[tuple[int, ...], tuple[int, ...], list[Step]]


@st.composite
def chains(draw: st.DrawFn) -> Case:
    shape = draw(st.lists(st.integers(0, 9), max_size=4).map(tuple))
    chunks = tuple(draw(st.integers(1, side + 2)) for side in shape)
    return shape, chunks, draw(steps(shape))


def transform_of(case: Case) -> tuple[IndexTransform, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The transform of a case, an array of its shape, and what the case selects of it."""
    shape, _, chain = case
    source = np.arange(prod(shape)).reshape(shape)
    transform, expected = IndexTransform.identity(shape), source
    for how, selection in chain:
        transform, expected = SELECT[how](transform, selection), APPLY[how](expected, selection)
        assert transform.shape == expected.shape
    return transform, source, expected


def chunk_of(source: np.ndarray[Any, Any], coords: tuple[int, ...], chunks: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A whole chunk; -7 stands where it reaches past the array."""
    block = np.full(chunks, -7)
    inside = source[tuple(slice(c * n, (c + 1) * n) for c, n in zip(coords, chunks, strict=True))]
    block[tuple(slice(n) for n in inside.shape)] = inside
    return block


@settings(deadline=None, max_examples=300)
@given(chains())
def test_scattering_all_chunks_equals_numpy_indexing(case: Case) -> None:
    transform, source, expected = transform_of(case)
    if not transform.size:
        return
    out, streamed = new_array(transform.unrepeated(), source.dtype), np.full(transform.shape, -1)
    core = core_array(transform.unrepeated(), out)
    assert core is not None
    assert core.shape == transform.core_shape
    axes = regular_axes(case[1], case[0])
    parts = list(project(axes, transform.maps))
    assert len({part.coords for part in parts}) == len(parts) == count_chunks(axes, transform.maps)
    chunks = np.array([chunk_of(source, part.coords, case[1]) for part in parts])
    for step in (1, 2):
        some, together, one_by_one = parts[::step], np.full_like(core, -1), np.full_like(core, -1)
        are_points = isinstance(some[0], ScatteredPoints)
        assert scatter_points(together, chunks[::step], some) == are_points
        for part, chunk in zip(some, chunks[::step], strict=True):
            part.scatter(one_by_one, part.gather(chunk))
        assert np.array_equal(together, one_by_one if are_points else np.full_like(core, -1))
    for part, chunk in zip(parts, chunks, strict=True):
        gathered = part.gather(chunk)
        assert gathered.size == part.size
        part.scatter(core, gathered)
        if part.is_complete:
            assert set(gathered.ravel()) == set(chunk[chunk >= 0])
        shape, region, alone = part.rebased()
        block = np.empty(shape, int)
        alone.scatter(block, alone.gather(chunk))
        place, block = view_region(transform, region, block)
        assert len(place) == streamed.ndim
        assert streamed[place].shape == block.shape
        streamed[place] = block
    assert np.array_equal(np.broadcast_to(out, expected.shape), expected)
    assert np.array_equal(streamed, expected)


@settings(deadline=None, max_examples=200)
@given(chains(), st.integers(1, 3))
def test_putting_into_all_chunks_equals_numpy_assignment(case: Case, factor: int) -> None:
    transform, source, places = transform_of(case)
    if not transform.size:
        return
    values = np.arange(1000, 1000 + transform.size)[::-1].reshape(transform.shape)
    core = core_array(transform.unrepeated(), transform.last_of_repeated(values), may_copy=True)
    assert core is not None
    chunks = case[1]
    shards = tuple(factor * n for n in chunks)
    expected, found = source.copy(), source.copy()
    expected.reshape(-1)[places.reshape(-1)] = values.reshape(-1)
    for shard in project(regular_axes(shards, case[0]), transform.maps):
        numbers = set()
        for number, part in shard.inner_chunks(regular_axes(chunks, shards)).numbered((factor,) * len(chunks)):
            numbers.add(number)
            assert number == np.ravel_multi_index(part.coords, (factor,) * len(chunks)) if chunks else number == 0
            coords = tuple(s * factor + c for s, c in zip(shard.coords, part.coords, strict=True))
            chunk = chunk_of(found, coords, chunks)
            part.put(chunk, part.take(core))
            inside = tuple(slice(c * n, (c + 1) * n) for c, n in zip(coords, chunks, strict=True))
            found[inside] = chunk[tuple(slice(n) for n in found[inside].shape)]
        assert numbers
    assert np.array_equal(found, expected)


@given(chains())
def test_fill_writes_to_the_positions_of_scatter(case: Case) -> None:
    transform, source, _ = transform_of(case)
    if not transform.size:
        return
    transform = transform.unrepeated()
    out = new_array(transform, source.dtype)
    core = core_array(transform, out)
    assert core is not None
    for part in project(regular_axes(case[1], case[0]), transform.maps):
        part.fill(core, np.array(5))
    assert (out == 5).all()


def test_index_arrays_equal_to_slices_are_projected_as_slices() -> None:
    axes = regular_axes((4, 4), (16, 16))
    taken = select_orthogonal(IndexTransform.identity((16, 16)), (list(range(4, 12)), [3, 1]))
    first, second = project(axes, taken.maps)
    assert isinstance(first, ChunkProjection)
    assert isinstance(second, ChunkProjection)
    assert (first.coords, second.coords) == ((1, 0), (2, 0))
    assert first.chunk_selection == (slice(0, 4, 1), slice(3, None, -2))
    whole = select_orthogonal(IndexTransform.identity((16, 16)), (np.arange(16) < 4, slice(0, 4)))
    (part,) = project(axes, whole.maps)
    assert part.is_complete
    out = np.zeros((4, 4))
    window = part.whole_window(out, (4, 4))
    assert window is not None
    assert np.shares_memory(window, out)
    assert part.whole_window(out, (4, 5)) is None


def test_a_chunk_with_all_points_in_any_order_is_complete() -> None:
    axes = regular_axes((3, 2), (3, 2))
    every = np.array([[2, 1], [0, 0], [1, 1], [2, 0], [0, 1], [1, 0]])
    points = select_pointwise(IndexTransform.identity((3, 2)), (every[:, 0], every[:, 1]))
    (part,) = project(axes, points.maps)
    assert isinstance(part, ScatteredPoints)
    assert part.is_complete
    every[0] = every[1]
    repeated = select_pointwise(IndexTransform.identity((3, 2)), (every[:, 0], every[:, 1]))
    (part,) = project(axes, repeated.maps)
    assert part.size == 6
    assert not part.is_complete


def test_costs_grow_with_points_and_not_with_the_grid() -> None:
    axes = regular_axes((1, 10**6), (10**9, 10**15))
    view = select_pointwise(IndexTransform.identity((10**9, 10**15)), ([5, 10**9 - 1, 5], [7, 10**15 - 1, 8]))
    parts = list(project(axes, view.maps))
    assert [part.coords for part in parts] == [(5, 0), (10**9 - 1, 10**9 - 1)]
    assert all(type(each) is int for part in parts for each in part.coords)
    assert count_chunks(axes, view.maps) == 2


def test_distant_chunks_in_many_dimensions_are_distinguished() -> None:
    length = 2**62
    axes = regular_axes((1, 1, 1), (length,) * 3)
    index = ([length - 1, 0, 5, 5], [0, length - 1, 7, 7], [3, length - 1, length - 1, 2])
    view = select_pointwise(IndexTransform.identity((length,) * 3), index)
    found = [part.coords for part in project(axes, view.maps)]
    assert found == sorted(zip(*index, strict=True))


def test_a_long_dimension_beside_an_index_array_is_iterated_in_constant_memory() -> None:
    view = select_orthogonal(IndexTransform.identity((10**9, 9)), (slice(None), [0, 8]))
    parts = project(regular_axes((1, 3), (10**9, 9)), view.maps)
    assert len(parts) == 2 * 10**9
    walk = iter(parts)
    assert [next(walk).coords for _ in range(3)] == [(0, 0), (0, 2), (1, 0)]


def test_one_point_is_constant_and_one_dimension_is_its_own_group() -> None:
    whole = IndexTransform.identity((5, 6, 7))
    assert select_pointwise(whole, (1, 2, 3)).maps == (Constant(1), Constant(2), Constant(3))
    lists = select_orthogonal(whole, (slice(None), [1, -1], [3]))
    assert lists.maps == (Strided(0, 1, 5), Indexed(1, np.array([1, 5])), Indexed(2, np.array([3])))
    assert lists.select((0, 0, 0)).maps == (Constant(0), Constant(1), Constant(3))
    joint = select_pointwise(whole, ([[1], [2]], slice(None), [3, 4, 5]))
    assert joint.shape == (2, 3, 6)
    assert joint.core_shape == (6, 6)
    assert joint.select((1, 2)).maps == (Constant(2), Strided(0, 1, 6), Constant(5))


def test_a_later_change_of_an_index_array_does_not_change_the_view() -> None:
    index = np.array([1, 2])
    view = select_orthogonal(IndexTransform.identity((5,)), index)
    index[:] = 0
    assert view.maps == (Indexed(0, np.array([1, 2])),)
    (mapped,) = view.maps
    assert isinstance(mapped, Indexed)
    with pytest.raises(ValueError, match="read-only"):
        mapped.indices[0] = 3


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
