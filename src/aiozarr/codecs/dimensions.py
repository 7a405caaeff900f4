"""Codecs that change dimensions: `transpose`, and `reshape`, which moves no elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Self, TypeAlias

from aiozarr.codecs.codec import JSON, AnyArray, ArrayArrayCodec, ArraySpec, Region
from aiozarr.codecs.registry import check_members, integers, invalid, register_codec, required
from aiozarr.common.checks import is_integer
from aiozarr.common.formatting import shown
from aiozarr.errors import InvalidMetadataError

_MAX_RANK = 64
_MAX_EDGE = 2**63 - 1

_Size: TypeAlias = int | tuple[int, ...]


@register_codec
@dataclass(frozen=True)
class ReshapeCodec(ArrayArrayCodec):
    """The codec `reshape` (registry of extensions).

    `shape` holds one value for each dimension of the encoded array:

    - its length
    - or a list of the dimensions of the decoded array that it merges
    - or -1, at most once: the remaining length
    """

    name = "reshape"
    shape: tuple[_Size, ...]

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("shape",), name=cls.name)
        value = required(configuration, "shape")
        if not isinstance(value, (list, tuple)) or len(value) > _MAX_RANK:
            raise invalid("shape", f"it must be a list of at most {_MAX_RANK} lengths, not {shown(value)}")
        shape = tuple(_parse_size(item) for item in value)
        if shape.count(-1) > 1:
            raise invalid("shape", "it may contain -1 only once")
        named = [dim for item in shape if isinstance(item, tuple) for dim in item]
        if sorted(set(named)) != named:
            raise invalid("shape", "its dimensions must increase, because the codec does not transpose")
        return cls(shape)

    def to_json(self) -> dict[str, JSON]:
        return {"shape": [list(item) if isinstance(item, tuple) else item for item in self.shape]}

    def encoded_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the encoded array.

        Raises:
            InvalidMetadataError: a member of the configuration does not fit `shape`. The error names the member.
        """
        for item in self.shape:
            if isinstance(item, tuple) and item and item[-1] >= len(shape):
                raise invalid("shape", f"there is no dimension {item[-1]} in an array of {len(shape)}")
        sizes = [prod(shape[dim] for dim in item) if isinstance(item, tuple) else item for item in self.shape]
        if -1 in sizes:
            known = -prod(sizes)
            sizes[sizes.index(-1)] = prod(shape) // known if known else 0
        if prod(sizes) != prod(shape):
            raise invalid("shape", f"{sizes} and the shape {list(shape)} differ in the number of elements")
        for i, item in enumerate(self.shape):
            # A merged dimension must cover the same elements in both arrays.
            if isinstance(item, tuple) and item:
                before = prod(sizes[:i]) == prod(shape[: item[0]])
                if not before or prod(sizes[i + 1 :]) != prod(shape[item[-1] + 1 :]):
                    raise invalid("shape", f"dimension {i} does not hold the dimensions {list(item)}")
        return tuple(sizes)

    def resolve(self, spec: ArraySpec) -> ArraySpec:
        return replace(spec, shape=self.encoded_shape(spec.shape))

    def encode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        return array.reshape(self.encoded_shape(spec.shape))

    def decode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        return array.reshape(spec.shape)


def _parse_size(value: Any) -> _Size:
    if is_integer(value) and (value == -1 or 1 <= value <= _MAX_EDGE):
        return int(value)
    if isinstance(value, (list, tuple)) and all(is_integer(dim) and 0 <= dim < _MAX_RANK for dim in value):
        return tuple(value)
    raise invalid("shape", f"a length is a positive integer, -1 or a list of dimensions, not {shown(value)}")


@register_codec
@dataclass(frozen=True)
class TransposeCodec(ArrayArrayCodec):
    """The codec `transpose` (codec specification "transpose").

    Dimension `i` of the encoded array is dimension `order[i]` of the decoded one. Encoding and decoding return views.
    The strings "C" and "F" of drafts of the specification are refused.
    """

    name = "transpose"
    order: tuple[int, ...]

    @property
    def _permutation(self) -> tuple[int, ...]:
        return self.order

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("order",), name=cls.name)
        order = integers(configuration, "order", 0, _MAX_RANK - 1)
        if len(order) > _MAX_RANK or sorted(order) != list(range(len(order))):
            raise invalid("order", "it must be a permutation of the dimensions")
        return cls(order)

    def to_json(self) -> dict[str, JSON]:
        return {"order": list(self.order)}

    def resolve(self, spec: ArraySpec) -> ArraySpec:
        if len(self.order) != len(spec.shape):
            raise InvalidMetadataError(
                f"the order has {len(self.order)} dimensions, the array {len(spec.shape)}", member="configuration.order"
            )
        return replace(spec, shape=tuple(spec.shape[dim] for dim in self.order))

    def encode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        return array.transpose(self.order)

    def decode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        inverse = sorted(range(len(self.order)), key=self.order.__getitem__)
        return array.transpose(inverse)

    def encode_region(self, region: Region, spec: ArraySpec) -> Region:
        return tuple(region[dim] for dim in self.order)
