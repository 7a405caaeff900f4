"""Index arrays against numpy: which elements a chain of selections means, and how chunks give and take them."""

from __future__ import annotations

import pickle
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexing import APPLY, Step, steps

from aiozarr.errors import SelectionError
from aiozarr.grid import Constant, Indexed, IndexTransform, Strided, select_orthogonal, select_pointwise
from aiozarr.grid.arrangement import core_array, new_array, view_region
from aiozarr.grid.axes import RegularAxis, regular_axes
from aiozarr.grid.groups import count_touched, locate
from aiozarr.grid.points import PointProjection
from aiozarr.grid.projection import ChunkProjection
from aiozarr.grid.touched import count_chunks, project

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
def test_scattering_every_chunk_gives_what_numpy_gives(case: Case) -> None:
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
    for part in parts:
        chunk = chunk_of(source, part.coords, case[1])
        gathered = part.gather(chunk)
        assert gathered.size == part.size
        part.scatter(core, gathered)
        if part.whole:
            assert set(gathered.ravel()) == set(chunk[chunk >= 0])
        shape, region, alone = part.detached()
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
def test_putting_into_every_chunk_assigns_what_numpy_assigns(case: Case, factor: int) -> None:
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
        for number, part in shard.within(regular_axes(chunks, shards)).numbered((factor,) * len(chunks)):
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
def test_a_fill_value_goes_where_elements_would_go(case: Case) -> None:
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


def test_lists_that_slices_could_say_are_moved_as_slices() -> None:
    axes = regular_axes((4, 4), (16, 16))
    taken = select_orthogonal(IndexTransform.identity((16, 16)), (list(range(4, 12)), [3, 1]))
    first, second = project(axes, taken.maps)
    assert isinstance(first, ChunkProjection)
    assert isinstance(second, ChunkProjection)
    assert (first.coords, second.coords) == ((1, 0), (2, 0))
    assert first.chunk_selection == (slice(0, 4, 1), slice(3, None, -2))
    whole = select_orthogonal(IndexTransform.identity((16, 16)), (np.arange(16) < 4, slice(0, 4)))
    (part,) = project(axes, whole.maps)
    assert part.whole
    out = np.zeros((4, 4))
    window = part.whole_window(out, (4, 4))
    assert window is not None
    assert np.shares_memory(window, out)
    assert part.whole_window(out, (4, 5)) is None


def test_a_chunk_is_whole_where_its_points_are_all_there_in_any_order() -> None:
    axes = regular_axes((3, 2), (3, 2))
    every = np.array([[2, 1], [0, 0], [1, 1], [2, 0], [0, 1], [1, 0]])
    points = select_pointwise(IndexTransform.identity((3, 2)), (every[:, 0], every[:, 1]))
    (part,) = project(axes, points.maps)
    assert isinstance(part, PointProjection)
    assert part.whole
    every[0] = every[1]
    repeated = select_pointwise(IndexTransform.identity((3, 2)), (every[:, 0], every[:, 1]))
    (part,) = project(axes, repeated.maps)
    assert part.size == 6
    assert not part.whole


def test_points_in_a_grid_of_any_size_cost_what_they_number() -> None:
    axes = regular_axes((1, 10**6), (10**9, 10**15))
    view = select_pointwise(IndexTransform.identity((10**9, 10**15)), ([5, 10**9 - 1, 5], [7, 10**15 - 1, 8]))
    parts = list(project(axes, view.maps))
    assert [part.coords for part in parts] == [(5, 0), (10**9 - 1, 10**9 - 1)]
    assert all(type(each) is int for part in parts for each in part.coords)
    assert count_chunks(axes, view.maps) == 2


def test_chunks_far_apart_in_many_dimensions_are_told_apart() -> None:
    length = 2**62
    axes = regular_axes((1, 1, 1), (length,) * 3)
    index = ([length - 1, 0, 5, 5], [0, length - 1, 7, 7], [3, length - 1, length - 1, 2])
    view = select_pointwise(IndexTransform.identity((length,) * 3), index)
    found = [part.coords for part in project(axes, view.maps)]
    assert found == sorted(zip(*index, strict=True))


def test_a_long_dimension_beside_a_list_is_walked_without_a_list_of_its_parts() -> None:
    view = select_orthogonal(IndexTransform.identity((10**9, 9)), (slice(None), [0, 8]))
    parts = project(regular_axes((1, 3), (10**9, 9)), view.maps)
    assert len(parts) == 2 * 10**9
    walk = iter(parts)
    assert [next(walk).coords for _ in range(3)] == [(0, 0), (0, 2), (1, 0)]


def test_one_point_is_held_constant_and_one_dimension_is_its_own_group() -> None:
    whole = IndexTransform.identity((5, 6, 7))
    assert select_pointwise(whole, (1, 2, 3)).maps == (Constant(1), Constant(2), Constant(3))
    lists = select_orthogonal(whole, (slice(None), [1, -1], [3]))
    assert lists.maps == (Strided(0, 1, 5), Indexed(1, np.array([1, 5])), Indexed(2, np.array([3])))
    assert lists.select((0, 0, 0)).maps == (Constant(0), Constant(1), Constant(3))
    joint = select_pointwise(whole, ([[1], [2]], slice(None), [3, 4, 5]))
    assert joint.shape == (2, 3, 6)
    assert joint.core_shape == (6, 6)
    assert joint.select((1, 2)).maps == (Constant(2), Strided(0, 1, 6), Constant(5))


