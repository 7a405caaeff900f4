"""The smallest box of a chunk's elements that holds those which a part of a selection takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from aiozarr.grid.axes import DimPart
from aiozarr.grid.fields import FieldPart
from aiozarr.grid.groups import AnyPart
from aiozarr.grid.points import PointProjection
from aiozarr.grid.projection import ChunkProjection, Part

Box: TypeAlias = tuple[slice, ...]


def box_of(part: Part) -> Box | None:
    """Return the box in the chunk's own coordinates, a slice of step 1 for each dimension; None: nobody knows."""
    if isinstance(part, ChunkProjection):
        return tuple([_along(each) for each in part])
    if isinstance(part, FieldPart):
        inner = box_of(part.elements)
        return None if inner is None else inner[: len(part.coords)]
    if isinstance(part, PointProjection):
        return tuple([_among(part.parts[owner], dim) for dim, owner in enumerate(part.owners)])
    return None


def box_around(parts: Sequence[Part]) -> Box | None:
    """Return the smallest box that holds those of all `parts`, of which there is at least one; None: nobody knows."""
    around = box_of(parts[0])
    for part in parts[1:]:
        box = box_of(part)
        if box is None or around is None:
            return None
        around = tuple([_both(one, other) for one, other in zip(around, box, strict=True)])
    return around


def _both(one: slice, other: slice) -> slice:
    return slice(min(one.start, other.start), max(one.stop, other.stop))


def _among(part: AnyPart, dim: int) -> slice:
    if isinstance(part, DimPart):
        return _along(part)
    inner = part.inner[part.dims.index(dim)]
    return slice(int(inner.min()), int(inner.max()) + 1)


def _along(part: DimPart) -> slice:
    last = part.start + part.step * (part.taken - 1)
    return slice(part.start, last + 1) if last >= part.start else slice(last, part.start + 1)
