"""The filters and compressors of v2 chunks as functions on arrays, with bounds on encoded and decoded sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aiozarr.codecs.codec import JSON, AnyArray, ArraySpec, BytesBytesCodec, byte_array, byte_view, codec_errors
from aiozarr.codecs.numcodecs_filters import ArrayFilter
from aiozarr.codecs.numcodecs_numbers import NumbersCodec
from aiozarr.codecs.numcodecs_objects import Categorize, ObjectFilter
from aiozarr.common.formatting import shown
from aiozarr.errors import CodecError, InvalidMetadataError

PREFIX = "numcodecs."
_BYTE = np.dtype(np.uint8)


@dataclass(frozen=True)
class Extent:
    """The size of a value between two stages.

    Attributes:
        count: number of elements of the first stage's array.
        item_size: bytes of an item.
        exact: bytes of the value, or None if they vary.
        bound: the most bytes of the value.
        dtype: the type of its items, or None if it consists of bytes.
    """

    count: int
    item_size: int
    exact: int | None
    bound: int
    dtype: np.dtype[Any] | None

    def as_bytes(self, exact: int | None, bound: int) -> Extent:
        """Return the extent of an encoding of this value as bytes."""
        return Extent(self.count, 1, exact, bound, None)


@dataclass(frozen=True)
class Stage(ABC):
    """One filter or compressor."""

    name: str
    takes_objects: ClassVar[bool] = False

    @abstractmethod
    def measure(self, extent: Extent) -> Extent:
        """Return the extent of the encoding of a value of `extent`."""

    @abstractmethod
    def encode(self, value: AnyArray) -> AnyArray:
        """Return the encoding of a C-contiguous array."""

    @abstractmethod
    def decode(self, value: AnyArray, extent: Extent) -> AnyArray:
        """Return the decoding of an array; `extent` is that of the result.

        Raises:
            CodecError: `value` is not an encoding, or decodes to more bytes than the bound.
        """


@dataclass(frozen=True)
class BytesStage(Stage):
    """A bytes -> bytes codec on the memory of arrays."""

    codec: BytesBytesCodec

    def measure(self, extent: Extent) -> Extent:
        exact = None if extent.exact is None else self.codec.compute_encoded_size(extent.exact)
        return extent.as_bytes(exact, self.codec.max_encoded_size(extent.bound))

    def encode(self, value: AnyArray) -> AnyArray:
        return byte_array(self.codec.for_items(value.dtype.itemsize).encode(byte_view(value)))

    def decode(self, value: AnyArray, extent: Extent) -> AnyArray:
        codec = self.codec.for_items(extent.item_size)
        return byte_array(codec.decode(byte_view(value), max_size=extent.bound))


@dataclass(frozen=True)
class ArrayStage(Stage):
    """An array filter. The memory of arrays of any type is viewed as the filter's own type."""

    kind: type[ArrayFilter]
    configuration: Mapping[str, JSON]
    filter: ArrayFilter | None

    def measure(self, extent: Extent) -> Extent:
        filter_ = self._filter(extent.dtype)
        decoded, encoded = filter_.decoded_type.itemsize, filter_.encoded_type.itemsize
        exact = None if extent.exact is None else filter_.encoded_length(extent.exact // decoded) * encoded
        bound = filter_.encoded_length(extent.bound // decoded) * encoded
        return Extent(extent.count, encoded, exact, bound, filter_.encoded_type)

    def encode(self, value: AnyArray) -> AnyArray:
        filter_ = self._filter(value.dtype)
        with codec_errors("encode", self.name, TypeError, ValueError, OverflowError), np.errstate(all="ignore"):
            return np.ascontiguousarray(filter_.encode(_view(value, filter_.decoded_type)))

    def decode(self, value: AnyArray, extent: Extent) -> AnyArray:
        filter_ = self._filter(extent.dtype)
        with codec_errors("decode", self.name, TypeError, ValueError, OverflowError):
            flat = _view(value, filter_.encoded_type)
            size = filter_.decoded_length(flat.size) * filter_.decoded_type.itemsize
            if size > extent.bound + filter_.decoded_type.itemsize * 8:
                raise CodecError(f"it decodes to {size} bytes; at most {extent.bound} are allowed", codec=self.name)
            with np.errstate(all="ignore"):
                return np.ascontiguousarray(filter_.decode(flat))

    def _filter(self, dtype: np.dtype[Any] | None) -> ArrayFilter:
        if self.filter is not None:
            return self.filter
        return self.kind.from_json(self.configuration, _BYTE if dtype is None else dtype)


@dataclass(frozen=True)
class ObjectStage(Stage):
    """An object codec, which encodes elements of any type to bytes."""

    filter: ObjectFilter
    takes_objects = True

    def measure(self, extent: Extent) -> Extent:
        exact = extent.count * self.filter.astype.itemsize if isinstance(self.filter, Categorize) else None
        if exact is not None:
            return extent.as_bytes(exact, exact)
        # Numbers and text of fixed length grow when they are written as text.
        bound = extent.bound if extent.exact is None else 4 * extent.bound + 128 * extent.count + 65536
        return extent.as_bytes(None, bound)

    def encode(self, value: AnyArray) -> AnyArray:
        return byte_array(self.filter.encode(value))

    def decode(self, value: AnyArray, extent: Extent) -> AnyArray:
        bound = extent.bound
        if extent.exact is not None:
            # Numbers and text of fixed length become objects while they are decoded.
            bound = 4 * bound + 512 * extent.count + 65536
        return self.filter.decode(byte_view(value), extent.count, bound)


@dataclass(frozen=True)
class NumbersStage(Stage):
    """A codec of numbers. It needs their type, and may use their shape."""

    codec: NumbersCodec

    def measure(self, extent: Extent) -> Extent:
        if extent.dtype is None or not self.codec.takes(extent.dtype):
            raise InvalidMetadataError(f"codec {self.name!r} does not support {extent.dtype or 'bytes'}")
        return extent.as_bytes(None, 4 * extent.bound + 65536)

    def encode(self, value: AnyArray) -> AnyArray:
        return byte_array(self.codec.encode(value, ArraySpec(value.shape, value.dtype, value)))

    def decode(self, value: AnyArray, extent: Extent) -> AnyArray:
        dtype = extent.dtype or _BYTE
        count = extent.bound // dtype.itemsize
        return self.codec.decode(byte_view(value), ArraySpec((count,), dtype, value))


@dataclass(frozen=True)
class ForeignStage(Stage):
    """A codec that another package has registered with numcodecs. Its output is bounded after it was made."""

    codec: Any
    takes_objects = True

    def measure(self, extent: Extent) -> Extent:
        return extent.as_bytes(None, 2 * extent.bound + 65536)

    def encode(self, value: AnyArray) -> AnyArray:
        return self._array(self._call("encode", value))

    def decode(self, value: AnyArray, extent: Extent) -> AnyArray:
        decoded = self._array(self._call("decode", byte_array(byte_view(value))))
        if not decoded.dtype.hasobject and decoded.nbytes > extent.bound:
            raise CodecError(
                f"it decodes to {decoded.nbytes} bytes; at most {extent.bound} are allowed", codec=self.name
            )
        return decoded

    def _call(self, method: str, value: AnyArray) -> Any:
        try:
            return getattr(self.codec, method)(value)
        except Exception as error:  # the code of another package may raise anything
            raise CodecError(f"cannot {method}: {shown(str(error))}", codec=self.name) from error

    def _array(self, value: Any) -> AnyArray:
        array: AnyArray = value if isinstance(value, np.ndarray) else byte_array(memoryview(value).cast("B"))
        if array.dtype.hasobject and array.dtype != object:
            raise CodecError(f"it yields {array.dtype}", codec=self.name)
        # numcodecs passes on the elements in memory order.
        return np.ascontiguousarray(array.reshape(-1, order="A"))


def _view(value: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    if value.nbytes % dtype.itemsize:
        raise ValueError(f"{value.nbytes} bytes are not a whole number of elements of {dtype}")
    if value.dtype.hasobject:
        raise TypeError("objects cannot be viewed as bytes")
    return np.ascontiguousarray(value).reshape(-1).view(dtype)
