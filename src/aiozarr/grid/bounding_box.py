"""The smallest box of a chunk that contains all selected elements of the chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from aiozarr.grid.axes import AxisSelection
from aiozarr.grid.fields import FieldProjection
from aiozarr.grid.index_groups import AxisOrGroupSelection
from aiozarr.grid.points import PointProjection
from aiozarr.grid.projection import ChunkProjection, ChunkSelection

BoundingBox: TypeAlias = tuple[slice, ...]


def bounding_box(selection: ChunkSelection) -> BoundingBox | None:
    """Return the box in coordinates of the chunk.

    Returns: a slice of step 1 per dimension, or None if `selection` is of an unknown class.
    """
    if isinstance(selection, ChunkProjection):
        return tuple([_axis_extent(each) for each in selection])
    if isinstance(selection, FieldProjection):
        inner = bounding_box(selection.elements)
        return None if inner is None else inner[: len(selection.coords)]
    if isinstance(selection, PointProjection):
        return tuple([_group_extent(selection.selections[owner], dim) for dim, owner in enumerate(selection.owners)])
    return None


def joint_bounding_box(selections: Sequence[ChunkSelection]) -> BoundingBox | None:
    """Return the smallest box that contains the boxes of all `selections`, at least one.

    Returns: a slice of step 1 per dimension, or None if the box of a selection is unknown.
    """
    joint = bounding_box(selections[0])
    for selection in selections[1:]:
        box = bounding_box(selection)
        if box is None or joint is None:
            return None
        joint = tuple([_union(one, other) for one, other in zip(joint, box, strict=True)])
    return joint


def _union(one: slice, other: slice) -> slice:
    return slice(min(one.start, other.start), max(one.stop, other.stop))


def _group_extent(selection: AxisOrGroupSelection, dim: int) -> slice:
    if isinstance(selection, AxisSelection):
        return _axis_extent(selection)
    inner = selection.inner[selection.dims.index(dim)]
    return slice(int(inner.min()), int(inner.max()) + 1)


def _axis_extent(selection: AxisSelection) -> slice:
    last = selection.start + selection.step * (selection.taken - 1)
    return slice(selection.start, last + 1) if last >= selection.start else slice(last, selection.start + 1)
