"""Chunk selections from pairs of numpy indices: one of a chunk and one of an output, as other libraries split them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from aiozarr.grid.axes import AxisSelection, Indices
from aiozarr.grid.index_groups import (
    AxisOrGroupSelection,
    GroupSelection,
    Positions,
    as_progression,
    compact_positions,
)
from aiozarr.grid.points import PointProjection
from aiozarr.grid.projection import ChunkProjection, ChunkSelection

NumpyIndex: TypeAlias = tuple[Any, ...]
"""Integers, slices and index arrays or masks of one dimension; index arrays orthogonal (`np.ix_`) or pointwise."""


def select_by_numpy(
    number: int,
    shape: Sequence[int],
    chunk_index: NumpyIndex,
    out_index: NumpyIndex,
    *,
    is_complete: bool = False,
    dropped: Sequence[int] = (),
) -> ChunkSelection | None:
    """Return the selection that moves `chunk[chunk_index]` to and from `out[out_index]`.

    Args:
        number: the chunk's number, for `coords` of the selection.
        shape: the chunk's shape.
        chunk_index: the elements of the chunk; one item per dimension.
        out_index: their positions in the output; one item per axis, or one for all points of pointwise index arrays.
        is_complete: True if these are all elements of the chunk that lie inside the array.
        dropped: dimensions of one index that have no axis in the output.

    Returns: the selection, or None if the indices are of another kind.
    """
    if len(chunk_index) != len(shape):
        return None
    items = [_normalised(each, length) for each, length in zip(chunk_index, shape, strict=True)]
    arrays = [each for each in items if isinstance(each, np.ndarray)]
    if len(arrays) > 1 and all([each.ndim == 1 for each in arrays]):
        return None if dropped else _select_points(number, shape, items, out_index)
    selections: list[AxisOrGroupSelection] = []
    places = iter(out_index)
    for dimension, (item, length) in enumerate(zip(items, shape, strict=True)):
        if isinstance(item, np.ndarray):
            item = item.reshape(-1)
            if dimension in dropped:
                if len(item) != 1:
                    return None
                item = int(item[0])
        elif dimension in dropped and isinstance(item, slice):
            item = item.start
        selected = _select_axis(number, dimension, length, item, places, is_complete=is_complete)
        if selected is None:
            return None
        selections.append(selected)
    if next(places, None) is not None:
        return None
    if all([isinstance(each, AxisSelection) for each in selections]):
        return ChunkProjection(selections)  # type: ignore[arg-type]
    return PointProjection(tuple(selections), tuple(range(len(shape))))


class BoxSelector:
    """Selects chunks of one list by slices and integers, as `select_by_numpy` does.

    The chunks of a box repeat the indices of each dimension as the same objects, so each pair of them is converted only
    once. For a chunk of two dimensions that takes 1.6 instead of 5.3 µs.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int, bool], AxisSelection] = {}
        self._indices: list[tuple[Any, Any]] = []  # alive, so that another object cannot have the identity of one

    def select(
        self, number: int, shape: Sequence[int], chunk_index: NumpyIndex, out_index: NumpyIndex, *, is_complete: bool
    ) -> ChunkProjection | None:
        """Return the selection, or None if there are other indices. `coords` has the number first."""
        parts: list[AxisSelection] = []
        places = iter(out_index)
        if len(chunk_index) != len(shape):
            return None
        for item, length in zip(chunk_index, shape, strict=True):
            place = next(places, None) if type(item) is slice else None
            key = (id(item), id(place), length, is_complete)
            found = self._known.get(key)
            if found is None:
                if not isinstance(item, slice | int | np.integer):
                    return None
                normalised = _normalised(item, length)
                selected = _select_axis(0, 0, length, normalised, iter((place,)), is_complete=is_complete)
                if not isinstance(selected, AxisSelection):
                    return None
                found = self._known[key] = selected
                self._indices.append((item, place))
            parts.append(found)
        if next(places, None) is not None:
            return None
        if parts:
            # `_replace` takes as long as all the rest.
            parts[0] = tuple.__new__(AxisSelection, (number, *parts[0][1:]))
        return ChunkProjection(parts)


