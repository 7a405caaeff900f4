"""The objects behind `oindex`, `vindex` and `blocks`: brackets with a meaning of their own, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from aiozarr.errors import SelectionError
from aiozarr.grid import ArraySelection, ChunkGrid, FieldNames
from aiozarr.grid.indices import expand, parse_items

V = TypeVar("V")


class Indexer(Generic[V]):
    """`indexer[selection]` is a view, made without I/O."""

    __slots__ = ("_select",)

    # Without this, Python would try indexer[0], indexer[1], ... as it does for whatever can be indexed.
    __iter__ = None

    def __init__(self, select: Callable[[ArraySelection], V]) -> None:
        self._select = select

    def __getitem__(self, selection: ArraySelection) -> V:
        """Return the view of a selection.

        Raises:
            SelectionError: it does not fit; also an `IndexError`.
        """
        return self._select(selection)


def split_fields(selection: object) -> tuple[FieldNames | None, tuple[object, ...]]:
    """Return the fields that a selection names, and its other items; fields come first in meaning wherever they stand.

    Several names, or a list of them, keep a structure of these fields.
    """
    items = selection if isinstance(selection, tuple) else (selection,)
    # Nothing is compared here: an item may be an array.
    names = [item for item in items if isinstance(item, str)]
    lists = [item for item in items if isinstance(item, list) and item and all(isinstance(each, str) for each in item)]
    if not names and not lists:
        return None, items
    others = tuple([item for item in items if not isinstance(item, str) and not any(item is each for each in lists)])
    if len(lists) > 1 or (lists and names):
        raise SelectionError("a selection names fields one by one or in one list")
    if lists:
        return tuple(lists[0]), others
    return (names[0] if len(names) == 1 else tuple(names)), others


def block_slices(grid: ChunkGrid, selection: ArraySelection) -> tuple[slice, ...]:
    """Return the elements of a selection of stored objects: integers, slices of step 1 and `...`.

    Raises:
        SelectionError: an index out of range, a step, or something that is none of these.
    """
    taken = []
    for axis, item in enumerate(expand(parse_items(selection), grid.ndim, wide_masks=False)):
        count = grid.shape[axis] if axis < grid.ndim else 0
        if isinstance(item, slice):
            if item.step not in (None, 1):
                raise SelectionError(f"the slice of axis {axis} has a step: blocks are taken one by one")
            try:
                start, stop, _ = item.indices(count)
            except TypeError as error:
                raise SelectionError(f"the slice {item!r} of axis {axis} has a part that is no integer") from error
        elif isinstance(item, int):
            if not -count <= item < count:
                raise SelectionError(f"block {item} is out of range for axis {axis}, which has {count} blocks")
            start = item % count
            stop = start + 1
        else:
            raise SelectionError("blocks are selected by integers, slices and '...'")
        edges = grid.edges(axis)
        taken.append(slice(int(edges[start]), int(edges[stop])) if start < stop else slice(0, 0))
    return tuple(taken)
