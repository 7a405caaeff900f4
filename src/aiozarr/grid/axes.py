"""One dimension of a chunk grid, and the piece of a selection that falls into each chunk along it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.grid.transform import Constant, Strided

BasicMap: TypeAlias = Constant | Strided
Index: TypeAlias = slice | int
Indices: TypeAlias = NDArray[np.int64]


class AxisSelection(NamedTuple):
    """The selected elements of one chunk along one dimension.

    Attributes:
        chunk: index of the chunk in the grid.
        selection: the elements in coordinates of the chunk.
        out: the positions along this axis of the output; None if the dimension is indexed by an integer.
        start, step, taken: the elements of `selection` as first index, step and count.
        offset: position of the first element along the output axis.
        extent: number of elements of the chunk inside the array.
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
    def from_progression(
        cls, chunk: int, first: int, step: int, count: int, offset: int, *, length: int, extent: int
    ) -> Self:
        """Return the first of `count` elements, from `first` on by `step`, that lie inside a chunk of `length`."""
        room = length - 1 - first if step > 0 else first
        taken = min(count, room // abs(step) + 1)
        stop = first + step * taken
        inside = slice(first, stop if stop >= 0 else None, step)
        return cls(chunk, inside, slice(offset, offset + taken), first, step, taken, offset, extent)

    @property
    def is_complete(self) -> bool:
        """True if every element of the chunk inside the array is selected."""
        return self.taken == self.extent

    def as_map(self) -> BasicMap:
        """Return the selection as an index map in coordinates of the chunk."""
        return Constant(self.start) if self.out is None else Strided(self.start, self.step, self.taken)


class Axis(Protocol):
    """One dimension of a chunk grid, regular or not."""

    @property
    def extent(self) -> int:
        """Length of the array along the dimension."""
        ...

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        ...

    def count(self, selected: BasicMap) -> int:
        """Return the number of chunks that `selected` touches."""
        ...

    def split(self, selected: BasicMap, offset: int = 0) -> Iterator[AxisSelection]:
        """Yield the selection in each touched chunk, in the order of the output, from output position `offset` on."""
        ...

    def locate(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return the chunk of each index, and the position of the index in that chunk."""
        ...

    def chunks_of(self, indices: Indices) -> Indices:
        """Return the chunk of each index; all indices lie inside the array."""
        ...

    def chunk_start(self, chunk: int) -> int:
        """Return the index in the array of the first element of a chunk."""
        ...

    def chunk_length(self, chunk: int) -> int:
        """Return the length of a chunk; the last chunk may extend past the end of the array."""
        ...

    def chunk_extent(self, chunk: int) -> int:
        """Return the number of elements of a chunk that lie inside the array."""
        ...

    def longest(self, selected: Any = None) -> int:
        """Return an upper bound of the lengths of the chunks that `selected` touches, or of all chunks."""
        ...

    @property
    def is_uniform(self) -> bool:
        """True if all chunks have the same length."""
        ...


class RegularAxis(NamedTuple):
    """One dimension of a regular grid: chunks of `length` elements over `extent` elements."""

    length: int
    extent: int

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.extent // self.length)

    def count(self, selected: BasicMap) -> int:
        """Return the number of chunks that `selected` touches."""
        if isinstance(selected, Constant):
            return 1
        start, step, count = selected.start, selected.step, selected.count
        if count == 0:
            return 0
        if abs(step) >= self.length:
            return count
        return abs((start + step * (count - 1)) // self.length - start // self.length) + 1

    def split(self, selected: BasicMap, offset: int = 0) -> Iterator[AxisSelection]:
        """Yield the selection in each touched chunk, in the order of the output, from output position `offset` on."""
        length = self.length
        if isinstance(selected, Constant):
            chunk, inner = divmod(selected.index, length)
            yield AxisSelection(chunk, inner, None, inner, 1, 1, offset, min(length, self.extent - chunk * length))
            return
        start, step, count = selected.start, selected.step, selected.count
        while count:
            chunk, first = divmod(start, length)
            if step == 1 and not first and count >= length:
                complete = count // length
                yield from self._complete_chunks(chunk, complete, offset)
                taken = complete * length
            else:
                extent = min(length, self.extent - chunk * length)
                piece = AxisSelection.from_progression(chunk, first, step, count, offset, length=length, extent=extent)
                yield piece
                taken = piece.taken
            start += step * taken
            offset += taken
            count -= taken

    def _complete_chunks(self, chunk: int, count: int, offset: int) -> Iterator[AxisSelection]:
        """Yield the selections of `count` complete chunks from `chunk` on."""
        # Nearly all axis selections are made here. No bytecode runs per chunk, which takes 0.5 µs per chunk instead of
        # the 0.9 µs of calling the class (Python 3.11).
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
        return map(tuple.__new__, repeat(AxisSelection), fields)

    def locate(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return the chunk of each index, and the position of the index in that chunk."""
        chunks = self.chunks_of(indices)
        # numpy vectorises the division and not `divmod`.
        return chunks, indices - chunks * self.length

    def chunks_of(self, indices: Indices) -> Indices:
        """Return the chunk of each index; all indices lie inside the array."""
        return indices // self.length

    def chunk_start(self, chunk: int) -> int:
        """Return the index in the array of the first element of a chunk."""
        return chunk * self.length

    def chunk_length(self, chunk: int) -> int:
        """Return the length of every chunk."""
        return self.length

    def chunk_extent(self, chunk: int) -> int:
        """Return the number of elements of a chunk that lie inside the array."""
        return min(self.length, self.extent - chunk * self.length)

    def longest(self, selected: Any = None) -> int:
        """Return the length of every chunk."""
        return self.length

    @property
    def is_uniform(self) -> bool:
        """True: all chunks have the same length."""
        return True


def regular_axes(chunk_shape: Sequence[int], array_shape: Sequence[int]) -> tuple[RegularAxis, ...]:
    """Return the axes of a regular grid of `chunk_shape` over `array_shape`."""
    return tuple([RegularAxis(length, extent) for length, extent in zip(chunk_shape, array_shape, strict=True)])
