"""Bytes in JSON: base64, and lists of integers."""

from __future__ import annotations

from typing import Any

import pytest

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata.data_types._bytes import bytes_of, parse_base64, parse_byte_list, render_base64


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
