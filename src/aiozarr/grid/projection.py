"""The chunks that a selection touches, and the positions of their elements in the output; iterated lazily."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, product
from math import prod
from operator import attrgetter
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.grid.axes import Axis, AxisSelection, BasicMap, Index, RegularAxis
from aiozarr.grid.transform import Strided

AnyArray: TypeAlias = NDArray[Any]
_SELECTION = attrgetter("selection")
CoreRegion: TypeAlias = tuple[slice | NDArray[np.int64], ...]
"""An orthogonal region of an array of the core shape: a slice or ascending positions per axis."""

MAX_CACHED_SELECTIONS = 4096
"""Dimensions with more axis selections are generated again at each pass, so that memory stays bounded."""


MAX_SHARED_SELECTIONS = 16
"""Dimensions with more axis selections are generated for each projection, so that few of them are remembered."""


class ChunkSelection(Protocol):
    """One touched chunk, and the transfer of its selected elements to and from an output.

    The output has the core shape: `core_shape_of` the maps of the selection.
    """

    @property
    def coords(self) -> tuple[int, ...]:
        """Index of the chunk in the grid."""
        ...

    @property
    def extents(self) -> tuple[int, ...]:
        """Number of elements of the chunk inside the array, per dimension."""
        ...

    @property
    def size(self) -> int:
        """Number of selected elements."""
        ...

    @property
    def point_count(self) -> int:
        """Number of points of index arrays in this chunk; 0 without index arrays. Sorting takes time in proportion."""
        ...

    @property
    def is_complete(self) -> bool:
        """True only if every element of the chunk inside the array is selected."""
        ...

    def whole_window(self, out: AnyArray, shape: tuple[int, ...]) -> AnyArray | None:
        """Return a view of `out` over a completely selected chunk of `shape`, in the order of the chunk.

        Returns: the view, or None if elements are not selected, are reversed, or the class does not check.
        """
        ...

    def window(self, out: AnyArray) -> AnyArray | None:
        """Return the positions of the elements in `out` as a view, or None if they do not form a view."""
        ...

    def gather(self, chunk: AnyArray) -> AnyArray:
        """Return the selected elements of `chunk`, as a view if possible."""
        ...

    def scatter(self, out: AnyArray, elements: AnyArray) -> None:
        """Write the result of `gather` to its positions in `out`."""
        ...

    def fill(self, out: AnyArray, value: AnyArray) -> None:
        """Write `value`, a 0-d array of the type of the chunk, to all positions of the elements in `out`."""
        ...

    def take(self, values: AnyArray) -> AnyArray:
        """Return the elements of `values` at the positions of the selection, as a view if possible."""
        ...

    def put(self, chunk: AnyArray, elements: AnyArray) -> None:
        """Write the result of `take` into `chunk`. The last value of an element that is selected repeatedly stays."""
        ...

    def inner_chunks(self, axes: Sequence[RegularAxis]) -> ChunkSelections:
        """Return the selections of the touched inner chunks. `axes` are those of the inner grid."""
        ...

    def rebased(self) -> tuple[tuple[int, ...], CoreRegion, ChunkSelection]:
        """Return the selection for an output of these elements alone.

        Returns: the shape of that output, its region in the full output, and the selection.
        """
        ...


class SizedSelections(Protocol):
    """The selections of all touched chunks, in C order of the output if that order is defined."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[ChunkSelection]: ...


class ChunkSelections(SizedSelections, Protocol):
    """`SizedSelections` of one grid, whose chunks have numbers."""

    def numbered(self, grid_shape: Sequence[int]) -> Iterator[tuple[int, ChunkSelection]]:
        """Yield the linear index of each chunk in a grid of `grid_shape`, in C order, and its selection."""
        ...


