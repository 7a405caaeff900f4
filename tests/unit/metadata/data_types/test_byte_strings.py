"""Byte strings of fixed and of variable length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata import DataType

FIXED = {"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}}


def test_bytes_of_fixed_length_are_padded() -> None:
    data_type = DataType.from_json(FIXED)
    assert (data_type.dtype, data_type.to_json()) == (np.dtype("S3"), FIXED)
    assert data_type.parse_fill_value("YWI=")[()] == b"ab"
    assert data_type.make_fill_value(b"ab").tobytes() == b"ab\0"
    with pytest.raises(ValueError, match="at most 3 bytes, not 4"):
        data_type.make_fill_value(b"abcd")


@pytest.mark.parametrize("name", ["bytes", "variable_length_bytes"])
def test_a_type_of_variable_length_keeps_its_name(name: str) -> None:
    data_type = DataType.from_json(name)
    assert (data_type.to_json(), data_type.is_variable) == (name, True)
    assert data_type.parse_fill_value("YWI=")[()] == b"ab"
    assert data_type.parse_fill_value([97, 98])[()] == b"ab"
    assert data_type.make_fill_value("ab")[()] == b"ab"


@pytest.mark.parametrize(
    ("value", "fill"), [(FIXED, 1), (FIXED, "YWJjZA=="), ("bytes", 1), ("bytes", "?"), ("bytes", [256])]
)
def test_other_fill_values_are_rejected(value: Any, fill: Any) -> None:
    with pytest.raises(InvalidMetadataError):
        DataType.from_json(value).parse_fill_value(fill)
