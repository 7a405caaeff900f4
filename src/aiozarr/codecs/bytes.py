"""The codec `bytes`: elements in C order, each in a fixed number of bytes of a chosen endianness.

The stored type of elements follows from their numpy type in memory: packed, in one byte order, of plain numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np

from aiozarr.codecs.codec import JSON, AnyArray, ArrayBytesCodec, ArraySpec, array_over, byte_view
from aiozarr.codecs.registry import FieldsCodec, check_members, one_of, register_codec, unsupported
from aiozarr.errors import CodecError, InvalidMetadataError

if TYPE_CHECKING:
    from typing_extensions import Buffer

Endian: TypeAlias = Literal["little", "big"]

# The bits of an element, by the names of types of ml_dtypes.
_BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4, "float6_e2m3fn": 6, "float6_e3m2fn": 6}

_MAX_CODE_POINT = 0x10FFFF


class StorageType(NamedTuple):
    """The stored form of elements of a numpy type.

    Attributes:
        plain: the type in memory, with unsigned integers in place of types that numpy cannot swap or cast.
        stored: the type of the stored bytes.
        is_memory: True if the stored bytes equal the memory of an array.
        has_spare_bits: True if elements or fields use only a part of their byte. The other bits are ignored.
        has_text: True if elements or fields hold code points. Stored ones may be outside of Unicode.
    """

    plain: np.dtype[Any]
    stored: np.dtype[Any]
    is_memory: bool
    has_spare_bits: bool
    has_text: bool


@lru_cache(maxsize=256)
def storage_type(dtype: np.dtype[Any], endian: Endian | None) -> StorageType:
    """Return the stored form of elements of `dtype`, of native byte order and fixed size.

    `endian` None means little-endian.
    """
    plain = _plain(dtype)
    stored = _packed(plain).newbyteorder(endian or "little")
    spare, text = _any_field(dtype, _has_spare_bits), _any_field(dtype, _is_text)
    return StorageType(plain, stored, stored == plain and not spare and not text, spare, text)


@lru_cache(maxsize=256)
def has_byte_order(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of `dtype`, or any of its fields, have a byte order."""
    if dtype.kind == "T" or dtype.hasobject:
        return False
    plain = _plain(dtype)
    return plain.newbyteorder("S") != plain


def bits_used(dtype: np.dtype[Any]) -> int:
    """Return the number of bits that hold an element's value: the low bits of a byte if there are fewer than eight."""
    return _BITS[dtype.type.__name__] if _has_spare_bits(dtype) else 8 * dtype.itemsize


def packed_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return `dtype` without the padding of aligned structured types."""
    return _packed(dtype)


def clear_spare_bits(array: AnyArray) -> None:
    """Set the unused bits to zero, as ml_dtypes does. `array` is writable."""
    dtype: np.dtype[Any] = array.dtype
    if dtype.names is not None:
        for name in dtype.names:
            clear_spare_bits(array[name])
    elif _has_spare_bits(dtype):
        bits = array.view(np.uint8)
        bits &= np.uint8((1 << _BITS[dtype.type.__name__]) - 1)


@lru_cache(maxsize=256)
def has_bools(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of `dtype`, or any of its fields, are bools."""
    return _any_field(dtype.base, lambda each: each.kind == "b")


def holds_valid_bools(array: AnyArray) -> bool:
    """Return whether all bools and fields of bools are 0 or 1. numpy accepts any byte, and most readers do not.

    It takes a tenth of the time of a copy (64 MiB in 4 ms).
    """
    dtype = array.dtype
    if dtype.names is not None:
        return all([holds_valid_bools(array[name]) for name in dtype.names])
    return dtype.kind != "b" or array.size == 0 or int(array.view(np.uint8).max()) <= 1


def make_bools_valid(array: AnyArray) -> None:
    """Set each bool that is not 0 to 1. `array` is writable."""
    dtype: np.dtype[Any] = array.dtype
    if dtype.names is not None:
        for name in dtype.names:
            make_bools_valid(array[name])
    elif dtype.kind == "b":
        stored = array.view(np.uint8)
        np.minimum(stored, 1, out=stored)


def holds_valid_text(array: AnyArray) -> bool:
    """Return whether all code units of text elements and text fields are Unicode code points."""
    dtype = array.dtype
    if dtype.names is not None:
        return all([holds_valid_text(array[name]) for name in dtype.names])
    if dtype.kind != "U" or array.size == 0 or dtype.itemsize == 0:
        return True
    units = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
    return int(units.max()) <= _MAX_CODE_POINT


