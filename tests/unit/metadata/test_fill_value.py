"""Fill values have equal bits in documents and in memory."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata.data_type import DataType


def parse(value: Any, name: str, *, strict: bool = False) -> Any:
    return DataType.from_json(name).parse_fill_value(value, strict=strict)


def bits(array: np.ndarray[Any, Any]) -> str:
    """The element's bytes as one big-endian number."""
    return array.astype(array.dtype.newbyteorder(">")).tobytes().hex()


@pytest.mark.parametrize(
    ("value", "name", "hexadecimal"),
    [
        (True, "bool", "01"),
        (False, "bool", "00"),
        (-128, "int8", "80"),
        (2**63 - 1, "int64", "7fffffffffffffff"),
        (-(2**63), "int64", "8000000000000000"),
        (2**64 - 1, "uint64", "ffffffffffffffff"),
        (0.1, "float64", "3fb999999999999a"),
        (0.1, "float32", "3dcccccd"),
        (1, "float16", "3c00"),
        (-0.0, "float32", "80000000"),
        (1e-60, "float32", "00000000"),
        (3.4028235e38, "float32", "7f7fffff"),
        (1e39, "float32", "7f800000"),
        (2**53 + 1, "float64", "4340000000000000"),
        ("NaN", "float16", "7e00"),
        ("NaN", "float32", "7fc00000"),
        ("NaN", "float64", "7ff8000000000000"),
        ("Infinity", "float16", "7c00"),
        ("-Infinity", "float64", "fff0000000000000"),
        ("0x7fc01234", "float32", "7fc01234"),
        ("0xFFA00001", "float32", "ffa00001"),
        ("0x7f800001", "float32", "7f800001"),
        ("0x3c00", "float16", "3c00"),
        ("0x7ff0000000000001", "float64", "7ff0000000000001"),
        ([1, -2.5], "complex64", "3f800000c0200000"),
        (["NaN", "-Infinity"], "complex64", "7fc00000ff800000"),
        (["0x7fc01234", -0.0], "complex64", "7fc0123480000000"),
        (["0xfff0000000000001", "0x7ff0000000000001"], "complex128", "fff00000000000017ff0000000000001"),
        ([255], "r8", "ff"),
        ([1, 0, 255], "r24", "0100ff"),
    ],
)
def test_a_fill_value_has_the_bits_of_the_specification(value: Any, name: str, hexadecimal: str) -> None:
    array = parse(value, name)
    assert array.shape == ()
    assert array.dtype == DataType.from_json(name).dtype
    assert bits(array) == hexadecimal
    assert not array.flags.writeable


@pytest.mark.parametrize(
    ("value", "name"),
    [
        *((value, "bool") for value in (0, 1, "true", None, [])),
        *((value, "int32") for value in (1.0, 1.5, True, "1", "0x00000001", None, [], [1], {}, 2**31, -(2**31) - 1)),
        *((value, "uint8") for value in (-1, 256, 10**4000, float("nan"))),
        *((value, "float32") for value in (True, None, [], "nan", "inf", "+Infinity", "1.0", "", 10**400)),
        *((value, "float32") for value in (float("inf"), float("nan"), -float("inf"))),
        *((value, "float32") for value in ("0x7fc0", "0x7fc000000", "0x", "0x7fc0000g", "7fc00000", "0X7fc00000")),
        *(
            (value, "float32")
            for value in ("0x7fc00000\n", "0x" + "\N{ARABIC-INDIC DIGIT SEVEN}" * 8, "0x-fc00000", "0x7_c00000")
        ),
        *((value, "complex64") for value in (1, "NaN", [], [1], [1, 2, 3], [1, "nan"], [1, None], [[1], 2], {"re": 1})),
        ([1, "0x7ff8000000000000"], "complex64"),
        *(
            (value, "r16")
            for value in (0, "AAA=", [], [1], [1, 2, 3], [0] * 16, [1, 256], [1, -1], [1, 1.0], [1, True])
        ),
    ],
)
def test_other_fill_values_are_rejected_with_their_path(value: Any, name: str) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        parse(value, name, strict=True)
    assert (caught.value.member or "").startswith("fill_value")


