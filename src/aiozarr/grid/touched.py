"""What a selection touches of a grid: its chunks one by one, or their number alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from aiozarr.grid.axes import Axis, RegularAxis
from aiozarr.grid.fields import FieldParts, Fields
from aiozarr.grid.groups import flat_indices, group_dims, locate
from aiozarr.grid.points import Points
from aiozarr.grid.projection import Parts, Projection
from aiozarr.grid.transform import DimensionMap, Indexed


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
            counts.append(len(locate([axes[other] for other in dims], flat_indices(maps, dims)).starts))
    return prod(counts)
