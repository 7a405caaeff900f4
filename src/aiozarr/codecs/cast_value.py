"""The codec `cast_value`: the same values in another data type.

Real numbers are converted by value, with a choice of rounding and of treatment out of range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias, get_args

import ml_dtypes
import numpy as np

from aiozarr.codecs.bytes import bits_used
from aiozarr.codecs.codec import JSON, AnyArray, ArrayArrayCodec, ArraySpec, Region
from aiozarr.codecs.number_filters import REAL_TYPES, is_integral, is_real, limits, parse_real
from aiozarr.codecs.registry import check_members, invalid, one_of, register_codec, required, unsupported
from aiozarr.common.formatting import shown
from aiozarr.errors import CodecError, UnsupportedMetadataError

Rounding: TypeAlias = Literal["nearest-even", "towards-zero", "towards-positive", "towards-negative", "nearest-away"]
OutOfRange: TypeAlias = Literal["clamp", "wrap"]

_MAX_PAIRS = 256

_Pairs: TypeAlias = tuple[tuple[JSON, JSON], ...]


@register_codec
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
        rounding: Rounding = one_of(configuration, "rounding", get_args(Rounding), "nearest-even")
        on_overflow: OutOfRange | Literal["error"] = one_of(
            configuration, "out_of_range", (*get_args(OutOfRange), "error"), "error"
        )
        beyond: OutOfRange | None = None if on_overflow == "error" else on_overflow
        if beyond == "wrap" and not is_integral(REAL_TYPES[data_type]):
            raise invalid("out_of_range", f"values of {data_type} cannot wrap around")
        scalar_map = configuration.get("scalar_map", {})
        if not isinstance(scalar_map, Mapping):
            raise invalid("scalar_map", f"it must be an object, not {shown(scalar_map)}")
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
            raise unsupported(f"codec 'cast_value' casts real numbers, not {spec.dtype}", self.name)
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
        raise invalid("data_type", f"it must be the name of a data type, not {shown(value)}")
    if name not in REAL_TYPES:
        raise UnsupportedMetadataError(
            f"codec 'cast_value' casts to real numbers, not to {shown(name)}",
            member="configuration.data_type",
            point="data_type",
            name=name[:200],
        )
    return name


def _parse_pairs(value: JSON, way: str) -> _Pairs:
    if not isinstance(value, (list, tuple)) or len(value) > _MAX_PAIRS:
        raise invalid(f"scalar_map.{way}", f"it must be a list of at most {_MAX_PAIRS} pairs, not {shown(value)}")
    for pair in value:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise invalid(f"scalar_map.{way}", f"it must hold pairs of scalars, not {shown(pair)}")
        if any(isinstance(scalar, bool) or not isinstance(scalar, (int, float, str)) for scalar in pair):
            raise invalid(f"scalar_map.{way}", f"scalars must be numbers, or strings of numbers, not {shown(pair)}")
    return tuple((pair[0], pair[1]) for pair in value)


def _equal(array: AnyArray, value: AnyArray) -> AnyArray:
    equal = array == value
    return np.asarray(equal if is_integral(array.dtype) else equal | (np.isnan(array) & np.isnan(value)))


_FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True)
class Casting:
    """Converts arrays to types that cannot represent all values.

    Attributes:
        rounding: the rounding between two representable values.
        out_of_range: the treatment of values out of range; None raises an error.
        codec: the name of the codec, for errors.
    """

    rounding: Rounding
    out_of_range: OutOfRange | None
    codec: str

    def cast(self, array: AnyArray, target: np.dtype[Any]) -> AnyArray:
        """Return `array`, of integers or floating point numbers, as an array of `target`.

        Raises:
            CodecError: a value is out of range, or is a NaN or infinity that `target` does not have.
        """
        if array.dtype == target:
            return array
        with np.errstate(all="ignore"):
            if is_integral(target):
                return self._to_integers(array, target)
            if is_integral(array.dtype):
                return self._round_off(*_round_to_odd(array), target)
            exact = array.astype(_FLOAT64)
            return exact if target == _FLOAT64 else self._round_off(exact, None, target)

    def _to_integers(self, array: AnyArray, target: np.dtype[Any]) -> AnyArray:
        least, most = limits(target)
        if is_integral(array.dtype):
            wide = _widest(array)
            low, high = wide < least, wide > most
            bits = wide.astype(np.uint64)
        else:
            wide = _round(array.astype(_FLOAT64), self.rounding)
            if not np.isfinite(wide).all():
                raise self._error("there are NaNs or infinities, which integers do not have")
            # Both bounds are powers of two or zero, so they are exact floating point numbers.
            low, high = wide < float(least), wide >= float(most + 1)
            rest = np.fmod(wide, 2.0**64)
            bits = np.abs(rest).astype(np.uint64)
            bits = np.where(rest < 0, np.uint64(0) - bits, bits)
        if low.any() or high.any():
            if self.out_of_range is None:
                raise self._error(f"there are elements that {target} cannot hold")
            if self.out_of_range == "clamp":
                bits = np.where(low, np.uint64(least % (1 << 64)), np.where(high, np.uint64(most), bits))
        used = bits_used(target)
        if used < 8:
            return np.asarray(bits & np.uint64((1 << used) - 1)).astype(np.uint8).view(target)
        return np.asarray(bits).astype(f"u{target.itemsize}").view(target)

    def _round_off(self, values: AnyArray, missed: AnyArray | None, target: np.dtype[Any]) -> AnyArray:
        """Round float64 `values` to a narrower type. `missed` holds the exact integers, if `values` are rounded."""
        special = ~np.isfinite(values)
        if special.any() and not _all_representable(values[special], target):
            raise self._error(f"there are NaNs or infinities, which {target} does not have")
        if target == _FLOAT64:
            return _round_to_float64(values, missed, self.rounding)
        if self.rounding == "nearest-even" and target.isbuiltin == 1:
            # Numpy rounds its own types this way. Results that became infinite are checked below.
            nearest = values.astype(target)
            if np.array_equal(np.isfinite(nearest), ~special):
                return nearest
        info: Any = ml_dtypes.finfo(target)  # type: ignore[no-untyped-call]
        most, least = float(info.max), float(info.min)
        shape = values.shape
        flat = np.atleast_1d(values)
        near = np.clip(flat, least, most).astype(target)
        back = near.astype(_FLOAT64)
        below = np.where(back <= flat, back, np.nextafter(near, target.type(least)).astype(_FLOAT64))
        above = np.where(back >= flat, back, np.nextafter(near, target.type(most)).astype(_FLOAT64))
        # Values up to one step beyond the greatest value are rounded like those in range.
        step = most - float(np.nextafter(target.type(most), target.type(least)))
        out = np.abs(flat) > most if least < 0 else (flat > most) | (flat < least)
        above = np.where(out & (flat > 0), most + step, above)
        below = np.where(out & (flat > 0), most, below)
        if least < 0:
            below = np.where(out & (flat < 0), -most - step, below)
            above = np.where(out & (flat < 0), -most, above)
        chosen = _choose(flat, below, above, near, self.rounding)
        beyond = np.isfinite(flat) & (
            (chosen > most) | (chosen < least) | (flat >= most + step) | (flat <= -most - step)
        )
        if beyond.any():
            if self.out_of_range is None:
                raise self._error(f"there are elements that {target} cannot hold")
            has_infinity = bool(np.isinf(np.array(np.inf).astype(target).astype(_FLOAT64)))
            edge = np.where(flat > 0, np.inf if has_infinity else most, -np.inf if has_infinity else least)
            chosen = np.where(beyond, edge, chosen)
        chosen = np.where(np.isfinite(flat), chosen, flat)
        result = np.copysign(chosen, flat).astype(target) if least < 0 else chosen.astype(target)
        return result.reshape(shape)

    def _error(self, reason: str) -> CodecError:
        return CodecError(f"cannot cast: {reason}", codec=self.codec)


def _widest(array: AnyArray) -> AnyArray:
    return array if array.dtype.isbuiltin == 1 else array.astype(np.int64)


def _round(values: AnyArray, rounding: Rounding) -> AnyArray:
    match rounding:
        case "nearest-even":
            return np.rint(values)
        case "towards-zero":
            return np.trunc(values)
        case "towards-positive":
            return np.ceil(values)
        case "towards-negative":
            return np.floor(values)
        case "nearest-away":
            whole = np.trunc(values)
            return np.where(np.abs(values - whole) >= 0.5, whole + np.copysign(1.0, values), whole)


def _all_representable(values: AnyArray, target: np.dtype[Any]) -> bool:
    back = values.astype(target).astype(_FLOAT64)
    return bool(((np.isnan(back) & np.isnan(values)) | (back == values)).all())


def _round_to_odd(array: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return integers as float64, and the exact integers.

    Integers of more than 53 bits are rounded to odd: the dropped bits set the last bit that remains. A later rounding
    to a narrower type then still sees on which side of a tie the integer is. Rounding to float64 uses the integers.
    """
    wide = _widest(array)
    negative = wide < 0
    magnitude = wide.astype(np.uint64)
    magnitude = np.where(negative, np.uint64(0) - magnitude, magnitude)
    low = magnitude & np.uint64(0x7FF)
    folded = (magnitude - low) | (low != 0).astype(np.uint64) << np.uint64(11)
    values = np.where(magnitude >> np.uint64(53), folded, magnitude).astype(_FLOAT64)
    return np.where(negative, -values, values), np.asarray(wide)


