"""Groups of index arrays that are iterated together: their points, sorted once by chunk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
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
    """The points of one group in one chunk, along the dimensions of the group. All but two numbers is looked up.

    Attributes:
        points: the points of the group in all chunks.
        number: the number of this chunk among those that they touch.
    """

    points: GroupPoints
    number: int

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of the group."""
        return self.points.dims

    @property
    def chunks(self) -> tuple[int, ...]:
        """Index of the chunk along each of them."""
        return tuple([column[self.number] for column in self.points.chunks])

    @property
    def extents(self) -> tuple[int, ...]:
        """Number of elements of the chunk inside the array along each dimension."""
        return tuple([axis.chunk_extent(chunk) for axis, chunk in zip(self.points.axes, self.chunks, strict=True)])

    @property
    def inner(self) -> tuple[Indices, ...]:
        """The points in coordinates of the chunk, one list per dimension."""
        taken = self._taken
        return tuple([each[taken] for each in self.points.inner])

    @property
    def out(self) -> Positions:
        """Their positions along the core axis of the group, ascending."""
        return compact_positions(sub_positions(self.points.positions, self._taken))

    @property
    def taken(self) -> int:
        """Number of points."""
        start, stop = self.points.bounds[self.number : self.number + 2].tolist()
        count: int = stop - start
        return count

    @property
    def is_complete(self) -> bool:
        """True if the points are all elements along these dimensions."""
        extents = self.extents
        count = prod(extents)
        if self.taken < count:
            return False
        seen = np.zeros(count, bool)
        seen[np.ravel_multi_index(self.inner, extents)] = True
        return bool(seen.all())

    def moved_to_start(self) -> GroupSelection:
        """Return the selection for an output that starts with its elements."""
        return GroupPoints.of_chunk(self.points.axes, self.dims, self.chunks, self.inner, slice(0, self.taken))

    @property
    def _taken(self) -> slice:
        start, stop = self.points.bounds[self.number : self.number + 2].tolist()
        return slice(start, stop)


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


MIN_SLICE_POINTS = 8
"""Fewer points of a chunk are not compared with a slice: that takes longer than copying them."""


class GroupPoints:
    """The points of a group, ordered by chunk. Selections of its chunks are made in each iteration.

    Args:
        axes: the dimensions of the group.
        dims: their numbers.
        points: the points, sorted by chunk.
        positions: the positions of the points along the core axis of the group, ascending in each chunk.

    Attributes:
        axes, dims, positions: as given.
        chunks: per dimension the index of each chunk.
        inner: per dimension the point in coordinates of its chunk.
        bounds: number of the first point of each chunk, and the number of points.
    """

    __slots__ = ("axes", "bounds", "chunks", "dims", "inner", "positions")

    def __init__(self, axes: Sequence[Axis], dims: tuple[int, ...], points: SortedPoints, positions: Positions) -> None:
        self.axes = axes
        self.dims = dims
        self.chunks = [each.tolist() for each in points.chunks]
        self.inner = points.inner
        self.positions = positions
        self.bounds = np.append(points.starts, len(points.inner[0]))

    @classmethod
    def split(
        cls, axes: Sequence[Axis], dims: tuple[int, ...], lists: Sequence[Indices], positions: Positions
    ) -> GroupPoints:
        """Sort points by chunk.

        Args:
            axes: the dimensions of the group.
            dims: their numbers.
            lists: the index of every point along each dimension.
            positions: the positions of the points along the core axis of the group, ascending.
        """
        points = sort_by_chunk(axes, lists)
        return cls(axes, dims, points, positions if points.order is None else sub_positions(positions, points.order))

    @staticmethod
    def of_chunk(
        axes: Sequence[Axis],
        dims: tuple[int, ...],
        chunk: Sequence[int],
        inner: Sequence[Indices],
        positions: Positions,
    ) -> GroupSelection:
        """Return the selection of points of a single chunk; `positions` ascend."""
        points = SortedPoints([np.array([each]) for each in chunk], list(inner), None, np.zeros(1, np.intp))
        return GroupSelection(GroupPoints(axes, dims, points, positions), 0)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def scattered(self) -> Iterator[GroupSelection]:
        """Yield the selections of all chunks as points. No bytecode runs for a chunk."""
        return map(tuple.__new__, repeat(GroupSelection), zip(repeat(self), range(len(self)), strict=False))

    def may_be_slices(self, min_points: int = 1) -> NDArray[np.bool_]:
        """Return for each chunk whether it has so many points, and they may be equal to a slice."""
        starts, counts = self.bounds[:-1], np.diff(self.bounds)
        if len(self.dims) > 1:
            return np.zeros(len(counts), bool)
        first, last = self.inner[0][starts], self.inner[0][starts + counts - 1]
        second = self.inner[0][starts + np.minimum(counts - 1, 1)]
        may_be: NDArray[np.bool_] = (counts >= min_points) & (last - first == (second - first) * (counts - 1))
        return may_be

    def __iter__(self) -> Iterator[AxisOrGroupSelection]:
        """Yield the selections of all chunks, as slices where the points are equal to one."""
        pairs = zip(self.scattered(), self.may_be_slices().tolist(), strict=True)
        return (_as_slice(each) if may_be_slice else each for each, may_be_slice in pairs)


def _as_slice(points: GroupSelection) -> AxisOrGroupSelection:
    """Return points along one dimension as a slice if they are equal to one."""
    out = points.out
    progression = as_progression(points.inner[0]) if isinstance(out, slice) else None
    if progression is None:
        return points
    assert isinstance(out, slice)
    (first, step), taken = progression, points.taken
    end = first + step * taken
    selection = slice(first, end if end >= 0 else None, step)
    return AxisSelection(points.chunks[0], selection, out, first, step, taken, out.start, points.extents[0])


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
