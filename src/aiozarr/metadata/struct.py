"""Records: named fields of any data types, packed without gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import numpy as np

from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.common.formatting import clip
from aiozarr.errors import InvalidMetadataError, MetadataError, UnsupportedMetadataError
from aiozarr.metadata.byte_strings import parse_base64
from aiozarr.metadata.data_type import (
    JSON,
    DataType,
    FillValue,
    check_item_size,
    frozen,
    register_data_type,
)

MAX_FIELDS = 1024
"""Fields of one record, those of nested records counted: each of them costs time whenever the type is used."""

MAX_DEPTH = 16
"""Levels of nested records."""

_NAME = "struct"


@dataclass(frozen=True)
class StructField:
    """A field: its name, type and shape; () for a single value."""

    name: str
    data_type: DataType
    shape: tuple[int, ...] = ()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of the field with its shape."""
        return np.dtype((self.data_type.dtype, self.shape)) if self.shape else self.data_type.dtype


@register_data_type
@dataclass(frozen=True)
class StructType(DataType):
    """`struct` (registry of extensions), and the older `structured`, which is read and never written.

    Only Zarr v2 has fields that are arrays. Such a type cannot be represented in v3 documents.

    Attributes:
        fields: at least one.
    """

    names = (_NAME, "structured")
    fields: tuple[StructField, ...]
    name: str = _NAME

    @classmethod
    def from_configuration(
        cls, name: str, configuration: Mapping[str, JSON], *, member: str = "data_type", strict: bool = False
    ) -> Self:
        member = f"{member}.configuration"
        for key in configuration:
            if key != "fields":
                raise InvalidMetadataError(f"unknown parameter of {name!r}", member=clip(f"{member}.{key}"))
        listed, member = configuration.get("fields"), f"{member}.fields"
        if not isinstance(listed, list) or not listed:
            raise InvalidMetadataError(f"{name!r} needs a list of fields", member=member)
        if member.count(".fields") > MAX_DEPTH:
            raise _too_much(f"records may be nested at most {MAX_DEPTH} levels deep", member)
        fields: list[StructField] = []
        count = 0
        for i, each in enumerate(listed):
            field = _parse_field(each, name, f"{member}[{i}]", strict)
            count += _count(field.data_type)
            if count > MAX_FIELDS:
                raise _too_much(f"a record may have at most {MAX_FIELDS} fields", member)
            fields.append(field)
        return cls._checked(fields, member)

    @classmethod
    def from_dtype(cls, dtype: np.dtype[Any]) -> Self | None:
        """Return the type for fields of any offsets that do not overlap. The stored type has no gaps between them."""
        if dtype.names is None:
            return None
        table: Any = dtype.fields
        fields: list[StructField] = []
        end = 0
        for name in dtype.names:
            part, offset, *title = table[name]
            if title or offset < end:
                reason = f"the field {name!r} has a title" if title else f"the field {name!r} overlaps another"
                raise _refused(reason)
            end = offset + part.itemsize
            base, shape = part.subdtype or (part, ())
            fields.append(StructField(name, DataType.from_numpy(base), tuple(shape)))
        if sum([_count(field.data_type) for field in fields]) > MAX_FIELDS:
            raise _too_much(f"a record may have at most {MAX_FIELDS} fields", "data_type")
        return cls._checked(fields, "data_type") if fields else None

    @classmethod
    def _checked(cls, fields: list[StructField], member: str) -> Self:
        seen: set[str] = set()
        size = 0
        for i, field in enumerate(fields):
            if not field.name or field.name in seen:
                raise InvalidMetadataError("field names must be unique and must not be empty", member=f"{member}[{i}]")
            seen.add(field.name)
            if field.data_type.is_variable:
                raise InvalidMetadataError("a field must have a fixed number of bytes", member=f"{member}[{i}]")
            size += field.data_type.dtype.itemsize * prod(field.shape)
        check_item_size(size, _NAME, member)
        return cls(tuple(fields))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @fork_safe_cached_property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype([(field.name, field.dtype) for field in self.fields])

    @property
    def configuration(self) -> Mapping[str, JSON]:
        if any(field.shape for field in self.fields):
            raise _refused("format 3 does not support fields that are arrays")
        return {"fields": [{"name": field.name, "data_type": field.data_type.to_json()} for field in self.fields]}

    def parse_fill_value(self, value: JSON, member: str = "fill_value", *, strict: bool = False) -> FillValue:
        """Parse an object with all fields. Unless strict, also base64 of the packed little-endian bytes.

        Writers used base64 before the registry had this type.
        """
        if isinstance(value, str) and not strict:
            return self._from_bytes(parse_base64(value, member), member)
        if not isinstance(value, dict):
            raise InvalidMetadataError(
                "the fill value of a record must be an object with all of its fields", member=member
            )
        for key in value:
            if all(key != field.name for field in self.fields):
                raise InvalidMetadataError("unknown field of the record", member=clip(f"{member}.{key}"))
        parts: list[bytes] = []
        for field in self.fields:
            place = clip(f"{member}.{field.name}")
            if field.name not in value:
                raise InvalidMetadataError("the field is missing", member=place)
            if field.shape:
                raise InvalidMetadataError(
                    "JSON cannot represent the fill value of a field that is an array", member=place
                )
            parts.append(field.data_type.parse_fill_value(value[field.name], place, strict=strict).tobytes())
        return self._packed(b"".join(parts))

    def render_fill_value(self, array: FillValue) -> JSON:
        if any(field.shape for field in self.fields):
            raise _refused("format 3 does not support fields that are arrays")
        return {field.name: field.data_type.render_fill_value(array[field.name]) for field in self.fields}

    def make_fill_value(self, value: object) -> FillValue:
        """Convert a mapping or sequence of field values, a numpy record, the packed bytes, or 0 for zero bytes."""
        if value is None or (type(value) is int and value == 0):
            return self.default_fill_value
        if isinstance(value, np.ndarray | np.void) and value.shape == () and value.dtype.names is not None:
            if value.dtype.names != self.dtype.names:
                raise ValueError(f"a fill value must have the fields {self.dtype.names}, not {value.dtype.names}")
            value = {name: value[name] for name in value.dtype.names}
        if isinstance(value, bytes | bytearray | memoryview):
            if len(value) != self.dtype.itemsize:
                raise ValueError(f"a fill value of this record must have {self.dtype.itemsize} bytes, not {len(value)}")
            return self._packed(bytes(value))
        if isinstance(value, tuple | list) and len(value) == len(self.fields):
            value = {field.name: part for field, part in zip(self.fields, value, strict=True)}
        if not isinstance(value, Mapping):
            raise TypeError(f"a fill value of a record needs a value for each of its fields, unlike {value!r}")
        if set(value) != {field.name for field in self.fields}:
            raise ValueError(f"a fill value must have the fields {self.dtype.names}, not {tuple(value)}")
        return self._packed(b"".join([_make_part(field, value[field.name]) for field in self.fields]))

    def _from_bytes(self, data: bytes, member: str) -> FillValue:
        stored = self.dtype.newbyteorder("<")
        if len(data) != stored.itemsize:
            raise InvalidMetadataError(f"the record has {stored.itemsize} bytes, not {len(data)}", member=member)
        return frozen(np.frombuffer(data, stored).reshape(()).astype(self.dtype))

    def _packed(self, data: bytes) -> FillValue:
        return frozen(np.frombuffer(data, self.dtype).reshape(()))


