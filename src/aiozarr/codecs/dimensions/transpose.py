"""The codec `transpose`: permutes the dimensions of an array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from aiozarr.codecs.core.codec import JSON, AnyArray, ArrayArrayCodec, ArraySpec, Region
from aiozarr.codecs.core.configuration import check_members, integers, invalid
from aiozarr.codecs.core.registry import register
from aiozarr.errors import InvalidMetadataError

_MAX_RANK = 64


@register
@dataclass(frozen=True)
class TransposeCodec(ArrayArrayCodec):
    """The codec `transpose` (codec specification "transpose").

    Dimension `i` of the encoded array is dimension `order[i]` of the decoded one. Encoding and decoding return views.
    The strings "C" and "F" of drafts of the specification are refused.
    """

    name = "transpose"
    order: tuple[int, ...]

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
