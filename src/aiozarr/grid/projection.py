"""Which chunks a selection touches and where their elements go: per dimension, iterated lazily, never listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from math import prod

from aiozarr.grid.axes import Axis, DimPart, Index, Map, RegularAxis

LAZY_FROM = 4096
"""A dimension with more parts than this is generated anew at each pass in place of being kept."""


class ChunkProjection:
    """One chunk that a selection touches: `out[p.out_selection] = chunk[p.chunk_selection]`."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[DimPart, ...]) -> None:
        self.parts = parts

    @property
    def coords(self) -> tuple[int, ...]:
        """The chunk's index in the grid."""
        return tuple([part.chunk for part in self.parts])

    @property
    def chunk_selection(self) -> tuple[Index, ...]:
        """The elements in the chunk's own coordinates, one index per dimension."""
        return tuple([part.selection for part in self.parts])

    @property
    def out_selection(self) -> tuple[slice, ...]:
        """The elements in the output, one slice per dimension that is not indexed by an integer."""
        return tuple([part.out for part in self.parts if part.out is not None])

    @property
    def whole(self) -> bool:
        """True where every element of the chunk that lies inside the array is selected."""
        return all([part.taken == part.extent for part in self.parts])

    @property
    def size(self) -> int:
        """Number of selected elements."""
        return prod([part.taken for part in self.parts])

    def __repr__(self) -> str:
        return f"ChunkProjection({self.coords}, {self.chunk_selection} -> {self.out_selection})"


class Projection:
    """The chunks of a grid that a selection touches, as an iterable of `ChunkProjection` in C order of the output.

    Args:
        axes: one per dimension of the grid.
        maps: the selected elements, one map per dimension.
        offsets: position in the output where each dimension's elements begin.
    """

    def __init__(self, axes: Sequence[Axis], maps: Sequence[Map], offsets: Sequence[int] | None = None) -> None:
        self._axes = tuple(axes)
        self._maps = tuple(maps)
        self._offsets = tuple(offsets) if offsets is not None else (0,) * len(self._maps)
        self.counts = tuple([axis.count(m) for axis, m in zip(self._axes, self._maps, strict=True)])

    def __len__(self) -> int:
        return prod(self.counts)

    def __iter__(self) -> Iterator[ChunkProjection]:
        if 0 in self.counts:
            return iter(())
        if self.counts and self.counts[0] > LAZY_FROM:
            return self._lazily()
        return map(ChunkProjection, product(*self._dims))

    def chunks_by_dimension(self) -> list[list[int]]:
        """Return the indices of the touched chunks along each dimension; the projection is their product, in order."""
        return [[part.chunk for part in dimension] for dimension in self._dims]

    @cached_property
    def _dims(self) -> list[list[DimPart]]:
        return [
            list(axis.split(m, offset)) for axis, m, offset in zip(self._axes, self._maps, self._offsets, strict=True)
        ]

    def _lazily(self) -> Iterator[ChunkProjection]:
        # Only the first dimension is long enough to matter: `product` would hold a list of it.
        rest = Projection(self._axes[1:], self._maps[1:], self._offsets[1:])
        for first in self._axes[0].split(self._maps[0], self._offsets[0]):
            for inner in rest:
                yield ChunkProjection((first, *inner.parts))


def within(axes: Sequence[RegularAxis], projection: ChunkProjection) -> Projection:
    """Return the inner chunks that a projection of their outer chunk touches; `axes` are the inner grid's."""
    parts = projection.parts
    clipped = [RegularAxis(axis.length, part.extent) for axis, part in zip(axes, parts, strict=True)]
    return Projection(clipped, [part.as_map() for part in parts], [part.offset for part in parts])