class ChunkProjection(tuple[AxisSelection, ...]):
    """A `ChunkSelection` of slices and integers: `out[p.out_selection] = chunk[p.chunk_selection]`.

    It is a tuple of the selections along each dimension, so that `itertools.product` and `map` make a million of them
    without bytecode per chunk.
    """

    __slots__ = ()

    point_count = 0  # index arrays make other selections

    @property
    def coords(self) -> tuple[int, ...]:
        """Index of the chunk in the grid."""
        return tuple([each[0] for each in self])

    @property
    def chunk_selection(self) -> tuple[Index, ...]:
        """The elements in coordinates of the chunk, one index per dimension."""
        return tuple(map(_SELECTION, self))

    @property
    def out_selection(self) -> tuple[slice, ...]:
        """The elements in the output, one slice per dimension that is not indexed by an integer."""
        return tuple([each.out for each in self if each.out is not None])

    @property
    def extents(self) -> tuple[int, ...]:
        """Number of elements of the chunk inside the array, per dimension."""
        return tuple([each.extent for each in self])

    @property
    def is_complete(self) -> bool:
        """True if every element of the chunk inside the array is selected."""
        return all([each.taken == each.extent for each in self])

    @property
    def size(self) -> int:
        """Number of selected elements."""
        return prod([each.taken for each in self])

    def whole_window(self, out: AnyArray, shape: tuple[int, ...]) -> AnyArray | None:
        """Return a view of `out` over a completely selected chunk of `shape`, or None for other chunks."""
        places = [each.out for each in self if each.out is not None and each.step > 0]
        if len(places) < len(shape) or (self and self[0].taken < shape[0]):
            return None
        window = out[tuple(places)] if places else out
        return window if window.shape == shape else None

    def window(self, out: AnyArray) -> AnyArray:
        """Return the positions of the elements in `out` as a view."""
        selection = self.out_selection
        # `out[()]` would be a scalar, not a view.
        return out[selection] if selection else out

    def gather(self, chunk: AnyArray) -> AnyArray:
        """Return the selected elements of `chunk`."""
        # The ellipsis keeps the result an array: an index of integers alone returns the element, which may be a list.
        return chunk[(*map(_SELECTION, self), ...)]

    def scatter(self, out: AnyArray, elements: AnyArray) -> None:
        """Write the result of `gather` to its positions in `out`."""
        assign(self.window(out), elements)

    def fill(self, out: AnyArray, value: AnyArray) -> None:
        """Write `value` to all positions of the elements in `out`."""
        selection: tuple[Any, ...] = (*self.out_selection, ...)
        out[selection] = value

    def take(self, values: AnyArray) -> AnyArray:
        """Return the elements of `values` at the positions of the selection, as a view."""
        return self.window(values)

    def put(self, chunk: AnyArray, elements: AnyArray) -> None:
        """Write the result of `take` into `chunk`."""
        assign(chunk[(*self.chunk_selection, ...)], elements)

    def inner_chunks(self, axes: Sequence[RegularAxis]) -> Projection:
        """Return the selections of the touched inner chunks. `axes` are those of the inner grid."""
        clipped = [RegularAxis(axis.length, each.extent) for axis, each in zip(axes, self, strict=True)]
        return Projection(clipped, [each.as_map() for each in self], [each.offset for each in self])

    def rebased(self) -> tuple[tuple[int, ...], CoreRegion, ChunkProjection]:
        """Return the selection for an output of these elements alone.

        Returns: the shape of that output, its region in the full output, and the selection.
        """
        shape = tuple([each.taken for each in self if each.out is not None])
        return shape, self.out_selection, ChunkProjection(tuple([moved_to_start(each) for each in self]))

    def __repr__(self) -> str:
        return f"ChunkProjection({self.coords}, {self.chunk_selection} -> {self.out_selection})"


def moved_to_start(each: AxisSelection) -> AxisSelection:
    """Return the selection for an output that starts with its elements."""
    return each if each.out is None else each._replace(out=slice(0, each.taken), offset=0)


class Projection:
    """The chunks that slices and integers touch: an iterable of `ChunkProjection` in C order of the output.

    Args:
        axes: one per dimension of the grid.
        maps: the selected elements, one map per dimension.
        offsets: position in the output of the first element of each dimension.
    """

    def __init__(self, axes: Sequence[Axis], maps: Sequence[BasicMap], offsets: Sequence[int] | None = None) -> None:
        self._axes = tuple(axes)
        self._maps = tuple(maps)
        self._offsets = tuple(offsets) if offsets is not None else (0,) * len(self._maps)
        self.counts = tuple([axis.count(m) for axis, m in zip(self._axes, self._maps, strict=True)])
        self._cached: list[Sequence[AxisSelection] | None] = [None] * len(self._maps)

    def __len__(self) -> int:
        return prod(self.counts)

    def __iter__(self) -> Iterator[ChunkProjection]:
        if 0 in self.counts:
            return iter(())
        # `product` stores its arguments as lists: dimensions up to the last long one are generated again at each pass.
        generated = max(
            [dimension for dimension, count in enumerate(self.counts, 1) if count > MAX_CACHED_SELECTIONS], default=0
        )
        rest = [self._along(dimension) for dimension in range(generated, len(self.counts))]
        if not generated:
            return map(ChunkProjection, product(*rest))
        heads = self._leading(generated)
        if not rest:
            return map(ChunkProjection, heads)
        return map(ChunkProjection, chain.from_iterable(_joined(head, rest) for head in heads))

    def numbered(self, grid_shape: Sequence[int]) -> Iterator[tuple[int, ChunkProjection]]:
        """Yield the linear index of each chunk in a grid of `grid_shape`, in C order, and its selection."""
        offsets = [
            [each.chunk * stride for each in self._along(dimension)]
            for dimension, stride in enumerate(strides_of(grid_shape))
        ]
        return zip(map(sum, product(*offsets)), self, strict=True)

    def _along(self, dimension: int) -> Iterable[AxisSelection]:
        """Return the selections along one dimension: made once if they are few, else generated at each pass."""
        axis, selected, offset = self._axes[dimension], self._maps[dimension], self._offsets[dimension]
        if self.counts[dimension] > MAX_CACHED_SELECTIONS:
            return axis.split(selected, offset)
        selections = self._cached[dimension]
        if selections is None:
            is_short = self.counts[dimension] <= MAX_SHARED_SELECTIONS
            if is_short and isinstance(axis, RegularAxis) and isinstance(selected, Strided):
                # Windows of a service, or shards of a read, often have the same.
                selections = _split_strided(*axis, selected.start, selected.step, selected.count, offset)
            else:
                selections = list(axis.split(selected, offset))
            self._cached[dimension] = selections
        return selections

    def _leading(self, ndim: int) -> Iterator[tuple[AxisSelection, ...]]:
        """Yield the selections of the first `ndim` dimensions in C order, in constant memory."""
        if ndim == 1:
            return zip(self._along(0), strict=True)
        outer = self._leading(ndim - 1)
        return ((*head, each) for head in outer for each in self._along(ndim - 1))


