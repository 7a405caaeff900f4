"""Chunks that index arrays touch, and how their elements are moved: costs grow with the points, not with the grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, product
from math import prod
from operator import mul
from typing import NamedTuple, TypeVar

from aiozarr.grid.axes import Axis, DimPart, Indices, Map, RegularAxis
from aiozarr.grid.groups import AnyPart, GroupPart, Positions, flat_indices, group_dims, split_group
from aiozarr.grid.mesh import Mesh
from aiozarr.grid.projection import LAZY_FROM, AnyArray, ChunkProjection, CoreRegion, moved_to_start, strides_of
from aiozarr.grid.transform import DimensionMap, Indexed

T = TypeVar("T")


class PointProjection:
    """One chunk that index arrays touch. A `Part`.

    Args:
        parts: of each core axis and each dimension without one, in the order of their (first) dimensions.
        owners: for each dimension of the grid, which of the parts it belongs to.
    """

    __slots__ = ("owners", "parts")

    def __init__(self, parts: tuple[AnyPart, ...], owners: tuple[int, ...]) -> None:
        self.parts = parts
        self.owners = owners

    @property
    def coords(self) -> tuple[int, ...]:
        """The chunk's index in the grid."""
        return tuple(self._by_dimension(lambda part: part.chunk, lambda part: part.chunks))

    @property
    def extents(self) -> tuple[int, ...]:
        """How many elements of the chunk lie inside the array, per dimension."""
        return tuple(self._by_dimension(lambda part: part.extent, lambda part: part.extents))

    @property
    def size(self) -> int:
        """Number of selected elements, repeated ones counted as often as they are selected."""
        return prod([part.taken for part in self.parts])

    @property
    def listed(self) -> int:
        """How many points index arrays list here."""
        return sum([part.taken for part in self.parts if isinstance(part, GroupPart)])

    @property
    def whole(self) -> bool:
        """True only where every element of the chunk that lies inside the array is selected."""
        return all([part.whole for part in self.parts])

    def whole_window(self, out: AnyArray, shape: tuple[int, ...]) -> None:
        """Return None: nobody has looked."""

    def window(self, out: AnyArray) -> None:
        """Return None: the places make no view."""

    def gather(self, chunk: AnyArray) -> AnyArray:
        """Return a copy of the selected elements of `chunk`."""
        return self._in_chunk().get(chunk)

    def scatter(self, out: AnyArray, part: AnyArray) -> None:
        """Put what `gather` has returned to its places in `out`."""
        self._in_core().set(out, part)

    def fill(self, out: AnyArray, value: AnyArray) -> None:
        """Put `value` to all these places in `out`."""
        self._in_core().fill(out, value)

    def take(self, values: AnyArray) -> AnyArray:
        """Return the elements that are at these places in `values`."""
        return self._in_core().get(values)

    def put(self, chunk: AnyArray, part: AnyArray) -> None:
        """Put what `take` has returned into `chunk`; of elements that are selected repeatedly, the last one stays."""
        self._in_chunk().set(chunk, part)

    def within(self, axes: Sequence[RegularAxis]) -> Points:
        """Return the inner chunks that are touched; `axes` are those of the inner grid."""
        clipped = [RegularAxis(axis.length, n) for axis, n in zip(axes, self.extents, strict=True)]
        columns = []
        for number, part in enumerate(self.parts):
            own = [axis for axis, owner in zip(clipped, self.owners, strict=True) if owner == number]
            if isinstance(part, GroupPart):
                columns.append(_of_points(own, part.dims, part.inner, part.out))
            else:
                columns.append(_of_axis(own[0], self.owners.index(number), part.as_map(), part.offset))
        return Points(columns)

    def detached(self) -> tuple[tuple[int, ...], CoreRegion, PointProjection]:
        """Return the shape of an array for these elements alone, its place in the output, and the part for it."""
        places = [(part.taken, part.out) for part in self.parts if part.out is not None]
        moved = [
            part._replace(out=slice(0, part.taken)) if isinstance(part, GroupPart) else moved_to_start(part)
            for part in self.parts
        ]
        return (
            tuple([taken for taken, _ in places]),
            tuple([out for _, out in places]),
            PointProjection(tuple(moved), self.owners),
        )

    def _in_chunk(self) -> Mesh:
        items = self._by_dimension(lambda part: part.selection, lambda part: part.inner)
        return Mesh(items, self.owners, range(len(self.parts)))

    def _in_core(self) -> Mesh:
        items = [part.out for part in self.parts if part.out is not None]
        return Mesh(items, range(len(items)), range(len(items)))

    def _by_dimension(self, of_axis: Callable[[DimPart], T], of_group: Callable[[GroupPart], Sequence[T]]) -> list[T]:
        """Return one value per dimension."""
        values = []
        for dimension, owner in enumerate(self.owners):
            part = self.parts[owner]
            if isinstance(part, GroupPart):
                values.append(of_group(part)[part.dims.index(dimension)])
            else:
                values.append(of_axis(part))
        return values

    def __repr__(self) -> str:
        return f"PointProjection({self.coords}, {self.size} elements)"


