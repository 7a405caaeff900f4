"""The data types of specs, and fill values as specs write them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiozarr.common.formatting import shown
from aiozarr.driver.json_members import JSON, boolean, integer, invalid
from aiozarr.errors import MetadataError
from aiozarr.metadata.data_type import DataType

FillValue = NDArray[Any]
NAMES = (
    *("bool", "int2", "int4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float4_e2m1fn", "float8_e3m4", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2"),
    *("float8_e5m2fnuz", "float8_e8m0fnu", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
"""The data types that the drivers store."""
OTHER_NAMES = ("byte", "char", "string", "ustring", "json")
"""Data types of TensorStore that may be named in a schema, and that the drivers do not store."""


def parse_data_type(value: JSON, path: str) -> DataType:
    """Return the data type that a spec's metadata name.

    Raises:
        InvalidSpecError: there is no such type.
    """
    if not isinstance(value, str) or value not in NAMES:
        raise invalid(path, f"unknown data type {shown(value)}; known are {', '.join(NAMES)}")
    return DataType.from_json(value)


def parse_dtype(value: JSON, path: str) -> str:
    """Return the name of a schema's data type.

    Raises:
        InvalidSpecError: there is no such type.
    """
    if not isinstance(value, str) or value not in (*NAMES, *OTHER_NAMES):
        raise invalid(path, f"unknown data type {shown(value)}; known are {', '.join(NAMES)}")
    return value


def declared_type(name: str | None, member: str) -> DataType:
    """Return the data type of a new array that a schema names; `member` of a document would name it, too.

    Raises:
        InvalidSpecError: no type is named, or the drivers do not store it.
    """
    if name is None:
        raise invalid("dtype", f"the data type is unknown; {member}, dtype or schema.dtype gives it")
    if name not in NAMES:
        raise invalid("dtype", f"the driver does not store {name!r}; it stores {', '.join(NAMES)}")
    return DataType.from_json(name)


def parse_metadata_fill(value: JSON, data_type: DataType, path: str) -> FillValue:
    """Return the fill value of metadata, written as in documents: `"NaN"`, `"0x7fc00001"`, `[1, "NaN"]`.

    Raises:
        InvalidSpecError: the type has no such value.
    """
    if data_type.dtype.kind in "iu" and isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return data_type.parse_fill_value(value)
    except MetadataError as error:
        raise invalid(path, f"{shown(value)} is no value of {data_type.name}") from error


def parse_schema_fill(value: JSON, data_type: DataType, path: str) -> FillValue:
    """Return the fill value of a schema: a number or boolean, or nested arrays with a single one.

    Raises:
        InvalidSpecError: it has several elements, or the type has no such value.
    """
    while isinstance(value, list | tuple):
        if len(value) != 1:
            raise invalid(path, f"the fill value is a scalar, not {shown(value)}")
        value = value[0]
    kind = data_type.dtype.kind
    if isinstance(value, str):
        value = _of_text(value, kind)
    if kind == "b":
        return parse_metadata_fill(boolean(value, path), data_type, path)
    if kind == "c":
        raise invalid(path, "a schema cannot have a complex fill value; metadata.fill_value can")
    if kind in "iu":
        limits = np.iinfo(data_type.dtype)
        return parse_metadata_fill(integer(value, path, int(limits.min), int(limits.max)), data_type, path)
    return parse_metadata_fill(value, data_type, path)


def _of_text(value: str, kind: str) -> JSON:
    """Return the number or boolean that a string of a schema stands for; other strings unchanged."""
    if kind == "b":
        return {"true": True, "false": False}.get(value, value)
    try:
        if kind in "iu":
            return int(value)
        found = float.fromhex(value) if value.startswith("0x") else float(value)
    except ValueError:
        return value
    return found if math.isfinite(found) else value


def same_bits(a: FillValue, b: FillValue) -> bool:
    """Return whether two fill values of one type are identical: equal NaN are, 0.0 and -0.0 are not."""
    return a.tobytes() == b.tobytes()


def fill_json(value: FillValue, data_type: DataType) -> JSON:
    """Return the fill value as in documents."""
    return data_type.render_fill_value(value)
