"""What a selection touches of a grid: its chunks one by one, or their number alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from aiozarr.grid.axes import Axis, RegularAxis
from aiozarr.grid.fields import FieldParts, Fields
from aiozarr.grid.groups import count_touched, flat_indices, group_dims
from aiozarr.grid.points import Points
from aiozarr.grid.projection import Parts, Projection
from aiozarr.grid.transform import DimensionMap, Indexed

LONG = 1 << 14
"""Points of an index array that are too many for a loop to sort."""


def project(axes: Sequence[Axis], maps: Sequence[DimensionMap], fields: Fields | None = None) -> Parts:
    """Return the chunks that `maps` touch.

    Args:
        axes: one per dimension of the grid.
        maps: one per dimension, and one for each dimension of `fields` behind them.
        fields: the part of each element that is meant; None: all of it.
    """
    if fields is not None:
        own = [RegularAxis(length, length) for length in fields.shape]
        return FieldParts(project([*axes, *own], maps), fields, len(axes))
    if any([isinstance(each, Indexed) for each in maps]):
        return Points.of(axes, maps)
    return Projection(axes, maps)  # type: ignore[arg-type]  # none of them is Indexed


def count_chunks(axes: Sequence[Axis], maps: Sequence[DimensionMap]) -> int:
    """Return how many chunks `maps` touch: in time that grows with index arrays only, not with the chunks.

    Maps behind the last axis are those of fields, which add none.
    """
    counts = []
    inside = maps[: len(axes)]
    for dimension, (axis, each) in enumerate(zip(axes, inside, strict=True)):
        if not isinstance(each, Indexed):
            counts.append(axis.count(each))
        elif each.group == dimension:
            dims = group_dims(inside, dimension)
            counts.append(count_touched([axes[other] for other in dims], flat_indices(maps, dims)))
    return prod(counts)


def most_chunks(axes: Sequence[Axis], maps: Sequence[DimensionMap]) -> int:
    """Return an upper bound of `count_chunks`, without a look at what index arrays hold."""
    bounds = []
    inside = maps[: len(axes)]
    for dimension, (axis, each) in enumerate(zip(axes, inside, strict=True)):
        if not isinstance(each, Indexed):
            bounds.append(axis.count(each))
        elif each.group == dimension:
            chunks = prod([axes[other].chunks for other in group_dims(inside, dimension)])
            bounds.append(min(each.indices.size, chunks))
    return prod(bounds)


def takes_long(maps: Sequence[DimensionMap]) -> bool:
    """Return whether index arrays are so long that counting and sorting them would hold up a loop."""
    return any([isinstance(each, Indexed) and each.indices.size >= LONG for each in maps])
