"""Bools and integers: limits, and fill values of the core and of narrow types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata import DataType
from aiozarr.metadata.number_types import FloatType, IntegerType

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
        DataType.from_json(name).parse_fill_value(value, strict=True)


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
def test_json_values_that_are_no_float_are_rejected(value: Any) -> None:
    with pytest.raises(InvalidMetadataError):
        DataType.from_json("float32").parse_fill_value(value, strict=True)


@pytest.mark.parametrize("name", ["complex64", "complex128"])
def test_both_parts_keep_their_bits(name: str) -> None:
    data_type = DataType.from_json(name)
    parsed = data_type.parse_fill_value([-0.0, "-Infinity"])
    assert np.signbit(parsed.real)
    assert parsed.imag == -np.inf
    assert data_type.render_fill_value(parsed) == [-0.0, "-Infinity"]


@pytest.mark.parametrize("value", [1.0, [1.0], [1.0, 2.0, 3.0], [1.0, None], "NaN"])
def test_json_values_that_are_no_complex_number_are_rejected(value: Any) -> None:
    with pytest.raises(InvalidMetadataError):
        DataType.from_json("complex64").parse_fill_value(value)


@pytest.mark.parametrize(
    ("name", "value", "bits"),
    [
        ("int2", -2, 0xFE),
        ("int4", 7, 0x07),
        ("uint2", 3, 0x03),
        ("uint4", 15, 0x0F),
        ("bfloat16", 1.5, 0x3FC0),
        ("bfloat16", "NaN", 0x7FC0),
        ("bfloat16", "0x7f81", 0x7F81),
        ("bfloat16", "-Infinity", 0xFF80),
        ("bfloat16", 1e39, 0x7F80),
        ("float8_e4m3", "NaN", 0x7C),
        ("float8_e4m3", "Infinity", 0x78),
        ("float8_e4m3fn", "NaN", 0x7F),
        ("float8_e4m3fn", 448, 0x7E),
        ("float8_e4m3fn", "0xff", 0xFF),
        ("float8_e4m3fnuz", "NaN", 0x80),
        ("float8_e4m3b11fnuz", "NaN", 0x80),
        ("float8_e5m2", "NaN", 0x7E),
        ("float8_e5m2", "-Infinity", 0xFC),
        ("float8_e5m2fnuz", "NaN", 0x80),
        ("float8_e8m0fnu", "NaN", 0xFF),
        ("float8_e8m0fnu", 1, 0x7F),
        ("float8_e8m0fnu", 0.0, 0x00),
        ("float6_e2m3fn", 7.5, 0x1F),
        ("float6_e3m2fn", -28, 0x3F),
        ("float4_e2m1fn", -6.0, 0x0F),
        ("float4_e2m1fn", "0x0b", 0x0B),
    ],
)
def test_a_fill_value_has_the_bits_of_the_registry(name: str, value: Any, bits: int) -> None:
    data_type = DataType.from_json(name)
    array = data_type.parse_fill_value(value)
    stored = int(array.copy().view(f"u{array.dtype.itemsize}"))
    # Integers of less than a byte leave the upper bits of memory open.
    width = int("".join(filter(str.isdigit, name))) if "int" in name else 8 * array.dtype.itemsize
    assert stored % (1 << width) == bits % (1 << width)
    again = data_type.parse_fill_value(data_type.render_fill_value(array))
    assert again.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("int4", value) for value in (8, -9, 1.0, True, "1", "0x1", None)],
        *[("uint2", value) for value in (4, -1)],
        *[("int2", value) for value in (2, -3)],
        *[(name, "Infinity") for name in ("float4_e2m1fn", "float6_e2m3fn", "float8_e4m3fn", "float8_e8m0fnu")],
        *[(name, "NaN") for name in ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")],
        *[("float4_e2m1fn", value) for value in (7, "0x10", "0xff", "0xb", "0x000b", True)],
        ("float6_e3m2fn", "0x40"),
        ("float8_e4m3fn", 1000),
        ("float8_e8m0fnu", -1),
        ("bfloat16", "0x7fc00000"),
        ("bfloat16", "0x7f"),
    ],
)
def test_numbers_that_a_format_lacks_are_rejected(name: str, value: Any) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        DataType.from_json(name).parse_fill_value(value, strict=True)
    assert caught.value.member == "fill_value"


def test_zero_of_a_format_without_zero_is_read_unless_strict() -> None:
    with pytest.raises(InvalidMetadataError):
        DataType.from_json("float8_e8m0fnu").parse_fill_value(0.0, strict=True)


@pytest.mark.parametrize(
    "name", [name for name in FloatType.names if name.startswith(("b", "float4", "float6", "float8"))]
)
def test_every_bit_pattern_of_small_floats_is_parsed_from_its_document(name: str) -> None:
    data_type = DataType.from_json(name)
    bits = 16 if name == "bfloat16" else int(name[5])
    for pattern in range(0, 1 << bits, 97 if bits == 16 else 1):
        array = np.array(pattern, f"u{data_type.dtype.itemsize}").view(data_type.dtype)
        again = data_type.parse_fill_value(data_type.render_fill_value(array), strict=True)
        assert again.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("int4", 7, 7),
        ("int4", np.int64(-8), -8),
        ("int4", 3.0, 3),
        ("int4", ml_dtypes.uint4(3), 3),
        ("uint8", ml_dtypes.bfloat16(3), 3),
        ("bfloat16", 0.1, float(ml_dtypes.bfloat16(0.1))),
        ("bfloat16", ml_dtypes.float8_e5m2(1.5), 1.5),
        ("float8_e4m3fn", 1, 1.0),
        ("bool", ml_dtypes.int4(1), True),
    ],
)
def test_a_number_of_the_type_is_a_fill_value(name: str, value: Any, expected: Any) -> None:
    array = DataType.from_json(name).make_fill_value(value)
    assert array.dtype == DataType.from_json(name).dtype
    assert array.item() == expected
    assert not array.flags.writeable


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("int4", 8),
        ("int4", 1.5),
        ("uint2", -1),
        ("float4_e2m1fn", 7),
        ("float4_e2m1fn", float("nan")),
        ("bfloat16", 1j),
    ],
)
def test_a_number_that_the_type_lacks_is_a_value_error(name: str, value: Any) -> None:
    with pytest.raises(ValueError):
        DataType.from_json(name).make_fill_value(value)
