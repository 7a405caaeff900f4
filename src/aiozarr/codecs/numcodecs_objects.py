"""The object codecs of numcodecs: they encode arrays of Python objects, and decode untrusted bytes to objects.

The parameters of all numcodecs configurations are parsed here, with the defaults of numcodecs.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numcodecs.vlen import VLenArray, VLenBytes, VLenUTF8  # pyright: ignore[reportMissingImports]  # compiled
from typing_extensions import Buffer

from aiozarr.codecs.codec import JSON, AnyArray, FramedCodec, byte_array, codec_errors
from aiozarr.codecs.registry import CHECKS, check_members, integer, invalid, required
from aiozarr.common.formatting import shown
from aiozarr.errors import CodecError

_SIMPLE_TYPE = re.compile(
    r"[<>|=]?(?:b1|\?|[bBhHiIlLqQefdFD]|[iu][1248]|f[248]|c(?:8|16)|[SUV][0-9]{1,6}|[mM]8(?:\[[0-9a-zA-Z]{1,12}\])?"
    r"|bool|u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128)|(?:datetime|timedelta)64(?:\[[0-9a-zA-Z]{1,12}\])?)"
)
_OBJECT_TYPES = ("|O", "O", "object")


def any_level(configuration: Mapping[str, Any], key: str, default: int, least: int, most: int) -> int:
    """Return the member `key`, an integer that is clipped to the range from `least` to `most`."""
    return min(most, max(least, integer(configuration, key, -(2**31), 2**31, default)))


def flag(configuration: Mapping[str, Any], key: str, default: bool) -> bool:
    """Return the member `key`, true or false. GDAL writes "YES" and "NO"."""
    value = configuration.get(key, default)
    if isinstance(value, str) and value.upper() in ("YES", "NO"):
        return value.upper() == "YES"
    return CHECKS.boolean(value, key)


def data_type(configuration: Mapping[str, Any], key: str, default: np.dtype[Any] | None = None) -> np.dtype[Any]:
    """Return the member `key`, a simple numpy type such as "<i4". It is required without a default.

    A null means the default, as in numcodecs.
    """
    value = configuration.get(key)
    if value is None and default is not None:
        return default
    return simple_type(required(configuration, key), key)


def simple_type(value: object, key: str) -> np.dtype[Any]:
    """Return the numpy type `value`, of fixed size and without fields. `key` names the member in the error."""
    if isinstance(value, str) and _SIMPLE_TYPE.fullmatch(value):
        try:
            dtype = np.dtype(value)
        except (TypeError, ValueError):
            dtype = np.dtype("V0")
        if dtype.itemsize:
            return dtype
    raise invalid(key, f"it must be a simple type such as '<i4', not {shown(value)}")


def is_object_type(value: object) -> bool:
    """Return whether `value` is numpy's type of Python objects."""
    return isinstance(value, str) and value in _OBJECT_TYPES


_LENGTH_BYTES = 4
_OBJECT_BYTES = 56
_MAX_LABELS = 1 << 16
_OBJECT = np.dtype(object)


class ObjectFilter(ABC):
    """Encodes elements of any type to bytes."""

    filter_id: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        """Build the filter from its configuration without `id`."""

    @abstractmethod
    def encode(self, array: AnyArray) -> Buffer:
        """Return the encoding of an array of objects of any shape."""

    @abstractmethod
    def decode(self, data: Buffer, size: int, max_bytes: int) -> AnyArray:
        """Return the `size` elements as a flat array, of objects or of the type in the encoding.

        Raises:
            CodecError: `data` does not encode such elements, or they would exceed `max_bytes` in memory.
        """


class _VariableLength(FramedCodec, ObjectFilter):
    """The number of elements, then the length and the bytes of each element. Numbers have four bytes."""

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, (), name=cls.filter_id)
        return cls()

    def decode(self, data: Buffer, size: int, max_bytes: int) -> AnyArray:
        view = memoryview(data).cast("B")
        count = int.from_bytes(view[:_LENGTH_BYTES], "little")
        if len(view) < _LENGTH_BYTES * (1 + size):
            raise CodecError(f"{len(view)} bytes are too few for {size} elements", codec=self.filter_id)
        if count != size:
            raise CodecError(f"it declares {count} elements, expected {size}", codec=self.filter_id)
        check_memory(_OBJECT_BYTES * size + len(view), max_bytes, self.filter_id)
        with codec_errors("decode", self.filter_id, ValueError):
            # The decoder checks that no element extends past the end of the data.
            elements: AnyArray = self._numcodec().decode(byte_array(view))
        told = _LENGTH_BYTES * (1 + size) + self._content(elements.tolist())
        if told != len(view) and self._is_strict:
            raise CodecError(f"{len(view) - told} bytes follow the last element", codec=self.filter_id)
        return elements

    def encode(self, array: AnyArray) -> Buffer:
        flat: AnyArray = np.empty(array.size, _OBJECT)
        for i, element in enumerate(array.reshape(-1).tolist()):
            flat[i] = self._stored(element)
        with codec_errors("encode", self.filter_id, TypeError, ValueError, OverflowError):
            encoded: Buffer = self._numcodec().encode(flat)
        return encoded

    @abstractmethod
    def _stored(self, element: Any) -> Any:
        """Return the stored form of an element, or of a missing one."""

    @abstractmethod
    def _numcodec(self) -> Any:
        """Return the codec of numcodecs."""

    @abstractmethod
    def _content(self, elements: list[Any]) -> int:
        """Return the bytes of all elements together."""


