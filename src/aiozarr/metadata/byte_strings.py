"""Bytes: raw ones without interpretation, padded with zeros to a fixed length, or of any length.

In JSON they are base64, or lists of integers from 0 to 255.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata.data_type import (
    JSON,
    MAX_ITEM_SIZE,
    DataType,
    FillValue,
    UnconfiguredType,
    check_item_size,
    check_no_configuration,
    frozen,
    frozen_element,
    register_data_type,
)


@dataclass(frozen=True)
class FixedLengthType(DataType):
    """Base of the types of one kind of numpy that differ in the number of items.

    Attributes:
        length_bytes: bytes of one element, a multiple of those of an item.
    """

    _kind: ClassVar[str]
    _item_bytes: ClassVar[int] = 1
    length_bytes: int

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> Self:
        return cls(parse_length(name, configuration, member, multiple=cls._item_bytes))

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        return cls(dtype.itemsize) if dtype.kind == cls._kind and 0 < dtype.itemsize <= MAX_ITEM_SIZE else None

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(f"{self._kind}{self.length_bytes // self._item_bytes}")

    @property
    def configuration(self) -> Mapping[str, JSON]:
        return {"length_bytes": self.length_bytes}


@register_data_type
@dataclass(frozen=True)
class NullTerminatedBytesType(FixedLengthType):
    """`null_terminated_bytes` (registry of extensions): `S` of numpy, with trailing zero bytes as padding."""

    names = ("null_terminated_bytes",)
    _kind = "S"
    name: str = "null_terminated_bytes"

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        data = parse_base64(value, member) if isinstance(value, str) else None
        if data is None or len(data) > self.length_bytes:
            reason = f"the fill value of {self.name} is the base64 text of at most {self.length_bytes} bytes"
            raise InvalidMetadataError(reason, member=member)
        return frozen(np.array(data, self.dtype))

    def render_fill_value(self, array: FillValue) -> JSON:
        return render_base64(bytes(array.item()))

    def make_fill_value(self, value: object) -> FillValue:
        if value is None:
            return self.default_fill_value
        data = bytes_of(value)
        if data is None:
            raise TypeError(f"a fill value of {self.name} must be bytes, not {value!r}")
        data = data.rstrip(b"\0")
        if len(data) > self.length_bytes:
            raise ValueError(f"a fill value of this type may have at most {self.length_bytes} bytes, not {len(data)}")
        return frozen(np.array(data, self.dtype))


@register_data_type
@dataclass(frozen=True)
class BytesType(UnconfiguredType):
    """`bytes` (registry of extensions), or `variable_length_bytes` of zarr-python: byte strings of any length.

    In memory elements are `bytes` in an array of objects. A document keeps the name that it has, because some readers
    know only one of the names.
    """

    names = ("bytes", "variable_length_bytes")
    name: str = "bytes"

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        hinted = dtype.kind == "O" and dtype.metadata is not None and dtype.metadata.get("vlen") is bytes
        return cls() if hinted or dtype == np.dtype(np.bytes_) else None

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(object)

    @property
    def default_fill_value(self) -> FillValue:
        return frozen_element(b"", self.dtype)

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        if isinstance(value, str):
            return frozen_element(parse_base64(value, member), self.dtype)
        # Other writers than zarr-python use the form of the core specification: a list of integers.
        if isinstance(value, list):
            return frozen_element(parse_byte_list(value, member), self.dtype)
        raise InvalidMetadataError(f"the fill value of {self.name} must be base64 text", member=member)

    def render_fill_value(self, array: FillValue) -> JSON:
        return render_base64(array.item())

    def make_fill_value(self, value: object) -> FillValue:
        if value is None:
            return self.default_fill_value
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        data = bytes_of(value)
        if data is None:
            raise TypeError(f"a fill value of {self.name} must be bytes, not {value!r}")
        return frozen_element(data, self.dtype)

    def fill_key(self, array: FillValue) -> bytes:
        return bytes(array.item())


@register_data_type
@dataclass(frozen=True)
class RawType(DataType):
    """`r8`, `r16`, … (v3 core specification), and `raw_bytes` of zarr-python. They differ in JSON only.

    Attributes:
        length_bytes: bytes of one element.
        name: `r*` with the number of bits, or `raw_bytes`.
    """

    names = ("r*", "raw_bytes")
    length_bytes: int
    name: str

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> Self:
        if name == "raw_bytes":
            return cls(parse_length(name, configuration, member), name)
        check_no_configuration(name, configuration, member)
        # int() converts a limited number of digits. Ten digits exceed the maximum size.
        bits = int(name[1:]) if len(name) <= 11 else 8 * MAX_ITEM_SIZE + 8
        if bits == 0 or bits % 8:
            raise InvalidMetadataError(f"{name!r} is not a positive multiple of 8 bits", member=member)
        check_item_size(bits // 8, name, member)
        return cls(bits // 8, name)

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        # Types of other packages such as bfloat16, records and subarrays have kind V, too.
        plain = dtype.type is np.void and dtype.names is None and dtype.subdtype is None
        # zarr-python reads `raw_bytes`, and not the `r*` of the core specification.
        return cls(dtype.itemsize, "raw_bytes") if plain and 0 < dtype.itemsize <= MAX_ITEM_SIZE else None

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype((np.void, self.length_bytes))

    @property
    def configuration(self) -> Mapping[str, JSON]:
        return {"length_bytes": self.length_bytes} if self.name == "raw_bytes" else {}

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        # The specification of r* has "length equal to <N>" with N in bits. A list of bytes has N / 8 items.
        if isinstance(value, list) and len(value) == self.length_bytes:
            return self._array(parse_byte_list(value, member))
        if isinstance(value, str) and self.name == "raw_bytes":
            data = parse_base64(value, member)
            if len(data) == self.length_bytes:
                return self._array(data)
        form = "the base64 text" if self.name == "raw_bytes" else "a list"
        raise InvalidMetadataError(
            f"the fill value of {self.name} must be {form} of {self.length_bytes} bytes", member=member
        )

    def render_fill_value(self, array: FillValue) -> JSON:
        data = array.tobytes()
        return render_base64(data) if self.name == "raw_bytes" else list(data)

    def make_fill_value(self, value: object) -> FillValue:
        """Convert bytes; zeros are added to fewer bytes than an element has, as numpy's assignment does."""
        if value is None:
            return self.default_fill_value
        data = None if isinstance(value, str) else bytes_of(value)
        if data is None or len(data) > self.length_bytes:
            raise ValueError(
                f"fill_value {value!r} does not have the {self.length_bytes} bytes of a {self.name} element"
            )
        return self._array(data.ljust(self.length_bytes, b"\0"))

    def _array(self, data: bytes) -> FillValue:
        return frozen(np.frombuffer(data, self.dtype).reshape(()))


