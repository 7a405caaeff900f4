"""The codec `bytes`: elements in C order, each in a fixed number of bytes of a chosen endianness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from aiozarr.codecs.core.codec import JSON, AnyArray, ArrayBytesCodec, ArraySpec, array_over, byte_view
from aiozarr.codecs.core.configuration import FieldsCodec, check_members, one_of, unsupported
from aiozarr.codecs.core.registry import register
from aiozarr.codecs.serializers.storage_type import (
    StorageType,
    clear_spare_bits,
    has_byte_order,
    holds_valid_text,
    storage_type,
)
from aiozarr.errors import CodecError, InvalidMetadataError

if TYPE_CHECKING:
    from typing_extensions import Buffer


@register
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
        _check_size(data, spec.size * storage.stored.itemsize)
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


def _check_size(data: Buffer, expected: int) -> None:
    size = memoryview(data).nbytes
    if size != expected:
        raise CodecError(f"chunk has {size} bytes, expected {expected}", codec=BytesCodec.name)