def _round_to_float64(values: AnyArray, exact: AnyArray | None, rounding: Rounding) -> AnyArray:
    """Return integers rounded to float64."""
    if exact is None:
        return values
    near = exact.astype(_FLOAT64)
    negative = exact < 0
    magnitude = exact.astype(np.uint64)
    magnitude = np.where(negative, np.uint64(0) - magnitude, magnitude)
    size = np.abs(near)
    # The nearest value may be 2**64, which uint64 cannot represent: it is greater than all others.
    whole = np.where(size < 2.0**64, size, 0.0).astype(np.uint64)
    too_high = (size >= 2.0**64) | (whole > magnitude)
    too_low = ~too_high & (whole < magnitude)
    down, up = np.nextafter(size, 0.0), np.nextafter(size, np.inf)
    if rounding == "nearest-away":
        # Ties that were rounded down to even: both neighbours are equally far.
        gap = np.where(too_low, magnitude - whole, np.uint64(0)).astype(_FLOAT64)
        size = np.where(too_low & (gap * 2 == up - size), up, size)
    elif rounding != "nearest-even":
        outward = np.zeros(size.shape, bool) | (rounding != "towards-zero")
        if rounding != "towards-zero":
            outward = negative == (rounding == "towards-negative")
        size = np.where(too_high & ~outward, down, np.where(too_low & outward, up, size))
    return np.where(negative, -size, size)


def _choose(flat: AnyArray, below: AnyArray, above: AnyArray, near: AnyArray, rounding: Rounding) -> AnyArray:
    exact = (below == flat) | (above == flat)
    if rounding == "towards-positive":
        chosen = above
    elif rounding == "towards-negative":
        chosen = below
    elif rounding == "towards-zero":
        chosen = np.where(flat < 0, above, below)
    else:
        to_below, to_above = flat - below, above - flat
        outer, inner = np.where(flat < 0, below, above), np.where(flat < 0, above, below)
        tie = outer if rounding == "nearest-away" else np.where(_is_even(inner, near.dtype), inner, outer)
        chosen = np.where(to_below < to_above, below, np.where(to_above < to_below, above, tie))
    return np.where(exact, flat, chosen)


def _is_even(values: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    bits = values.astype(dtype).view(f"u{dtype.itemsize}")
    return np.asarray((bits & bits.dtype.type(1)) == 0)