def _parse_field(value: JSON, struct: str, member: str, strict: bool) -> StructField:
    if isinstance(value, list) and len(value) == 2 and not (strict and struct == _NAME):
        name, data_type = value
        place = f"{member}[1]"
    elif isinstance(value, dict) and set(value) == {"name", "data_type"}:
        name, data_type = value["name"], value["data_type"]
        place = f"{member}.data_type"
    else:
        raise InvalidMetadataError(
            "a field must be an object with a name and a data type, and nothing else", member=member
        )
    if not isinstance(name, str):
        raise InvalidMetadataError("the name of a field must be a string", member=member)
    return StructField(name, DataType.from_json(data_type, member=place, strict=strict))


def _make_part(field: StructField, value: Any) -> bytes:
    if not field.shape:
        return field.data_type.make_fill_value(value).tobytes()
    if isinstance(value, np.ndarray) and value.shape == field.shape:
        # As numpy scalars: a Python float loses bits of a NaN.
        parts = [value[place] for place in np.ndindex(field.shape)]
    else:
        listed = np.empty(field.shape, object)
        listed[...] = value
        parts = list(listed.flat)
    return b"".join([field.data_type.make_fill_value(each).tobytes() for each in parts])


def _count(data_type: DataType) -> int:
    return sum([_count(each.data_type) for each in data_type.fields]) if isinstance(data_type, StructType) else 1


def _too_much(reason: str, member: str) -> MetadataError:
    return UnsupportedMetadataError(reason, member=clip(member), point="data_type", name=_NAME)


def _refused(reason: str) -> MetadataError:
    return UnsupportedMetadataError(clip(reason), member="data_type", point="data_type", name=_NAME)
