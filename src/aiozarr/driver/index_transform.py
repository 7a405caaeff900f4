"""Index transforms: from the domain of a view to the indices of the stored array (TensorStore's `DomainTransform`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiozarr.common.formatting import shown
from aiozarr.driver.index_domain import INFINITY, Dimension, IndexDomain
from aiozarr.driver.json_members import JSON, Members, array, integer, invalid, items
from aiozarr.errors import SelectionError

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OutputMap:
    """The indices of one dimension of the array: `offset + stride * input`.

    Attributes:
        offset: index where the input is 0, or the only index if there is no input.
        stride: step between indices.
        input_dimension: the dimension of the view that is the input; None for an index array or a single index.
        index_array: the input by position in the view; one axis per dimension of the view, of its length or 1.
    """

    offset: int = 0
    stride: int = 1
    input_dimension: int | None = None
    index_array: Indices | None = None

    @property
    def is_constant(self) -> bool:
        """True if there is a single index."""
        return self.input_dimension is None and self.index_array is None

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON of the map."""
        found: dict[str, JSON] = {"offset": self.offset} if self.offset else {}
        if self.input_dimension is not None:
            found["input_dimension"] = self.input_dimension
        if self.index_array is not None:
            found["index_array"] = self.index_array.tolist()
        if not self.is_constant and self.stride != 1:
            found["stride"] = self.stride
        return found

    def applied_to(self, inner: OutputMap) -> OutputMap:
        """Return the map `offset + stride * inner`."""
        offset, stride = self.offset + self.stride * inner.offset, self.stride * inner.stride
        return OutputMap(offset, stride, inner.input_dimension, inner.index_array)

    def simplified(self, domain: IndexDomain) -> OutputMap:
        """Return the map with a single index if its index array has one element, or if the domain is empty."""
        if self.index_array is None:
            return self
        if 0 in domain.shape:
            return constant(self.offset)
        return constant(self.offset + self.stride * self.index_array.item()) if self.index_array.size == 1 else self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputMap) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]  # an index array has no cheap hash


def constant(index: int) -> OutputMap:
    """Return the map to a single index."""
    return OutputMap(index, 0)


