"""Fill values of v2 documents in all encodings of the specification and of real writers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata.v2_dtype import parse_dtype
from aiozarr.metadata.v2_fill_value import parse_v2_fill, render_v2_fill


def parse(value: Any, text: Any, *, strict: bool = False) -> Any:
    dtype = parse_dtype(text).newbyteorder("=")
    return parse_v2_fill(value, dtype, kind=dtype.kind, strict=strict)


@pytest.mark.parametrize(
    ("text", "value", "element"),
    [
        ("<i4", -5, -5),
        ("<u8", 2**64 - 1, 2**64 - 1),
        ("|b1", True, True),
        ("<f4", 1.5, 1.5),
        ("<f8", 3, 3.0),
        ("<f8", "Infinity", math.inf),
        ("<f2", "-Infinity", -math.inf),
        ("<c8", [1.0, "-Infinity"], complex(1, -math.inf)),
        ("|S4", "YWI=", b"ab"),
        ("|S4", "", b""),
        ("|V3", "Af8A", b"\x01\xff\x00"),
        ("<U4", "é日", "é日"),
        ("bfloat16", 1.5, 1.5),
        ("float4_e2m1fn", "Ag==", 1.0),
        ("int4", -8, -8),
        ([["a", "<i2"], ["b", "|S2"]], "AQBhYg==", (1, b"ab")),
    ],
)
def test_a_fill_value_of_the_specification_is_parsed_strictly_and_rendered(text: Any, value: Any, element: Any) -> None:
    array = parse(value, text, strict=True)
    assert (array.shape, array.flags.writeable) == ((), False)
    assert array.item() == element
    again = render_v2_fill(array, kind=parse_dtype(text).kind)
    assert again == value
    assert parse(again, text, strict=True).tobytes() == array.tobytes()


def test_times_are_integer_counts() -> None:
    assert parse(86400, "<M8[s]", strict=True) == np.datetime64(86400, "s")
    assert np.isnat(parse(-(2**63), "<M8[ns]", strict=True))
    assert render_v2_fill(parse("NaT", "<m8[s]"), kind="m") == -(2**63)


def test_nan_is_rendered_as_the_specification_says() -> None:
    for text, value in (("<f4", "NaN"), ("<f8", "NaN"), ("bfloat16", "NaN"), ("<c8", ["NaN", 0.0])):
        array = parse(value, text, strict=True)
        assert np.isnan(array)
        assert render_v2_fill(array, kind=parse_dtype(text).kind) == value
    assert str(parse(-0.0, "<f8", strict=True)) == "-0.0"


def test_a_hexadecimal_nan_keeps_its_bits() -> None:
    assert parse("0x7fc01234", "<f4").tobytes() == np.array(0x7FC01234, "u4").tobytes()


@pytest.mark.parametrize(
    ("text", "value", "element"),
    [
        ("<i4", 7.0, 7),
        ("<i4", "7", 7),
        ("<i8", "9007199254740993", 9007199254740993),
        ("<f8", "1.5e3", 1500.0),
        ("|b1", 0, False),
        ("|b1", 1, True),
        ("<c8", 2, 2 + 0j),
        ("|S4", 0, b"0"),
        ("|S4", "N/A", b"N/A"),
        ("<U4", 0, "0"),
        ("<U4", 1.5, "1.5"),
        ("|V2", 0, b"\0\0"),
        ([["a", "<i2"], ["b", "|S2"]], 0, (0, b"")),
    ],
)
def test_nonstandard_fill_values_of_real_writers_are_parsed_unless_strict(text: Any, value: Any, element: Any) -> None:
    assert parse(value, text).item() == element
    with pytest.raises(InvalidMetadataError) as caught:
        parse(value, text, strict=True)
    assert caught.value.member == "fill_value"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("<i4", ("abc", "", "1e999", "0x1", 0.5, True, [1], {}, 2**31, "9" * 100)),
        ("|u1", (-1, 256)),
        ("int4", (8, -9, 0.5)),
        ("|b1", (2, "true", [True])),
        ("<f8", ("nan", "1,5", True, [1.0], "0x7fc0", 10**400, "--1")),
        ("<c8", ([1.0], [1, 2, 3], "NaN", ["x", 0], {})),
        ("|S4", ("YWJjZGU=", "toolong!", 1, [], "日")),
        ("|V3", ("Af8=", "!!!!", 1, [1, 2, 3], "A" * 100_000)),
        ("<U2", ("abc", 100, True, [])),
        ("<M8[s]", ("2020-01-01", 0.5, True, 2**63)),
        ([["a", "<i2"]], ("AQ==", "AQBhYg==", [1], {"a": 1})),
    ],
)
def test_a_fill_value_of_another_type_or_length_is_rejected(text: Any, values: tuple[Any, ...]) -> None:
    for value in values:
        with pytest.raises(InvalidMetadataError) as caught:
            parse(value, text, strict=True)
        assert str(caught.value.member).startswith("fill_value"), value
        assert len(str(caught.value)) < 500


def test_fill_values_of_any_length_and_any_kind() -> None:
    anything = np.dtype(object)
    assert parse_v2_fill("YWI=", anything, kind="B", strict=True).item() == b"ab"
    assert parse_v2_fill(0, anything, kind="B", strict=False).item() == b""
    assert parse_v2_fill([1, [2]], anything, kind="O", strict=True).item() == [1, [2]]
    assert render_v2_fill(parse_v2_fill("YWI=", anything, kind="B", strict=True), kind="B") == "YWI="
    assert parse_v2_fill("x", anything, kind="T", strict=True).item() == "x"
    assert parse_v2_fill(0, anything, kind="T", strict=False).item() == "0"
