"""Data types of v1 and v2 documents: type strings and field lists of numpy (v2, "Data type encoding")."""

from __future__ import annotations

import math
import re
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np

from aiozarr.common.formatting import clip
from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.data_type import SMALL_FLOATS

DTypeJSON: TypeAlias = str | list[Any]
"""A `dtype` member: a type string, or a list of fields."""

MAX_ITEM_SIZE = 1 << 20
"""Maximum size of one element in bytes. The fill value is one element: a document must not allocate gigabytes."""
MAX_LEVELS = 8
"""Maximum nesting of structured types."""
MAX_FIELDS = 1024
"""Maximum number of fields of a structured type, including fields of nested types."""

# TensorStore and zarr-python write types that numpy lacks by name. They are little-endian.
NAMED: dict[str, np.dtype[Any]] = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "int2", "int4", "uint2", "uint4", *SMALL_FLOATS.split())
    if hasattr(ml_dtypes, name)
}

_TYPESTR = re.compile(r"([<>|])([a-zA-Z])([0-9]{1,10})(?:\[([0-9]{0,10})([a-zA-Zμ]{1,7})\])?", re.ASCII)
_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16), "m": (8,), "M": (8,)}
_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic")
_OBJECT = ("|O", "|O8", "|O4", "O")


def parse_dtype(value: object) -> np.dtype[Any]:
    """Return the numpy type of a `dtype` member, in its byte order.

    Raises:
        InvalidMetadataError: the member is neither a type string nor a list of fields.
        UnsupportedMetadataError: a type that aiozarr lacks, such as long double, or one that exceeds its limits.
    """
    return _parse(value, "dtype", 1, [0])


def render_dtype(dtype: np.dtype[Any], order: Literal["<", ">"] = "<") -> DTypeJSON:
    """Return the `dtype` member for a numpy type with the byte order replaced by `order`, `<` or `>`.

    Raises:
        UnsupportedMetadataError: the format has no such type.
    """
    if dtype.names is not None:
        return [_render_field(dtype, name, order) for name in dtype.names]
    if dtype.kind == "O":
        return "|O"
    text = dtype.newbyteorder(order).str if dtype.kind in "iufcmMU" else dtype.str
    named = NAMED.get(dtype.name)
    if named is not None and named == dtype:
        return dtype.name
    try:
        if parse_dtype(text) == dtype.newbyteorder(order):
            return text
    except (InvalidMetadataError, UnsupportedMetadataError):
        pass
    raise UnsupportedMetadataError(f"format 2 cannot store {dtype}", member="dtype", point="data_type", name=str(dtype))


def _parse(value: object, member: str, level: int, seen: list[int]) -> np.dtype[Any]:
    if isinstance(value, str):
        return _parse_string(value, member)
    if not isinstance(value, list):
        raise InvalidMetadataError("expected a data type: a string or a list of fields", member=member)
    return _parse_fields(value, member, level, seen)


def _parse_string(text: str, member: str) -> np.dtype[Any]:
    if text in NAMED:
        return NAMED[text]
    if text in _OBJECT:
        return np.dtype(object)
    match = _TYPESTR.fullmatch(text)
    if match is None:
        raise InvalidMetadataError(f"{clip(text)!r} is not a type string", member=member)
    order, kind, size, count, unit = match[1], match[2], int(match[3]), match[4], match[5]
    if kind in ("m", "M"):
        return _parse_time(text, order, kind, size, count, unit, member)
    if unit is not None:
        raise InvalidMetadataError(f"only datetimes and timedeltas have units, unlike {clip(text)!r}", member=member)
    if kind in _SIZES:
        return _parse_number(text, order, kind, size, member)
    if kind not in ("S", "U", "V"):
        raise InvalidMetadataError(f"{clip(text)!r} is not a type of numpy's array protocol", member=member)
    if size == 0:
        raise _unsupported(text, member, "its elements have a size of 0 bytes")
    if size * (4 if kind == "U" else 1) > MAX_ITEM_SIZE:
        raise _unsupported(text, member, f"elements may have at most {MAX_ITEM_SIZE} bytes")
    if kind == "U" and order == "|":
        raise InvalidMetadataError(f"{text!r} has no byte order", member=member)
    return np.dtype(f"{order if kind == 'U' else '|'}{kind}{size}")


