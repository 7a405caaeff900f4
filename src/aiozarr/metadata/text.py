"""Text, of a fixed number of code points or of any length, and Python objects.

Only Zarr v2 has Python objects. The object codec of the array defines their values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.byte_strings import FixedLengthType
from aiozarr.metadata.data_type import (
    JSON,
    DataType,
    FillValue,
    UnconfiguredType,
    frozen,
    frozen_element,
    register_data_type,
)
from aiozarr.metadata.document import check_json
from aiozarr.model import is_unicode

# numpy 1 has no type for strings of variable length.
_STRING: np.dtype[Any] = np.dtypes.StringDType() if hasattr(np.dtypes, "StringDType") else np.dtype(object)


@register_data_type
@dataclass(frozen=True)
class FixedLengthTextType(FixedLengthType):
    """`fixed_length_utf32` (registry of extensions): `U` of numpy, 4 bytes per code point."""

    names = ("fixed_length_utf32",)
    _kind = "U"
    _item_bytes = 4
    name: str = "fixed_length_utf32"

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        # The registry requires exactly this length. zarr-python writes the text without padding.
        text = _parse_text(value, self.name, member)
        if len(text) > self.length_bytes // 4:
            reason = f"the fill value has at most {self.length_bytes // 4} code points, not {len(text)}"
            raise InvalidMetadataError(reason, member=member)
        return frozen(np.array(text, self.dtype))

    def render_fill_value(self, array: FillValue) -> JSON:
        return str(array.item())

    def make_fill_value(self, value: object) -> FillValue:
        if value is None:
            return self.default_fill_value
        text = _text_of(value, self.name).rstrip("\0")
        if len(text) > self.length_bytes // 4:
            raise ValueError(f"a fill value of this type may have at most {self.length_bytes // 4} code points")
        return frozen(np.array(text, self.dtype))


@register_data_type
@dataclass(frozen=True)
class StringType(UnconfiguredType):
    """`string` (registry of extensions): text of any length, as `StringDType` of numpy 2 or as objects."""

    names = ("string",)
    name: str = "string"

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        hinted = dtype.kind == "O" and dtype.metadata is not None and dtype.metadata.get("vlen") is str
        return cls() if hinted or dtype.kind == "T" or (dtype.kind == "U" and dtype.itemsize == 0) else None

    @property
    def dtype(self) -> np.dtype[Any]:
        return _STRING

    @property
    def default_fill_value(self) -> FillValue:
        return frozen_element("", _STRING)

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        # zarr-python reads numbers as their digits, as in format 2.
        is_number = not strict and isinstance(value, int | float) and not isinstance(value, bool)
        return frozen_element(_parse_text(str(value) if is_number else value, self.name, member), _STRING)

    def render_fill_value(self, array: FillValue) -> JSON:
        return str(array.item())

    def make_fill_value(self, value: object) -> FillValue:
        return frozen_element("" if value is None else _text_of(value, self.name), _STRING)

    def fill_key(self, array: FillValue) -> bytes:
        return str(array.item()).encode()


def _parse_text(value: JSON, name: str, member: str) -> str:
    if not isinstance(value, str):
        raise InvalidMetadataError(f"the fill value of {name} must be a string", member=member)
    if not is_unicode(value):
        raise InvalidMetadataError("not valid Unicode: a lone surrogate", member=member)
    return value


def _text_of(value: object, name: str) -> str:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, str):
        raise TypeError(f"a fill value of {name} must be a str, not {value!r}")
    if not is_unicode(value):
        raise ValueError(f"a fill value of {name} must be valid Unicode, without lone surrogates")
    return str(value)


@dataclass(frozen=True)
class ObjectType(DataType):
    """Objects that a codec such as json2 or msgpack2 encodes. The type has no name in v3 documents."""

    name: str = "object"

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> DataType:
        raise UnsupportedMetadataError(
            "format 3 cannot store Python objects", member=member, point="data_type", name=name
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(object)

    @property
    def default_fill_value(self) -> FillValue:
        """None."""
        return frozen_element(None, self.dtype)

    def to_json(self) -> JSON:
        raise UnsupportedMetadataError(
            "format 3 cannot store Python objects", member="data_type", point="data_type", name=self.name
        )

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        """Return any JSON value unchanged."""
        return frozen_element(value, self.dtype)

    def render_fill_value(self, array: FillValue) -> JSON:
        return array.item()

    def make_fill_value(self, value: object) -> FillValue:
        if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
            value = value.item()
        check_json(value, "fill_value")
        return frozen_element(value, self.dtype)

    def fill_key(self, array: FillValue) -> bytes:
        return json.dumps(array.item(), sort_keys=True).encode()