def output_extents(selections: Sequence[ChunkSelection]) -> tuple[int, ...]:
    """Return the least shape of an output that has all positions of `selections`."""
    extents: list[int] = []
    for selection in selections:
        parts = selection if isinstance(selection, ChunkProjection) else _parts(selection)
        ends = [_end(each.out) for each in parts if each.out is not None]
        extents = ends if not extents else [max(pair) for pair in zip(extents, ends, strict=True)]
    return tuple(extents)


def _parts(selection: ChunkSelection) -> Sequence[AxisOrGroupSelection]:
    assert isinstance(selection, PointProjection)
    return selection.selections


def _end(positions: Positions) -> int:
    return int(positions.stop) if isinstance(positions, slice) else int(positions.max(initial=-1)) + 1


def _normalised(item: Any, length: int) -> Any:
    """Return an integer as `int`, a slice with its three numbers, and an index array or mask as positions."""
    if isinstance(item, slice):
        return slice(*item.indices(length))
    if isinstance(item, np.ndarray) and item.ndim:
        return item.nonzero()[0] if item.dtype == bool and item.ndim == 1 else item
    if isinstance(item, bool | np.bool_):
        return None
    return int(item) if isinstance(item, int | np.integer | np.ndarray) else None


def _select_axis(
    number: int, dimension: int, length: int, item: Any, places: Iterator[Any], *, is_complete: bool
) -> AxisOrGroupSelection | None:
    if isinstance(item, int):
        inside = item if item >= 0 else item + length
        return AxisSelection(number, inside, None, inside, 1, 1, 0, 1 if is_complete else length)
    positions = _positions(next(places, None))
    if positions is None:
        return None
    if isinstance(item, slice):
        taken = len(range(item.start, item.stop, item.step))
        progression: tuple[int, int] | None = (item.start, item.step)
    elif isinstance(item, np.ndarray) and item.dtype.kind in "iu" and len(item):
        taken = len(item)
        progression = as_progression(item) if isinstance(positions, slice) else None
    else:
        return None
    if not taken or taken != (positions.stop - positions.start if isinstance(positions, slice) else len(positions)):
        return None
    extent = taken if is_complete else length
    if progression is None or not isinstance(positions, slice):
        indices: Indices = np.arange(item.start, item.stop, item.step) if isinstance(item, slice) else item
        inner, positions = _ascending([indices.astype(np.int64, copy=False)], positions)
        return GroupSelection((dimension,), (number,), inner, positions, taken, (extent,))
    first, step = progression
    stop = first + step * taken
    selection = slice(first, stop if stop >= 0 else None, step)
    return AxisSelection(number, selection, positions, first, step, taken, positions.start, extent)


def _select_points(
    number: int, shape: Sequence[int], items: Sequence[Any], out_index: NumpyIndex
) -> PointProjection | None:
    """Return the selection of points; a scalar or a slice among the index arrays is not one of points."""
    positions = _positions(out_index[0]) if len(out_index) == 1 else None
    if positions is None or not all([isinstance(each, np.ndarray) and each.dtype.kind in "iu" for each in items]):
        return None
    taken = len(items[0])
    count = positions.stop - positions.start if isinstance(positions, slice) else len(positions)
    if not taken or count != taken or any([len(each) != taken for each in items]):
        return None
    dims = tuple(range(len(shape)))
    inner, positions = _ascending([each.astype(np.int64, copy=False) for each in items], positions)
    group = GroupSelection(dims, (number,) * len(dims), inner, positions, taken, tuple(shape))
    return PointProjection((group,), (0,) * len(dims))


def _ascending(inner: Sequence[Indices], positions: Positions) -> tuple[tuple[Indices, ...], Positions]:
    """Return the points in the order of their positions, as a `GroupSelection` has them."""
    if isinstance(positions, slice):
        return tuple(inner), positions
    order = np.argsort(positions, kind="stable")
    return tuple([each[order] for each in inner]), compact_positions(positions[order])


def _positions(item: Any) -> Positions | None:
    """Return positions along an axis of the output: a slice of step 1 that begins at 0 or later, or index arrays."""
    if isinstance(item, slice):
        if item.stop is None or item.step not in (None, 1):
            return None
        start = 0 if item.start is None else int(item.start)
        return slice(start, int(item.stop)) if 0 <= start <= item.stop else None
    if not isinstance(item, np.ndarray) or item.dtype.kind not in "iu" or not item.size:
        return None
    flat = item.reshape(-1).astype(np.int64, copy=False)
    return compact_positions(flat) if bool((flat[1:] > flat[:-1]).all()) else flat
