"""Between the shape that a view has and the core shape in which engines move its elements: axes only, no copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aiozarr.grid.projection import AnyArray, CoreRegion
from aiozarr.grid.transform import GroupAxis, Indexed, IndexTransform
from aiozarr.memory import empty


def new_array(transform: IndexTransform, dtype: np.dtype[Any]) -> AnyArray:
    """Return an uninitialised array of the view's shape for which there is a core array."""
    order = _grouped_order(transform)
    if order == sorted(order):
        return empty(transform.shape, dtype)
    grouped = empty([transform.shape[axis] for axis in order], dtype)
    return grouped.transpose(np.argsort(order))


def core_array(transform: IndexTransform, array: AnyArray, *, may_copy: bool = False) -> AnyArray | None:
    """Return `array`, of the view's shape, as an array of `transform.core_shape`; it is not empty and does not repeat.

    It is a view of `array`. Where an axis of the core would need a copy (several axes of an index array that do not
    follow each other in memory), it is None, or a copy with `may_copy`.
    """
    if not _has_groups(transform):
        return transform.without_new_axes(array)
    order = _grouped_order(transform)
    grouped = array.transpose(order)
    lengths: dict[int, list[int]] = {}
    runs: list[tuple[int, list[int]]] = []
    for place, axis in enumerate(order):
        column = _column(transform.axes[axis])
        if column is None:
            continue
        lengths.setdefault(column, []).append(grouped.shape[place])
        if runs and runs[-1][0] == column:
            runs[-1][1].append(place)
        else:
            runs.append((column, [place]))
    if not may_copy and not all([_is_one_axis(grouped, places) for _, places in runs]):
        return None
    core = grouped.reshape([np.prod(lengths[column], dtype=int) for column, _ in runs])
    return core.transpose(np.argsort([column for column, _ in runs]))


def view_region(
    transform: IndexTransform, region: CoreRegion, block: AnyArray
) -> tuple[tuple[slice | AnyArray, ...], AnyArray]:
    """Return where a block of core elements goes in an array of the view's shape, and the block in the shape for it.

    The first has one index per axis of the view: slices, or index arrays that broadcast to the block's shape.
    """
    axes = transform.axes
    columns = list(dict.fromkeys(column for column in map(_column, axes) if column is not None))
    order = sorted(columns)
    places = [order.index(column) for column in columns]
    block = block.transpose(places)
    along = {column: region[place] for column, place in zip(columns, places, strict=True)}
    shapes = _group_shapes(transform)
    if all([isinstance(along[c], slice) and len(shapes.get(c, (0,))) == 1 for c in columns]):
        pairs = list(zip(axes, transform.shape, strict=True))
        full = tuple([slice(0, length) if axis is None else along[_known(axis)] for axis, length in pairs])
        if None in axes:
            block = block[tuple([None if axis is None else slice(None) for axis in axes])]
        if transform.repeats:
            sides = zip(pairs, block.shape, strict=True)
            block = np.broadcast_to(block, [length if axis is None else side for (axis, length), side in sides])
        return full, block
    # New axes that repeat the block's elements come first.
    repeating = [place for place, axis in enumerate(axes) if axis is None and transform.shape[place] > 1]
    if repeating:
        block = np.broadcast_to(block, [*[transform.shape[place] for place in repeating], *block.shape])
    index: list[AnyArray] = []
    for place, axis in enumerate(axes):
        if axis is None:
            number = repeating.index(place) if place in repeating else len(repeating)
            positions = np.arange(transform.shape[place])
        else:
            column = _known(axis)
            number = len(repeating) + columns.index(column)
            positions = _positions(along[column])
            if isinstance(axis, GroupAxis):
                positions = np.unravel_index(positions, shapes[column])[axis.axis]
        index.append(positions.reshape((1,) * number + (-1,) + (1,) * (block.ndim - 1 - number)))
    return tuple(index), block


def _column(axis: int | GroupAxis | None) -> int | None:
    """Return the first dimension of the core axis that an axis of the view runs along."""
    return axis.group if isinstance(axis, GroupAxis) else axis


def _known(axis: int | GroupAxis) -> int:
    return axis.group if isinstance(axis, GroupAxis) else axis


def _has_groups(transform: IndexTransform) -> bool:
    return any([isinstance(axis, GroupAxis) for axis in transform.axes])


def _grouped_order(transform: IndexTransform) -> list[int]:
    """Return the view's axes such that those of each group follow each other, else as they are."""
    first: dict[int, int] = {}
    for place, axis in enumerate(transform.axes):
        if isinstance(axis, GroupAxis):
            first.setdefault(axis.group, place)
    rank = [first[axis.group] if isinstance(axis, GroupAxis) else place for place, axis in enumerate(transform.axes)]
    return sorted(range(transform.ndim), key=rank.__getitem__)


def _group_shapes(transform: IndexTransform) -> dict[int, tuple[int, ...]]:
    return {dimension: each.indices.shape for dimension, each in enumerate(transform.maps) if isinstance(each, Indexed)}


def _is_one_axis(array: AnyArray, places: Sequence[int]) -> bool:
    """Return whether these axes, which follow each other, can be seen as one without a copy."""
    stride = None
    for place in reversed(places):
        if array.shape[place] == 1:
            continue
        if stride is not None and array.strides[place] != stride:
            return False
        stride = array.strides[place] * array.shape[place]
    return True


def _positions(place: Any) -> AnyArray:
    return np.arange(place.start, place.stop) if isinstance(place, slice) else np.asarray(place)
