"""Projections of index arrays onto chunks. Costs grow with the number of points, not with the grid.

A mixed index reads and writes array elements by integers, slices and groups of index arrays. The position of the axes
of index arrays follows their order. In numpy's own rule it depends on the slices between them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, product, repeat
from math import prod
from operator import mul
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from aiozarr.grid.axes import Axis, AxisSelection, BasicMap, Indices, RegularAxis
from aiozarr.grid.index_groups import (
    AxisOrGroupSelection,
    GroupSelection,
    Positions,
    SplitGroup,
    flat_indices,
    group_dims,
    sub_positions,
)
from aiozarr.grid.projection import (
    MAX_CACHED_SELECTIONS,
    AnyArray,
    ChunkProjection,
    ChunkSelection,
    CoreRegion,
    Projection,
    moved_to_start,
    strides_of,
)
from aiozarr.grid.transform import DimensionMap, Indexed

T = TypeVar("T")


class PointProjection:
    """A `ChunkSelection` of index arrays, slices and integers.

    Args:
        selections: one per core axis and per dimension without a core axis, in the order of their first dimensions.
        owners: for each dimension of the grid, the number of its selection.
    """

    __slots__ = ("owners", "selections")

    def __init__(self, selections: tuple[AxisOrGroupSelection, ...], owners: tuple[int, ...]) -> None:
        self.selections = selections
        self.owners = owners

    @property
    def coords(self) -> tuple[int, ...]:
        """Index of the chunk in the grid."""
        return tuple(self._by_dimension(lambda selection: selection.chunk, lambda selection: selection.chunks))

    @property
    def extents(self) -> tuple[int, ...]:
        """Number of elements of the chunk inside the array, per dimension."""
        return tuple(self._by_dimension(lambda selection: selection.extent, lambda selection: selection.extents))

    @property
    def size(self) -> int:
        """Number of selected elements. Repeated elements count repeatedly."""
        return prod([selection.taken for selection in self.selections])

    @property
    def point_count(self) -> int:
        """Number of points of index arrays in this chunk."""
        return sum([selection.taken for selection in self.selections if isinstance(selection, GroupSelection)])

    @property
    def is_complete(self) -> bool:
        """True only if every element of the chunk inside the array is selected."""
        return all([selection.is_complete for selection in self.selections])

    def whole_window(self, out: AnyArray, shape: tuple[int, ...]) -> None:
        """Return None, because index arrays are not checked for complete chunks in order."""

    def window(self, out: AnyArray) -> None:
        """Return None, because the positions do not form a view."""

    def gather(self, chunk: AnyArray) -> AnyArray:
        """Return a copy of the selected elements of `chunk`."""
        return self._in_chunk().get(chunk)

    def scatter(self, out: AnyArray, elements: AnyArray) -> None:
        """Write the result of `gather` to its positions in `out`."""
        self._in_core().set(out, elements)

    def fill(self, out: AnyArray, value: AnyArray) -> None:
        """Write `value` to all positions of the elements in `out`."""
        self._in_core().fill(out, value)

    def take(self, values: AnyArray) -> AnyArray:
        """Return the elements of `values` at the positions of the selection."""
        return self._in_core().get(values)

    def put(self, chunk: AnyArray, elements: AnyArray) -> None:
        """Write the result of `take` into `chunk`. The last value of an element that is selected repeatedly stays."""
        self._in_chunk().set(chunk, elements)

    def inner_chunks(self, axes: Sequence[RegularAxis]) -> PointProjections:
        """Return the selections of the touched inner chunks. `axes` are those of the inner grid."""
        clipped = [RegularAxis(axis.length, n) for axis, n in zip(axes, self.extents, strict=True)]
        core_axes = []
        for number, selection in enumerate(self.selections):
            own = [axis for axis, owner in zip(clipped, self.owners, strict=True) if owner == number]
            if isinstance(selection, GroupSelection):
                core_axes.append(_of_points(own, selection.dims, selection.inner, selection.out))
            else:
                core_axes.append(_of_axis(own[0], self.owners.index(number), selection.as_map(), selection.offset))
        return PointProjections(core_axes)

    def rebased(self) -> tuple[tuple[int, ...], CoreRegion, PointProjection]:
        """Return the selection for an output of these elements alone.

        Returns: the shape of that output, its region in the full output, and the selection.
        """
        pairs = [(selection.taken, selection.out) for selection in self.selections if selection.out is not None]
        moved = [
            selection._replace(out=slice(0, selection.taken))
            if isinstance(selection, GroupSelection)
            else moved_to_start(selection)
            for selection in self.selections
        ]
        return (
            tuple([taken for taken, _ in pairs]),
            tuple([out for _, out in pairs]),
            PointProjection(tuple(moved), self.owners),
        )

    def _in_chunk(self) -> MixedIndex:
        items = self._by_dimension(lambda selection: selection.selection, lambda selection: selection.inner)
        return MixedIndex(items, self.owners, range(len(self.selections)))

    def _in_core(self) -> MixedIndex:
        items = [selection.out for selection in self.selections if selection.out is not None]
        return MixedIndex(items, range(len(items)), range(len(items)))

    def _by_dimension(
        self, of_axis: Callable[[AxisSelection], T], of_group: Callable[[GroupSelection], Sequence[T]]
    ) -> list[T]:
        """Return one value per dimension."""
        values = []
        for dimension, owner in enumerate(self.owners):
            selection = self.selections[owner]
            if isinstance(selection, GroupSelection):
                values.append(of_group(selection)[selection.dims.index(dimension)])
            else:
                values.append(of_axis(selection))
        return values

    def __repr__(self) -> str:
        return f"PointProjection({self.coords}, {self.size} elements)"


class ScatteredPoints(NamedTuple):
    """A `ChunkSelection` of points along all dimensions. All but two numbers is looked up when it is needed.

    It is a tuple, so that `map` makes a million of them without bytecode per chunk.

    Attributes:
        group: the points in all chunks.
        number: the number of this chunk among those that they touch.
    """

    group: SplitGroup
    number: int

    @property
    def resolved(self) -> PointProjection | ChunkProjection:
        """The same selection by lists, or by slices if these have the same points."""
        return _projection((self.group.select(self.number),), (0,) * len(self.group.dims))

    @property
    def coords(self) -> tuple[int, ...]:
        """Index of the chunk in the grid."""
        return self.group.coords(self.number)

    @property
    def extents(self) -> tuple[int, ...]:
        """Number of elements of the chunk inside the array, per dimension."""
        return self.group.extents(self.number)

    @property
    def size(self) -> int:
        """Number of selected elements. Repeated elements count repeatedly."""
        bounds = self.group.bounds
        return int(bounds[self.number + 1] - bounds[self.number])

    @property
    def point_count(self) -> int:
        """Number of points in this chunk."""
        return self.size

    @property
    def is_complete(self) -> bool:
        """True only if every element of the chunk inside the array is selected."""
        return self.size >= prod(self.extents) and self.resolved.is_complete

    def whole_window(self, out: AnyArray, shape: tuple[int, ...]) -> AnyArray | None:
        """Return a view of `out` over the chunk if the points are all of its elements, in order; else None."""
        return self.resolved.whole_window(out, shape) if self.size == prod(shape) else None

    def window(self, out: AnyArray) -> AnyArray | None:
        """Return the positions of the elements in `out` as a view, or None if they do not form a view."""
        return self.resolved.window(out)

    def gather(self, chunk: AnyArray) -> AnyArray:
        """Return a copy of the selected elements of `chunk`."""
        elements: AnyArray = chunk[self._inner]
        return elements

    def scatter(self, out: AnyArray, elements: AnyArray) -> None:
        """Write the result of `gather` to its positions in `out`."""
        out[self._out] = elements

    def fill(self, out: AnyArray, value: AnyArray) -> None:
        """Write `value` to all positions of the elements in `out`."""
        out[self._out] = value

    def take(self, values: AnyArray) -> AnyArray:
        """Return the elements of `values` at the positions of the selection."""
        elements: AnyArray = values[self._out]
        return elements

    def put(self, chunk: AnyArray, elements: AnyArray) -> None:
        """Write the result of `take` into `chunk`. The last value of an element that is selected repeatedly stays."""
        chunk[self._inner] = elements

    def inner_chunks(self, axes: Sequence[RegularAxis]) -> PointProjections | Projection:
        """Return the selections of the touched inner chunks. `axes` are those of the inner grid."""
        return self.resolved.inner_chunks(axes)

    def rebased(self) -> tuple[tuple[int, ...], CoreRegion, PointProjection | ChunkProjection]:
        """Return the selection for an output of these elements alone.

        Returns: the shape of that output, its region in the full output, and the selection.
        """
        return self.resolved.rebased()

    @property
    def _inner(self) -> tuple[Indices, ...]:
        return self.group.points(self.number)[0]

    @property
    def _out(self) -> Positions:
        return self.group.points(self.number)[1]


class CoreAxisSelections(NamedTuple):
    """The selections along one core axis, or along one dimension without a core axis.

    Attributes:
        dims: the dimensions.
        number: number of selections.
        generate: returns the selections.
    """

    dims: tuple[int, ...]
    number: int
    generate: Callable[[], Iterable[AxisOrGroupSelection]]


def _of_axis(axis: Axis, dimension: int, selected: BasicMap, offset: int = 0) -> CoreAxisSelections:
    return CoreAxisSelections((dimension,), axis.count(selected), lambda: axis.split(selected, offset))


def _of_points(
    axes: Sequence[Axis], dims: tuple[int, ...], lists: Sequence[Indices], positions: Positions
) -> CoreAxisSelections:
    group = SplitGroup(axes, dims, lists, positions)
    return CoreAxisSelections(dims, len(group), lambda: group)


class PointProjections:
    """The chunks that index arrays touch, as an iterable: the product of the selections of all core axes."""

    def __init__(self, core_axes: Sequence[CoreAxisSelections]) -> None:
        self._core_axes = tuple(core_axes)
        owners = {dimension: number for number, core_axis in enumerate(core_axes) for dimension in core_axis.dims}
        self._owners = tuple([owners[dimension] for dimension in sorted(owners)])

    @classmethod
    def of(cls, axes: Sequence[Axis], maps: Sequence[DimensionMap]) -> PointProjections:
        """Return the projections of `maps`, one per dimension of the grid."""
        core_axes = []
        for dimension, each in enumerate(maps):
            if not isinstance(each, Indexed):
                core_axes.append(_of_axis(axes[dimension], dimension, each))
            elif each.group == dimension:
                dims = group_dims(maps, dimension)
                own = [axes[other] for other in dims]
                core_axes.append(_of_points(own, dims, flat_indices(maps, dims), slice(0, each.indices.size)))
        return cls(core_axes)

    def __len__(self) -> int:
        return prod([core_axis.number for core_axis in self._core_axes])

    def __iter__(self) -> Iterator[ScatteredPoints | PointProjection | ChunkProjection]:
        if len(self) == 0:
            return iter(())
        first, *others = self._core_axes
        if not others:
            selections = first.generate()
            if isinstance(selections, SplitGroup):
                return map(tuple.__new__, repeat(ScatteredPoints), zip(repeat(selections), range(first.number)))
            return map(self._projection, zip(selections, strict=True))
        pools = [list(core_axis.generate()) for core_axis in others]
        if first.number > MAX_CACHED_SELECTIONS:
            # `product` would keep a list of them.
            return chain.from_iterable(map(self._projection, product((each,), *pools)) for each in first.generate())
        return map(self._projection, product(first.generate(), *pools))

    def _projection(self, selections: tuple[AxisOrGroupSelection, ...]) -> PointProjection | ChunkProjection:
        return _projection(selections, self._owners)

    def numbered(
        self, grid_shape: Sequence[int]
    ) -> Iterator[tuple[int, ScatteredPoints | PointProjection | ChunkProjection]]:
        """Yield the linear index of each chunk in a grid of `grid_shape`, in C order, and its selection."""
        strides = strides_of(grid_shape)
        for selection in self:
            yield sum(map(mul, selection.coords, strides)), selection


def _projection(
    selections: tuple[AxisOrGroupSelection, ...], owners: tuple[int, ...]
) -> PointProjection | ChunkProjection:
    if all([isinstance(selection, AxisSelection) for selection in selections]):
        # In this chunk the index arrays are equal to slices.
        return ChunkProjection(selections)  # type: ignore[arg-type]
    return PointProjection(selections, owners)


def scatter_points(out: AnyArray, chunks: AnyArray, projections: Sequence[ChunkSelection]) -> bool:
    """Copy the selected points of several `chunks`, stacked along the first axis, to `out` in one assignment.

    Returns: False, without copying, if they are not points of one group and nothing else.
    """
    first = projections[0]
    if not isinstance(first, ScatteredPoints):
        return False
    group = first.group
    numbers = [each.number for each in projections if isinstance(each, ScatteredPoints) and each.group is group]
    if len(numbers) < len(projections):
        return False
    starts, stops = group.bounds[numbers], group.bounds[1:][numbers]
    counts = stops - starts
    rows = np.repeat(np.arange(len(numbers)), counts)
    taken: Positions = slice(int(starts[0]), int(stops[-1]))
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        taken = np.arange(len(rows)) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    out[sub_positions(group.positions, taken)] = chunks[(rows, *[each[taken] for each in group.inner])]
    return True


Item: TypeAlias = int | slice | NDArray[np.int64]


class MixedIndex:
    """An index of integers, slices and grouped index arrays.

    Args:
        items: one per axis of the array.
        labels: the group of each item. Index arrays of one label are iterated together and form one axis of the result.
        order: labels in the order of the axes of the result; integers have no axis.
    """

    __slots__ = ("_back", "_basic", "_front", "_key")

    def __init__(self, items: Sequence[Item], labels: Sequence[Hashable], order: Sequence[Hashable]) -> None:
        # Integers and slices first, which makes a view. Then its indexed axes are moved to the front.
        self._basic = (*[slice(None) if isinstance(item, np.ndarray) else item for item in items], ...)
        kept = [(item, label) for item, label in zip(items, labels, strict=True) if not isinstance(item, int)]
        indexed = [axis for axis, (item, _) in enumerate(kept) if isinstance(item, np.ndarray)]
        sliced = [axis for axis, (item, _) in enumerate(kept) if isinstance(item, slice)]
        self._front = (*indexed, *sliced)
        groups = list(dict.fromkeys(kept[axis][1] for axis in indexed))
        result = [*groups, *[kept[axis][1] for axis in sliced]]
        self._back = tuple([result.index(label) for label in order if label in result])
        self._key: tuple[Any, ...] = (
            *[_along(kept[axis][0], groups.index(kept[axis][1]), len(groups)) for axis in indexed],
            ...,
        )

    def get(self, array: AnyArray) -> AnyArray:
        """Return the elements, as a view if there are no index arrays."""
        result: AnyArray = array[self._basic].transpose(self._front)[self._key]
        return result.transpose(self._back)

    def set(self, array: AnyArray, values: AnyArray) -> None:
        """Assign `values`, of the shape of `get`. The last value of an element that is indexed repeatedly stays."""
        array[self._basic].transpose(self._front)[self._key] = values.transpose(np.argsort(self._back))

    def fill(self, array: AnyArray, value: AnyArray) -> None:
        """Assign one value to all elements."""
        array[self._basic].transpose(self._front)[self._key] = value


def _along(item: Any, axis: int, ndim: int) -> AnyArray:
    array: AnyArray = item
    return array.reshape((1,) * axis + (-1,) + (1,) * (ndim - 1 - axis))
