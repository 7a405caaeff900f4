"""Byte strings: padded with zeros to a fixed length, or of any length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata.data_type import (
    JSON,
    MAX_ITEM_SIZE,
    DataType,
    FillValue,
    check_no_configuration,
    frozen,
    register_data_type,
)
from aiozarr.metadata.data_types._bytes import bytes_of, parse_base64, parse_byte_list, parse_length, render_base64


@register_data_type
@dataclass(frozen=True)
class NullTerminatedBytesType(DataType):
    """`null_terminated_bytes` (registry of extensions): `S` of numpy, with trailing zero bytes as padding.

    Attributes:
        length_bytes: bytes of one element.
    """

    names = ("null_terminated_bytes",)
    length_bytes: int
    name: str = "null_terminated_bytes"

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> Self:
        return cls(parse_length(name, configuration, member))

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        return cls(dtype.itemsize) if dtype.kind == "S" and 0 < dtype.itemsize <= MAX_ITEM_SIZE else None

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype((np.bytes_, self.length_bytes))

    @property
    def configuration(self) -> Mapping[str, JSON]:
        return {"length_bytes": self.length_bytes}

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
            raise TypeError(f"a fill value of {self.name} is bytes, not {value!r}")
        data = data.rstrip(b"\0")
        if len(data) > self.length_bytes:
            raise ValueError(f"a fill value of this type has at most {self.length_bytes} bytes, not {len(data)}")
        return frozen(np.array(data, self.dtype))


@register_data_type
@dataclass(frozen=True)
class BytesType(DataType):
    """`bytes` (registry of extensions), or `variable_length_bytes` of zarr-python: byte strings of any length.

    In memory elements are `bytes` in an array of objects. A document keeps the name that it has, because some readers
    know only one of the names.
    """

    names = ("bytes", "variable_length_bytes")
    name: str = "bytes"

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> Self:
        check_no_configuration(name, configuration, member)
        return cls(name)

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        hinted = dtype.kind == "O" and dtype.metadata is not None and dtype.metadata.get("vlen") is bytes
        return cls() if hinted or dtype == np.dtype(np.bytes_) else None

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(object)

    @property
    def default_fill_value(self) -> FillValue:
        return self._array(b"")

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        if isinstance(value, str):
            return self._array(parse_base64(value, member))
        # Other writers than zarr-python use the form of the core specification: a list of integers.
        if isinstance(value, list):
            return self._array(parse_byte_list(value, member))
        raise InvalidMetadataError(f"the fill value of {self.name} is base64 text", member=member)

    def render_fill_value(self, array: FillValue) -> JSON:
        return render_base64(array.item())

    def make_fill_value(self, value: object) -> FillValue:
        if value is None:
            return self.default_fill_value
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        data = bytes_of(value)
        if data is None:
            raise TypeError(f"a fill value of {self.name} is bytes, not {value!r}")
        return self._array(data)

    def fill_key(self, array: FillValue) -> bytes:
        return bytes(array.item())

    def _array(self, data: bytes) -> FillValue:
        array: FillValue = np.empty((), object)
        array[()] = data
        return frozen(array)
