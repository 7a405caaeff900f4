"""Parts of chunks that contain the selected elements: byte ranges of an uncompressed chunk, and the smallest box.

Several chunks that are adjacent in the output have one view of it, because one copy for all is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.grid.axes import AxisSelection
from aiozarr.grid.fields import FieldProjection
from aiozarr.grid.index_groups import AxisOrGroupSelection
from aiozarr.grid.points import PointProjection, ScatteredPoints
from aiozarr.grid.projection import ChunkProjection, ChunkSelection

Offsets = NDArray[np.int64]


class ByteRuns(NamedTuple):
    """Byte ranges of one chunk: ascending starts and their stops; no two ranges overlap or touch."""

    starts: Offsets
    stops: Offsets


class ElementLayout(NamedTuple):
    """The memory layout of an uncompressed chunk.

    Attributes:
        shape: shape of the chunk.
        strides: bytes between adjacent elements along each dimension.
        order: the dimensions from the slowest to the fastest varying.
        item_size: bytes of an element.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    order: tuple[int, ...]
    item_size: int


def byte_runs(selection: ChunkSelection, layout: ElementLayout, max_runs: int) -> ByteRuns | None:
    """Return the byte ranges that contain the elements of `selection`. Selected fields count as whole elements.

    Returns: the ranges, or None if there are more than `max_runs`.
    """
    while isinstance(selection, FieldProjection):
        selection = selection.elements
    if isinstance(selection, ScatteredPoints):
        selection = selection.resolved
    if isinstance(selection, PointProjection):
        return _of_points(selection, layout, max_runs)
    assert isinstance(selection, ChunkProjection)
    # The dimensions of fields follow those of the chunk.
    return _combined(list(selection[: len(layout.shape)]), [], layout, max_runs)


def byte_runs_key(selection: ChunkSelection) -> tuple[int, ...] | None:
    """Return a key that is equal for selections with equal byte ranges.

    Returns: the key, or None for index arrays: comparing them costs as much as computing the ranges.
    """
    if isinstance(selection, ScatteredPoints):
        selection = selection.resolved
    if not isinstance(selection, ChunkProjection):
        return None
    return tuple([number for each in selection for number in (each.start, each.step, each.taken)])


def _of_points(selection: PointProjection, layout: ElementLayout, max_runs: int) -> ByteRuns | None:
    if selection.point_count > max_runs:
        return None
    slices: list[AxisSelection | None] = [None] * len(layout.shape)
    lists: list[Offsets] = []
    for number, each in enumerate(selection.selections):
        if isinstance(each, AxisSelection):
            dimension = selection.owners.index(number)
            if dimension < len(slices):
                slices[dimension] = each
            continue
        own = [(dim, inner) for dim, inner in zip(each.dims, each.inner, strict=True) if dim < len(slices)]
        lists.append(np.unique(sum([inner * layout.strides[dim] for dim, inner in own], start=np.zeros(1, np.int64))))
    return _combined(slices, lists, layout, max_runs)


def _combined(
    slices: Sequence[AxisSelection | None], lists: list[Offsets], layout: ElementLayout, max_runs: int
) -> ByteRuns | None:
    """Return the byte ranges of the product of slices and offset lists.

    Args:
        slices: one per dimension; None for a dimension that `lists` covers.
        lists: byte offsets of the points of each group.
        layout: memory layout of the chunk.
        max_runs: largest number of ranges.
    """
    columns = list(lists)
    first, length = 0, layout.item_size
    joined = True
    for dim in reversed(layout.order):
        each = slices[dim]
        if each is None:
            joined = False
            continue
        stride, step = layout.strides[dim], abs(each.step)
        low = each.start if each.step > 0 else each.start + each.step * (each.taken - 1)
        first += low * stride
        if joined and (step == 1 or each.taken == 1):
            length += (each.taken - 1) * stride
            # Only a complete dimension leaves no gap to the next index of the dimension before it.
            joined = each.taken == layout.shape[dim]
        else:
            joined = False
            if each.taken > 1:
                columns.append(np.arange(each.taken, dtype=np.int64) * (step * stride))
    count = 1
    for column in columns:
        count *= len(column)
        if count > max_runs:
            return None
    starts = np.array([first], np.int64)
    for column in columns:
        starts = np.add.outer(column, starts).ravel()
    starts.sort()
    return _merged(starts, length)