def test_the_path_of_a_part_is_named() -> None:
    for value, name in ((([1, "nan"]), "complex64"), ([1, 256], "r16")):
        with pytest.raises(InvalidMetadataError) as caught:
            parse(value, name, strict=True)
        assert caught.value.member == "fill_value[1]"


@given(
    st.sampled_from(
        ["int8", "uint16", "int64", "float16", "float32", "float64", "complex64", "complex128", "r8", "r40"]
    ).flatmap(
        lambda name: st.tuples(
            st.just(name),
            st.binary(
                min_size=DataType.from_json(name).dtype.itemsize, max_size=DataType.from_json(name).dtype.itemsize
            ),
        )
    )
)
def test_every_bit_pattern_is_parsed_from_its_document(case: tuple[str, bytes]) -> None:
    name, raw = case
    data_type = DataType.from_json(name)
    array = np.frombuffer(raw, data_type.dtype).reshape(())
    text = json.dumps(data_type.render_fill_value(array), allow_nan=False)
    assert data_type.parse_fill_value(json.loads(text)).tobytes() == raw


@pytest.mark.parametrize(
    ("name", "hexadecimal", "rendered"),
    [
        ("float32", "7fc00000", "NaN"),
        ("float32", "ffc00000", "0xffc00000"),
        ("float16", "7e01", "0x7e01"),
        ("float64", "7ff0000000000000", "Infinity"),
        ("float32", "ff800000", "-Infinity"),
        ("float32", "3dcccccd", 0.10000000149011612),
        ("r24", "0100ff", [1, 0, 255]),
    ],
)
def test_the_plain_form_is_rendered_if_it_exists(name: str, hexadecimal: str, rendered: Any) -> None:
    data_type = DataType.from_json(name)
    array = np.frombuffer(bytes.fromhex(hexadecimal), data_type.dtype.newbyteorder(">")).astype(data_type.dtype)
    assert data_type.render_fill_value(array.reshape(())) == rendered


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        (None, "int16", 0),
        (None, "bool", False),
        (7, "uint8", 7),
        (7.0, "uint8", 7),
        (np.int64(7), "uint8", 7),
        (np.array(7, ">i4"), "int16", 7),
        (1, "bool", True),
        (True, "float32", 1.0),
        (2**64 - 1, "uint64", 2**64 - 1),
        (0.1, "float32", np.float32(0.1)),
        (float("inf"), "float16", np.inf),
        (1, "complex64", 1 + 0j),
        (1 + 2j, "complex128", 1 + 2j),
    ],
)
def test_a_value_of_the_type_is_a_fill_value(value: Any, name: str, expected: Any) -> None:
    array = DataType.from_json(name).make_fill_value(value)
    assert (array.shape, array.dtype, array.flags.writeable) == ((), DataType.from_json(name).dtype, False)
    assert array.item() == expected


def test_nans_and_raw_bytes_of_callers_keep_their_bits() -> None:
    payload = np.array(0x7FC01234, "u4").view("f4")
    assert DataType.from_json("float32").make_fill_value(payload).tobytes() == payload.tobytes()
    for raw in (b"\1\2\0", bytearray(b"\1\2\0"), np.void(b"\1\2\0"), np.array(b"\1\2\0", "V3")):
        assert DataType.from_json("r24").make_fill_value(raw).tobytes() == b"\1\2\0"
    assert DataType.from_json("r24").make_fill_value(None).tobytes() == bytes(3)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        *((value, "uint8") for value in (-1, 256, 1.5, 2**70, float("nan"), 1j, np.int64(-1))),
        *((value, "uint64") for value in (np.int64(-1), -1, 2.0**64)),
        *((2, "bool"), (0.5, "bool"), (1j, "float64"), (object(), "int8")),
        *((value, "r16") for value in (b"abc", "ab", 0, None.__class__)),
    ],
)
def test_a_fill_value_that_the_type_lacks_is_a_value_error(value: Any, name: str) -> None:
    with pytest.raises(ValueError):
        DataType.from_json(name).make_fill_value(value)


@pytest.mark.parametrize("value", ["NaN", b"x", [1], np.zeros(1), np.datetime64("2000")])
def test_a_fill_value_that_is_not_a_number_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError):
        DataType.from_json("float32").make_fill_value(value)
