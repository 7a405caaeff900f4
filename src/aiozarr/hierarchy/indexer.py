"""The objects of `oindex`, `vindex` and `blocks`, and the parsing of their selections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from aiozarr.errors import SelectionError
from aiozarr.grid.transform import IndexTransform

if TYPE_CHECKING:
    from aiozarr.grid.advanced import ArraySelection
    from aiozarr.grid.chunk_grid import ChunkGrid
    from aiozarr.grid.fields import FieldNames

V = TypeVar("V")


class Indexer(Generic[V]):
    """`indexer[selection]` is a view, made without I/O."""

    __slots__ = ("_select",)

    # Without this, iteration would fall back to indexer[0], indexer[1], ...
    __iter__ = None

    def __init__(self, select: Callable[[ArraySelection], V]) -> None:
        self._select = select

    def __getitem__(self, selection: ArraySelection) -> V:
        """Return the view of a selection.

        Raises:
            SelectionError: it does not fit; also an `IndexError`.
        """
        return self._select(selection)


class BlockIndexer(Indexer[V]):
    """`blocks[selection]` is a view of stored objects. Iterating yields the region of each, a tuple of slices."""

    __slots__ = ("_grid",)

    def __init__(self, select: Callable[[ArraySelection], V], grid: ChunkGrid) -> None:
        super().__init__(select)
        self._grid = grid

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of stored objects along each dimension."""
        return self._grid.shape

    def __len__(self) -> int:
        return length_of(self.shape)

    def __iter__(self) -> Iterator[tuple[slice, ...]]:  # type: ignore[override]  # other indexers cannot be iterated
        return block_regions(self._grid)


def length_of(shape: tuple[int, ...]) -> int:
    """Return the length of the first dimension.

    Raises:
        TypeError: there are no dimensions.
    """
    if not shape:
        raise TypeError("an array without dimensions has no length")
    return shape[0]


def block_regions(grid: ChunkGrid) -> Iterator[tuple[slice, ...]]:
    """Iterate over the regions of the stored objects of a grid inside its array, in C order."""

    def along(axis: int) -> Iterator[tuple[slice, ...]]:
        if axis == grid.ndim:
            yield ()
            return
        edges, length = grid.edges(axis), grid.array_shape[axis]
        for number in range(grid.shape[axis]):
            region = slice(int(edges[number]), min(int(edges[number + 1]), length))
            for rest in along(axis + 1):
                yield (region, *rest)

    return along(0)


def select_as_numpy(transform: IndexTransform, selection: Any) -> IndexTransform:
    """Return the transform of `view[selection]`, with basic indices, and one list or mask if numpy's meaning is clear.

    Raises:
        SelectionError: as `IndexTransform.select`; also for several lists or masks, and for one of several axes that
            is not first.
    """
    items = selection if isinstance(selection, tuple) else (selection,)
    lists = [number for number, item in enumerate(items) if isinstance(item, list | range | tuple) or _ndim(item)]
    if not lists:
        return transform.select(selection)
    if len(lists) > 1:
        raise SelectionError(
            "plain brackets take at most one list or mask; use `oindex` to select on each axis separately, or "
            "`vindex` to select points"
        )
    from aiozarr.grid.advanced import parse_items, select_orthogonal, select_pointwise

    place = lists[0]
    array = parse_items((items[place],))[0]
    if isinstance(array, np.ndarray) and array.ndim > 1:
        if place or any(_is_integer(item) for item in items):
            raise SelectionError(
                "an index array of several axes in plain brackets must come first, followed by slices only; use "
                "`vindex` elsewhere, which puts its axes first"
            )
        return select_pointwise(transform, (array, *items[1:]))
    integers = [number for number, item in enumerate(items) if _is_integer(item)]
    # numpy broadcasts integers beside a list: where a slice separates them, the axis of the list comes first.
    if integers and sorted([*integers, place]) != list(range(min([*integers, place]), max([*integers, place]) + 1)):
        raise SelectionError(
            "a list and an integer separated by a slice are ambiguous in plain brackets; use `oindex`, which "
            "keeps the order of the axes, or `vindex`, which puts the axis of the list first"
        )
    return select_orthogonal(transform, (*items[:place], array, *items[place + 1 :]))


def _ndim(item: object) -> int:
    return int(getattr(item, "ndim", 0))


def _is_integer(item: object) -> bool:
    return item is not None and not isinstance(item, slice | EllipsisType | list | tuple | range) and not _ndim(item)


def split_fields(selection: object) -> tuple[FieldNames | None, tuple[object, ...]]:
    """Return the field names in a selection, and its other items. Fields are applied first, wherever they are.

    Several names, or a list of names, select a structure of these fields.
    """
    items = selection if isinstance(selection, tuple) else (selection,)
    # Items are not compared by ==: an item may be an array.
    names = [item for item in items if isinstance(item, str)]
    lists = [item for item in items if isinstance(item, list) and item and all(isinstance(each, str) for each in item)]
    if not names and not lists:
        return None, items
    others = tuple([item for item in items if not isinstance(item, str) and not any(item is each for each in lists)])
    if len(lists) > 1 or (lists and names):
        raise SelectionError("select one field, or several in one list")
    if lists:
        return tuple(lists[0]), others
    return (names[0] if len(names) == 1 else tuple(names)), others


def block_slices(grid: ChunkGrid, selection: ArraySelection) -> tuple[slice, ...]:
    """Return the slices of elements of a selection of stored objects: integers, slices of step 1 and `...`.

    Raises:
        SelectionError: an index is out of range, a slice has a step, or an item has another type.
    """
    from aiozarr.grid.advanced import expand, parse_items

    slices = []
    for axis, item in enumerate(expand(parse_items(selection), grid.ndim, wide_masks=False)):
        count = grid.shape[axis] if axis < grid.ndim else 0
        if isinstance(item, slice):
            if item.step not in (None, 1):
                raise SelectionError(f"the slice of axis {axis} has a step, which blocks do not support")
            try:
                start, stop, _ = item.indices(count)
            except TypeError as error:
                raise SelectionError(f"the slice {item!r} of axis {axis} has a bound that is not an integer") from error
        elif isinstance(item, int):
            if not -count <= item < count:
                raise SelectionError(f"block {item} is out of range for axis {axis} with {count} blocks")
            start = item % count
            stop = start + 1
        else:
            raise SelectionError("expected integers, slices and '...' as block indices")
        edges = grid.edges(axis)
        slices.append(slice(int(edges[start]), int(edges[stop])) if start < stop else slice(0, 0))
    return tuple(slices)
