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
    """

    def __init__(
        self, axes: Sequence[Axis], dims: tuple[int, ...], lists: Sequence[Indices], positions: Positions
    ) -> None:
        self._axes = axes
        self._dims = dims
        self._points = points = sort_by_chunk(axes, lists)
        self._starts = points.starts.tolist()
        self._stops = [*self._starts[1:], len(lists[0])][: len(self._starts)]
        self._positions = positions if points.order is None else _sub(positions, points.order)

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[AxisOrGroupSelection]:
        dims, inner = self._dims, self._points.inner
        columns = [each.tolist() for each in self._points.chunks]
        extents = [map(axis.chunk_extent, column) for axis, column in zip(self._axes, columns, strict=True)]
        firsts = inner[0][self._starts].tolist()
        chunks = zip(zip(*columns, strict=True), zip(*extents, strict=True), self._places(), firsts, strict=True)
        for start, stop, (chunk, extent, out, first) in zip(self._starts, self._stops, chunks, strict=True):
            taken, progression = stop - start, None
            # Points of one dimension may be equal to a slice.
            if len(dims) == 1 and isinstance(out, slice):
                progression = (first, 1) if taken == 1 else as_progression(inner[0][start:stop])
            if progression is None:
                yield GroupSelection(dims, chunk, tuple([each[start:stop] for each in inner]), out, taken, extent)
            else:
                assert isinstance(out, slice)
                first, step = progression
                end = first + step * taken
                selection = slice(first, end if end >= 0 else None, step)
                yield AxisSelection(chunk[0], selection, out, first, step, taken, out.start, extent[0])

    def _places(self) -> Iterable[Positions]:
        """The positions of the points of each chunk, as a slice if they are contiguous."""
        places, starts, stops = self._positions, self._starts, self._stops
        if isinstance(places, slice):
            return map(slice, [places.start + start for start in starts], [places.start + stop for stop in stops])
        firsts, lasts = places[starts].tolist(), places[np.array(stops, np.intp) - 1].tolist()
        return (
            slice(first, last + 1) if last - first + 1 == stop - start else places[start:stop]
            for start, stop, first, last in zip(starts, stops, firsts, lasts, strict=True)
        )


def _sub(positions: Positions, taken: Positions) -> Positions:
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


def as_positions(positions: Positions) -> Indices:
    """Return positions as an array."""
    return np.arange(positions.start, positions.stop) if isinstance(positions, slice) else positions


def as_progression(indices: Indices) -> tuple[int, int] | None:
    """Return first index and step of the indices, or None if they do not form an arithmetic progression."""
    first = int(indices[0])
    if len(indices) == 1:
        return first, 1
    step = int(indices[1]) - first
    return (first, step) if step and bool((indices[1:] - indices[:-1] == step).all()) else None
