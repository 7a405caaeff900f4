"""One dimension of a chunk grid: how the indices that a selection takes along it fall into chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.grid.transform import Constant, Strided

Map: TypeAlias = Constant | Strided
Index: TypeAlias = slice | int
Indices: TypeAlias = NDArray[np.int64]


class DimPart(NamedTuple):
    """The part of a selection that falls into one chunk, along one dimension.

    Attributes:
        chunk: the chunk's index in the grid.
        selection: the elements in the chunk's own coordinates.
        out: where they go along this axis of the output; None where the dimension is indexed by an integer.
        start, step, taken: the same elements as `selection`, as numbers.
        offset: position of the first of them along the output axis.
        extent: how many elements of the chunk lie inside the array.
    """

    chunk: int
    selection: Index
    out: slice | None
    start: int
    step: int
    taken: int
    offset: int
    extent: int

    @classmethod
    def of_run(cls, chunk: int, first: int, step: int, count: int, offset: int, *, length: int, extent: int) -> Self:
        """Return as much of `count` elements, from `first` on by `step`, as a chunk of this length holds."""
        room = length - 1 - first if step > 0 else first
        taken = min(count, room // abs(step) + 1)
        stop = first + step * taken
        inside = slice(first, stop if stop >= 0 else None, step)
        return cls(chunk, inside, slice(offset, offset + taken), first, step, taken, offset, extent)

    @property
    def whole(self) -> bool:
        """True where every element of the chunk that lies inside the array is selected."""
        return self.taken == self.extent

    def as_map(self) -> Map:
        """Return the selection as an index map of the chunk's own coordinates."""
        return Constant(self.start) if self.out is None else Strided(self.start, self.step, self.taken)


class Axis(Protocol):
    """One dimension of a grid, regular or not."""

    @property
    def extent(self) -> int:
        """Length of the array along the dimension."""
        ...

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        ...

    def count(self, selected: Map) -> int:
        """Return how many chunks `selected` touches."""
        ...

    def split(self, selected: Map, offset: int = 0) -> Iterator[DimPart]:
        """Yield the part of `selected` in each chunk it touches, in the order of the output, beginning at `offset`."""
        ...

    def locate(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return, for indices inside the array, the chunk of each and its place in that chunk."""
        ...

    def chunks_of(self, indices: Indices) -> Indices:
        """Return, for indices inside the array, the chunk of each."""
        ...

    def chunk_start(self, chunk: int) -> int:
        """Return where a chunk begins in the array."""
        ...

    def chunk_length(self, chunk: int) -> int:
        """Return the length of a chunk, which may reach past the array's end."""
        ...

    def chunk_extent(self, chunk: int) -> int:
        """Return how many elements of a chunk lie inside the array."""
        ...

    def longest(self, selected: Any = None) -> int:
        """Return the length of the longest chunk that `selected` touches, or of all; an upper bound will do."""
        ...

    @property
    def is_uniform(self) -> bool:
        """True where all chunks have one length."""
        ...


class RegularAxis(NamedTuple):
    """One dimension of a regular grid: chunks of `length` elements over `extent` elements."""

    length: int
    extent: int

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.extent // self.length)

    def count(self, selected: Map) -> int:
        """Return how many chunks `selected` touches."""
        if isinstance(selected, Constant):
            return 1
        start, step, count = selected.start, selected.step, selected.count
        if count == 0:
            return 0
        if abs(step) >= self.length:
            return count
        return abs((start + step * (count - 1)) // self.length - start // self.length) + 1

    def split(self, selected: Map, offset: int = 0) -> Iterator[DimPart]:
        """Yield the part of `selected` in each chunk it touches, in the order of the output, beginning at `offset`."""
        length = self.length
        if isinstance(selected, Constant):
            chunk, inner = divmod(selected.index, length)
            yield DimPart(chunk, inner, None, inner, 1, 1, offset, min(length, self.extent - chunk * length))
            return
        start, step, count = selected.start, selected.step, selected.count
        while count:
            chunk, first = divmod(start, length)
            if step == 1 and not first and count >= length:
                whole = count // length
                yield from self._whole(chunk, whole, offset)
                taken = whole * length
            else:
                extent = min(length, self.extent - chunk * length)
                part = DimPart.of_run(chunk, first, step, count, offset, length=length, extent=extent)
                yield part
                taken = part.taken
            start += step * taken
            offset += taken
            count -= taken

    def _whole(self, chunk: int, count: int, offset: int) -> Iterator[DimPart]:
        """Yield `count` chunks, all of each, from `chunk` on."""
        # Nearly all parts of nearly all selections come from here: no bytecode runs for one of them, and DimPart's own
        # constructor would take as long as all the rest.
        length = self.length
        starts = range(offset, offset + count * length, length)
        stops = range(offset + length, offset + (count + 1) * length, length)
        fields = zip(
            range(chunk, chunk + count),
            repeat(slice(0, length, 1)),
            map(slice, starts, stops),
            repeat(0),
            repeat(1),
            repeat(length),
            starts,
            repeat(length),
            strict=False,
        )
        return map(tuple.__new__, repeat(DimPart), fields)

    def locate(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return, for indices inside the array, the chunk of each and its place in that chunk."""
        chunks = self.chunks_of(indices)
        # Division alone is what numpy has a fast way for.
        return chunks, indices - chunks * self.length

    def chunks_of(self, indices: Indices) -> Indices:
        """Return, for indices inside the array, the chunk of each."""
        return indices // self.length

    def chunk_start(self, chunk: int) -> int:
        """Return where a chunk begins in the array."""
        return chunk * self.length

    def chunk_length(self, chunk: int) -> int:
        """Return the length of every chunk."""
        return self.length

    def chunk_extent(self, chunk: int) -> int:
        """Return how many elements of a chunk lie inside the array."""
        return min(self.length, self.extent - chunk * self.length)

    def longest(self, selected: Any = None) -> int:
        """Return the length of every chunk."""
        return self.length

    @property
    def is_uniform(self) -> bool:
        """True: all chunks have one length."""
        return True


def regular_axes(chunk_shape: Sequence[int], array_shape: Sequence[int]) -> tuple[RegularAxis, ...]:
    """Return the axes of a regular grid of `chunk_shape` over `array_shape`."""
    return tuple([RegularAxis(length, extent) for length, extent in zip(chunk_shape, array_shape, strict=True)])
