"""Splits an array into regions for tasks: whole stored objects of the destination, with few repeated reads. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import lcm, prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bounds: TypeAlias = tuple[tuple[int, int], ...]
"""Start and stop per dimension."""

TASK_BYTES = 64 << 20
"""Regions grow to about this size, so that a task is long compared with its start, and short enough to repeat."""


@dataclass(frozen=True)
class ChunkAxis:
    """The chunks along one dimension of an array, which may begin before the array or end after it.

    Attributes:
        length: length of the dimension.
        chunk: length of a chunk, of the longest one if they differ.
        edges: boundaries of the chunks if their lengths differ.
        offset: position of the first element in the first chunk: a region of a larger array begins inside a chunk.
        total: length up to which chunks hold elements, counted from the first chunk.
    """

    length: int
    chunk: int
    edges: tuple[int, ...] | None = None
    offset: int = 0
    total: int = 0

    @classmethod
    def of(cls, length: int, chunks: int | Sequence[int], offset: int = 0, total: int | None = None) -> ChunkAxis:
        """Return the axis of `chunks`, a length or all lengths, for `length` elements from `offset`."""
        total = offset + length if total is None else total
        if isinstance(chunks, int):
            return cls(length, max(1, chunks), None, offset, total)
        return cls(length, max(chunks, default=1), (0, *accumulate(chunks)), offset, total)

    @property
    def count(self) -> int:
        """Number of chunks with elements of the array."""
        if not self.length:
            return 0
        first, last = self._chunks_at(np.array([self.offset, self.offset + self.length - 1]))
        return int(last - first + 1)

    def boundaries(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the starts of chunks, each of which is the end of the chunk before; at most the length."""
        boundaries: NDArray[Any] = np.minimum(self._starts(numbers) - self.offset, self.length)
        return boundaries

    def covered(self, starts: NDArray[Any], stops: NDArray[Any]) -> tuple[int, int]:
        """Return how many elements, and how many chunks, reads of the ranges `starts` to `stops` touch in sum."""
        first = self._chunks_at(starts + self.offset)
        last = self._chunks_at(stops + (self.offset - 1))
        ends = np.minimum(self._starts(last + 1), self.total)
        return int((ends - self._starts(first)).sum()), int((last - first + 1).sum())

    def _starts(self, numbers: NDArray[Any]) -> NDArray[Any]:
        if self.edges is None:
            return numbers * self.chunk
        starts: NDArray[Any] = np.array(self.edges)[np.minimum(numbers, len(self.edges) - 1)]
        return starts

    def _chunks_at(self, positions: NDArray[Any]) -> NDArray[Any]:
        if self.edges is None:
            return positions // self.chunk
        return np.searchsorted(np.array(self.edges), positions, side="right") - 1


