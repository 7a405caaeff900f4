"""Bools and integers: limits, and fill values of the core and of narrow types."""

from __future__ import annotations

from typing import Any

import pytest

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata import DataType
from aiozarr.metadata.data_types.integers import IntegerType

LIMITS = {
    "int2": (-2, 1),
    "uint2": (0, 3),
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int8": (-128, 127),
    "uint64": (0, 2**64 - 1),
}


@pytest.mark.parametrize(("name", "limits"), LIMITS.items())
def test_the_limits_are_fill_values_and_their_neighbours_are_not(name: str, limits: tuple[int, int]) -> None:
    data_type = DataType.from_json(name)
    assert isinstance(data_type, IntegerType)
    assert data_type.limits == limits
    for limit in limits:
        assert data_type.render_fill_value(data_type.parse_fill_value(limit)) == limit
    for outside in (limits[0] - 1, limits[1] + 1):
        with pytest.raises(InvalidMetadataError):
            data_type.parse_fill_value(outside)


@pytest.mark.parametrize(
    ("name", "value"), [("bool", 1), ("bool", "true"), ("int8", True), ("int8", 1.0), ("uint4", None)]
)
def test_other_json_values_are_rejected(name: str, value: Any) -> None:
    with pytest.raises(InvalidMetadataError):
        DataType.from_json(name).parse_fill_value(value)