@dataclass(frozen=True)
class VariableText(_VariableLength):
    """Strings in UTF-8. None and 0 are stored as empty strings."""

    filter_id = "vlen-utf8"

    def _stored(self, element: Any) -> Any:
        if isinstance(element, str):
            # The encoder accepts `str` only, and not the subclass of numpy.
            return str(element)
        if element is None or _is_zero(element):
            return ""
        raise CodecError(f"elements must be strings, not {shown(element)}", codec=self.filter_id)

    def _numcodec(self) -> Any:
        return VLenUTF8()

    def _content(self, elements: list[Any]) -> int:
        return len("".join(elements).encode())


@dataclass(frozen=True)
class VariableBytes(_VariableLength):
    """Byte strings. None and 0 are stored as empty ones."""

    filter_id = "vlen-bytes"

    def _stored(self, element: Any) -> Any:
        if isinstance(element, (bytes, bytearray, memoryview)):
            return bytes(element)
        if element is None or _is_zero(element):
            return b""
        raise CodecError(f"elements must be bytes, not {shown(element)}", codec=self.filter_id)

    def _numcodec(self) -> Any:
        return VLenBytes()

    def _content(self, elements: list[Any]) -> int:
        return sum(map(len, elements))


@dataclass(frozen=True)
class VariableArray(_VariableLength):
    """Arrays of one dimension and one type. None is stored as an empty array."""

    filter_id = "vlen-array"
    dtype: np.dtype[Any]

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("dtype",), name=cls.filter_id)
        return cls(data_type(configuration, "dtype"))

    def _stored(self, element: Any) -> Any:
        if element is None:
            return np.empty(0, self.dtype)
        try:
            array: AnyArray = np.ascontiguousarray(element, self.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            message = f"elements must be arrays of {self.dtype}, not {shown(element)}"
            raise CodecError(message, codec=self.filter_id) from error
        if array.ndim != 1:
            raise CodecError(f"elements must have one dimension, not {array.ndim}", codec=self.filter_id)
        return array

    def _numcodec(self) -> Any:
        return VLenArray(self.dtype)

    def _content(self, elements: list[Any]) -> int:
        return sum(element.nbytes for element in elements)


@dataclass(frozen=True)
class Categorize(ObjectFilter):
    """Each string as its position in a list of labels, counted from 1. 0 is any other string, and decodes to ''."""

    filter_id = "categorize"
    labels: tuple[str, ...]
    dtype: np.dtype[Any]
    astype: np.dtype[Any]

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("labels", "dtype", "astype"), name=cls.filter_id)
        labels = required(configuration, "labels")
        if not isinstance(labels, (list, tuple)) or not all(isinstance(label, str) for label in labels):
            raise invalid("labels", f"it must be a list of strings, not {shown(labels)}")
        if len(labels) > _MAX_LABELS:
            raise invalid("labels", f"there are {len(labels)} labels; at most {_MAX_LABELS} are allowed")
        given = required(configuration, "dtype")
        dtype = _OBJECT if is_object_type(given) else simple_type(given, "dtype")
        if dtype.kind not in "UO":
            raise invalid("dtype", f"only strings and objects have categories, not {dtype}")
        astype = data_type(configuration, "astype", np.dtype(np.uint8))
        if astype.kind not in "iu":
            raise invalid("astype", f"it must be an integer type, not {astype}")
        return cls(tuple(labels), dtype, astype)

    def encode(self, array: AnyArray) -> Buffer:
        places = {label: i + 1 for i, label in enumerate(self.labels)}
        # Other objects than strings are never labels, and may not be hashable.
        found = [places.get(item, 0) if isinstance(item, str) else 0 for item in array.reshape(-1).tolist()]
        with codec_errors("encode", self.filter_id, TypeError, ValueError, OverflowError):
            encoded: AnyArray = np.array(found, np.int64).astype(self.astype)
        return encoded.view(np.uint8).data

    def decode(self, data: Buffer, size: int, max_bytes: int) -> AnyArray:
        nbytes = memoryview(data).nbytes
        if nbytes != size * self.astype.itemsize:
            message = f"{nbytes} bytes are not {size} elements of {self.astype}"
            raise CodecError(message, codec=self.filter_id)
        if size * self.dtype.itemsize > max_bytes:
            raise CodecError(f"{size} elements of {self.dtype} exceed {max_bytes} bytes", codec=self.filter_id)
        places: AnyArray = byte_array(data).view(self.astype)
        table: AnyArray = np.array(["", *self.labels], self.dtype)
        return table[np.where((places > 0) & (places <= len(self.labels)), places, 0).astype(np.intp)]


def check_memory(estimate: int, max_bytes: int, name: str) -> None:
    """Check that elements of about `estimate` bytes in memory do not exceed the bound.

    Raises:
        CodecError: the elements exceed the bound.
    """
    if estimate > max_bytes:
        raise CodecError(
            f"the elements need about {estimate} bytes of memory; at most {max_bytes} are allowed", codec=name
        )


def _is_zero(element: Any) -> bool:
    return isinstance(element, (int, float, np.number)) and bool(element == 0)