@lru_cache(512)
def _split_strided(
    length: int, extent: int, start: int, step: int, count: int, offset: int
) -> tuple[AxisSelection, ...]:
    return tuple(RegularAxis(length, extent).split(Strided(start, step, count), offset))


def _joined(
    head: tuple[AxisSelection, ...], rest: Sequence[Iterable[AxisSelection]]
) -> Iterator[tuple[AxisSelection, ...]]:
    return product(*[(each,) for each in head], *rest)


def strides_of(grid_shape: Sequence[int]) -> list[int]:
    """Return the step of the linear chunk index, in C order, along each dimension."""
    strides = [1]
    for length in reversed(grid_shape[1:]):
        strides.append(strides[-1] * length)
    return strides[::-1] if grid_shape else []


SLICE_ELEMENTS = 8
"""Elements of a slice: the associativity of a level 1 cache, so that colliding cache lines stay cached."""

CACHE_COLLISION_BYTES = 1024
"""Memory addresses that differ by a multiple of this number of bytes compete for few cache lines."""

MIN_REORDER_BYTES = 128 << 10
"""Smaller arrays fit into a level 2 cache and are assigned at once."""

MAX_ROW_BYTES = 512
"""Longer rows gain nothing: copying their bytes takes longer than iterating over the rows."""

_ROWS: dict[int, np.dtype[Any]] = {}


def assign(out: NDArray[Any], source: NDArray[Any]) -> None:
    """Assign `out[...] = source` for arrays of one shape, faster than numpy for two memory layouts.

    Adjacent elements of `out` may lie a power of two apart in `source`, as in a chunk in Fortran order. numpy then
    reads each cache line once per element. Copying slice by slice is two to four times as fast.

    Short rows that are contiguous in both arrays are copied as one wide element each, which avoids a loop of numpy per
    row: 18 instead of 33 µs for a chunk of 64 x 64 x 64 bytes in an output of 512 x 512 x 512.
    It also keeps the interpreter's lock, which numpy releases for more than 500 elements.
    """
    shape, dtype = source.shape, source.dtype
    row = row_type(shape, dtype) if shape == out.shape and dtype == out.dtype else None
    if (
        row is not None
        and source.strides[-1] == dtype.itemsize == out.strides[-1]
        and type(out) is np.ndarray  # views of other kinds, such as masked ones, are more than the memory
        and not (out.flags.c_contiguous and source.flags.c_contiguous)
    ):
        out.view(row)[...] = source.view(row)
        return
    if source.nbytes >= MIN_REORDER_BYTES and source.ndim > 1 and source.shape == out.shape:
        stride, length = source.strides[-1], source.shape[-1]
        if (
            stride
            and stride % CACHE_COLLISION_BYTES == 0
            and length > SLICE_ELEMENTS
            and out.strides[-1] == out.itemsize
        ):
            for start in range(0, length, SLICE_ELEMENTS):
                out[..., start : start + SLICE_ELEMENTS] = source[..., start : start + SLICE_ELEMENTS]
            return
    out[...] = source


def row_type(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the type that makes each row of a C-contiguous array one element.

    Returns: the type, or None if the rows are too long or contain objects.
    """
    if len(shape) < 2 or shape[-1] < 2 or dtype.hasobject or dtype.kind == "T":
        return None
    nbytes = shape[-1] * dtype.itemsize
    if nbytes > MAX_ROW_BYTES:
        return None
    # numpy copies void elements as raw bytes.
    row = _ROWS.get(nbytes)
    if row is None:
        row = _ROWS[nbytes] = np.dtype(f"V{nbytes}")
    return row
