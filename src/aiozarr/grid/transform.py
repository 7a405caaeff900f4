"""Index transforms: numpy indexing composed lazily (compare the index transforms of TensorStore).

A view addresses, per dimension of the array, one index, an arithmetic progression of indices, or an index array. Any
chain of integers, slices, `...` and `np.newaxis` keeps the first two, so a view costs a few integers. Index arrays
(`aiozarr.grid.advanced`) cost memory for their points.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from operator import index as as_index
from types import EllipsisType, NoneType
from typing import Any, NamedTuple, SupportsIndex, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from aiozarr.errors import SelectionError

BasicIndex: TypeAlias = SupportsIndex | slice | EllipsisType | None
BasicSelection: TypeAlias = BasicIndex | tuple[BasicIndex, ...]

_BASIC_TYPES = frozenset({int, slice, EllipsisType, NoneType})

# The maximum of numpy: a view of more axes could never be read.
MAX_VIEW_NDIM = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32


def is_basic(selection: object) -> TypeGuard[BasicSelection]:
    """Return whether a selection consists of integers, slices, `...` and None, without names or items to convert."""
    if type(selection) is tuple:
        return _BASIC_TYPES.issuperset(map(type, selection))
    return type(selection) in _BASIC_TYPES


@dataclass(frozen=True, slots=True)
class Constant:
    """One index of an array dimension. The view has no axis for this dimension."""

    index: int


@dataclass(frozen=True, slots=True)
class Strided:
    """The indices `start + i * step` of an array dimension, for `i` in `range(count)`; `step` is negative or positive.

    `IndexTransform` normalises progressions: `(0, 1, 0)` for no index, step 1 for a single one. All indices lie inside
    the dimension.
    """

    start: int
    step: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Indexed:
    """An index array of an array dimension; all indices lie inside the dimension.

    Dimensions of one group are iterated together: their index arrays have one shape, and each point of the view is the
    tuple of their elements at one position. Different groups are orthogonal to each other and to other dimensions.

    Attributes:
        group: the first dimension of the group.
        indices: read-only int64 array of the shape of the group, which has one axis or more.
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
    """An axis of a view along an axis of a group of index arrays.

    A view has all axes of its groups. The axes of one group are in ascending order.

    Attributes:
        group: the first dimension of the group.
        axis: the axis of the shape of the group.
    """

    group: int
    axis: int


NOTHING = Strided(0, 1, 0)
"""No index at all."""

_ONLY_BASIC = "use `oindex` or `vindex` for index arrays and masks"


