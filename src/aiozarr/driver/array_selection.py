"""Translates the index transform of a `TensorView` into that of the array's own views, which the engine reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr import grid
from aiozarr.driver.index_domain import IndexDomain
from aiozarr.driver.index_transform import DomainTransform, Indices, OutputMap, index_values
from aiozarr.grid.transform import NOTHING, GroupAxis

AnyArray: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class ArraySelection:
    """The elements of a view of the array.

    Attributes:
        transform: the selection, whose axes along dimensions of the array are in their order.
        order: for each of its axes the dimension of the view; None if they are the same.
    """

    transform: grid.IndexTransform
    order: tuple[int, ...] | None

    def from_view(self, values: AnyArray) -> AnyArray:
        """Return values of the shape of the view in the shape of the selection, without a copy."""
        return values if self.order is None else values.transpose(self.order)

    def to_view(self, values: AnyArray) -> AnyArray:
        """Return values of the shape of the selection in the shape of the view, without a copy."""
        return values if self.order is None else values.transpose(np.argsort(self.order))


def strided_selection(transform: DomainTransform, shape: Sequence[int]) -> ArraySelection | None:
    """Return the selection of a view without index arrays whose indices lie in an array of this shape.

    This is the short way for most views: in a read of a few elements, each step counts.

    Returns: None if the view needs the rules of `array_selection`, or is not inside of the array.
    """
    dimensions = transform.domain.dimensions
    maps: list[grid.DimensionMap] = []
    axes: list[int] = []
    lengths: list[int] = []
    for at, (output, length) in enumerate(zip(transform.outputs, shape, strict=True)):
        along = output.input_dimension
        if along is None:
            if output.index_array is not None or not 0 <= output.offset < length:
                return None
            maps.append(grid.Constant(output.offset))
            continue
        each = dimensions[along]
        count = each.exclusive_max - each.inclusive_min
        start = output.offset + output.stride * each.inclusive_min
        last = start + output.stride * (count - 1)
        # Dimensions in another order, or twice, are left to the rules for all views.
        if along != len(axes) or count < 1 or not (0 <= start < length and 0 <= last < length):
            return None
        maps.append(grid.Strided(start, output.stride if count > 1 else 1, count))
        axes.append(at)
        lengths.append(count)
    if len(axes) != len(dimensions):
        return None
    return ArraySelection(grid.IndexTransform(tuple(maps), tuple(axes), tuple(lengths)), None)


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
    return ArraySelection(grid.IndexTransform(selected.maps, axes, shape), tuple(order))


def _selection(transform: DomainTransform) -> grid.IndexTransform:
    """Return the selection with one axis per dimension of the view, in the order of the view."""
    domain = transform.domain
    axes: list[int | GroupAxis | None] = [None] * domain.rank
    maps: list[grid.DimensionMap | None] = [None] * len(transform.outputs)
    if 0 in domain.shape:
        # Nothing is selected: the maps must only be valid.
        nothing: list[grid.DimensionMap] = [NOTHING] * len(maps)
        return grid.IndexTransform(tuple(nothing), tuple(axes), domain.shape)
    for members, dimensions in _groups(transform.outputs, domain):
        _add_group(transform, members, dimensions, maps, axes)
    for at, output in enumerate(transform.outputs):
        if maps[at] is None:
            maps[at], along = _strided(output, domain)
            if along is not None:
                axes[along] = at
    return grid.IndexTransform(tuple([each for each in maps if each is not None]), tuple(axes), domain.shape)


def _strided(output: OutputMap, domain: IndexDomain) -> tuple[grid.DimensionMap, int | None]:
    """Return the map of a dimension of the array, and the dimension of the view that goes along it."""
    at = output.input_dimension
    if at is None:
        return grid.Constant(output.offset), None
    start = output.offset + output.stride * domain[at].inclusive_min
    count = domain[at].size
    return grid.Strided(start, output.stride if count > 1 else 1, count), at


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
    maps: list[grid.DimensionMap | None],
    axes: list[int | GroupAxis | None],
) -> None:
    domain = transform.domain
    shape = [domain.shape[each] for each in dimensions]
    for member in members:
        values = index_values(transform.outputs[member], domain)
        if not shape:
            maps[member] = grid.Constant(int(np.asarray(values).reshape(-1)[0]))
            continue
        others = tuple([axis for axis in range(domain.rank) if axis not in dimensions])
        indices: Indices = np.ascontiguousarray(np.broadcast_to(np.squeeze(values, others), shape), dtype=np.int64)
        indices.flags.writeable = False
        maps[member] = grid.Indexed(members[0], indices)
    for number, dimension in enumerate(dimensions if shape else ()):
        axes[dimension] = GroupAxis(members[0], number)
