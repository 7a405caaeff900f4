"""Which chunks a selection touches and where their elements go: per dimension, iterated lazily, never listed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, product
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.grid.axes import Axis, DimPart, Index, Map, RegularAxis
from aiozarr.grid.reorder import assign

AnyArray: TypeAlias = NDArray[Any]
CoreRegion: TypeAlias = tuple[slice | NDArray[np.int64], ...]
"""Places in an array of the core shape, orthogonal: a slice or ascending positions per axis."""

LAZY_FROM = 4096
"""A dimension with more parts than this is generated anew at each pass in place of being kept."""


class Part(Protocol):
    """One chunk that a selection touches, and the way of the selected elements to and from an output.

    The output has the core shape: `core_shape_of` the selection's maps.
    """

    @property
    def coords(self) -> tuple[int, ...]:
        """The chunk's index in the grid."""
        ...

    @property
    def extents(self) -> tuple[int, ...]:
        """How many elements of the chunk lie inside the array, per dimension."""
        ...

    @property
    def size(self) -> int:
        """Number of selected elements."""
        ...

    @property
    def listed(self) -> int:
        """How many points index arrays list here; sorting them takes as long."""
        ...

    @property
    def whole(self) -> bool:
        """True only where every element of the chunk that lies inside the array is selected."""
        ...

    def whole_window(self, out: AnyArray, shape: tuple[int, ...]) -> AnyArray | None:
        """Return the places in `out` of all elements of a chunk of `shape`, as a view; None: not all are selected.

        They are in their order; None also where nobody has looked.
        """
        ...

    def window(self, out: AnyArray) -> AnyArray | None:
        """Return the elements' places in `out` as a view; None where they make none."""
        ...

    def gather(self, chunk: AnyArray) -> AnyArray:
        """Return the selected elements of `chunk`, a view where that is possible."""
        ...

    def scatter(self, out: AnyArray, part: AnyArray) -> None:
        """Put what `gather` has returned to its places in `out`."""
        ...

    def fill(self, out: AnyArray, value: AnyArray) -> None:
        """Put `value`, a 0-d array of the chunk's type, to all these places in `out`."""
        ...

    def take(self, values: AnyArray) -> AnyArray:
        """Return the elements that are at these places in `values`, a view where that is possible."""
        ...

    def put(self, chunk: AnyArray, part: AnyArray) -> None:
        """Put what `take` has returned into `chunk`; of elements that are selected repeatedly, the last one stays."""
        ...

    def within(self, axes: Sequence[RegularAxis]) -> Parts:
        """Return the inner chunks that are touched; `axes` are those of the inner grid."""
        ...

    def detached(self) -> tuple[tuple[int, ...], CoreRegion, Part]:
        """Return the shape of an array for these elements alone, its place in the output, and the part for it."""
        ...


class Parts(Protocol):
    """All chunks that a selection touches, in C order of the output where that is defined."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Part]: ...

    def numbered(self, grid_shape: Sequence[int]) -> Iterator[tuple[int, Part]]:
        """Yield each part with its chunk's linear index, in C order, in a grid of `grid_shape`."""
        ...


class ChunkProjection(tuple[DimPart, ...]):
    """One chunk that a selection touches: `out[p.out_selection] = chunk[p.chunk_selection]`. A `Part`.

    It is what is selected of each dimension, and no more: a plan makes a million of them in C.
    """

    __slots__ = ()

    @property
    def coords(self) -> tuple[int, ...]:
        """The chunk's index in the grid."""
        return tuple([part[0] for part in self])

    @property
    def chunk_selection(self) -> tuple[Index, ...]:
        """The elements in the chunk's own coordinates, one index per dimension."""
        return tuple([part.selection for part in self])

    @property
    def out_selection(self) -> tuple[slice, ...]:
        """The elements in the output, one slice per dimension that is not indexed by an integer."""
        return tuple([part.out for part in self if part.out is not None])

    @property
    def extents(self) -> tuple[int, ...]:
        """How many elements of the chunk lie inside the array, per dimension."""
        return tuple([part.extent for part in self])

    @property
    def listed(self) -> int:
        """0: there are no index arrays."""
        return 0

    @property
    def whole(self) -> bool:
        """True where every element of the chunk that lies inside the array is selected."""
        return all([part.taken == part.extent for part in self])

    @property
    def size(self) -> int:
        """Number of selected elements."""
        return prod([part.taken for part in self])

    def whole_window(self, out: AnyArray, shape: tuple[int, ...]) -> AnyArray | None:
        """Return the places in `out` of all elements of a chunk of `shape`, as a view; None: not all are selected."""
        # Without a name for any of it: this is done for every chunk.
        places = [place for _, _, place, _, step, _, _, _ in self if place is not None and step > 0]
        if len(places) < len(shape):
            return None
        window = out[tuple(places)] if places else out
        return window if window.shape == shape else None

    def window(self, out: AnyArray) -> AnyArray:
        """Return the elements' places in `out` as a view."""
        selection = self.out_selection
        # `out[()]` would be a scalar, not a view.
        return out[selection] if selection else out

    def gather(self, chunk: AnyArray) -> AnyArray:
        """Return the selected elements of `chunk`."""
        # An index of integers alone would give the element: of objects, one that is a list.
        return chunk[(*self.chunk_selection, ...)]

    def scatter(self, out: AnyArray, part: AnyArray) -> None:
        """Put what `gather` has returned to its places in `out`."""
        assign(self.window(out), part)

    def fill(self, out: AnyArray, value: AnyArray) -> None:
        """Put `value` to all these places in `out`."""
        selection: tuple[Any, ...] = (*self.out_selection, ...)
        out[selection] = value

    def take(self, values: AnyArray) -> AnyArray:
        """Return the elements that are at these places in `values`, as a view."""
        return self.window(values)

    def put(self, chunk: AnyArray, part: AnyArray) -> None:
        """Put what `take` has returned into `chunk`."""
        assign(chunk[(*self.chunk_selection, ...)], part)

    def within(self, axes: Sequence[RegularAxis]) -> Projection:
        """Return the inner chunks that are touched; `axes` are those of the inner grid."""
        clipped = [RegularAxis(axis.length, part.extent) for axis, part in zip(axes, self, strict=True)]
        return Projection(clipped, [part.as_map() for part in self], [part.offset for part in self])

    def detached(self) -> tuple[tuple[int, ...], CoreRegion, ChunkProjection]:
        """Return the shape of an array for these elements alone, its place in the output, and the part for it."""
        shape = tuple([part.taken for part in self if part.out is not None])
        return shape, self.out_selection, ChunkProjection(tuple([moved_to_start(part) for part in self]))

    def __repr__(self) -> str:
        return f"ChunkProjection({self.coords}, {self.chunk_selection} -> {self.out_selection})"


