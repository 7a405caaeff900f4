"""Fill values: JSON in documents, 0-d arrays of equal bits in memory (v3 core specification, "fill_value")."""

from __future__ import annotations

from typing import Any

from aiozarr.metadata.data_type import DataType, FillValue


def parse_fill_value(
    value: object, data_type: DataType, *, member: str = "fill_value", strict: bool = False
) -> FillValue:
    """Return the read-only 0-d array that the `fill_value` member describes for `data_type`.

    Raises:
        InvalidMetadataError: `value` is not a fill value of this type.
    """
    return data_type.parse_fill_value(value, member, strict=strict)


def render_fill_value(array: FillValue, data_type: DataType) -> Any:
    """Return the `fill_value` member for the 0-d `array` of `data_type.dtype`; which parses to the same bits."""
    return data_type.render_fill_value(array)


def make_fill_value(value: object, data_type: DataType) -> FillValue:
    """Return the read-only 0-d array of a fill value from a caller; None gives the default of the type.

    Numbers are rounded to floating point types. Other types must represent the value exactly. Raw types take bytes.

    Raises:
        TypeError: `value` is not a scalar of this kind.
        ValueError: the type has no such value.
    """
    return data_type.make_fill_value(value)
