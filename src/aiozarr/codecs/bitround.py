"""The codec `bitround`: rounds numbers to fewer significant bits, which compress better. Decoding is the identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import ml_dtypes
import numpy as np

from aiozarr.codecs.codec import JSON, AnyArray, ArrayArrayCodec, ArraySpec, Region
from aiozarr.codecs.registry import FieldsCodec, check_members, integer, invalid, register, unsupported

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_MANTISSA: dict[np.dtype[Any], int] = {
    np.dtype(np.float16): 10,
    np.dtype(np.float32): 23,
    np.dtype(np.float64): 52,
    _BFLOAT16: 7,
}


@register
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