class IndexTransform(NamedTuple):
    """The elements of an array that a view addresses, and the order of the axes of the view.

    A new axis has length 1. After an empty slice it has length 0: then `size` is 0 although `core_shape` may have
    elements, so check `size` first. After an index array it is longer: elements are repeated along it (`repeats`),
    which `core_shape` does not contain.

    Attributes:
        maps: one per dimension of the array, in order.
        axes: per axis of the view the array dimension or group axis that it addresses; None for a new axis.
        shape: lengths of the axes of the view.
    """

    maps: tuple[DimensionMap, ...]
    axes: tuple[int | GroupAxis | None, ...]
    shape: tuple[int, ...]

    @classmethod
    def identity(cls, shape: Iterable[int]) -> IndexTransform:
        """Return the transform of the full array of this shape."""
        lengths = tuple(shape)
        return cls(tuple(map(_full, lengths)), tuple(range(len(lengths))), lengths)

    @property
    def ndim(self) -> int:
        """Number of axes of the view."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements of the view, exact at any size."""
        return prod(self.shape)

    @property
    def core_shape(self) -> tuple[int, ...]:
        """The shape in which the engine moves elements: `core_shape_of` the maps."""
        return core_shape_of(self.maps)

    @property
    def repeats(self) -> bool:
        """True if a new axis is longer than 1."""
        return any([along is None and length > 1 for along, length in zip(self.axes, self.shape, strict=True)])

    def unrepeated(self) -> IndexTransform:
        """Return the transform with new axes of length 1. `size` must not be 0."""
        pairs = zip(self.axes, self.shape, strict=True)
        return IndexTransform(self.maps, self.axes, tuple([1 if along is None else n for along, n in pairs]))

    def last_of_repeated(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the values of `array`, of the shape of the view, that remain after all have been written."""
        if not self.repeats:
            return array
        return array[tuple([slice(-1, None) if along is None else slice(None) for along in self.axes])]

    def select(self, selection: BasicSelection) -> IndexTransform:
        """Return the transform of `view[selection]`, as numpy's basic indexing defines it.

        Takes integers (anything with `__index__`), slices of any step, at most one `...`, and None for a new axis.

        Raises:
            SelectionError: an index out of range, too many indices, a second `...`, a step of 0, or an item that is
                not a basic index: a float, a string, a bool, a list or an array.
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
        """Return a view of `array`, of the shape of the view, without its new axes. `size` must not be 0."""
        # The trailing `...` keeps a result without axes an array, not a scalar.
        return array[(*(0 if along is None else slice(None) for along in self.axes), ...)]

    def extended(self, lengths: Iterable[int]) -> IndexTransform:
        """Return the transform with additional complete dimensions of these lengths after the others."""
        added = tuple(lengths)
        dimensions = range(len(self.maps), len(self.maps) + len(added))
        if self.ndim + len(added) > MAX_VIEW_NDIM:
            raise SelectionError(f"the view would have {self.ndim + len(added)} axes; numpy allows {MAX_VIEW_NDIM}")
        return IndexTransform((*self.maps, *map(_full, added)), (*self.axes, *dimensions), self.shape + added)


def stop_of(indices: DimensionMap) -> int:
    """Return the least length of a dimension that has all of the indices."""
    if isinstance(indices, Constant):
        return indices.index + 1
    if isinstance(indices, Indexed):
        return int(indices.indices.max(initial=-1)) + 1
    last = indices.start + indices.step * (indices.count - 1)
    return max(indices.start, last) + 1 if indices.count else 0


def core_shape_of(maps: Iterable[DimensionMap]) -> tuple[int, ...]:
    """Return the lengths of the core axes: one per strided dimension, and one per group at its first dimension.

    The axes of a group are flattened in C order.
    """
    lengths = []
    for dimension, each in enumerate(maps):
        if isinstance(each, Strided):
            lengths.append(each.count)
        elif isinstance(each, Indexed) and each.group == dimension:
            lengths.append(each.indices.size)
    return tuple(lengths)


def _full(length: int) -> Strided:
    return Strided(0, 1, length) if length else NOTHING


def _narrow(current: DimensionMap, start: int, step: int, count: int) -> Strided:
    assert type(current) is Strided  # an axis of the view never addresses a constant dimension
    if count > 1:
        return Strided(current.start + start * current.step, step * current.step, count)
    return Strided(current.start + start * current.step, 1, 1) if count else NOTHING


def _pick(current: DimensionMap, position: int) -> Constant:
    assert type(current) is Strided  # as in _narrow
    return Constant(current.start + position * current.step)


def _slice_of(start: int, step: int, count: int) -> slice:
    stop = start + step * count
    # A negative stop would count from the end.
    return slice(start, stop if stop >= 0 else None, step) if count else slice(0, 0)


def _add_to_group(groups: dict[int, list[slice | int]], along: GroupAxis, taken: slice | int) -> GroupAxis:
    """Add the index of one axis of a group, and return the axis with its number after all indices are applied."""
    before = groups.setdefault(along.group, [])
    kept = sum([isinstance(each, slice) for each in before])
    before.append(taken)
    return GroupAxis(along.group, kept)


def _index_group(maps: list[DimensionMap], group: int, taken: tuple[slice | int, ...]) -> None:
    """Index all arrays of a group. A single point becomes constant."""
    for dimension, each in enumerate(maps):
        if type(each) is Indexed and each.group == group:
            indices = each.indices[(*taken, ...)]
            maps[dimension] = Indexed(group, indices) if indices.ndim else Constant(int(indices))


def _expand(items: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return one item per axis of the view, and None per new axis."""
    # By identity: `in` and `count` would compare arrays element by element.
    ellipses = [place for place, item in enumerate(items) if item is Ellipsis]
    new_axes = sum([item is None for item in items])
    indices = len(items) - new_axes - len(ellipses)
    if len(ellipses) > 1:
        raise SelectionError("a selection can only have a single ellipsis ('...')")
    missing = len(shape) - indices
    if missing < 0:
        # An array among the indices is the likelier mistake: a mask indexes as many axes as it has.
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
    full = (slice(None),) * missing
    if not ellipses:
        return items + full
    return items[: ellipses[0]] + full + items[ellipses[0] + 1 :]


def _resolve_slice(item: slice, axis: int, length: int) -> tuple[int, int, int]:
    """Return start, step and count of the positions of the slice `item` in an axis of `length`."""
    try:
        start, stop, step = item.indices(length)
    except ValueError:
        raise SelectionError(f"the slice of axis {axis} has a step of 0") from None
    except TypeError as error:
        raise SelectionError(f"the slice {item!r} of axis {axis} has a bound that is not an integer") from error
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
        raise SelectionError(f"the index of axis {axis} is a bool, which numpy treats as a mask: {_ONLY_BASIC}")
    if isinstance(item, list | tuple) or getattr(item, "shape", ()) != ():
        raise SelectionError(f"the index of axis {axis} is an array or a sequence: {_ONLY_BASIC}")
    try:
        return as_index(item)
    except TypeError as error:
        raise SelectionError(
            f"the index of axis {axis} is a {type(item).__name__}; expected an integer, a slice, '...' or None"
        ) from error
