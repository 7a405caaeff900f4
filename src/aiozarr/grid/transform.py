"""An index transform is numpy's basic indexing composed lazily: which elements of an array a view addresses, and how.

A view's elements are, per dimension of the array, either one index or an arithmetic progression of indices. Every chain
of integers, slices, `...` and `np.newaxis` keeps that form, so a view costs a few integers whatever it addresses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from operator import index as as_index
from types import EllipsisType
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from aiozarr.errors import SelectionError

BasicIndex: TypeAlias = SupportsIndex | slice | EllipsisType | None
BasicSelection: TypeAlias = BasicIndex | tuple[BasicIndex, ...]

# What numpy itself allows an indexing result to have; a view of more axes could never be read.
MAX_VIEW_NDIM = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32


@dataclass(frozen=True, slots=True)
class Constant:
    """One index of an array dimension; the view has no axis for it."""

    index: int


@dataclass(frozen=True, slots=True)
class Strided:
    """The indices `start + i * step` of an array dimension, for `i` in `range(count)`; `step` is negative or positive.

    Equal progressions have one form, which `IndexTransform` keeps: `(0, 1, 0)` for no index, step 1 for a single one.
    All indices lie inside the dimension.
    """

    start: int
    step: int
    count: int


DimensionMap: TypeAlias = Constant | Strided

_NOTHING = Strided(0, 1, 0)
_ONLY_BASIC = "only integers and slices are supported yet"


@dataclass(frozen=True, slots=True)
class IndexTransform:
    """The elements of an array that a view addresses, and the order of the view's axes.

    A new axis has length 1, and 0 once it is sliced to nothing. Then `size` is 0 and nothing is addressed, although
    `core_shape` may have elements: look at `size` first.

    Attributes:
        maps: one per dimension of the array, in order.
        axes: for each axis of the view the array dimension it runs along, in order; None for a new axis.
        shape: lengths of the view's axes.
    """

    maps: tuple[DimensionMap, ...]
    axes: tuple[int | None, ...]
    shape: tuple[int, ...]

    @classmethod
    def identity(cls, shape: Iterable[int]) -> IndexTransform:
        """Return the transform of the whole array of this shape."""
        lengths = tuple(shape)
        return cls(tuple(map(_whole, lengths)), tuple(range(len(lengths))), lengths)

    @property
    def ndim(self) -> int:
        """Number of axes of the view."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements of the view; exact at any size."""
        return prod(self.shape)

    @property
    def core_shape(self) -> tuple[int, ...]:
        """The view's shape without new axes: the counts of the strided maps, in order."""
        return tuple([each.count for each in self.maps if type(each) is Strided])

    def select(self, selection: BasicSelection) -> IndexTransform:
        """Return the transform of `view[selection]`, as numpy's basic indexing defines it.

        Takes integers (anything with `__index__`), slices of any step, at most one `...`, and None for a new axis.

        Raises:
            SelectionError: an index out of range, too many indices, a second `...`, a step of 0, or something that is
                no basic index: a float, a string, a bool, a list or an array.
        """
        items = _expand(selection if isinstance(selection, tuple) else (selection,), self.shape)
        maps = list(self.maps)
        axes: list[int | None] = []
        shape: list[int] = []
        axis = 0
        for item in items:
            if item is None:
                axes.append(None)
                shape.append(1)
                continue
            dimension = self.axes[axis]
            length = self.shape[axis]
            if isinstance(item, slice):
                start, step, count = _resolve_slice(item, axis, length)
                if dimension is not None:
                    maps[dimension] = _narrow(maps[dimension], start, step, count)
                axes.append(dimension)
                shape.append(count)
            else:
                position = _resolve_index(item, axis, length)
                if dimension is not None:
                    maps[dimension] = _pick(maps[dimension], position)
            axis += 1
        return IndexTransform(tuple(maps), tuple(axes), tuple(shape))

    def without_new_axes(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return `array`, of the view's shape, as a view of `core_shape`; never a copy. `size` must not be 0."""
        if None not in self.axes:
            return array
        # The trailing `...` keeps a result without axes an array instead of a scalar.
        return array[(*(0 if dimension is None else slice(None) for dimension in self.axes), ...)]


def _whole(length: int) -> Strided:
    return Strided(0, 1, length) if length else _NOTHING


def _narrow(current: DimensionMap, start: int, step: int, count: int) -> Strided:
    assert type(current) is Strided  # an axis of the view never runs along a dimension that is held constant
    if count > 1:
        return Strided(current.start + start * current.step, step * current.step, count)
    return Strided(current.start + start * current.step, 1, 1) if count else _NOTHING


def _pick(current: DimensionMap, position: int) -> Constant:
    assert type(current) is Strided  # as in _narrow
    return Constant(current.start + position * current.step)


def _expand(items: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return one item for every axis of the view, and None for each new axis."""
    # `in` and `count` would compare arrays element by element: only identity is meant here.
    ellipses = [place for place, item in enumerate(items) if item is Ellipsis]
    new_axes = sum([item is None for item in items])
    indices = len(items) - new_axes - len(ellipses)
    if len(ellipses) > 1:
        raise SelectionError("a selection can only have a single ellipsis ('...')")
    missing = len(shape) - indices
    if missing < 0:
        # An array among the indices is the likelier mistake: a mask stands for as many axes as it has.
        for axis, item in enumerate(each for each in items if each is not None and each is not Ellipsis):
            if not isinstance(item, slice):
                _as_integer(item, axis)
        raise SelectionError(f"too many indices: the selection has {indices}, the shape {shape} has {len(shape)} axes")
    if len(shape) + new_axes > MAX_VIEW_NDIM:
        kept = len(shape) + new_axes - sum([not isinstance(item, slice | EllipsisType | None) for item in items])
        if kept > MAX_VIEW_NDIM:
            raise SelectionError(f"the view would have {kept} axes; numpy allows {MAX_VIEW_NDIM}")
    if not missing:
        return items if not ellipses else items[: ellipses[0]] + items[ellipses[0] + 1 :]
    whole = (slice(None),) * missing
    if not ellipses:
        return items + whole
    return items[: ellipses[0]] + whole + items[ellipses[0] + 1 :]


def _resolve_slice(item: slice, axis: int, length: int) -> tuple[int, int, int]:
    """Return start, step and number of the positions that `item` takes of an axis of `length`."""
    try:
        start, stop, step = item.indices(length)
    except ValueError:
        raise SelectionError(f"the slice of axis {axis} has a step of 0") from None
    except TypeError as error:
        raise SelectionError(f"the slice {item!r} of axis {axis} has a part that is no integer") from error
    # Not len(range(...)), which stops at sys.maxsize.
    count = (stop - start + step - 1) // step if step > 0 else (start - stop - step - 1) // -step
    return start, step, max(count, 0)


def _resolve_index(item: Any, axis: int, length: int) -> int:
    position = item if type(item) is int else _as_integer(item, axis)
    if not -length <= position < length:
        raise SelectionError(f"index {position} is out of range for axis {axis} of size {length}")
    return position + length if position < 0 else position


def _as_integer(item: Any, axis: int) -> int:
    if isinstance(item, bool | np.bool_):
        raise SelectionError(f"the index of axis {axis} is a bool, which numpy takes as a mask: {_ONLY_BASIC}")
    if isinstance(item, list | tuple) or getattr(item, "shape", ()) != ():
        raise SelectionError(f"the index of axis {axis} is an array or a sequence: {_ONLY_BASIC}")
    try:
        return as_index(item)
    except TypeError as error:
        raise SelectionError(
            f"the index of axis {axis} is a {type(item).__name__}; integers, slices, '...' and None are indices"
        ) from error