def parse_base64(text: str, member: str) -> bytes:
    """Return the bytes of a base64 text.

    Raises:
        InvalidMetadataError: the text is not base64.
    """
    try:
        return b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        raise InvalidMetadataError("not base64", member=member) from None


def render_base64(data: bytes) -> str:
    """Return the base64 text of `data`."""
    return b64encode(data).decode()


def parse_byte_list(value: list[JSON], member: str) -> bytes:
    """Return the bytes of a list of integers from 0 to 255.

    Raises:
        InvalidMetadataError: the list has other items.
    """
    for i, byte in enumerate(value):
        if type(byte) is not int or not 0 <= byte <= 255:
            raise InvalidMetadataError("not an integer from 0 to 255", member=f"{member}[{i}]")
    return bytes(value)


def bytes_of(value: object) -> bytes | None:
    """Return the bytes of a bytes-like value or of ASCII text, or None for other values.

    Raises:
        ValueError: text with other characters than ASCII.
    """
    if isinstance(value, str):
        return value.encode("ascii")
    if isinstance(value, np.void | np.ndarray):
        return value.tobytes()
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def parse_length(name: str, configuration: Mapping[str, JSON], member: str, *, multiple: int = 1) -> int:
    """Return the only member of a configuration, `length_bytes`.

    Raises:
        InvalidMetadataError: other members, or a length that is not a multiple of `multiple`.
        UnsupportedMetadataError: a length of 0, or of more than 1 MiB.
    """
    member = f"{member}.configuration"
    for key in configuration:
        if key != "length_bytes":
            raise InvalidMetadataError(f"unknown parameter of {name!r}", member=f"{member}.{key}"[:200])
    length = configuration.get("length_bytes")
    if type(length) is not int or length < 0 or length % multiple:
        kind = "an integer" if multiple == 1 else f"a multiple of {multiple}"
        raise InvalidMetadataError(
            f"expected the length of {name!r}: {kind} of at least 0", member=f"{member}.length_bytes"
        )
    check_item_size(length, name, f"{member}.length_bytes")
    return length