class Column(NamedTuple):
    """What a core axis, or a dimension that has none, contributes: its dimensions and parts, listed when asked for."""

    dims: tuple[int, ...]
    number: int
    parts: Callable[[], Iterable[AnyPart]]


def _of_axis(axis: Axis, dimension: int, selected: Map, offset: int = 0) -> Column:
    return Column((dimension,), axis.count(selected), lambda: axis.split(selected, offset))


def _of_points(axes: Sequence[Axis], dims: tuple[int, ...], lists: Sequence[Indices], positions: Positions) -> Column:
    parts = split_group(axes, dims, lists, positions)
    return Column(dims, len(parts), lambda: parts)


class Points:
    """The chunks of a grid that index arrays touch, as an iterable of parts: the product of the columns."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = tuple(columns)
        owners = {dimension: number for number, column in enumerate(columns) for dimension in column.dims}
        self._owners = tuple([owners[dimension] for dimension in sorted(owners)])

    @classmethod
    def of(cls, axes: Sequence[Axis], maps: Sequence[DimensionMap]) -> Points:
        """Return the chunks that `maps`, one per dimension of the grid, touch."""
        columns = []
        for dimension, each in enumerate(maps):
            if not isinstance(each, Indexed):
                columns.append(_of_axis(axes[dimension], dimension, each))
            elif each.group == dimension:
                dims = group_dims(maps, dimension)
                own = [axes[other] for other in dims]
                columns.append(_of_points(own, dims, flat_indices(maps, dims), slice(0, each.indices.size)))
        return cls(columns)

    def __len__(self) -> int:
        return prod([column.number for column in self._columns])

    def __iter__(self) -> Iterator[PointProjection | ChunkProjection]:
        if len(self) == 0:
            return iter(())
        first, *others = self._columns
        pools = [list(column.parts()) for column in others]
        if first.number > LAZY_FROM:
            # `product` would hold a list of it.
            return chain.from_iterable(map(self._part, product((each,), *pools)) for each in first.parts())
        return map(self._part, product(first.parts(), *pools))

    def _part(self, parts: tuple[AnyPart, ...]) -> PointProjection | ChunkProjection:
        if all([isinstance(part, DimPart) for part in parts]):
            # What index arrays take of this chunk is what slices would take.
            return ChunkProjection(parts)  # type: ignore[arg-type]
        return PointProjection(parts, self._owners)

    def numbered(self, grid_shape: Sequence[int]) -> Iterator[tuple[int, PointProjection | ChunkProjection]]:
        """Yield each part with its chunk's linear index, in C order, in a grid of `grid_shape`."""
        strides = strides_of(grid_shape)
        for part in self:
            yield sum(map(mul, part.coords, strides)), part
