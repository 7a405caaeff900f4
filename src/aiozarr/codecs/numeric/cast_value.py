"""The codec `cast_value`: the same values in another data type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np

from aiozarr.codecs.core.codec import JSON, AnyArray, ArrayArrayCodec, ArraySpec, Region
from aiozarr.codecs.core.configuration import check_members, invalid, one_of, required, short
from aiozarr.codecs.core.registry import register
from aiozarr.codecs.numeric.casting import Casting, OutOfRange, Rounding
from aiozarr.codecs.numeric.scalars import REAL_TYPES, is_integral, is_real, parse_real
from aiozarr.errors import CodecError, UnsupportedMetadataError

_ROUNDING: dict[str, Rounding] = {
    "nearest-even": "nearest-even",
    "towards-zero": "towards-zero",
    "towards-positive": "towards-positive",
    "towards-negative": "towards-negative",
    "nearest-away": "nearest-away",
}
_OUT_OF_RANGE: dict[str, OutOfRange | None] = {"clamp": "clamp", "wrap": "wrap", "error": None}
_MAX_PAIRS = 256

_Pairs: TypeAlias = tuple[tuple[JSON, JSON], ...]


@register
@dataclass(frozen=True)
class CastValueCodec(ArrayArrayCodec):
    """The codec `cast_value` (registry of extensions), between integer and floating point types.

    The fill value is cast like an element, and must not change when it is cast back.

    Attributes:
        data_type: name of the type of the encoded array.
        rounding: the rounding of values that this type cannot represent.
        out_of_range: the treatment of values out of its range; None raises an error.
        encode_map: pairs of JSON scalars: a value, and its replacement instead of casting.
        decode_map: the same pairs for decoding.
    """

    name = "cast_value"
    data_type: str
    rounding: Rounding = "nearest-even"
    out_of_range: OutOfRange | None = None
    encode_map: _Pairs = ()
    decode_map: _Pairs = ()

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("data_type", "rounding", "out_of_range", "scalar_map"), name=cls.name)
        data_type = _parse_data_type(required(configuration, "data_type"))
        rounding = _ROUNDING[one_of({"rounding": "nearest-even", **configuration}, "rounding", _ROUNDING)]
        beyond = _OUT_OF_RANGE[one_of({"out_of_range": "error", **configuration}, "out_of_range", _OUT_OF_RANGE)]
        if beyond == "wrap" and not is_integral(REAL_TYPES[data_type]):
            raise invalid("out_of_range", f"values of {data_type} cannot wrap around")
        scalar_map = configuration.get("scalar_map", {})
        if not isinstance(scalar_map, Mapping):
            raise invalid("scalar_map", f"it must be an object, not {short(scalar_map)}")
        encode_map, decode_map = (_parse_pairs(scalar_map.get(way, ()), way) for way in ("encode", "decode"))
        return cls(data_type, rounding, beyond, encode_map, decode_map)

    def to_json(self) -> dict[str, JSON]:
        scalar_map = {"encode": self.encode_map, "decode": self.decode_map}
        members: dict[str, JSON] = {
            "data_type": self.data_type,
            "rounding": None if self.rounding == "nearest-even" else self.rounding,
            "out_of_range": self.out_of_range,
            "scalar_map": {way: [list(pair) for pair in pairs] for way, pairs in scalar_map.items() if pairs} or None,
        }
        return {key: value for key, value in members.items() if value is not None}

    def resolve(self, spec: ArraySpec) -> ArraySpec:
        if not is_real(spec.dtype):
            raise UnsupportedMetadataError(
                f"codec 'cast_value' casts real numbers, not {spec.dtype}", point="codec", name=self.name
            )
        try:
            fill = self.encode(spec.fill_value, spec)
            back = self.decode(fill, spec)
        except CodecError as error:
            raise invalid("data_type", f"the fill value is not supported: {error}") from error
        if not (_equal(back, spec.fill_value).all()):
            raise invalid("data_type", f"the fill value {spec.fill_value} is cast back to {back}")
        return replace(spec, dtype=REAL_TYPES[self.data_type], fill_value=fill)

    def encode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        return self._cast(array, REAL_TYPES[self.data_type], self.encode_map)

    def decode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        return self._cast(array, spec.dtype, self.decode_map)

    def encode_region(self, region: Region, spec: ArraySpec) -> Region:
        return region

    def _cast(self, array: AnyArray, target: np.dtype[Any], pairs: _Pairs) -> AnyArray:
        # Only integers wrap. Decoding to floating point numbers does not.
        beyond = None if self.out_of_range == "wrap" and not is_integral(target) else self.out_of_range
        casting = Casting(self.rounding, beyond, self.name)
        if not pairs:
            return casting.cast(array, target)
        # The number of the first pair that matches each element, counted from 1; 0 without a match.
        met = np.zeros(array.shape, np.uint16)
        for number, (key, _) in enumerate(pairs, 1):
            met[_equal(array, parse_real(key, array.dtype, "scalar_map")) & (met == 0)] = number
        rest = array.copy()
        rest[met > 0] = array.dtype.type(1)
        values = np.array([parse_real(value, target, "scalar_map") for _, value in pairs])
        result = np.array(casting.cast(rest, target))
        result[met > 0] = values[met[met > 0] - 1]
        return result


def _parse_data_type(value: JSON) -> str:
    name = value.get("name") if isinstance(value, Mapping) else value
    if not isinstance(name, str):
        raise invalid("data_type", f"it must be the name of a data type, not {short(value)}")
    if name not in REAL_TYPES:
        raise UnsupportedMetadataError(
            f"codec 'cast_value' casts to real numbers, not to {short(name)}",
            member="configuration.data_type",
            point="data_type",
            name=name[:200],
        )
    return name


def _parse_pairs(value: JSON, way: str) -> _Pairs:
    if not isinstance(value, (list, tuple)) or len(value) > _MAX_PAIRS:
        raise invalid(f"scalar_map.{way}", f"it must be a list of at most {_MAX_PAIRS} pairs, not {short(value)}")
    for pair in value:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise invalid(f"scalar_map.{way}", f"it must hold pairs of scalars, not {short(pair)}")
        if any(isinstance(scalar, bool) or not isinstance(scalar, (int, float, str)) for scalar in pair):
            raise invalid(f"scalar_map.{way}", f"scalars must be numbers, or strings of numbers, not {short(pair)}")
    return tuple((pair[0], pair[1]) for pair in value)


def _equal(array: AnyArray, value: AnyArray) -> AnyArray:
    equal = array == value
    return np.asarray(equal if is_integral(array.dtype) else equal | (np.isnan(array) & np.isnan(value)))
