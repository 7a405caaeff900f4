"""Validation of the items of `oindex` and `vindex`: integers, slices, new axes, index arrays and masks."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as as_index
from types import EllipsisType
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.errors import SelectionError

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
            f"index {number} of the selection is an array of {array.dtype}; index arrays hold integers, masks bools"
        )
    if array.dtype.kind == "b":
        raise SelectionError(f"index {number} of the selection is a single bool; masks have at lowest one axis")
    try:
        return as_index(item)
    except TypeError as error:
        raise SelectionError(
            f"index {number} of the selection is a {type(item).__name__}; integers, slices, '...', None, index arrays "
            "and masks are indices"
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
        raise SelectionError(f"too many indices: the selection covers {ndim - missing} axes, there are {ndim}")
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
        raise SelectionError(f"a mask of shape {mask.shape} does not fit axis {axis} and following, of shape {covered}")
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
