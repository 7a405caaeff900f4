"""Orthogonal and pointwise indexing composed lazily: `oindex` and `vindex` of any index transform.

Orthogonal: each item indexes one axis, as with `np.ix_`. Pointwise: index arrays and masks broadcast against each
other, and the axes of the result come first (NEP 21 and `vindex` of TensorStore).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as as_index
from types import EllipsisType
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.errors import SelectionError
from aiozarr.grid.transform import MAX_VIEW_NDIM, Constant, GroupAxis, Indexed, IndexTransform, Strided

Indices: TypeAlias = NDArray[np.int64]


def select_orthogonal(transform: IndexTransform, selection: ArraySelection) -> IndexTransform:
    """Return the transform of `view.oindex[selection]`.

    Takes integers, slices, one `...`, new axes, and per axis a list of integers or a mask of the length of the axis.

    Raises:
        SelectionError: as `IndexTransform.select`, and for an array of several axes or a mask of another length.
    """
    basic: list[Any] = []
    arrays: dict[int, Indices] = {}
    axis = place = 0
    for item in expand(parse_items(selection), transform.ndim, wide_masks=False):
        if isinstance(item, np.ndarray):
            arrays[place] = _one_axis(item, axis, transform.shape)
            item = slice(None)
        basic.append(item)
        axis += item is not None
        place += not isinstance(item, int)
    result = transform.select(tuple(basic))
    for view_axis, indices in arrays.items():
        result = _index_axis(result, view_axis, indices)
    return result


def select_pointwise(transform: IndexTransform, selection: ArraySelection) -> IndexTransform:
    """Return the transform of `view.vindex[selection]`.

    Takes integers, slices, one `...`, new axes, integer arrays that broadcast against each other, and masks. A mask
    indexes as many axes as it has.

    Raises:
        SelectionError: as `IndexTransform.select`, and for arrays that do not broadcast or a mask of another shape.
    """
    basic: list[Any] = []
    arrays: dict[int, Indices] = {}
    axis = place = 0
    for item in expand(parse_items(selection), transform.ndim, wide_masks=True):
        if isinstance(item, np.ndarray):
            masked = item.dtype.kind == "b"
            found = unmask(item, axis, transform.shape) if masked else [wrap(item, axis, transform.shape[axis])]
            for each in found:
                arrays[place] = each
                basic.append(slice(None))
                axis += 1
                place += 1
            continue
        basic.append(item)
        axis += item is not None
        place += not isinstance(item, int)
    result = transform.select(tuple(basic))
    return _index_together(result, arrays) if arrays else result


def _one_axis(item: NDArray[Any], axis: int, shape: tuple[int, ...]) -> Indices:
    if item.ndim != 1:
        kind = "a mask" if item.dtype.kind == "b" else "an index array"
        raise SelectionError(
            f"the index of axis {axis} is {kind} of {item.ndim} axes; use `vindex` for arrays of more than one axis"
        )
    return unmask(item, axis, shape)[0] if item.dtype.kind == "b" else wrap(item, axis, shape[axis])


def _index_axis(transform: IndexTransform, axis: int, indices: Indices) -> IndexTransform:
    """Return the transform of `indices` along one axis of the view."""
    maps, axes, shape = list(transform.maps), list(transform.axes), list(transform.shape)
    along = axes[axis]
    if isinstance(along, GroupAxis):
        for dimension, each in enumerate(maps):
            if isinstance(each, Indexed) and each.group == along.group:
                maps[dimension] = _indexed_map(along.group, each.indices.take(indices, axis=along.axis))
    elif along is not None:
        maps[along] = _indexed_map(along, _resolve(maps[along], indices))
        axes[axis] = GroupAxis(along, 0)
    shape[axis] = len(indices)
    return IndexTransform(tuple(maps), tuple(axes), tuple(shape))


def _index_together(transform: IndexTransform, arrays: dict[int, Indices]) -> IndexTransform:
    """Return the transform of index arrays, by axis of the view, that are iterated together.

    All indexed dimensions become one group. Groups that are indexed along some of their axes join it. Their other axes
    follow the new axes in the shape of the group.
    """
    points = _broadcast_shape(arrays)
    indexed = [transform.axes[axis] for axis in arrays]
    old_groups = {along.group for along in indexed if isinstance(along, GroupAxis)}
    remaining = [
        axis
        for axis, along in enumerate(transform.axes)
        if axis not in arrays and isinstance(along, GroupAxis) and along.group in old_groups
    ]
    shape = points + tuple([transform.shape[axis] for axis in remaining])
    # The indices along each participating axis of the view, broadcastable to the shape of the new group.
    broadcastable: dict[int, Indices] = {
        axis: each.reshape(each.shape + (1,) * len(remaining)) for axis, each in arrays.items()
    }
    for number, axis in enumerate(remaining):
        broadcastable[axis] = np.arange(transform.shape[axis]).reshape((-1,) + (1,) * (len(remaining) - 1 - number))
    lists = {
        along: _resolve(transform.maps[along], each)
        for along, each in [(transform.axes[axis], each) for axis, each in broadcastable.items()]
        if isinstance(along, int)
    }
    for group in old_groups:
        key = tuple([broadcastable[axis] for axis, along in enumerate(transform.axes) if _belongs(along, group)])
        for dimension, mapped in enumerate(transform.maps):
            if isinstance(mapped, Indexed) and mapped.group == group:
                lists[dimension] = mapped.indices[key]
    rest = [axis for axis in range(transform.ndim) if axis not in arrays]
    new_shape = points + tuple([transform.shape[axis] for axis in rest])
    if len(new_shape) > MAX_VIEW_NDIM:
        raise SelectionError(f"the view would have {len(new_shape)} axes; numpy allows {MAX_VIEW_NDIM}")
    if not lists:
        first: list[GroupAxis | int | None] = [None] * len(points)
        return IndexTransform(transform.maps, (*first, *[transform.axes[axis] for axis in rest]), new_shape)
    name = min(lists)
    maps = list(transform.maps)
    for dimension, each in lists.items():
        full = np.broadcast_to(each, shape)
        maps[dimension] = _indexed_map(name, full) if full.ndim else Constant(int(full))
    axes = [GroupAxis(name, number) for number in range(len(points))]
    others = [
        GroupAxis(name, len(points) + remaining.index(axis)) if axis in remaining else transform.axes[axis]
        for axis in rest
    ]
    return IndexTransform(tuple(maps), (*axes, *others), new_shape)


def _indexed_map(group: int, indices: NDArray[Any]) -> Indexed:
    """Return a map of a read-only copy of these indices."""
    own = np.ascontiguousarray(indices, np.int64)
    own.setflags(write=False)
    return Indexed(group, own)


def _resolve(current: Any, indices: Indices) -> Indices:
    assert isinstance(current, Strided)  # an axis of the view addresses this dimension
    if current.start == 0 and current.step == 1:
        return indices
    return current.start + current.step * indices


def _belongs(along: GroupAxis | int | None, group: int) -> bool:
    return isinstance(along, GroupAxis) and along.group == group


def _broadcast_shape(arrays: dict[int, Indices]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*[each.shape for each in arrays.values()])
    except ValueError as error:
        shapes = ", ".join(str(each.shape) for each in arrays.values())
        raise SelectionError(f"index arrays of shapes {shapes} do not broadcast against each other") from error


ArrayIndex: TypeAlias = SupportsIndex | slice | EllipsisType | Sequence[Any] | NDArray[Any] | None
ArraySelection: TypeAlias = ArrayIndex | tuple[ArrayIndex, ...]

Parsed: TypeAlias = int | slice | EllipsisType | NDArray[Any] | None


def parse_items(selection: Any) -> list[Parsed]:
    """Return the items of a selection. Its arrays are boolean or integer arrays.

    Raises:
        SelectionError: an item is not an index, such as a float, a string or a single bool.
    """
    items = selection if isinstance(selection, tuple) else (selection,)
    return [_parse(item, number) for number, item in enumerate(items)]


def _parse(item: Any, number: int) -> Parsed:
    if item is None or isinstance(item, slice | EllipsisType):
        return item
    if type(item) is int:
        return item
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise SelectionError(f"index {number} of the selection is a ragged sequence") from error
    if array.ndim and array.size == 0 and array.dtype.kind != "b":
        # numpy makes an empty list a float64 array.
        return array.astype(np.int64)
    if array.ndim and array.dtype.kind in "biu":
        return array
    if array.ndim:
        raise SelectionError(
            f"index {number} of the selection is an array of {array.dtype}; expected an array of integers or bools"
        )
    if array.dtype.kind == "b":
        raise SelectionError(f"index {number} of the selection is a single bool; a mask needs at least one axis")
    try:
        return as_index(item)
    except TypeError as error:
        raise SelectionError(
            f"index {number} of the selection is a {type(item).__name__}; expected an integer, a slice, '...', "
            "None, an index array or a mask"
        ) from error


def expand(items: Sequence[Parsed], ndim: int, *, wide_masks: bool) -> list[Any]:
    """Return the items with `...` and missing trailing items replaced by full slices, so that they cover `ndim` axes.

    Args:
        items: as `parse_items` returns them.
        ndim: number of axes.
        wide_masks: a mask covers as many axes as it has; otherwise every item covers one axis.

    Raises:
        SelectionError: several `...`, or too many indices.
    """
    ellipses = [place for place, item in enumerate(items) if item is Ellipsis]
    if len(ellipses) > 1:
        raise SelectionError("a selection can only have a single ellipsis ('...')")
    missing = ndim - sum([width(item, wide_masks=wide_masks) for item in items])
    if missing < 0:
        raise SelectionError(f"too many indices: {ndim - missing} for an array of {ndim} axes")
    place = ellipses[0] if ellipses else len(items)
    return [*items[:place], *[slice(None)] * missing, *items[place + 1 :]]


def width(item: Parsed, *, wide_masks: bool) -> int:
    """Return the number of axes that an item covers."""
    if item is None or item is Ellipsis:
        return 0
    if wide_masks and isinstance(item, np.ndarray) and item.dtype.kind == "b":
        return item.ndim
    return 1


def unmask(mask: NDArray[Any], axis: int, lengths: Sequence[int]) -> list[NDArray[np.int64]]:
    """Return the indices of the true elements of a mask of `axis` and the following axes, one list per axis.

    Raises:
        SelectionError: the shape of the mask differs from the shape of these axes.
    """
    covered = tuple(lengths[axis : axis + mask.ndim])
    if mask.shape != covered:
        raise SelectionError(f"a mask of shape {mask.shape} does not match the axes from {axis} on, of shape {covered}")
    # `nonzero` is many times slower for several axes.
    rest = np.flatnonzero(mask).astype(np.int64, copy=False)
    found = []
    for length in mask.shape[:0:-1]:
        rows = rest // length
        found.append(rest - rows * length)
        rest = rows
    return [rest, *reversed(found)]


def wrap(indices: NDArray[Any], axis: int, length: int) -> NDArray[np.int64]:
    """Return indices as a new int64 array without negative ones, which count from the end of the axis.

    Raises:
        SelectionError: an index is out of range; the message names the index and the axis.
    """
    if indices.size:
        lowest, highest = int(indices.min()), int(indices.max())
        if lowest < -length or highest >= length:
            wrong = lowest if lowest < -length else highest
            raise SelectionError(f"index {wrong} is out of range for axis {axis} of size {length}")
        if lowest < 0:
            signed = indices.astype(np.int64)
            return np.where(signed < 0, signed + length, signed)
    # Always a copy: later changes of the array by the caller must not move the view.
    return np.array(indices, np.int64)