def moved_to_start(part: DimPart) -> DimPart:
    """Return `part` for an output that begins with it."""
    return part if part.out is None else part._replace(out=slice(0, part.taken), offset=0)


class Projection:
    """The chunks of a grid that slices and integers touch: an iterable of `ChunkProjection` in C order of the output.

    Args:
        axes: one per dimension of the grid.
        maps: the selected elements, one map per dimension.
        offsets: position in the output where each dimension's elements begin.
    """

    def __init__(self, axes: Sequence[Axis], maps: Sequence[Map], offsets: Sequence[int] | None = None) -> None:
        self._axes = tuple(axes)
        self._maps = tuple(maps)
        self._offsets = tuple(offsets) if offsets is not None else (0,) * len(self._maps)
        self._listed: list[list[DimPart]] | None = None
        self.counts = tuple([axis.count(m) for axis, m in zip(self._axes, self._maps, strict=True)])

    def __len__(self) -> int:
        return prod(self.counts)

    def __iter__(self) -> Iterator[ChunkProjection]:
        if 0 in self.counts:
            return iter(())
        # `product` holds lists of what it is given: dimensions up to the last long one are walked anew each time.
        walked = max([dimension for dimension, count in enumerate(self.counts, 1) if count > LAZY_FROM], default=0)
        if not walked:
            return map(ChunkProjection, product(*self._dims))
        rest = [list(self._along(dimension)) for dimension in range(walked, len(self.counts))]
        heads = self._heads(walked)
        if not rest:
            return map(ChunkProjection, heads)
        return map(ChunkProjection, chain.from_iterable(_joined(head, rest) for head in heads))

    def chunks_by_dimension(self) -> list[list[int]]:
        """Return the indices of the touched chunks along each dimension; the projection is their product, in order."""
        if max(self.counts, default=0) <= LAZY_FROM:
            return [[part.chunk for part in dimension] for dimension in self._dims]
        return [[part.chunk for part in self._along(dimension)] for dimension in range(len(self.counts))]

    def numbered(self, grid_shape: Sequence[int]) -> Iterator[tuple[int, ChunkProjection]]:
        """Yield each part with its chunk's linear index, in C order, in a grid of `grid_shape`."""
        offsets = [
            [chunk * stride for chunk in chunks]
            for chunks, stride in zip(self.chunks_by_dimension(), strides_of(grid_shape), strict=True)
        ]
        return zip(map(sum, product(*offsets)), self, strict=True)

    @property
    def _dims(self) -> list[list[DimPart]]:
        # Not functools.cached_property: before Python 3.12 it takes a lock, which a fork leaves locked in the child.
        if self._listed is None:
            self._listed = [list(self._along(dimension)) for dimension in range(len(self.counts))]
        return self._listed

    def _along(self, dimension: int) -> Iterator[DimPart]:
        return self._axes[dimension].split(self._maps[dimension], self._offsets[dimension])

    def _heads(self, ndim: int) -> Iterator[tuple[DimPart, ...]]:
        """Yield what is selected of the first `ndim` dimensions, in C order, in memory that does not grow with it."""
        if ndim == 1:
            return zip(self._along(0), strict=True)
        outer = self._heads(ndim - 1)
        return ((*head, part) for head in outer for part in self._along(ndim - 1))


def _joined(head: tuple[DimPart, ...], rest: Sequence[Sequence[DimPart]]) -> Iterator[tuple[DimPart, ...]]:
    return product(*[(part,) for part in head], *rest)


def strides_of(grid_shape: Sequence[int]) -> list[int]:
    """Return by how much the linear index of a chunk, in C order, grows along each dimension."""
    strides = [1]
    for length in reversed(grid_shape[1:]):
        strides.append(strides[-1] * length)
    return strides[::-1] if grid_shape else []
