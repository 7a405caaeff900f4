"""The codecs `bitround` and `scale_offset`, in the arithmetic of the array's type.

`bitround` rounds numbers to fewer significant bits, which compress better. Decoding is the identity. `scale_offset`
subtracts an offset and multiplies. Real numbers in configurations are in the JSON of fill values (v3 core
specification, "fill_value").
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import ml_dtypes
import numpy as np

from aiozarr.codecs.bytes import bits_used
from aiozarr.codecs.codec import JSON, AnyArray, ArrayArrayCodec, ArraySpec, Region
from aiozarr.codecs.registry import FieldsCodec, check_members, integer, invalid, register_codec, unsupported
from aiozarr.common.checks import is_integer
from aiozarr.common.formatting import shown
from aiozarr.errors import CodecError

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_MANTISSA: dict[np.dtype[Any], int] = {
    np.dtype(np.float16): 10,
    np.dtype(np.float32): 23,
    np.dtype(np.float64): 52,
    _BFLOAT16: 7,
}


@register_codec
@dataclass(frozen=True)
class BitroundCodec(FieldsCodec, ArrayArrayCodec):
    """The codec `bitround` (registry of extensions).

    Floating point numbers keep `keepbits` bits of the mantissa and round ties to even. Infinities and NaNs do not
    change. Integers keep `keepbits` bits from the highest set bit. An integer that would overflow is truncated.
    """

    name = "bitround"
    keepbits: int

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("keepbits",), name=cls.name)
        return cls(integer(configuration, "keepbits", 1, 64))

    def resolve(self, spec: ArraySpec) -> ArraySpec:
        component = _component(spec.dtype)
        mantissa = _MANTISSA.get(component)
        if mantissa is None and component.kind not in "iumM":
            reason = f"codec 'bitround' rounds integers and floating point numbers, not {spec.dtype}"
            raise unsupported(reason, self.name)
        if mantissa is not None and self.keepbits > mantissa:
            raise invalid("keepbits", f"the type {component} has {mantissa} bits of mantissa")
        return replace(spec, fill_value=self.encode(spec.fill_value, spec))

    def encode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        component = _component(spec.dtype)
        unsigned = np.dtype(f"u{component.itemsize}")
        numbers = np.array(array, order="C", ndmin=1)
        bits = numbers.view(unsigned)
        mantissa = _MANTISSA.get(component)
        if mantissa is None:
            _round_integers(bits, self.keepbits, signed=component.kind != "u")
        else:
            special = ~np.isfinite(numbers.view(component))
            kept = bits[special]
            _round_mantissa(bits, mantissa - self.keepbits)
            bits[special] = kept
        return numbers.reshape(array.shape)

    def decode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        return array

    def encode_region(self, region: Region, spec: ArraySpec) -> Region:
        return region


def _component(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def _round_mantissa(bits: AnyArray, dropped: int) -> None:
    if dropped == 0:
        return
    one = bits.dtype.type(1)
    odd = (bits >> bits.dtype.type(dropped)) & one
    bits += odd + bits.dtype.type((1 << (dropped - 1)) - 1)
    bits &= ~bits.dtype.type((1 << dropped) - 1)


def _round_integers(bits: AnyArray, keepbits: int, *, signed: bool) -> None:
    kind = bits.dtype.type
    width = 8 * bits.itemsize
    dropped = np.maximum(_bit_length(bits) - keepbits, 0).astype(bits.dtype)
    some = dropped > 0
    half = np.where(some, kind(1) << np.where(some, dropped - kind(1), kind(0)), kind(0)).astype(bits.dtype)
    keep = ~((kind(1) << np.minimum(dropped, kind(width - 1))) - kind(1))
    rounded = ((bits + half) & keep).astype(bits.dtype)
    top = kind(1 << (width - 1))
    overflowed = rounded < (bits & keep) if not signed else ((rounded ^ bits) & top) != 0
    bits[...] = np.where(some, np.where(overflowed, bits & keep, rounded), bits)


def _bit_length(bits: AnyArray) -> AnyArray:
    # Each half of 32 bits is exact in float64. The exponent is the position of the highest bit.
    wide = bits.astype(np.uint64)
    high = np.frexp((wide >> np.uint64(32)).astype(np.float64))[1]
    low = np.frexp((wide & np.uint64(0xFFFFFFFF)).astype(np.float64))[1]
    return np.where(high > 0, high + 32, low)


INTEGERS: dict[str, np.dtype[Any]] = {
    **{name: np.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "int4", "uint2", "uint4")},
}
FLOATS: dict[str, np.dtype[Any]] = {
    **{name: np.dtype(name) for name in ("float16", "float32", "float64")},
    **{
        name: np.dtype(getattr(ml_dtypes, name))
        for name in (
            *("bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2"),
            *("float8_e4m3fn", "float8_e5m2fnuz", "float8_e8m0fnu"),
            *("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
        )
    },
}
REAL_TYPES = {**INTEGERS, **FLOATS}

_INTEGER_TYPES = frozenset(INTEGERS.values())
_REAL_TYPES = frozenset(REAL_TYPES.values())
_NAMED = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}", re.ASCII)


def is_real(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of `dtype` are integers or floating point numbers."""
    return dtype in _REAL_TYPES