def _merged(starts: Offsets, length: int) -> ByteRuns:
    """Merge ranges of `length` bytes that overlap or touch."""
    first_of_run = np.flatnonzero(starts[1:] > starts[:-1] + length) + 1
    firsts = starts[np.concatenate([[0], first_of_run])]
    lasts = starts[np.concatenate([first_of_run - 1, [len(starts) - 1]])]
    return ByteRuns(firsts, lasts + length)


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
    if isinstance(selection, ScatteredPoints):
        return bounding_box(selection.resolved)
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


MIN_ADJACENT_CHUNKS = 4
"""Fewer adjacent chunks are copied faster one by one: numpy iterates over the pieces of a row of chunks."""


def adjacent_window(
    selections: Sequence[ChunkSelection], at: int, stop: int, out: NDArray[Any], shape: tuple[int, ...]
) -> NDArray[Any] | None:
    """Return one view of `out` over the chunk of `selections[at]` and the adjacent chunks of the following selections.

    Args:
        selections: selections of one projection.
        at: number of the first chunk.
        stop: number of the first chunk that is not considered.
        out: the output, of the core shape.
        shape: shape of every chunk.

    Returns: a view of shape `(n, *shape)` for `n` completely selected chunks, or None if the first chunk is not
        completely selected in its own order.
    """
    first = selections[at]
    if type(first) is not ChunkProjection:
        return None
    window = first.whole_window(out, shape)
    if window is None:
        return None
    count, dimension = _count_adjacent(selections, at, stop)
    if not count:
        return window[None]
    places = list(first.out_selection)
    start, side = places[dimension].start, shape[dimension]
    places[dimension] = slice(start, start + count * side)
    split = (*shape[:dimension], count, *shape[dimension:])
    order = (dimension, *range(dimension), *range(dimension + 1, len(split)))
    return out[tuple(places)].reshape(split).transpose(order)


def _count_adjacent(selections: Sequence[ChunkSelection], at: int, stop: int) -> tuple[int, int]:
    """Return the number of adjacent chunks from the complete chunk `at` on, and the dimension along which they lie.

    Axis selections of one projection are shared objects, so identity compares them.

    Returns: (0, 0) for fewer than `MIN_ADJACENT_CHUNKS` chunks.
    """
    first = selections[at]
    if stop - at < MIN_ADJACENT_CHUNKS or type(first) is not ChunkProjection:
        return 0, 0
    # One comparison excludes most chunks that are not adjacent, such as inner chunks in Morton order.
    later = selections[at + MIN_ADJACENT_CHUNKS - 1]
    if type(later) is not ChunkProjection:
        return 0, 0
    differing = [number for number, (mine, its) in enumerate(zip(first, later, strict=True)) if mine is not its]
    if len(differing) != 1:
        return 0, 0
    dimension = differing[0]
    shared = len(first) - 1
    begin = first[dimension]
    taken = end = begin.taken
    if begin.step != 1 and taken > 1:
        return 0, 0
    end += begin.offset
    count = 1
    for number in range(at + 1, stop):
        selection = selections[number]
        if type(selection) is not ChunkProjection or sum(map(is_, first, selection)) != shared:
            break
        place = selection[dimension]
        if place.offset != end or place.taken != taken or (place.step != 1 and taken > 1):
            break
        end += taken
        count += 1
    return (count, dimension) if count >= MIN_ADJACENT_CHUNKS else (0, 0)
