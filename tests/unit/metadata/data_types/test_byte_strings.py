"""Byte strings of fixed and of variable length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata import DataType
from aiozarr.metadata.byte_strings import bytes_of, parse_base64, parse_byte_list, render_base64

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


RAW_BYTES = {"name": "raw_bytes", "configuration": {"length_bytes": 2}}


@pytest.mark.parametrize(("value", "fill"), [("r16", [1, 255]), (RAW_BYTES, "Af8=")])
def test_both_names_have_the_bytes_of_their_fill_value(value: Any, fill: Any) -> None:
    data_type = DataType.from_json(value)
    assert (data_type.dtype, data_type.to_json()) == (np.dtype("V2"), value)
    parsed = data_type.parse_fill_value(fill)
    assert parsed.tobytes() == b"\x01\xff"
    assert data_type.render_fill_value(parsed) == fill


@pytest.mark.parametrize("value", ["r7", "r0", "r12", "r" + "8" * 5000, "r8388616"])
def test_sizes_that_are_not_bytes_or_exceed_the_limit_are_rejected(value: str) -> None:
    with pytest.raises((InvalidMetadataError, UnsupportedMetadataError)):
        DataType.from_json(value)


@pytest.mark.parametrize("fill", [[1], [1, 2, 3], [1, 256], 0, "01"])
def test_fill_values_of_another_length_or_kind_are_rejected(fill: Any) -> None:
    with pytest.raises(InvalidMetadataError):
        DataType.from_json("r16").parse_fill_value(fill)


def test_base64_is_parsed_and_rendered() -> None:
    assert parse_base64("AP8=", "fill_value") == b"\x00\xff"
    assert render_base64(b"\x00\xff") == "AP8="
    with pytest.raises(InvalidMetadataError, match="base64"):
        parse_base64("AP8", "fill_value")


def test_a_list_of_integers_is_parsed_as_bytes() -> None:
    assert parse_byte_list([0, 255], "fill_value") == b"\x00\xff"


@pytest.mark.parametrize("item", [256, -1, True, 1.0, "a"])
def test_the_path_of_an_invalid_item_is_named(item: Any) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        parse_byte_list([0, item], "fill_value")
    assert caught.value.member == "fill_value[1]"


def test_bytes_and_ascii_text_of_callers_are_bytes() -> None:
    assert bytes_of(b"ab") == bytes_of(bytearray(b"ab")) == bytes_of("ab") == b"ab"
    assert bytes_of(7) is None
    with pytest.raises(ValueError, match=r"(?i)ascii"):
        bytes_of("ä")
