"""Groups of index arrays that are iterated together: their points, sorted once by chunk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.grid.axes import Axis, AxisSelection, Indices
from aiozarr.grid.transform import DimensionMap, Indexed

Positions: TypeAlias = slice | Indices
_MAX_RANK = 1 << 62

MIN_MARKED_CHUNKS = 1 << 16
"""Number of candidate chunks up to which counting marks chunks in a table, however few points there are."""

MIN_RADIX_POINTS = 1 << 12
"""Number of points from which two sorts by half of the bits are faster than one sort by all bits."""


class GroupSelection(NamedTuple):
    """The points of one group in one chunk, along the dimensions of the group.

    Attributes:
        dims: the dimensions of the group.
        chunks: index of the chunk along each of them.
        inner: the points in coordinates of the chunk, one list per dimension.
        out: their positions along the core axis of the group, ascending.
        taken: number of points.
        extents: number of elements of the chunk inside the array along each dimension.
    """

    dims: tuple[int, ...]
    chunks: tuple[int, ...]
    inner: tuple[Indices, ...]
    out: Positions
    taken: int
    extents: tuple[int, ...]

    @property
    def is_complete(self) -> bool:
        """True if the points are all elements along these dimensions."""
        count = prod(self.extents)
        if self.taken < count:
            return False
        seen = np.zeros(count, bool)
        seen[np.ravel_multi_index(self.inner, self.extents)] = True
        return bool(seen.all())


AxisOrGroupSelection: TypeAlias = AxisSelection | GroupSelection


def group_dims(maps: Sequence[DimensionMap], group: int) -> tuple[int, ...]:
    """Return the dimensions of a group."""
    return tuple([d for d, each in enumerate(maps) if isinstance(each, Indexed) and each.group == group])


def flat_indices(maps: Sequence[DimensionMap], dims: Iterable[int]) -> list[Indices]:
    """Return the index arrays of some dimensions, each flattened in C order."""
    return [each.indices.reshape(-1) for each in [maps[dimension] for dimension in dims] if isinstance(each, Indexed)]


class SortedPoints(NamedTuple):
    """Points sorted by chunk.

    Attributes:
        chunks: per dimension the chunk indices, one entry for each chunk.
        inner: per dimension the positions in the chunks, one entry for each point.
        order: the stable order that sorts the points; None if they were sorted.
        starts: number of the first point of each chunk.
    """

    chunks: list[Indices]
    inner: list[Indices]
    order: Indices | None
    starts: NDArray[np.intp]


def sort_by_chunk(axes: Sequence[Axis], lists: Sequence[Indices]) -> SortedPoints:
    """Sort points by chunk."""
    pairs = [axis.locate(indices) for axis, indices in zip(axes, lists, strict=True)]
    chunks, inner = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if not len(chunks[0]):
        return SortedPoints(chunks, inner, None, np.zeros(0, np.intp))
    key, _ = _rank(chunks)
    order = None
    if np.any(key[1:] < key[:-1]):
        order = _stable_order(key)
        key = key[order]
        inner = [each.take(order) for each in inner]
    starts = np.concatenate([[0], np.flatnonzero(key[1:] != key[:-1]) + 1])
    firsts = starts if order is None else order[starts]
    return SortedPoints([each[firsts] for each in chunks], inner, order, starts)


def count_chunks_of_points(axes: Sequence[Axis], lists: Sequence[Indices]) -> int:
    """Return the number of chunks of the points: `len(sort_by_chunk(...).starts)`, without sorting if possible."""
    if not len(lists[0]):
        return 0
    key, span = _rank([axis.chunks_of(indices) for axis, indices in zip(axes, lists, strict=True)])
    if span > max(MIN_MARKED_CHUNKS, 8 * len(key)):
        return len(np.unique(key))
    seen = np.zeros(span, bool)
    seen[key] = True
    return int(np.count_nonzero(seen))


def _stable_order(key: NDArray[Any]) -> NDArray[np.intp]:
    """Return the stable order that sorts `key`."""
    if key.dtype != np.uint32 or len(key) < MIN_RADIX_POINTS:
        return np.argsort(key, kind="stable")
    # numpy sorts 16-bit numbers in linear time: sort by the low half, then by the high half.
    order = np.argsort(key.astype(np.uint16), kind="stable")
    high = (key >> 16).astype(np.uint16)
    return order[np.argsort(high[order], kind="stable")]


def _rank(chunks: Sequence[Indices]) -> tuple[NDArray[Any], int]:
    """Return one sort key per point, ascending in C order of the chunks, and the exclusive bound of the keys."""
    key, span = np.zeros(1, np.int64), 1
    for each in chunks:
        lowest, highest = int(each.min()), int(each.max())
        digit, width = each - lowest if lowest else each, highest - lowest + 1
        if span * width >= _MAX_RANK:
            # Dense ranks are less than the number of points, so two of them multiply without overflow.
            key, digit = np.unique(key, return_inverse=True)[1], np.unique(digit, return_inverse=True)[1]
            span, width = int(key.max()) + 1, int(digit.max()) + 1
        key, span = digit if span == 1 else key * width + digit, span * width
    if span > 1 << 32:
        return key, span
    return key.astype(np.uint16 if span <= 1 << 16 else np.uint32), span


class SplitGroup:
    """The selections of the points of a group in the touched chunks, ordered by chunk. Each iteration makes them.

    Args:
        axes: the dimensions of the group.
        dims: their numbers.
        lists: the index of every point along each dimension.
        positions: the positions of the points along the core axis of the group, ascending.

    Attributes:
        axes, dims: as given.
        chunks: per dimension the index of each chunk.
        inner: per dimension the points in coordinates of their chunks, ordered by chunk.
        positions: the position of each of these points.
        bounds: number of the first point of each chunk, and the number of points.
    """

    def __init__(
        self, axes: Sequence[Axis], dims: tuple[int, ...], lists: Sequence[Indices], positions: Positions
    ) -> None:
        points = sort_by_chunk(axes, lists)
        self.axes = axes
        self.dims = dims
        self.chunks = [each.tolist() for each in points.chunks]
        self.inner = points.inner
        self.positions = positions if points.order is None else sub_positions(positions, points.order)
        self.bounds = np.append(points.starts, len(lists[0]))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __iter__(self) -> Iterator[AxisOrGroupSelection]:
        return map(self.select, range(len(self)))

    def select(self, number: int) -> AxisOrGroupSelection:
        """Return the selection of one chunk, as a slice if the points are equal to one."""
        inner, out = self.points(number)
        taken, chunks, extents = len(inner[0]), self.coords(number), self.extents(number)
        # Points of one dimension may be equal to a slice.
        progression = as_progression(inner[0]) if len(self.dims) == 1 and isinstance(out, slice) else None
        if progression is None:
            return GroupSelection(self.dims, chunks, inner, out, taken, extents)
        assert isinstance(out, slice)
        first, step = progression
        end = first + step * taken
        selection = slice(first, end if end >= 0 else None, step)
        return AxisSelection(chunks[0], selection, out, first, step, taken, out.start, extents[0])

    def coords(self, number: int) -> tuple[int, ...]:
        """Return the index of a chunk along each dimension."""
        return tuple([column[number] for column in self.chunks])

    def extents(self, number: int) -> tuple[int, ...]:
        """Return the number of elements of a chunk inside the array along each dimension."""
        return tuple([axis.chunk_extent(column[number]) for axis, column in zip(self.axes, self.chunks, strict=True)])

    def points(self, number: int) -> tuple[tuple[Indices, ...], Positions]:
        """Return the points of a chunk in its coordinates, one list per dimension, and their positions."""
        start, stop = self.bounds[number : number + 2].tolist()
        taken = slice(start, stop)
        return tuple([each[taken] for each in self.inner]), compact_positions(sub_positions(self.positions, taken))


def sub_positions(positions: Positions, taken: Positions) -> Positions:
    """Return `positions[taken]`. Slices have step 1."""
    if not isinstance(positions, slice):
        return positions[taken]
    if isinstance(taken, slice):
        return slice(positions.start + taken.start, positions.start + taken.stop)
    moved: Indices = taken + positions.start
    return moved


def compact_positions(positions: Positions) -> Positions:
    """Return ascending positions as a slice if they are contiguous."""
    if isinstance(positions, slice):
        return positions
    first, last = int(positions[0]), int(positions[-1])
    return slice(first, last + 1) if last - first + 1 == len(positions) else positions


def as_progression(indices: Indices) -> tuple[int, int] | None:
    """Return first index and step of the indices, or None if they do not form an arithmetic progression."""
    first = int(indices[0])
    if len(indices) == 1:
        return first, 1
    step = int(indices[1]) - first
    return (first, step) if step and bool((indices[1:] - indices[:-1] == step).all()) else None
