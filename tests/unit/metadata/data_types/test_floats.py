"""Floating point numbers: names, bits and numbers in JSON."""

from __future__ import annotations

from typing import Any

import pytest

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata import DataType


@pytest.mark.parametrize(
    ("name", "value", "bits"),
    [
        ("float16", 1.5, "003e"),
        ("float32", "Infinity", "0000807f"),
        ("float64", "-Infinity", "000000000000f0ff"),
        ("float32", "NaN", "0000c07f"),
        ("float32", "0x7fc00001", "0100c07f"),
        ("bfloat16", -2.0, "00c0"),
    ],
)
def test_numbers_names_and_bits_are_fill_values(name: str, value: Any, bits: str) -> None:
    data_type = DataType.from_json(name)
    parsed = data_type.parse_fill_value(value)
    assert parsed.tobytes() == bytes.fromhex(bits)
    assert data_type.parse_fill_value(data_type.render_fill_value(parsed)).tobytes() == parsed.tobytes()


@pytest.mark.parametrize("value", [1e999, "nan", "0x7fc0000", "1.0", True, None, [1.0]])
def test_other_json_values_are_rejected(value: Any) -> None:
    with pytest.raises(InvalidMetadataError):
        DataType.from_json("float32").parse_fill_value(value)
