"""Which runs of bytes of an uncompressed chunk hold the selected elements: per dimension, never element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiozarr.grid.axes import DimPart
from aiozarr.grid.fields import FieldPart
from aiozarr.grid.points import PointProjection
from aiozarr.grid.projection import ChunkProjection, Part

Offsets = NDArray[np.int64]


class Runs(NamedTuple):
    """Runs of bytes of one chunk: where they start, ascending and apart, and where each of them stops."""

    starts: Offsets
    stops: Offsets


class Places(NamedTuple):
    """Where the elements of a chunk lie.

    Attributes:
        shape: the chunk's.
        strides: bytes from an element to the next along each dimension.
        order: the dimensions as they are stored, the slowest first.
        item_size: bytes of an element.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    order: tuple[int, ...]
    item_size: int


def byte_runs(part: Part, places: Places, most: int) -> Runs | None:
    """Return the runs of bytes that hold the elements of `part`; None where they are more than `most`.

    Of structured elements whose fields are selected, whole elements are meant.
    """
    while isinstance(part, FieldPart):
        part = part.elements
    if isinstance(part, PointProjection):
        return _of_points(part, places, most)
    assert isinstance(part, ChunkProjection)
    # Behind the dimensions of the chunk may be those of fields.
    return _combined(list(part[: len(places.shape)]), [], places, most)


def slices_of(part: Part) -> tuple[int, ...] | None:
    """Return numbers that are equal for parts with equal runs; None where telling takes as long as finding them."""
    if not isinstance(part, ChunkProjection):
        return None
    return tuple([number for each in part for number in (each.start, each.step, each.taken)])


def _of_points(part: PointProjection, places: Places, most: int) -> Runs | None:
    if part.listed > most:
        return None
    slices: list[DimPart | None] = [None] * len(places.shape)
    lists: list[Offsets] = []
    for number, each in enumerate(part.parts):
        if isinstance(each, DimPart):
            dimension = part.owners.index(number)
            if dimension < len(slices):
                slices[dimension] = each
            continue
        own = [(dim, inner) for dim, inner in zip(each.dims, each.inner, strict=True) if dim < len(slices)]
        lists.append(np.unique(sum([inner * places.strides[dim] for dim, inner in own], start=np.zeros(1, np.int64))))
    return _combined(slices, lists, places, most)


def _combined(slices: Sequence[DimPart | None], lists: list[Offsets], places: Places, most: int) -> Runs | None:
    """Return the runs of the product of `slices`, one per dimension (None: a list has it), and lists of offsets."""
    columns = list(lists)
    first, length = 0, places.item_size
    joined = True
    for dim in reversed(places.order):
        each = slices[dim]
        if each is None:
            joined = False
            continue
        stride, step = places.strides[dim], abs(each.step)
        low = each.start if each.step > 0 else each.start + each.step * (each.taken - 1)
        first += low * stride
        if joined and (step == 1 or each.taken == 1):
            length += (each.taken - 1) * stride
            # Only what is taken whole leaves no gap to the next index of the dimension before it.
            joined = each.taken == places.shape[dim]
        else:
            joined = False
            if each.taken > 1:
                columns.append(np.arange(each.taken, dtype=np.int64) * (step * stride))
    count = 1
    for column in columns:
        count *= len(column)
        if count > most:
            return None
    starts = np.array([first], np.int64)
    for column in columns:
        starts = np.add.outer(column, starts).ravel()
    starts.sort()
    return _joined(starts, length)


def _joined(starts: Offsets, length: int) -> Runs:
    """Join runs of `length` bytes that touch."""
    apart = np.flatnonzero(starts[1:] > starts[:-1] + length) + 1
    firsts = starts[np.concatenate([[0], apart])]
    lasts = starts[np.concatenate([apart - 1, [len(starts) - 1]])]
    return Runs(firsts, lasts + length)
