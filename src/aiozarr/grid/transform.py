"""An index transform is numpy's indexing composed lazily: which elements of an array a view addresses, and how.

A view's elements are, per dimension of the array, one index, an arithmetic progression of indices, or listed indices.
Every chain of integers, slices, `...` and `np.newaxis` keeps the first two, so a view costs a few integers whatever it
addresses; index arrays (`aiozarr.grid.advanced`) cost what they list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from operator import index as as_index
from types import EllipsisType
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

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


@dataclass(frozen=True, slots=True, eq=False)
class Indexed:
    """Listed indices of an array dimension, all inside it.

    Dimensions of one group are walked together: their lists have one shape, and the points of the view are the tuples
    of what stands in them at the same place. Different groups are orthogonal, as are other dimensions.

    Attributes:
        group: the first dimension of the group.
        indices: read-only int64, of the group's shape: one axis or more.
    """

    group: int
    indices: NDArray[np.int64]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Indexed):
            return NotImplemented
        return self.group == other.group and np.array_equal(self.indices, other.indices)

    def __hash__(self) -> int:
        return hash((self.group, self.indices.shape, self.indices.tobytes()))


DimensionMap: TypeAlias = Constant | Strided | Indexed


class GroupAxis(NamedTuple):
    """An axis of a view that runs along an axis of a group of listed dimensions.

    A view has all axes of its groups, those of one group in ascending order.
    """

    group: int
    axis: int


NOTHING = Strided(0, 1, 0)
"""No index at all."""

_ONLY_BASIC = "only integers and slices stand in plain brackets; `oindex` and `vindex` take index arrays and masks"


@dataclass(frozen=True, slots=True)
class IndexTransform:
    """The elements of an array that a view addresses, and the order of the view's axes.

    A new axis has length 1, and 0 once it is sliced to nothing. Then `size` is 0 and nothing is addressed, although
    `core_shape` may have elements: look at `size` first. An index array makes it longer: along it elements are
    repeated (`repeats`), which `core_shape` does not know of.

    Attributes:
        maps: one per dimension of the array, in order.
        axes: for each axis of the view the array dimension or the axis of a group it runs along; None for a new axis.
        shape: lengths of the view's axes.
    """

    maps: tuple[DimensionMap, ...]
    axes: tuple[int | GroupAxis | None, ...]
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
        """The shape in which elements are moved: `core_shape_of` the maps."""
        return core_shape_of(self.maps)

    @property
    def repeats(self) -> bool:
        """True where a new axis is longer than 1."""
        return any([along is None and length > 1 for along, length in zip(self.axes, self.shape, strict=True)])

    def unrepeated(self) -> IndexTransform:
        """Return the transform with new axes of length 1; `size` is not 0."""
        pairs = zip(self.axes, self.shape, strict=True)
        return IndexTransform(self.maps, self.axes, tuple([1 if along is None else n for along, n in pairs]))

    def last_of_repeated(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return those values of `array`, of the view's shape, that stay once all have been written."""
        if not self.repeats:
            return array
        return array[tuple([slice(-1, None) if along is None else slice(None) for along in self.axes])]

    def select(self, selection: BasicSelection) -> IndexTransform:
        """Return the transform of `view[selection]`, as numpy's basic indexing defines it.

        Takes integers (anything with `__index__`), slices of any step, at most one `...`, and None for a new axis.

        Raises:
            SelectionError: an index out of range, too many indices, a second `...`, a step of 0, or something that is
                no basic index: a float, a string, a bool, a list or an array.
        """
        items = _expand(selection if isinstance(selection, tuple) else (selection,), self.shape)
        maps = list(self.maps)
        axes: list[int | GroupAxis | None] = []
        shape: list[int] = []
        groups: dict[int, list[slice | int]] = {}
        axis = 0
        for item in items:
            if item is None:
                axes.append(None)
                shape.append(1)
                continue
            along = self.axes[axis]
            length = self.shape[axis]
            if isinstance(item, slice):
                start, step, count = _resolve_slice(item, axis, length)
                if isinstance(along, GroupAxis):
                    along = _add_to_group(groups, along, _slice_of(start, step, count))
                elif along is not None:
                    maps[along] = _narrow(maps[along], start, step, count)
                axes.append(along)
                shape.append(count)
            else:
                position = _resolve_index(item, axis, length)
                if isinstance(along, GroupAxis):
                    _add_to_group(groups, along, position)
                elif along is not None:
                    maps[along] = _pick(maps[along], position)
            axis += 1
        for group, taken in groups.items():
            _index_group(maps, group, tuple(taken))
        return IndexTransform(tuple(maps), tuple(axes), tuple(shape))

    def without_new_axes(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return `array`, of the view's shape, without its new axes; never a copy. `size` must not be 0."""
        if None not in self.axes:
            return array
        # The trailing `...` keeps a result without axes an array instead of a scalar.
        return array[(*(0 if along is None else slice(None) for along in self.axes), ...)]

    def extended(self, lengths: Iterable[int]) -> IndexTransform:
        """Return the transform with dimensions of these lengths behind the others, all of them taken."""
        added = tuple(lengths)
        dimensions = range(len(self.maps), len(self.maps) + len(added))
        if self.ndim + len(added) > MAX_VIEW_NDIM:
            raise SelectionError(f"the view would have {self.ndim + len(added)} axes; numpy allows {MAX_VIEW_NDIM}")
        return IndexTransform((*self.maps, *map(_whole, added)), (*self.axes, *dimensions), self.shape + added)


def core_shape_of(maps: Iterable[DimensionMap]) -> tuple[int, ...]:
    """Return the lengths of the core axes: one per strided dimension and, in place of its first dimension, per group.

    The axes of a group are flattened in C order.
    """
    lengths = []
    for dimension, each in enumerate(maps):
        if isinstance(each, Strided):
            lengths.append(each.count)
        elif isinstance(each, Indexed) and each.group == dimension:
            lengths.append(each.indices.size)
    return tuple(lengths)


def _whole(length: int) -> Strided:
    return Strided(0, 1, length) if length else NOTHING


def _narrow(current: DimensionMap, start: int, step: int, count: int) -> Strided:
    assert type(current) is Strided  # an axis of the view never runs along a dimension that is held constant
    if count > 1:
        return Strided(current.start + start * current.step, step * current.step, count)
    return Strided(current.start + start * current.step, 1, 1) if count else NOTHING


def _pick(current: DimensionMap, position: int) -> Constant:
    assert type(current) is Strided  # as in _narrow
    return Constant(current.start + position * current.step)


def _slice_of(start: int, step: int, count: int) -> slice:
    stop = start + step * count
    # Counted from the front, a stop before it is written as None.
    return slice(start, stop if stop >= 0 else None, step) if count else slice(0, 0)


def _add_to_group(groups: dict[int, list[slice | int]], along: GroupAxis, taken: slice | int) -> GroupAxis:
    """Note what is taken of one axis of a group; return the axis as it will be numbered."""
    before = groups.setdefault(along.group, [])
    kept = sum([isinstance(each, slice) for each in before])
    before.append(taken)
    return GroupAxis(along.group, kept)


def _index_group(maps: list[DimensionMap], group: int, taken: tuple[slice | int, ...]) -> None:
    """Narrow all lists of a group; a single point is held constant."""
    for dimension, each in enumerate(maps):
        if type(each) is Indexed and each.group == group:
            indices = each.indices[(*taken, ...)]
            maps[dimension] = Indexed(group, indices) if indices.ndim else Constant(int(indices))


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
