"""Conversion between the shape of a view and its core shape, the shape in which the engine moves elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aiozarr.grid.projection import AnyArray, CoreRegion
from aiozarr.grid.transform import GroupAxis, Indexed, IndexTransform
from aiozarr.memory import empty


def new_array(transform: IndexTransform, dtype: np.dtype[Any]) -> AnyArray:
    """Return an uninitialised array of the shape of the view that `core_array` can view without a copy."""
    if not _has_groups(transform):
        return empty(transform.shape, dtype)
    order = _grouped_order(transform)
    grouped = empty([transform.shape[axis] for axis in order], dtype)
    return grouped.transpose(np.argsort(order))


def core_array(transform: IndexTransform, array: AnyArray, *, may_copy: bool = False) -> AnyArray | None:
    """Return `array`, of the shape of the view, in the shape `transform.core_shape`.

    Args:
        transform: the transform of the view, not empty and without repeated elements.
        array: values in the shape of the view.
        may_copy: return a copy if a view is impossible.

    Returns: a view of `array`. If several axes of an index array are not contiguous in memory, no view is possible: a
        copy, or None without `may_copy`.
    """
    if not _has_groups(transform):
        return transform.without_new_axes(array) if None in transform.axes else array
    order = _grouped_order(transform)
    grouped = array.transpose(order)
    lengths: dict[int, list[int]] = {}
    adjacent: list[tuple[int, list[int]]] = []
    for place, axis in enumerate(order):
        dimension = _core_dimension_or_none(transform.axes[axis])
        if dimension is None:
            continue
        lengths.setdefault(dimension, []).append(grouped.shape[place])
        if adjacent and adjacent[-1][0] == dimension:
            adjacent[-1][1].append(place)
        else:
            adjacent.append((dimension, [place]))
    if not may_copy and not all([_is_one_axis(grouped, places) for _, places in adjacent]):
        return None
    core = grouped.reshape([np.prod(lengths[dimension], dtype=int) for dimension, _ in adjacent])
    return core.transpose(np.argsort([dimension for dimension, _ in adjacent]))


def view_region(
    transform: IndexTransform, region: CoreRegion, block: AnyArray
) -> tuple[tuple[slice | AnyArray, ...], AnyArray]:
    """Return the region of a block of core elements in an array of the shape of the view, and the block in its shape.

    The region has one index per axis of the view: slices, or index arrays that broadcast to the shape of the block.
    """
    axes = transform.axes
    dimensions = list(
        dict.fromkeys(dimension for dimension in map(_core_dimension_or_none, axes) if dimension is not None)
    )
    order = sorted(dimensions)
    places = [order.index(dimension) for dimension in dimensions]
    block = block.transpose(places)
    along = {dimension: region[place] for dimension, place in zip(dimensions, places, strict=True)}
    shapes = _group_shapes(transform)
    if all([isinstance(along[c], slice) and len(shapes.get(c, (0,))) == 1 for c in dimensions]):
        pairs = list(zip(axes, transform.shape, strict=True))
        full = tuple([slice(0, length) if axis is None else along[_core_dimension(axis)] for axis, length in pairs])
        if None in axes:
            block = block[tuple([None if axis is None else slice(None) for axis in axes])]
        if transform.repeats:
            sides = zip(pairs, block.shape, strict=True)
            block = np.broadcast_to(block, [length if axis is None else side for (axis, length), side in sides])
        return full, block
    # New axes that repeat the elements of the block are the first axes.
    repeating = [place for place, axis in enumerate(axes) if axis is None and transform.shape[place] > 1]
    if repeating:
        block = np.broadcast_to(block, [*[transform.shape[place] for place in repeating], *block.shape])
    index: list[AnyArray] = []
    for place, axis in enumerate(axes):
        if axis is None:
            number = repeating.index(place) if place in repeating else len(repeating)
            positions = np.arange(transform.shape[place])
        else:
            dimension = _core_dimension(axis)
            number = len(repeating) + dimensions.index(dimension)
            positions = _positions(along[dimension])
            if isinstance(axis, GroupAxis):
                positions = np.unravel_index(positions, shapes[dimension])[axis.axis]
        index.append(positions.reshape((1,) * number + (-1,) + (1,) * (block.ndim - 1 - number)))
    return tuple(index), block


def _core_dimension_or_none(axis: int | GroupAxis | None) -> int | None:
    """Return the first dimension of the core axis of an axis of the view, or None for a new axis."""
    return axis.group if isinstance(axis, GroupAxis) else axis


def _core_dimension(axis: int | GroupAxis) -> int:
    return axis.group if isinstance(axis, GroupAxis) else axis


def _has_groups(transform: IndexTransform) -> bool:
    return any([isinstance(axis, GroupAxis) for axis in transform.axes])


def _grouped_order(transform: IndexTransform) -> list[int]:
    """Return the axes of the view in their order, but with the axes of each group adjacent."""
    first: dict[int, int] = {}
    for place, axis in enumerate(transform.axes):
        if isinstance(axis, GroupAxis):
            first.setdefault(axis.group, place)
    rank = [first[axis.group] if isinstance(axis, GroupAxis) else place for place, axis in enumerate(transform.axes)]
    return sorted(range(transform.ndim), key=rank.__getitem__)


def _group_shapes(transform: IndexTransform) -> dict[int, tuple[int, ...]]:
    return {dimension: each.indices.shape for dimension, each in enumerate(transform.maps) if isinstance(each, Indexed)}


def _is_one_axis(array: AnyArray, places: Sequence[int]) -> bool:
    """Return whether these adjacent axes can be merged into one without a copy."""
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
