"""The chunks of a grid that a selection touches: projected one by one, counted, or bounded."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from aiozarr.grid.axes import Axis, RegularAxis
from aiozarr.grid.projection import ChunkSelections, Projection
from aiozarr.grid.transform import DimensionMap, Indexed

if TYPE_CHECKING:
    from aiozarr.grid.fields import Fields

LARGE_POINT_COUNT = 1 << 14
"""Number of points of an index array from which sorting runs in a worker and not on the event loop."""


def project(axes: Sequence[Axis], maps: Sequence[DimensionMap], fields: Fields | None = None) -> ChunkSelections:
    """Return the selections of all chunks that `maps` touch.

    Args:
        axes: one per dimension of the grid.
        maps: one per dimension of the grid, followed by one per dimension of `fields`.
        fields: the selected fields of each element; None for complete elements.
    """
    if fields is not None:
        from aiozarr.grid.fields import FieldProjections

        own = [RegularAxis(length, length) for length in fields.shape]
        return FieldProjections(project([*axes, *own], maps), fields, len(axes))
    if any([isinstance(each, Indexed) for each in maps]):
        from aiozarr.grid.points import PointProjections

        return PointProjections.of(axes, maps)
    return Projection(axes, maps)  # type: ignore[arg-type]  # none of them is Indexed


def count_chunks(axes: Sequence[Axis], maps: Sequence[DimensionMap]) -> int:
    """Return the number of chunks that `maps` touch. The time grows with index arrays only, not with the chunks.

    Maps after the last axis are those of fields, which add no chunks.
    """
    counts = []
    inside = maps[: len(axes)]
    for dimension, (axis, each) in enumerate(zip(axes, inside, strict=True)):
        if not isinstance(each, Indexed):
            counts.append(axis.count(each))
        elif each.group == dimension:
            from aiozarr.grid.index_groups import count_chunks_of_points, flat_indices, group_dims

            dims = group_dims(inside, dimension)
            counts.append(count_chunks_of_points([axes[other] for other in dims], flat_indices(maps, dims)))
    return prod(counts)


def chunk_count_bound(axes: Sequence[Axis], maps: Sequence[DimensionMap]) -> int:
    """Return an upper bound of `count_chunks` without reading the values of index arrays."""
    bounds = []
    inside = maps[: len(axes)]
    for dimension, (axis, each) in enumerate(zip(axes, inside, strict=True)):
        if not isinstance(each, Indexed):
            bounds.append(axis.count(each))
        elif each.group == dimension:
            from aiozarr.grid.index_groups import group_dims

            chunks = prod([axes[other].chunks for other in group_dims(inside, dimension)])
            bounds.append(min(each.indices.size, chunks))
    return prod(bounds)


def is_expensive(maps: Sequence[DimensionMap]) -> bool:
    """Return whether counting or sorting the index arrays would block an event loop noticeably."""
    return any([isinstance(each, Indexed) and each.indices.size >= LARGE_POINT_COUNT for each in maps])