def test_a_view_does_not_move_when_its_index_array_is_changed() -> None:
    index = np.array([1, 2])
    view = select_orthogonal(IndexTransform.identity((5,)), index)
    index[:] = 0
    assert view.maps == (Indexed(0, np.array([1, 2])),)
    (mapped,) = view.maps
    assert isinstance(mapped, Indexed)
    with pytest.raises(ValueError, match="read-only"):
        mapped.indices[0] = 3


def test_a_transform_of_index_arrays_travels_and_compares() -> None:
    view = select_pointwise(IndexTransform.identity((5, 6)), ([1, 2], [3, 4]))
    copied = pickle.loads(pickle.dumps(view))
    assert copied == view
    assert hash(copied) == hash(view)
    assert view != select_pointwise(IndexTransform.identity((5, 6)), ([1, 2], [3, 5]))
    assert Indexed(0, np.array([1])) != Constant(1)


@pytest.mark.parametrize(
    ("how", "selection", "words"),
    [
        ("oindex", [5], "index 5 is out of range for axis 0 of size 5"),
        ("oindex", (slice(None), [0, -7, 3]), "index -7 is out of range for axis 1 of size 6"),
        ("oindex", (None, 0, 6), "index 6 is out of range"),
        ("oindex", np.array([2**64 - 1], "u8"), f"index {2**64 - 1} is out of range for axis 0"),
        ("vindex", ([0], [[1], [6]]), "index 6 is out of range for axis 1 of size 6"),
        ("vindex", ([0, 1, 2], [0, 1]), r"shapes \(3,\), \(2,\) do not broadcast"),
        ("vindex", np.zeros((5, 5), bool), r"mask of shape \(5, 5\) does not fit"),
        ("vindex", (np.zeros((5, 6), bool), 0), "too many indices: the selection covers 3 axes"),
        ("oindex", np.zeros((5, 6), bool), "takes one axis at a time"),
        ("oindex", [[0, 1]], "index array of 2 axes"),
        ("oindex", np.zeros(4, bool), r"mask of shape \(4,\) does not fit axis 0"),
        ("oindex", (0, 0, 0), "too many indices"),
        ("vindex", (..., ..., 0), "single ellipsis"),
        ("oindex", [0.0, 1.0], "array of float64"),
        ("vindex", (np.array([1.5]), 0), "array of float64"),
        ("oindex", ["a"], "array of <U1"),
        ("oindex", "a", "is a str"),
        ("oindex", True, "single bool"),
        ("vindex", np.True_, "single bool"),
        ("oindex", 1.0, "is a float"),
        ("vindex", [[0, 1], [2]], "ragged"),
        ("vindex", ([0, 1], slice(None, None, 0)), "step of 0"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(how: str, selection: Any, words: str) -> None:
    with pytest.raises(SelectionError, match=words):
        SELECT[how](IndexTransform.identity((5, 6)), selection)


def test_empty_lists_select_nothing() -> None:
    whole = IndexTransform.identity((5, 6))
    assert select_orthogonal(whole, []).shape == (0, 6)
    assert select_orthogonal(whole, (slice(None), np.array([]))).shape == (5, 0)
    assert select_pointwise(whole, ([], [])).shape == (0,)
    assert select_pointwise(whole, np.zeros((5, 6), bool)).shape == (0,)


def test_a_new_axis_is_repeated_by_an_index_array() -> None:
    view = IndexTransform.identity((5,)).select((None, slice(None)))
    assert select_orthogonal(view, ([0], [1, 2])).shape == (1, 2)
    assert select_pointwise(view, ([0, 0], [1, 2])).shape == (2,)
    assert select_pointwise(view, ([], slice(None))).shape == (0, 5)
    twice = select_orthogonal(view, [0, -1])
    assert (twice.shape, twice.core_shape, twice.repeats) == ((2, 5), (5,), True)
    assert select_pointwise(view, [[0, 0, 0]] * 2).shape == (2, 3, 5)
    assert not twice.select(1).repeats
    with pytest.raises(SelectionError, match="index 1 is out of range"):
        select_orthogonal(view, [0, 1])


@pytest.mark.parametrize("span", [1 << 8, 1 << 16, 1 << 20, 1 << 40])
def test_points_keep_their_order_in_each_chunk_whatever_the_size_of_the_grid(span: int) -> None:
    chunks = np.random.default_rng(1).integers(0, 500, 5000) * (span // 500 or 1) % span
    axis = RegularAxis(1, span)
    located = locate([axis], [chunks])
    assert located.order is not None
    assert np.array_equal(located.order, np.argsort(chunks, kind="stable"))
    assert np.array_equal(located.chunks[0], np.unique(chunks))
    assert count_touched([axis], [chunks]) == len(located.starts) == len(np.unique(chunks))


def test_an_output_whose_memory_has_gaps_between_the_axes_of_points_needs_a_copy() -> None:
    view = select_pointwise(IndexTransform.identity((5,)), [[0, 1, 2], [3, 4, 0]])
    assert core_array(view, np.zeros((2, 3), int)) is not None
    gaps = np.zeros((2, 4), int)[:, :3]
    assert core_array(view, gaps) is None
    copied = core_array(view, gaps, may_copy=True)
    assert copied is not None
    assert copied.shape == (6,)