@dataclass(frozen=True)
class RegionAxis:
    """The regions along one dimension: `step` stored objects of the destination each, perhaps fewer in the last."""

    chunks: ChunkAxis
    step: int = 1

    @property
    def count(self) -> int:
        """Number of regions."""
        return -(-self.chunks.count // self.step)

    @property
    def longest(self) -> int:
        """Length of the longest region."""
        if self.chunks.edges is None:
            return min(self.step * self.chunks.chunk, self.chunks.length)
        starts, stops = self.all_bounds()
        return int((stops - starts).max(initial=0))

    def bounds(self, number: int) -> tuple[int, int]:
        """Return start and stop of a region."""
        start, stop = self.chunks.boundaries(np.array([number, number + 1]) * self.step).tolist()
        return start, stop

    def all_bounds(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the starts and the stops of all regions."""
        edges = self.chunks.boundaries(np.arange(self.count + 1, dtype=np.int64) * self.step)
        return edges[:-1], edges[1:]


@dataclass(frozen=True)
class RegionGrid:
    """The regions of one pass from a source to a destination.

    Attributes:
        axes: the regions per dimension.
        source: the units in which the source is read, per dimension.
    """

    axes: tuple[RegionAxis, ...]
    source: tuple[ChunkAxis, ...]

    @property
    def count(self) -> int:
        """Number of regions. An array without dimensions has one; an empty array has none."""
        return prod([axis.count for axis in self.axes])

    @property
    def largest(self) -> int:
        """Number of elements of the largest region."""
        return prod([axis.longest for axis in self.axes])

    @property
    def elements_read(self) -> int:
        """Elements of all units of the source that the regions touch, with repetitions."""
        return prod([self._covered(number)[0] for number in range(len(self.axes))])

    @property
    def units_read(self) -> int:
        """Units of the source that the regions touch, with repetitions."""
        return prod([self._covered(number)[1] for number in range(len(self.axes))])

    @property
    def objects_written(self) -> int:
        """Stored objects of the destination."""
        return prod([axis.chunks.count for axis in self.axes])

    @property
    def amplification(self) -> float:
        """The ratio of elements read to elements of the array; unused parts of units count too."""
        size = prod([axis.chunks.length for axis in self.axes])
        return self.elements_read / size if size else 1.0

    def axis_amplification(self, number: int) -> float:
        """Return the factor of one dimension in the amplification, relative to a read of the whole dimension."""
        axis, whole = self.axes[number], self.source[number]
        if not axis.chunks.length:
            return 1.0
        least, _ = whole.covered(np.array([0]), np.array([axis.chunks.length]))
        return self._covered(number)[0] / least

    def bounds(self, number: int) -> Bounds:
        """Return the bounds of one region."""
        found: list[tuple[int, int]] = []
        for axis in reversed(self.axes):
            number, place = divmod(number, axis.count)
            found.append(axis.bounds(place))
        return tuple(reversed(found))

    def __iter__(self) -> Iterator[Bounds]:
        return map(self.bounds, range(self.count))

    def _covered(self, number: int) -> tuple[int, int]:
        return self.source[number].covered(*self.axes[number].all_bounds())

    def with_step(self, number: int, step: int) -> RegionGrid:
        """Return the regions with another number of objects along one dimension."""
        axes = list(self.axes)
        axes[number] = RegionAxis(axes[number].chunks, step)
        return RegionGrid(tuple(axes), self.source)


def choose_regions(
    destination: Sequence[ChunkAxis], source: Sequence[ChunkAxis], item_size: int, max_bytes: int
) -> RegionGrid:
    """Return regions of at most `max_bytes` that read each unit of the source as few times as possible.

    A region grows along the dimension with the most repeated reads: to a common boundary of both grids, else as far as
    memory allows. Regions without repeated reads then grow to `TASK_BYTES`. A single stored object may be larger than
    `max_bytes`; the caller must check that.
    """
    grid = RegionGrid(tuple([RegionAxis(axis) for axis in destination]), tuple(source))
    if not grid.count:
        return grid
    most = max(1, max_bytes // item_size)
    open_axes = set(range(len(grid.axes)))
    while open_axes:
        factors = {number: grid.axis_amplification(number) for number in open_axes}
        number = max(factors, key=lambda each: (factors[each], each))
        if factors[number] <= 1:
            break
        open_axes.discard(number)
        grid = _grown(grid, number, most)
    least = max(1, min(max_bytes, TASK_BYTES) // item_size)
    for number in reversed(range(len(grid.axes))):
        step = grid.axes[number].step
        # Grow in multiples, so that boundaries that are common to both grids stay common.
        while step < grid.axes[number].chunks.count and grid.with_step(number, 2 * step).largest <= least:
            step *= 2
            grid = grid.with_step(number, step)
    return grid


def _grown(grid: RegionGrid, number: int, most: int) -> RegionGrid:
    """Return the regions grown along one dimension to at most `most` elements, with the fewest repeated units."""
    axis, source = grid.axes[number], grid.source[number]
    chunks = axis.chunks
    rest = max(1, grid.largest // max(1, axis.longest))
    fitting = max(1, min(chunks.count, most // max(1, rest * chunks.chunk)))
    if rest * chunks.length <= most:
        fitting = chunks.count
    steps = {fitting, chunks.count}
    if chunks.edges is None and source.edges is None and not source.offset:
        common = lcm(chunks.chunk, source.chunk) // chunks.chunk
        steps |= {common, fitting // common * common}
    best = grid
    for step in sorted(each for each in steps if 0 < each <= fitting):
        candidate = grid.with_step(number, step)
        if candidate.axis_amplification(number) < best.axis_amplification(number):
            best = candidate
    return best
