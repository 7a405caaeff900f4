"""The array filters of numcodecs on flat arrays: delta, fixedscaleoffset, quantize, astype, bitround, packbits.

They make the same numpy calls as numcodecs in the same order, so that values are equal bit for bit.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from aiozarr.codecs.core.codec import JSON, AnyArray
from aiozarr.codecs.core.configuration import check_members, integer, invalid, number
from aiozarr.codecs.numcodecs.parameters import data_type

_BYTE = np.dtype(np.uint8)
_BOOL = np.dtype(np.bool_)
_MANTISSA_BITS = {2: 10, 4: 23, 8: 52}


@dataclass(frozen=True)
class ArrayFilter(ABC):
    """A function on flat arrays of one type, and its exact or approximate inverse.

    Attributes:
        decoded_type: the type of decoded elements.
        encoded_type: the type of encoded elements.
    """

    filter_id: ClassVar[str]
    decoded_type: np.dtype[Any]
    encoded_type: np.dtype[Any]

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Mapping[str, JSON], given: np.dtype[Any] | None) -> Self:
        """Build the filter. `given` is the type of the arrays, for configurations that omit it."""

    @abstractmethod
    def encode(self, flat: AnyArray) -> AnyArray:
        """Return the encoding of an array of `decoded_type`."""

    @abstractmethod
    def decode(self, flat: AnyArray) -> AnyArray:
        """Return the decoding of an array of `encoded_type`."""

    def encoded_length(self, length: int) -> int:
        """Return the number of encoded elements of `length` decoded ones."""
        return length

    def decoded_length(self, length: int) -> int:
        """Return the most decoded elements of `length` encoded ones."""
        return length


@dataclass(frozen=True)
class Delta(ArrayFilter):
    """The first element, then the differences of neighbours."""

    filter_id = "delta"

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON], given: np.dtype[Any] | None) -> Self:
        check_members(configuration, ("dtype", "astype"), name=cls.filter_id)
        decoded = data_type(configuration, "dtype", given)
        return cls(decoded, data_type(configuration, "astype", decoded))

    def encode(self, flat: AnyArray) -> AnyArray:
        encoded: AnyArray = np.empty_like(flat, dtype=self.encoded_type)
        encoded[:1] = flat[:1]
        encoded[1:] = np.diff(flat)
        return encoded

    def decode(self, flat: AnyArray) -> AnyArray:
        decoded: AnyArray = np.empty_like(flat, dtype=self.decoded_type)
        np.cumsum(flat, out=decoded)
        return decoded


@dataclass(frozen=True)
class FixedScaleOffset(ArrayFilter):
    """(x - offset) * scale, rounded to whole numbers."""

    filter_id = "fixedscaleoffset"
    offset: float
    scale: float

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON], given: np.dtype[Any] | None) -> Self:
        check_members(configuration, ("offset", "scale", "dtype", "astype"), name=cls.filter_id)
        decoded = data_type(configuration, "dtype", given)
        encoded = data_type(configuration, "astype", decoded)
        scale = number(configuration, "scale")
        if scale == 0:
            raise invalid("scale", "it must not be zero")
        return cls(decoded, encoded, number(configuration, "offset"), scale)

    def encode(self, flat: AnyArray) -> AnyArray:
        scaled: AnyArray = (flat - self.offset) * self.scale
        return np.around(scaled).astype(self.encoded_type, copy=False)

    def decode(self, flat: AnyArray) -> AnyArray:
        decoded: AnyArray = flat / self.scale
        # In place, unless the offset requires a wider type.
        same = np.result_type(decoded, self.offset) == decoded.dtype
        decoded = np.add(decoded, self.offset, out=decoded if same else None)
        return decoded.astype(self.decoded_type, copy=False)


@dataclass(frozen=True)
class Quantize(ArrayFilter):
    """Rounding to decimal digits, as multiples of a power of two. Decoding only restores the type."""

    filter_id = "quantize"
    digits: int

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON], given: np.dtype[Any] | None) -> Self:
        check_members(configuration, ("digits", "dtype", "astype"), name=cls.filter_id)
        decoded = data_type(configuration, "dtype", given)
        encoded = data_type(configuration, "astype", decoded)
        for key, dtype in (("dtype", decoded), ("astype", encoded)):
            if dtype.kind != "f":
                raise invalid(key, f"it must be a floating-point type, not {dtype}")
        return cls(decoded, encoded, integer(configuration, "digits", -300, 300))

    def encode(self, flat: AnyArray) -> AnyArray:
        exponent = math.log10(10.0**-self.digits)
        whole = math.floor(exponent) if exponent < 0 else math.ceil(exponent)
        scale = 2.0 ** math.ceil(math.log2(10.0**-whole))
        rounded: AnyArray = np.around(scale * flat) / scale
        return rounded.astype(self.encoded_type, copy=False)

    def decode(self, flat: AnyArray) -> AnyArray:
        return flat.astype(self.decoded_type, copy=False)


@dataclass(frozen=True)
class AsType(ArrayFilter):
    """Conversion to another type."""

    filter_id = "astype"

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON], given: np.dtype[Any] | None) -> Self:
        check_members(configuration, ("encode_dtype", "decode_dtype"), name=cls.filter_id)
        return cls(data_type(configuration, "decode_dtype", given), data_type(configuration, "encode_dtype"))

    def encode(self, flat: AnyArray) -> AnyArray:
        return flat.astype(self.encoded_type)

    def decode(self, flat: AnyArray) -> AnyArray:
        return flat.astype(self.decoded_type)


@dataclass(frozen=True)
class BitRound(ArrayFilter):
    """Mantissas rounded to `keepbits` bits. Decoding is the identity."""

    filter_id = "bitround"
    keepbits: int

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON], given: np.dtype[Any] | None) -> Self:
        check_members(configuration, ("keepbits",), name=cls.filter_id)
        keepbits = integer(configuration, "keepbits", 0, 52)
        dtype = np.dtype(np.float64) if given is None else given
        if dtype.kind != "f" or dtype.itemsize not in _MANTISSA_BITS:
            raise invalid("keepbits", f"only floating-point numbers of 16, 32 or 64 bits are rounded, not {dtype}")
        if keepbits > _MANTISSA_BITS[dtype.itemsize]:
            raise invalid("keepbits", f"{dtype} has {_MANTISSA_BITS[dtype.itemsize]} bits to keep, not {keepbits}")
        return cls(dtype, dtype, keepbits)

    def encode(self, flat: AnyArray) -> AnyArray:
        drop = _MANTISSA_BITS[self.decoded_type.itemsize] - self.keepbits
        if drop == 0:
            return flat
        bits: AnyArray = flat.copy().view(self.decoded_type.str.replace("f", "i"))
        mask = (np.array(-1, dtype=bits.dtype) >> drop) << drop
        bits += ((bits >> drop) & 1) + ((1 << (drop - 1)) - 1)
        bits &= mask
        return bits.view(self.decoded_type)

    def decode(self, flat: AnyArray) -> AnyArray:
        return flat


@dataclass(frozen=True)
class PackBits(ArrayFilter):
    """Eight booleans per byte, the first in the highest bit. The first byte counts the unused bits of the last."""

    filter_id = "packbits"
    decoded_type: np.dtype[Any] = _BOOL
    encoded_type: np.dtype[Any] = _BYTE

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON], given: np.dtype[Any] | None) -> Self:
        check_members(configuration, (), name=cls.filter_id)
        return cls()

    def encode(self, flat: AnyArray) -> AnyArray:
        packed = np.packbits(flat)
        return np.concatenate((np.array([-flat.size % 8], _BYTE), packed))

    def decode(self, flat: AnyArray) -> AnyArray:
        if flat.size == 0 or flat[0] > 7 or (flat.size == 1 and flat[0]):
            raise ValueError("the first byte is not the number of unused bits in the last byte")
        return np.unpackbits(flat[1:], count=(flat.size - 1) * 8 - int(flat[0])).view(_BOOL)

    def encoded_length(self, length: int) -> int:
        return 1 + -(-length // 8)

    def decoded_length(self, length: int) -> int:
        return 8 * max(0, length - 1)


ARRAY_FILTERS: Mapping[str, type[ArrayFilter]] = {
    kind.filter_id: kind for kind in (Delta, FixedScaleOffset, Quantize, AsType, BitRound, PackBits)
}