@dataclass(frozen=True)
class DomainTransform:
    """The domain of a view, and one `OutputMap` per dimension of the array."""

    domain: IndexDomain
    outputs: tuple[OutputMap, ...]

    @classmethod
    def identity(cls, domain: IndexDomain) -> DomainTransform:
        """Return the transform of a view of the whole array."""
        return cls(domain, tuple([OutputMap(0, 1, dimension) for dimension in range(domain.rank)]))

    @classmethod
    def parse(cls, value: JSON, path: str) -> DomainTransform:
        """Parse a transform from JSON.

        Raises:
            InvalidSpecError: a member is not valid.
        """
        with Members(value, path) as members:
            domain = IndexDomain.take(members, "input_")
            outputs = members.take("output", lambda each, where: _parse_outputs(each, where, domain), None)
        return cls.identity(domain) if outputs is None else cls(domain, outputs)

    @property
    def is_identity(self) -> bool:
        """True if the indices of the view are those of the array."""
        return len(self.outputs) == self.domain.rank and all(
            each.input_dimension == i and (each.offset, each.stride) == (0, 1) for i, each in enumerate(self.outputs)
        )

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON of the transform, without the maps of an identity."""
        found = self.domain.to_json("input_")
        return found if self.is_identity else {**found, "output": [each.to_json() for each in self.outputs]}

    def resolved(self, stored: IndexDomain) -> DomainTransform:
        """Return the transform with implicit bounds taken from the present domain of the stored array."""
        dimensions = list(self.domain.dimensions)
        for output, extent in zip(self.outputs, stored.dimensions, strict=True):
            at = output.input_dimension
            if at is None or not output.stride:
                continue
            low, high, low_implicit, high_implicit = _preimage(output, extent)
            each = dimensions[at]
            if each.implicit_lower:
                each = replace(each, inclusive_min=low, implicit_lower=low_implicit)
            if each.implicit_upper:
                end = max(high, each.inclusive_min)
                each = replace(each, exclusive_max=end, implicit_upper=high_implicit)
            dimensions[at] = each
        return replace(self, domain=IndexDomain(tuple(dimensions)))

    def composed(self, domain: IndexDomain, inputs: Sequence[OutputMap]) -> DomainTransform:
        """Return the transform of a view of this view: its domain, and the map of each index to this view."""
        return DomainTransform(domain, tuple([self._compose(each, domain, inputs) for each in self.outputs]))

    def _compose(self, output: OutputMap, domain: IndexDomain, inputs: Sequence[OutputMap]) -> OutputMap:
        if output.input_dimension is not None:
            return output.applied_to(inputs[output.input_dimension]).simplified(domain)
        if output.index_array is None:
            return output
        positions = []
        for length, old, each in zip(output.index_array.shape, self.domain.dimensions, inputs, strict=True):
            indices: Any = 0 if length == 1 else index_values(each, domain) - old.inclusive_min
            positions.append(indices)
        return replace(output, index_array=output.index_array[tuple(positions)]).simplified(domain)

    def translated(self, origin: Sequence[int | None]) -> DomainTransform:
        """Return the transform whose domain begins at `origin`; None leaves a dimension unchanged."""
        dimensions, inputs = [], []
        for at, (each, start) in enumerate(zip(self.domain.dimensions, origin, strict=True)):
            shift = 0 if start is None else start - each.inclusive_min
            moved = replace(
                each,
                inclusive_min=each.inclusive_min + shift if each.inclusive_min > -INFINITY else each.inclusive_min,
                exclusive_max=each.exclusive_max + shift if each.exclusive_max < INFINITY else each.exclusive_max,
            )
            dimensions.append(moved)
            inputs.append(OutputMap(-shift, 1, at))
        return self.composed(IndexDomain(tuple(dimensions)), inputs)

    def transposed(self, order: Sequence[int]) -> DomainTransform:
        """Return the transform whose dimension `i` is the dimension `order[i]` of this one."""
        domain = IndexDomain(tuple([self.domain[each] for each in order]))
        inputs = [OutputMap(0, 1, list(order).index(each)) for each in range(self.domain.rank)]
        return self.composed(domain, inputs)

    def check(self, shape: Sequence[int]) -> None:
        """Check that all indices of the view lie in the stored array of this shape.

        Raises:
            SelectionError: one does not; the error names the dimension and the index.
        """
        if not self.domain.is_finite:
            raise SelectionError(f"the domain {self.domain} has no bounds, so it cannot be read or written")
        if 0 in self.domain.shape:
            return
        for dimension, (output, length) in enumerate(zip(self.outputs, shape, strict=True)):
            for index in _ends(output, self.domain):
                if not 0 <= index < length:
                    raise SelectionError(
                        f"index {index} is outside [0, {length}) in dimension {dimension} of the array"
                    )


def index_values(output: OutputMap, domain: IndexDomain) -> Any:
    """Return the indices of a map by position in the domain: an array of the rank of the domain, or one integer."""
    if output.index_array is not None:
        return output.offset + output.stride * output.index_array
    if output.input_dimension is None:
        return output.offset
    each = domain[output.input_dimension]
    values = output.offset + output.stride * np.arange(each.inclusive_min, each.exclusive_max, dtype=np.int64)
    shape = [1] * domain.rank
    shape[output.input_dimension] = each.size
    return values.reshape(shape)


def _ends(output: OutputMap, domain: IndexDomain) -> tuple[int, ...]:
    """Return the least and the greatest index of a map."""
    if output.index_array is not None:
        values = output.index_array
        return tuple([output.offset + output.stride * int(each) for each in (values.min(), values.max())])
    if output.input_dimension is None:
        return (output.offset,)
    each = domain[output.input_dimension]
    return tuple([output.offset + output.stride * end for end in (each.inclusive_min, each.exclusive_max - 1)])


def _preimage(output: OutputMap, extent: Dimension) -> tuple[int, int, bool, bool]:
    """Return the bounds of the inputs whose indices lie in `extent`, and whether they are implicit."""
    low, high = extent.inclusive_min, extent.exclusive_max - 1
    flags = (extent.implicit_lower, extent.implicit_upper)
    if output.stride < 0:
        low, high, flags = -high, -low, (flags[1], flags[0])
    offset, stride = (output.offset, output.stride) if output.stride > 0 else (-output.offset, -output.stride)
    return -((offset - low) // stride), (high - offset) // stride + 1, *flags


def _parse_outputs(value: JSON, path: str, domain: IndexDomain) -> tuple[OutputMap, ...]:
    return tuple([_parse_output(each, where, domain) for where, each in items(value, path)])


def _parse_output(value: JSON, path: str, domain: IndexDomain) -> OutputMap:
    with Members(value, path) as members:
        offset = members.take("offset", integer, 0)
        has_stride = "stride" in members
        stride = members.take("stride", integer, 1)
        at = members.take("input_dimension", lambda each, where: integer(each, where, 0, domain.rank - 1), None)
        indices = members.take("index_array", lambda each, where: _parse_indices(each, where, domain), None)
        bounds = members.take("index_array_bounds", _parse_bounds, None)
        if at is not None and indices is not None:
            raise invalid(path, "an output may have input_dimension or index_array, not both")
        if bounds is not None and indices is None:
            raise invalid(members.at("index_array_bounds"), "index_array_bounds needs index_array")
        if at is None and indices is None:
            if has_stride:
                raise invalid(members.at("stride"), "stride needs input_dimension or index_array")
            return constant(offset)
        if bounds is not None and indices is not None and indices.size:
            for index in (int(indices.min()), int(indices.max())):
                if not bounds[0] <= index <= bounds[1]:
                    reason = f"the index {index} is outside index_array_bounds, {bounds[0]} to {bounds[1]}"
                    raise invalid(members.at("index_array"), reason)
        if not stride:
            return constant(offset)
        return OutputMap(offset, stride, at, indices).simplified(domain)


def _parse_bounds(value: JSON, path: str) -> tuple[int, int]:
    """Return the first and the last allowed index of an index array."""
    if len(array(value, path)) != 2:
        raise invalid(path, f"expected the first and the last index, not {shown(value)}")
    low = -INFINITY if value[0] == "-inf" else integer(value[0], f"{path}[0]")
    return low, INFINITY if value[1] == "+inf" else integer(value[1], f"{path}[1]")


def _parse_indices(value: JSON, path: str, domain: IndexDomain) -> Indices:
    try:
        indices = np.asarray(value)
    except ValueError as error:
        raise invalid(path, "expected nested arrays of integers of one shape") from error
    if indices.dtype.kind not in "iu" and indices.size:
        raise invalid(path, "expected nested arrays of integers")
    if indices.ndim != domain.rank:
        raise invalid(path, f"the index array has {indices.ndim} axes, but the domain has rank {domain.rank}")
    for at, (length, each) in enumerate(zip(indices.shape, domain.dimensions, strict=True)):
        if length not in (1, each.size):
            raise invalid(path, f"axis {at} of the index array has length {length}, but the domain has {each.size}")
    return indices.astype(np.int64)