def _plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((_plain(base), shape))
    if dtype.names is not None:
        fields = [_field(dtype, name) for name in dtype.names]
        return np.dtype(
            {
                "names": list(dtype.names),
                "formats": [_plain(field) for field, _ in fields],
                "offsets": [offset for _, offset in fields],
                "itemsize": dtype.itemsize,
            }
        )
    if dtype.kind in "Mm":
        # numpy's casts between times without a unit do not swap bytes.
        return np.dtype(np.int64)
    # Types that packages register: numpy reports byte orders that they lack, and has few casts of them.
    return np.dtype(f"u{dtype.itemsize}") if dtype.isbuiltin == 2 and dtype.itemsize in (1, 2, 4, 8) else dtype


def _packed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((_packed(base), shape))
    if dtype.names is None:
        return dtype
    return np.dtype([(name, _packed(_field(dtype, name)[0])) for name in dtype.names])


def _field(dtype: np.dtype[Any], name: str) -> tuple[np.dtype[Any], int]:
    fields: Any = dtype.fields
    return fields[name][0], fields[name][1]


def _any_field(dtype: np.dtype[Any], test: Any) -> bool:
    if dtype.names is not None:
        return any([_any_field(_field(dtype, name)[0].base, test) for name in dtype.names])
    return bool(test(dtype))


def _has_spare_bits(dtype: np.dtype[Any]) -> bool:
    return dtype.type.__name__ in _BITS and dtype.type.__module__ == "ml_dtypes"


def _is_text(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "U"


@register_codec
@dataclass(frozen=True)
class BytesCodec(FieldsCodec, ArrayBytesCodec):
    """The codec `bytes` (codec specification "bytes"). `endian` is None for types without a byte order.

    All fields of structured types have one byte order, without padding between them. An element smaller than a byte
    uses the low bits. The other bits are ignored, and written as zeros.
    """

    name = "bytes"
    endian: Literal["little", "big"] | None = None

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("endian",), name=cls.name)
        if "endian" not in configuration:
            return cls(None)
        return cls(one_of(configuration, "endian", ("little", "big")))

    def resolve(self, spec: ArraySpec) -> None:
        if spec.is_variable:
            raise unsupported(f"codec 'bytes' encodes types of fixed size, not {spec.dtype}", self.name)
        # Structured arrays without an endianness are read as little-endian: zarr-python 3.1 wrote such arrays.
        if self.endian is None and spec.dtype.names is None and has_byte_order(spec.dtype):
            raise InvalidMetadataError(f"the type {spec.dtype} needs an endianness", member="configuration.endian")

    def encode(self, array: AnyArray, spec: ArraySpec) -> Buffer:
        storage = storage_type(spec.dtype, self.endian)
        if storage.has_spare_bits:
            array = array.copy()
            clear_spare_bits(array)
        # Only arrays that are not contiguous or have another byte order are copied.
        return byte_view(np.ascontiguousarray(array.view(storage.plain), storage.stored))

    def decode(self, data: Buffer, spec: ArraySpec, *, out: AnyArray | None = None) -> AnyArray:
        storage = storage_type(spec.dtype, self.endian)
        size, expected = memoryview(data).nbytes, spec.size * storage.stored.itemsize
        if size != expected:
            raise CodecError(f"chunk has {size} bytes, expected {expected}", codec=self.name)
        if storage.is_memory:
            return array_over(data, spec.shape, spec.dtype)
        return _load(array_over(data, spec.shape, storage.stored), storage, spec, out)

    def compute_encoded_size(self, spec: ArraySpec) -> int:
        return spec.size * storage_type(spec.dtype, self.endian).stored.itemsize

    def stores_memory(self, spec: ArraySpec) -> bool:
        return storage_type(spec.dtype, self.endian).is_memory

    def stored_type(self, spec: ArraySpec) -> np.dtype[Any]:
        return storage_type(spec.dtype, self.endian).stored


def _load(raw: AnyArray, storage: StorageType, spec: ArraySpec, out: AnyArray | None) -> AnyArray:
    """Convert `raw`, of the stored type, to the type in memory, into `out` if it is given."""
    result = np.empty(spec.shape, spec.dtype) if out is None else out
    np.copyto(result.view(storage.plain), raw)
    if storage.has_spare_bits:
        clear_spare_bits(result)
    if storage.has_text and not holds_valid_text(result):
        raise CodecError("the text has code points that Unicode does not have", codec=BytesCodec.name)
    return result