def _parse_number(text: str, order: str, kind: str, size: int, member: str) -> np.dtype[Any]:
    if size not in _SIZES[kind]:
        if (kind, size) in (("f", 12), ("f", 16), ("c", 24), ("c", 32)):
            raise _unsupported(text, member, "long doubles differ between machines")
        raise InvalidMetadataError(f"{clip(text)!r} is not a type of numpy's array protocol", member=member)
    if order == "|" and size > 1:
        raise InvalidMetadataError(f"{text!r} has no byte order", member=member)
    # Writers such as netCDF-C add a byte order to single bytes.
    return np.dtype(f"{'|' if size == 1 else order}{kind}{size}")


def _parse_time(
    text: str, order: str, kind: str, size: int, count: str | None, unit: str | None, member: str
) -> np.dtype[Any]:
    if size != 8 or order == "|":
        raise InvalidMetadataError(f"{clip(text)!r} is not a type string: '<' or '>', and 8 bytes", member=member)
    # numpy's name of a type without a unit has none, whatever its scale; zarr-python stores that name.
    unit = {None: "generic", "μs": "us"}.get(unit, unit)
    if unit not in _UNITS or (count and (unit == "generic" or not 0 < int(count) < 1 << 31)):
        raise InvalidMetadataError(f"{clip(text)!r} has no numpy unit", member=member)
    return np.dtype(f"{order}{kind}8[{count or ''}{unit}]")


def _parse_fields(value: list[Any], member: str, level: int, seen: list[int]) -> np.dtype[Any]:
    if level > MAX_LEVELS:
        raise _unsupported("structured", member, f"structured types may be nested at most {MAX_LEVELS} levels deep")
    if not value:
        raise InvalidMetadataError("a structured type needs fields", member=member)
    seen[0] += len(value)
    if seen[0] > MAX_FIELDS:
        raise _unsupported("structured", member, f"structured types may have at most {MAX_FIELDS} fields")
    names: set[str] = set()
    fields: list[tuple[str, np.dtype[Any], tuple[int, ...]]] = []
    total = 0
    for i, field in enumerate(value):
        place = f"{member}[{i}]"
        name, dtype, shape = _parse_field(field, place, level, seen)
        if name in names:
            raise InvalidMetadataError(f"duplicate field {clip(name)!r}", member=place)
        names.add(name)
        total += dtype.itemsize * math.prod(shape)
        if total > MAX_ITEM_SIZE:
            raise _unsupported("structured", member, f"elements may have at most {MAX_ITEM_SIZE} bytes")
        fields.append((name, dtype, shape))
    return np.dtype([(name, dtype, shape) if shape else (name, dtype) for name, dtype, shape in fields])


def _parse_field(field: object, member: str, level: int, seen: list[int]) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    if not isinstance(field, list) or len(field) not in (2, 3):
        raise InvalidMetadataError("a field must be a list of a name, a type and optionally a shape", member=member)
    name = field[0]
    # numpy would replace an empty name.
    if not isinstance(name, str) or not name:
        raise InvalidMetadataError("the name of a field must be a string", member=f"{member}[0]")
    place = f"{member}[1]"
    dtype = _parse(field[1], place, level + 1, seen)
    if dtype.kind == "O":
        raise _unsupported("|O", place, "objects in structured types are not supported")
    return name, dtype, _parse_subarray(field[2], f"{member}[2]") if len(field) == 3 else ()


def _parse_subarray(value: object, member: str) -> tuple[int, ...]:
    # numpy writes a single length as a number.
    lengths: list[Any] = value if isinstance(value, list) else [value]
    if not all(type(length) is int and length > 0 for length in lengths):
        raise InvalidMetadataError("the shape of a subarray must be a list of positive integers", member=member)
    if len(lengths) > 32 or math.prod(lengths) > MAX_ITEM_SIZE:
        raise _unsupported("structured", member, f"elements may have at most {MAX_ITEM_SIZE} bytes")
    return tuple(lengths)


def _render_field(dtype: np.dtype[Any], name: str, order: Literal["<", ">"]) -> list[Any]:
    field = dtype[name]
    if field.subdtype is None:
        return [name, render_dtype(field, order)]
    base, shape = field.subdtype
    return [name, render_dtype(base, order), list(shape)]


def _unsupported(name: str, member: str, reason: str) -> UnsupportedMetadataError:
    return UnsupportedMetadataError(
        f"the data type {clip(name)!r} is not read: {reason}", member=member, point="data_type", name=clip(name)
    )
