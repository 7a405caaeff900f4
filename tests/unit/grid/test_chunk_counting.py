"""Chunks of a selection: projected, counted, and bounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.grid.advanced import select_orthogonal, select_pointwise
from aiozarr.grid.axes import regular_axes
from aiozarr.grid.chunk_grid import (
    LARGE_POINT_COUNT,
    chunk_count_bound,
    count_chunks,
    is_expensive,
    project,
)
from aiozarr.grid.fields import Fields
from aiozarr.grid.transform import IndexTransform

SHAPE, CHUNKS = (20, 30), (4, 7)
WHOLE = IndexTransform.identity(SHAPE)


@pytest.mark.parametrize(
    ("transform", "bound"),
    [
        (WHOLE, 25),
        (WHOLE.select((slice(3, 5), slice(None, None, 8))), 8),
        (WHOLE.select((3, slice(0))), 0),
        (select_orthogonal(WHOLE, ([0, 1, 19], slice(None))), 15),
        (select_pointwise(WHOLE, ([0, 1, 19], [0, 1, 2])), 3),
        (select_pointwise(WHOLE, (np.arange(20).repeat(30), np.tile(np.arange(30), 20))), 25),
    ],
)
def test_the_count_equals_the_projection_and_never_exceeds_the_bound(transform: IndexTransform, bound: int) -> None:
    axes = regular_axes(CHUNKS, SHAPE)
    count = count_chunks(axes, transform.maps)
    assert count == len(project(axes, transform.maps)) == len(list(project(axes, transform.maps)))
    assert count <= chunk_count_bound(axes, transform.maps) == bound


def test_fields_add_no_chunks() -> None:
    fields = Fields.of(np.dtype([("a", "i4", (3,)), ("b", "f8")]), "a")
    axes, maps = regular_axes(CHUNKS, SHAPE), WHOLE.extended(fields.shape).maps
    assert count_chunks(axes, maps) == chunk_count_bound(axes, maps) == len(project(axes, maps, fields)) == 25


def test_only_large_index_arrays_are_expensive() -> None:
    def points(number: int) -> Any:
        return np.zeros(number, np.int64)

    assert not is_expensive(IndexTransform.identity((10**9,)).maps)
    assert not is_expensive(select_orthogonal(WHOLE, points(LARGE_POINT_COUNT - 1)).maps)
    assert is_expensive(select_orthogonal(WHOLE, points(LARGE_POINT_COUNT)).maps)
