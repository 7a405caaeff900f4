"""The smallest boxes around selected elements of a chunk."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from aiozarr.grid import Fields, IndexTransform, select_orthogonal, select_pointwise
from aiozarr.grid.axes import RegularAxis, regular_axes
from aiozarr.grid.bounding_box import bounding_box, joint_bounding_box
from aiozarr.grid.chunk_counting import project
from aiozarr.grid.fields import FieldProjection
from aiozarr.grid.projection import Projection
from aiozarr.grid.transform import Constant, Strided
from tests.support.numpy_indexing import Step, steps

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