def is_integral(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of `dtype` are integers, including the integers of ml_dtypes."""
    return dtype in _INTEGER_TYPES


def limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type."""
    bits = bits_used(dtype)
    if dtype.name.startswith("u"):
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def parse_real(value: object, dtype: np.dtype[Any], key: str) -> AnyArray:
    """Parse a JSON scalar to a 0-d array of `dtype`. Numbers are rounded to floating point types.

    Raises:
        InvalidMetadataError: `dtype` cannot represent the value. The error names the member `key`.
    """
    if is_integral(dtype):
        least, most = limits(dtype)
        # Writers whose numbers are all floating point write 5.0 for 5.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not is_integer(value) or not least <= value <= most:
            raise invalid(key, f"{shown(value)} is not a value of {dtype}")
        return np.array(value, np.int64 if value < 0 else np.uint64).astype(dtype)
    if isinstance(value, str):
        if value in _NAMED:
            return np.array(_NAMED[value]).astype(dtype)
        bits = int(value, 16) if _HEX.fullmatch(value) else -1
        if 0 <= bits < 1 << (8 * dtype.itemsize) and len(value) == 2 + 2 * dtype.itemsize:
            return np.array(bits, f"u{dtype.itemsize}").view(dtype)
        raise invalid(key, f"{shown(value)} is not a value of {dtype}")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise invalid(key, f"{shown(value)} is not a value of {dtype}")
    try:
        number = float(value)
    except OverflowError:
        raise invalid(key, f"{shown(value)} is not a value of {dtype}") from None
    with np.errstate(all="ignore"):
        return np.array(number).astype(dtype)


@register_codec
@dataclass(frozen=True)
class ScaleOffsetCodec(ArrayArrayCodec):
    """The codec `scale_offset` (registry of extensions): `(x - offset) * scale`, and back `x / scale + offset`.

    Integers that leave their range raise an error, and so do encoded integers that are not multiples of `scale`. The
    fill value is encoded like an element.

    Attributes:
        offset: the subtrahend as in the configuration: a number, or a string such as "NaN"; 0 by default.
        scale: the factor in the same form; 1 by default.
    """

    name = "scale_offset"
    offset: JSON = 0
    scale: JSON = 1

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("offset", "scale"), name=cls.name)
        values = {"offset": 0, "scale": 1, **configuration}
        for key in ("offset", "scale"):
            if isinstance(values[key], bool) or not isinstance(values[key], (int, float, str)):
                raise invalid(key, "it must be a number, or a string of a number")
        return cls(values["offset"], values["scale"])

    def to_json(self) -> dict[str, JSON]:
        return {"offset": self.offset, "scale": self.scale}

    def resolve(self, spec: ArraySpec) -> ArraySpec:
        if not is_real(spec.dtype):
            raise unsupported(f"codec 'scale_offset' scales real numbers, not {spec.dtype}", self.name)
        if float(self._parameters(spec)[1]) == 0:
            raise invalid("scale", "it must not be 0")
        try:
            return replace(spec, fill_value=self.encode(spec.fill_value, spec))
        except CodecError as error:
            raise invalid("scale", f"the fill value cannot be encoded: {error}") from error

    def encode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        offset, scale = self._parameters(spec)
        if not is_integral(spec.dtype):
            with np.errstate(all="ignore"):
                return np.asarray((array - offset) * scale, spec.dtype)
        wide = _wide(spec.dtype, offset, scale)
        return self._narrow((array.astype(wide) - _scalar(offset, wide)) * _scalar(scale, wide), spec)

    def decode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        offset, scale = self._parameters(spec)
        if not is_integral(spec.dtype):
            with np.errstate(all="ignore"):
                return np.asarray(array / scale + offset, spec.dtype)
        wide = _wide(spec.dtype, offset, scale)
        divisor = _scalar(scale, wide)
        values = array.astype(wide)
        if np.any(values % divisor):
            raise CodecError(
                f"there are elements that are not multiples of {int(scale)}, with a non-zero remainder", codec=self.name
            )
        return self._narrow(values // divisor + _scalar(offset, wide), spec)

    def encode_region(self, region: Region, spec: ArraySpec) -> Region:
        return region

    def _parameters(self, spec: ArraySpec) -> tuple[AnyArray, AnyArray]:
        return parse_real(self.offset, spec.dtype, "offset"), parse_real(self.scale, spec.dtype, "scale")

    def _narrow(self, values: Any, spec: ArraySpec) -> AnyArray:
        found: AnyArray = np.asarray(values)
        least, most = limits(spec.dtype)
        if found.size and (int(found.min()) < least or int(found.max()) > most):
            raise CodecError(f"there are elements outside the range of dtype {spec.dtype}", codec=self.name)
        return found.astype(spec.dtype)


def _wide(dtype: np.dtype[Any], offset: AnyArray, scale: AnyArray) -> np.dtype[Any]:
    """Return a type in which no step overflows: 64 bits if they suffice, otherwise Python's integers."""
    bound = max(map(abs, limits(dtype)))
    largest = (bound + abs(int(offset))) * max(1, abs(int(scale)))
    return np.dtype(np.int64) if largest < 1 << 63 else np.dtype(object)


def _scalar(value: AnyArray, wide: np.dtype[Any]) -> Any:
    return int(value) if wide.hasobject else np.int64(int(value))
