"""Byte runs of selected elements are exactly the bytes that numpy touches."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiozarr.grid.advanced import select_orthogonal, select_pointwise
from aiozarr.grid.axes import RegularAxis, regular_axes
from aiozarr.grid.byte_runs import ByteRuns, ElementLayout, bounding_box, byte_runs, byte_runs_key, joint_bounding_box
from aiozarr.grid.chunk_grid import project
from aiozarr.grid.fields import FieldProjection, Fields
from aiozarr.grid.projection import Projection
from aiozarr.grid.transform import Constant, IndexTransform, Strided
from tests.support.numpy_indexing import Step, steps

ITEM = 3


def places_of(shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> ElementLayout:
    order = tuple(range(len(shape))) if order is None else order
    strides = [0] * len(shape)
    size = ITEM
    for dim in reversed(order):
        strides[dim] = size
        size *= shape[dim]
    return ElementLayout(shape, tuple(strides), order, ITEM)


def bytes_of(layout: ElementLayout, chunk: np.ndarray) -> set[int]:
    """The bytes of the elements whose linear index in C order `chunk` lists."""
    coords = np.unravel_index(np.unique(chunk), layout.shape)
    starts = sum(each * stride for each, stride in zip(coords, layout.strides, strict=True))
    return {int(start) + offset for start in np.atleast_1d(starts) for offset in range(ITEM)}


def covered(runs: ByteRuns | None) -> set[int]:
    assert runs is not None
    starts, stops = runs
    assert all(starts[1:] > stops[:-1])
    return {byte for start, stop in zip(starts.tolist(), stops.tolist(), strict=True) for byte in range(start, stop)}


@st.composite
def selections(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], IndexTransform]:
    ndim = draw(st.integers(1, 3))
    chunk = tuple(draw(st.integers(1, 5)) for _ in range(ndim))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(ndim))
    order = tuple(draw(st.permutations(range(ndim))))
    identity = IndexTransform.identity(shape)
    kind = draw(st.sampled_from(["basic", "oindex", "vindex"]))
    if kind == "vindex":
        count = draw(st.integers(1, 6))
        points = [draw(st.lists(st.integers(0, n - 1), min_size=count, max_size=count)) for n in shape]
        return shape, chunk, order, select_pointwise(identity, tuple(np.array(each) for each in points))
    picks: list[Any] = []
    for n in shape:
        options: list[Any] = [st.integers(0, n - 1), st.slices(n)]
        if kind == "oindex":
            options.append(st.lists(st.integers(0, n - 1), min_size=1, max_size=4).map(np.array))
        picks.append(draw(st.one_of(*options)))
    transform = identity.select(tuple(picks)) if kind == "basic" else select_orthogonal(identity, tuple(picks))
    return shape, chunk, order, transform


@given(selections())
def test_the_runs_are_the_bytes_of_the_selected_elements(
    case: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], IndexTransform],
) -> None:
    shape, chunk, order, transform = case
    layout = places_of(chunk, order)
    elements = np.arange(prod(chunk)).reshape(chunk)
    for part in project(regular_axes(chunk, shape), transform.maps):
        runs = byte_runs(part, layout, 10_000)
        assert runs is not None
        assert covered(runs) == bytes_of(layout, np.asarray(part.gather(elements)))


def test_complete_rows_are_one_run_and_a_column_is_one_run_per_row() -> None:
    axes = regular_axes((1000, 1000), (1000, 1000))
    identity = IndexTransform.identity((1000, 1000))

    def count(*selection: Any, most: int = 5000) -> int | None:
        (part,) = project(axes, identity.select(selection).maps)
        runs = byte_runs(part, places_of((1000, 1000)), most)
        return None if runs is None else len(runs.starts)

    assert count(slice(3, 700)) == 1
    assert count(slice(None), 5) == 1000
    assert count(slice(None), slice(0, 1000, 2)) is None
    assert count(slice(0, 10), slice(None, None, -2)) == 5000
    assert count(slice(None), 5, most=999) is None


def test_selected_fields_count_as_whole_elements() -> None:
    dtype = np.dtype([("a", "u1"), ("b", "u1", (2,))])
    layout = places_of((8,))
    axes = regular_axes((8,), (8,))
    (whole,) = project(axes, IndexTransform.identity((8,)).select((slice(2, 5),)).maps)
    field = Fields.of(dtype, "b")
    of_field = IndexTransform.identity((8, 2)).select((slice(2, 5), 1))
    (part,) = project(axes, of_field.maps, field)
    expected = byte_runs(whole, layout, 100)
    assert expected is not None
    assert covered(byte_runs(part, layout, 100)) == covered(expected)
    assert byte_runs_key(part) is None


@pytest.mark.parametrize("start", [0, 4])
def test_equal_selections_of_different_chunks_have_equal_keys(start: int) -> None:
    parts = list(project(regular_axes((4,), (12,)), IndexTransform.identity((12,)).select((slice(start, 12),)).maps))
    assert {byte_runs_key(part) for part in parts} == {(0, 1, 4)}


SELECT = {"basic": IndexTransform.select, "oindex": select_orthogonal, "vindex": select_pointwise}
Case = tuple[tuple[int, ...], tuple[int, ...], list[Step]]


@st.composite
def chains(draw: st.DrawFn) -> Case:
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple))
    chunks = tuple(draw(st.integers(1, side + 2)) for side in shape)
    return shape, chunks, draw(steps(shape))


@settings(deadline=None, max_examples=200)
@given(chains())
def test_the_box_is_the_smallest_that_contains_all_selected_elements(case: Case) -> None:
    shape, chunks, chain = case
    transform = IndexTransform.identity(shape)
    for how, selection in chain:
        transform = SELECT[how](transform, selection)
    if not transform.size:
        return
    numbers = np.arange(prod(chunks)).reshape(chunks)
    for part in project(regular_axes(chunks, shape), transform.maps):
        taken = np.unravel_index(part.gather(numbers).reshape(-1), chunks)
        assert bounding_box(part) == tuple(slice(int(index.min()), int(index.max()) + 1) for index in taken)


def test_the_box_of_fields_has_the_dimensions_of_the_chunk() -> None:
    fields = Fields.of(np.dtype([("a", "i4", (2, 3))]), "a")
    transform = IndexTransform.identity((7, 5, *fields.shape)).select((slice(1, 6, 2), 3, ..., 0))
    parts = project(regular_axes((4, 4, *fields.shape), (7, 5, *fields.shape)), transform.maps)
    boxes = [bounding_box(FieldProjection(part, fields, 2)) for part in parts]
    assert boxes == [(slice(1, 4), slice(3, 4)), (slice(1, 2), slice(3, 4))]


def test_a_joint_box_contains_the_boxes_of_all_selections() -> None:
    axes = [RegularAxis(10, 20), RegularAxis(8, 8)]
    maps = [(Strided(1, 2, 3), Constant(5)), (Constant(7), Strided(2, 1, 2)), (Strided(9, -1, 3), Constant(0))]
    parts = [next(iter(Projection(axes, each))) for each in maps]
    assert joint_bounding_box(parts[:1]) == bounding_box(parts[0]) == (slice(1, 6), slice(5, 6))
    assert joint_bounding_box(parts) == (slice(1, 10), slice(0, 6))
