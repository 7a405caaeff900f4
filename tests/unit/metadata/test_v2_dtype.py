"""Type strings and field lists of numpy, parsed within limits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.v2_dtype import parse_dtype, render_dtype


@pytest.mark.parametrize(
    "text",
    [
        *("|b1", "|i1", "|u1", "<i2", ">i4", "<u8", "<f2", ">f8", "<c8", ">c16"),
        *("|S1", "|S12", "<U3", ">U13", "|V8"),
        *("<M8[ns]", ">M8[D]", "<M8[Y]", "<m8[25s]", ">m8[10us]", "<m8[as]"),
        "|O",
    ],
)
def test_a_type_string_is_parsed_as_numpy_does_and_rendered(text: str) -> None:
    dtype = parse_dtype(text)
    assert dtype == np.dtype(text)
    assert render_dtype(dtype.newbyteorder("="), ">" if text[0] == ">" else "<") == text


@pytest.mark.parametrize("text", ["<i1", ">u1", "<b1", "<V4", "<S4"])
def test_a_byte_order_of_single_bytes_is_ignored(text: str) -> None:
    assert parse_dtype(text) == np.dtype(text)


@pytest.mark.parametrize("name", ["bfloat16", "int4", "uint2", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_types_that_numpy_lacks_have_names(name: str) -> None:
    dtype = parse_dtype(name)
    assert dtype == np.dtype(getattr(ml_dtypes, name))
    assert render_dtype(dtype) == name


@pytest.mark.parametrize(
    "value",
    [
        [["r", "|u1"], ["g", "|u1"], ["b", "|u1"]],
        [["x", "<f4"], ["y", "<f4"], ["z", "<f4", [2, 2]]],
        [["foo", "<f4"], ["bar", [["baz", "<f4"], ["qux", "<i4"]]]],
        [["a", [["b", "|S3"]], [2]], ["é", "<M8[s]"]],
    ],
)
def test_fields_are_packed_and_rendered(value: Any) -> None:
    dtype = parse_dtype(value)
    assert dtype.names == tuple(field[0] for field in value)
    assert dtype.itemsize == sum(dtype[name].itemsize for name in dtype.names)
    assert render_dtype(dtype) == value


def test_one_length_of_a_subarray_may_be_a_number() -> None:
    assert parse_dtype([["a", "<f4", 3]]) == np.dtype([("a", "<f4", (3,))])


@pytest.mark.parametrize(
    "value",
    [
        *(None, 7, True, {}, {"names": ["a"], "formats": ["<i4"], "offsets": [0]}),
        *("", "i4", "<", "<i", "<i3", "<q9", "|i4", "=i4", "<i4 ", "int32", "float64", "|b2", "<U", "|U4", "<i4[s]"),
        *("<M8[2generic]", "<M8[x]", "|M8[s]", "<M4[s]", "<M8[0s]", "<M8[4000000000s]", "<f1"),
        *([], [[]], ["a"], [["a"]], [["a", "<i4", [2], 1]], [[1, "<i4"]], [["", "<i4"]], [["a", 1]], [["a", None]]),
        *([["a", "<i4"], ["a", "<i4"]], [["a", "<i4", [0]]], [["a", "<i4", [-1]]], [["a", "<i4", [True]]]),
        [["a", "<i4", "2"]],
    ],
)
def test_invalid_types_are_rejected(value: Any) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        parse_dtype(value)
    assert str(caught.value.member).startswith("dtype")


def nested(levels: int) -> Any:
    value: Any = "<i4"
    for _ in range(levels):
        value = [["a", value]]
    return value


@pytest.mark.parametrize(
    "value",
    [
        *("<f16", "<c32", "<f12", "|S0", "<U0", "|V0", "|S2147483647", "<U1000000", "|V1048577"),
        nested(9),
        nested(150),
        [[str(i), "|u1"] for i in range(1025)],
        [["a", "|V1048576"], ["b", "|u1"]],
        [["a", "<f8", [1000, 1000]]],
        [["a", "<f8", [1 << 62, 1 << 62]]],
        [["a", "<f8", [1] * 33]],
        [["a", "|O"]],
    ],
)
def test_types_that_exceed_the_limits_are_rejected_before_numpy_parses_them(value: Any) -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        parse_dtype(value)
    assert (caught.value.point, str(caught.value.member)[:5]) == ("data_type", "dtype")
    assert len(str(caught.value)) < 1000


def test_a_type_without_a_description_is_not_written() -> None:
    for dtype in (np.dtype("longdouble"), np.dtype("M8[10generic]")):
        with pytest.raises(UnsupportedMetadataError):
            render_dtype(dtype)
