"""The filters of numcodecs: delta, fixedscaleoffset, quantize, astype, bitround, packbits.

On flat arrays they make the same numpy calls as numcodecs in the same order, so that values are equal bit for bit.
The array -> array codecs `numcodecs.delta` and so on work as in zarr-python 3: a `dtype` that the configuration omits
is the array's type, and the encoded array has the filter's output type. Types are those of elements in memory, so
their byte order is ignored.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from aiozarr.codecs.codec import JSON, AnyArray, ArrayArrayCodec, ArraySpec, codec_errors
from aiozarr.codecs.numcodecs_objects import data_type
from aiozarr.codecs.registry import check_members, integer, invalid, number, register_codec
from aiozarr.errors import InvalidMetadataError

_BYTE = np.dtype(np.uint8)
_BOOL = np.dtype(np.bool_)
_MANTISSA_BITS = {2: 10, 4: 23, 8: 52}


@dataclass(frozen=True)
class ArrayFilter(ABC):
    """A function on flat arrays of one type, and its exact or approximate inverse.

    Attributes:
        members: the members of the configuration other than types.
        decoded_type: the type of decoded elements.
        encoded_type: the type of encoded elements.
    """

    filter_id: ClassVar[str]
    members: ClassVar[tuple[str, ...]] = ()
    decoded_type: np.dtype[Any]
    encoded_type: np.dtype[Any]

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON], given: np.dtype[Any] | None) -> Self:
        """Build the filter. `given` is the type of the arrays, for configurations that omit it."""
        check_members(configuration, (*cls.members, "dtype", "astype"), name=cls.filter_id)
        decoded = data_type(configuration, "dtype", given)
        return cls(decoded, data_type(configuration, "astype", decoded), *cls._parameters(configuration))

    @classmethod
    def _parameters(cls, configuration: Mapping[str, JSON]) -> tuple[Any, ...]:
        """Return the fields of the filter after the types."""
        return ()

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
    members = ("offset", "scale")
    offset: float
    scale: float

    @classmethod
    def _parameters(cls, configuration: Mapping[str, JSON]) -> tuple[Any, ...]:
        scale = number(configuration, "scale")
        if scale == 0:
            raise invalid("scale", "it must not be zero")
        return number(configuration, "offset"), scale

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
    members = ("digits",)
    digits: int

    def __post_init__(self) -> None:
        for key, dtype in (("dtype", self.decoded_type), ("astype", self.encoded_type)):
            if dtype.kind != "f":
                raise invalid(key, f"it must be a floating-point type, not {dtype}")

    @classmethod
    def _parameters(cls, configuration: Mapping[str, JSON]) -> tuple[Any, ...]:
        return (integer(configuration, "digits", -300, 300),)

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

_ANY_FLOAT = np.dtype(np.float64)
_TYPE_MEMBERS = ("dtype", "astype", "encode_dtype", "decode_dtype")


@dataclass(frozen=True)
class _FilterCodec(ArrayArrayCodec):
    """A filter of numcodecs as a codec of v3 documents."""

    configuration: Mapping[str, JSON] = field(default_factory=dict)
    # The filter for each type of arrays: building it takes as long as decoding a small chunk.
    _built: dict[np.dtype[Any], ArrayFilter] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        # Checks that depend on the array's type follow in `resolve`.
        ARRAY_FILTERS[cls.name.removeprefix("numcodecs.")].from_json(configuration, _ANY_FLOAT)
        return cls(dict(configuration))

    def to_json(self) -> dict[str, JSON]:
        return dict(self.configuration)

    def __hash__(self) -> int:
        return hash((self.name, len(self.configuration)))

    def resolve(self, spec: ArraySpec) -> ArraySpec:
        if spec.is_variable:
            raise InvalidMetadataError(f"codec {self.name!r} encodes types of fixed size, not {spec.dtype}")
        filter_ = self._filter(spec)
        encoded = filter_.encoded_length(spec.size)
        shape = spec.shape if encoded == spec.size else (encoded,)
        if self.name == "numcodecs.packbits":
            shape, fill = (encoded,), np.zeros((), filter_.encoded_type)
        else:
            # One element encodes to one element, so the fill value can be encoded.
            fill = self._encode(filter_, spec.fill_value.reshape(1)).reshape(())
        return ArraySpec(shape, filter_.encoded_type, fill, spec.max_bytes)

    def encode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        filter_ = self._filter(spec)
        encoded = self._encode(filter_, np.ascontiguousarray(array).reshape(-1))
        is_flat = encoded.size != spec.size or self.name == "numcodecs.packbits"
        return encoded if is_flat else encoded.reshape(spec.shape)

    def decode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        filter_ = self._filter(spec)
        with codec_errors("decode", self.name, TypeError, ValueError, OverflowError), np.errstate(all="ignore"):
            flat: AnyArray = np.ascontiguousarray(array).reshape(-1)
            return filter_.decode(flat).view(spec.dtype).reshape(spec.shape)

    def _encode(self, filter_: ArrayFilter, flat: AnyArray) -> AnyArray:
        with codec_errors("encode", self.name, TypeError, ValueError, OverflowError), np.errstate(all="ignore"):
            return filter_.encode(flat.view(filter_.decoded_type))

    def _filter(self, spec: ArraySpec) -> ArrayFilter:
        filter_ = self._built.get(spec.dtype)
        if filter_ is not None:
            return filter_
        native = {
            key: np.dtype(value).newbyteorder("=").str if key in _TYPE_MEMBERS and isinstance(value, str) else value
            for key, value in self.configuration.items()
        }
        filter_ = ARRAY_FILTERS[self.name.removeprefix("numcodecs.")].from_json(native, spec.dtype)
        if filter_.decoded_type.itemsize != spec.dtype.itemsize:
            raise InvalidMetadataError(
                f"codec {self.name!r} encodes {filter_.decoded_type}, not {spec.dtype}", member="configuration"
            )
        self._built[spec.dtype] = filter_
        return filter_


@register_codec
class NumcodecsDeltaCodec(_FilterCodec):
    """The codec `numcodecs.delta`: differences of neighbours in C order."""

    name = "numcodecs.delta"


@register_codec
class NumcodecsBitRoundCodec(_FilterCodec):
    """The codec `numcodecs.bitround`: mantissas rounded to `keepbits` bits."""

    name = "numcodecs.bitround"


@register_codec
class NumcodecsFixedScaleOffsetCodec(_FilterCodec):
    """The codec `numcodecs.fixedscaleoffset`: (x - offset) * scale, rounded to whole numbers."""

    name = "numcodecs.fixedscaleoffset"


@register_codec
class NumcodecsQuantizeCodec(_FilterCodec):
    """The codec `numcodecs.quantize`: rounding to `digits` decimal digits."""

    name = "numcodecs.quantize"


@register_codec
class NumcodecsAsTypeCodec(_FilterCodec):
    """The codec `numcodecs.astype`: elements converted to `encode_dtype`."""

    name = "numcodecs.astype"


@register_codec
class NumcodecsPackBitsCodec(_FilterCodec):
    """The codec `numcodecs.packbits`: booleans as bits, in one dimension of bytes."""

    name = "numcodecs.packbits"

    def resolve(self, spec: ArraySpec) -> ArraySpec:
        if spec.dtype != np.dtype(np.bool_):
            raise InvalidMetadataError(f"codec {self.name!r} encodes booleans, not {spec.dtype}")
        return super().resolve(spec)
