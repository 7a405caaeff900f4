"""Indexing by domain, as in TensorStore: indices are positions in the domain, and negative ones do not wrap.

The index transform of a `TensorView` is translated into the transform of an array's view, which the engine reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import index as as_index
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.driver.index_domain import Dimension, IndexDomain
from aiozarr.driver.index_transform import DomainTransform, Indices, OutputMap, constant, index_values
from aiozarr.errors import SelectionError
from aiozarr.grid.transform import NOTHING, Constant, DimensionMap, GroupAxis, Indexed, IndexTransform, Strided

Mode: TypeAlias = Literal["numpy", "outer", "vectorized"]
"""The position of index array dimensions: together in place, each in its own place (`oindex`), or first (`vindex`)."""


def select(transform: DomainTransform, selection: Any, mode: Mode = "numpy") -> DomainTransform:
    """Return the transform of a selection.

    Integers and slices select by the domain. A slice `start:stop:step` gives a domain that begins at `start / step`,
    rounded towards 0, with the step as stride. Index arrays give dimensions that begin at 0 and have no label.

    Raises:
        SelectionError: an index is outside of the domain, or an item is no index.
    """
    items = list(_expand(selection if isinstance(selection, tuple) else (selection,), transform.domain.rank, mode))
    has_dimension = [item is None or isinstance(item, slice) or _is_outer(item, mode) for item in items]
    joint = [at for at, item in enumerate(items) if isinstance(item, np.ndarray) and mode != "outer"]
    place, added = 0, [Dimension(0, length, "", False, False) for length in _joint_shape([items[at] for at in joint])]
    if joint and mode == "numpy" and not any(has_dimension[joint[0] : joint[-1]]):
        place = sum(has_dimension[: joint[0]])
    rank = sum(has_dimension) + len(added)
    dimensions: list[Dimension] = []
    inputs: list[OutputMap] = []
    old = iter(transform.domain.dimensions)
    for item in items:
        if item is None:
            dimensions.append(Dimension(0, 1, "", True, True))
            continue
        each, number = next(old), len(inputs)
        axis = len(dimensions) + (len(added) if len(dimensions) >= place else 0)
        if isinstance(item, slice):
            dimension, output = _slice(item, each, number, axis)
            dimensions.append(dimension)
            inputs.append(output)
        elif isinstance(item, np.ndarray):
            _check_indices(item, each, number)
            end = place + len(added)
            if mode == "outer":
                dimensions.append(Dimension(0, item.size, "", False, False))
                end = axis + 1
            # Not broadcast: an axis of length 1 stands for all indices of its dimension.
            shape = [1] * (end - item.ndim) + list(item.shape) + [1] * (rank - end)
            inputs.append(OutputMap(index_array=item.reshape(shape)))
        else:
            _check_index(item, each, number)
            inputs.append(constant(item))
    return transform.composed(IndexDomain((*dimensions[:place], *added, *dimensions[place:])), inputs)


def _is_outer(item: Any, mode: Mode) -> bool:
    return mode == "outer" and isinstance(item, np.ndarray)


def _joint_shape(arrays: Sequence[Indices]) -> tuple[int, ...]:
    """Return the shape to which index arrays broadcast."""
    try:
        return np.broadcast_shapes(*[each.shape for each in arrays])
    except ValueError as error:
        raise SelectionError(f"the index arrays do not broadcast against each other: {error}") from error


def _expand(given: Sequence[Any], rank: int, mode: Mode) -> Iterator[Any]:
    """Yield one item per dimension of the domain, and None per new dimension; masks and `...` are expanded."""
    items = list(_parsed(given, mode))
    used = sum([item is not None and item is not Ellipsis for item in items])
    ellipses = sum([item is Ellipsis for item in items])
    if ellipses > 1:
        raise SelectionError("a selection can only have a single ellipsis ('...')")
    if used > rank:
        raise SelectionError(f"too many indices: the selection has {used}, the domain has rank {rank}")
    if not ellipses:
        items.append(Ellipsis)
    for item in items:
        if item is Ellipsis:
            yield from [slice(None)] * (rank - used)
        else:
            yield item


def _parsed(given: Sequence[Any], mode: Mode) -> Iterator[Any]:
    for item in given:
        if item is None or item is Ellipsis or isinstance(item, slice):
            yield item
        elif isinstance(item, bool | np.bool_):
            raise SelectionError("a bool is not an index")
        elif isinstance(item, list | tuple | np.ndarray) and np.ndim(item) > 0:
            values = np.asarray(item)
            is_mask = values.dtype.kind == "b"
            if mode == "outer" and values.ndim > 1:
                kind = "masks" if is_mask else "index arrays"
                raise SelectionError(f"oindex expects {kind} with one axis, not {values.ndim}")
            if is_mask:
                yield from [each.astype(np.int64) for each in values.nonzero()]
            elif values.dtype.kind in "iu" or not values.size:
                yield values.astype(np.int64)
            else:
                raise SelectionError(f"index arrays must contain integers or booleans, not {values.dtype}")
        else:
            try:
                yield as_index(item)  # pyright: ignore[reportArgumentType]  # the TypeError is handled below
            except TypeError as error:
                raise SelectionError(
                    f"expected an integer, a slice, '...', None, an index array or a mask, not {type(item).__name__}"
                ) from error


def _slice(item: slice, each: Dimension, at: int, new: int) -> tuple[Dimension, OutputMap]:
    if item.start is None and item.stop is None and item.step is None:
        return each, OutputMap(0, 1, new)
    try:
        step = 1 if item.step is None else as_index(item.step)
        low = None if item.start is None else as_index(item.start)
        end = None if item.stop is None else as_index(item.stop)
    except TypeError as error:
        raise SelectionError(f"the slice {item!r} of dimension {at} has a bound that is not an integer") from error
    if not step:
        raise SelectionError(f"the slice of dimension {at} must not have step 0")
    forwards = step > 0
    start = (each.inclusive_min if forwards else each.exclusive_max - 1) if low is None else low
    stop = (each.exclusive_max if forwards else each.inclusive_min - 1) if end is None else end
    if (stop - start) * step < 0:
        raise SelectionError(f"the slice {start}:{stop}:{step} of dimension {at} ends before it starts")
    first, last = (start, stop) if forwards else (stop + 1, start + 1)
    if first < each.inclusive_min or last > each.exclusive_max:
        raise SelectionError(
            f"the slice [{first}, {last}) of dimension {at} is outside [{each.inclusive_min}, "
            f"{each.exclusive_max}); indices refer to the domain, so negative indices do not wrap around"
        )
    count = -((start - stop) // step) if forwards else -((stop - start) // -step)
    origin = abs(start) // abs(step) * (1 if (start >= 0) == forwards else -1)
    starts_open = low is None and (each.implicit_lower if forwards else each.implicit_upper)
    stops_open = end is None and (each.implicit_upper if forwards else each.implicit_lower)
    dimension = Dimension(origin, origin + count, each.label, starts_open, stops_open)
    return dimension, OutputMap(start - origin * step, step, new)


def _check_index(index: int, each: Dimension, at: int) -> None:
    if index not in each:
        raise SelectionError(
            f"index {index} is outside [{each.inclusive_min}, {each.exclusive_max}) in dimension {at}; indices "
            "refer to the domain, so negative indices do not wrap around"
        )


def _check_indices(indices: Indices, each: Dimension, at: int) -> None:
    if indices.size:
        _check_index(int(indices.min()), each, at)
        _check_index(int(indices.max()), each, at)


AnyArray: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class ArraySelection:
    """The elements of a view of the array.

    Attributes:
        transform: the selection, whose axes are in the order of the array's dimensions.
        order: the dimension of the view for each of its axes; None if they are the same.
    """

    transform: IndexTransform
    order: tuple[int, ...] | None

    def from_view(self, values: AnyArray) -> AnyArray:
        """Return values of the shape of the view in the shape of the selection, without a copy."""
        return values if self.order is None else values.transpose(self.order)

    def to_view(self, values: AnyArray) -> AnyArray:
        """Return values of the shape of the selection in the shape of the view, without a copy."""
        return values if self.order is None else values.transpose(np.argsort(self.order))


def strided_selection(transform: DomainTransform, shape: Sequence[int]) -> ArraySelection | None:
    """Return the selection of a view without index arrays whose indices lie in an array of this shape.

    This is a fast path for most views, because each step counts in a read of a few elements.

    Returns: None if the view needs the rules of `array_selection`, or is not inside of the array.
    """
    dimensions = transform.domain.dimensions
    maps: list[DimensionMap] = []
    axes: list[int] = []
    lengths: list[int] = []
    for at, (output, length) in enumerate(zip(transform.outputs, shape, strict=True)):
        along = output.input_dimension
        if along is None:
            if output.index_array is not None or not 0 <= output.offset < length:
                return None
            maps.append(Constant(output.offset))
            continue
        each = dimensions[along]
        count = each.exclusive_max - each.inclusive_min
        start = output.offset + output.stride * each.inclusive_min
        last = start + output.stride * (count - 1)
        # `array_selection` handles dimensions in another order, or used twice.
        if along != len(axes) or count < 1 or not (0 <= start < length and 0 <= last < length):
            return None
        maps.append(Strided(start, output.stride if count > 1 else 1, count))
        axes.append(at)
        lengths.append(count)
    if len(axes) != len(dimensions):
        return None
    return ArraySelection(IndexTransform(tuple(maps), tuple(axes), tuple(lengths)), None)


def array_selection(transform: DomainTransform) -> ArraySelection:
    """Return the selection of the elements of a view.

    All indices must lie in the array, and the domain must be finite.
    """
    selected = _selection(transform)
    if any(isinstance(axis, GroupAxis) for axis in selected.axes):
        return ArraySelection(selected, None)
    along = [(axis, place) for place, axis in enumerate(selected.axes) if isinstance(axis, int)]
    order = list(range(selected.ndim))
    for (_, place), (_, dimension) in zip(along, sorted(along), strict=True):
        order[place] = dimension
    if order == sorted(order):
        return ArraySelection(selected, None)
    axes = tuple([selected.axes[dimension] for dimension in order])
    shape = tuple([selected.shape[dimension] for dimension in order])
    return ArraySelection(IndexTransform(selected.maps, axes, shape), tuple(order))


def _selection(transform: DomainTransform) -> IndexTransform:
    """Return the selection with one axis per dimension of the view, in the order of the view."""
    domain = transform.domain
    axes: list[int | GroupAxis | None] = [None] * domain.rank
    maps: list[DimensionMap | None] = [None] * len(transform.outputs)
    if 0 in domain.shape:
        # Nothing is selected, so the maps need only be valid.
        nothing: list[DimensionMap] = [NOTHING] * len(maps)
        return IndexTransform(tuple(nothing), tuple(axes), domain.shape)
    for members, dimensions in _groups(transform.outputs, domain):
        _add_group(transform, members, dimensions, maps, axes)
    for at, output in enumerate(transform.outputs):
        if maps[at] is None:
            maps[at], along = _strided(output, domain)
            if along is not None:
                axes[along] = at
    return IndexTransform(tuple([each for each in maps if each is not None]), tuple(axes), domain.shape)


def _strided(output: OutputMap, domain: IndexDomain) -> tuple[DimensionMap, int | None]:
    """Return the map of a dimension of the array, and the dimension of the view that runs along it."""
    at = output.input_dimension
    if at is None:
        return Constant(output.offset), None
    start = output.offset + output.stride * domain[at].inclusive_min
    count = domain[at].size
    return Strided(start, output.stride if count > 1 else 1, count), at


def _groups(outputs: Sequence[OutputMap], domain: IndexDomain) -> list[tuple[list[int], list[int]]]:
    """Return the dimensions of the array that index arrays address together, with the dimensions of the view.

    Index arrays that share a dimension of the view are one group, and so are two strides along one dimension.
    """
    groups: list[tuple[set[int], set[int], bool]] = []
    for at, output in enumerate(outputs):
        if output.is_constant:
            continue
        along = _varies_along(output, domain)
        members, is_array = {at}, output.index_array is not None
        rest = []
        for other, dimensions, has_array in groups:
            if dimensions & along:
                # Two dimensions of the array along one of the view: a diagonal.
                members, along, is_array = members | other, along | dimensions, True
            else:
                rest.append((other, dimensions, has_array))
        groups = [*rest, (members, along, is_array)]
    return [(sorted(members), sorted(dimensions)) for members, dimensions, has_array in groups if has_array]


def _varies_along(output: OutputMap, domain: IndexDomain) -> set[int]:
    if output.index_array is None:
        return set() if output.input_dimension is None else {output.input_dimension}
    return {
        axis
        for axis, (length, size) in enumerate(zip(output.index_array.shape, domain.shape, strict=True))
        if length > 1 or (length == 1 and size == 1)
    }


def _add_group(
    transform: DomainTransform,
    members: Sequence[int],
    dimensions: Sequence[int],
    maps: list[DimensionMap | None],
    axes: list[int | GroupAxis | None],
) -> None:
    domain = transform.domain
    shape = [domain.shape[each] for each in dimensions]
    for member in members:
        values = index_values(transform.outputs[member], domain)
        if not shape:
            maps[member] = Constant(int(np.asarray(values).reshape(-1)[0]))
            continue
        others = tuple([axis for axis in range(domain.rank) if axis not in dimensions])
        indices: Indices = np.ascontiguousarray(np.broadcast_to(np.squeeze(values, others), shape), dtype=np.int64)
        indices.flags.writeable = False
        maps[member] = Indexed(members[0], indices)
    for number, dimension in enumerate(dimensions if shape else ()):
        axes[dimension] = GroupAxis(members[0], number)
