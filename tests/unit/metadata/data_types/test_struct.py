"""Records: both forms of fields, limits, and fill values as objects and as base64."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError, MetadataError, UnsupportedMetadataError
from aiozarr.metadata import DataType
from aiozarr.metadata.struct import MAX_DEPTH, MAX_FIELDS


def struct(*fields: Any, name: str = "struct") -> dict[str, Any]:
    return {"name": name, "configuration": {"fields": list(fields)}}


def field(name: Any, data_type: Any) -> dict[str, Any]:
    return {"name": name, "data_type": data_type}


INNER = struct(field("p", "float32"), field("q", "bfloat16"))
OUTER = struct(
    field("a", "int32"),
    field("n", INNER),
    field("t", {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}),
    field("s", {"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}}),
    field("r", "r16"),
)
FILL = {"a": 7, "n": {"p": "0x7fc01234", "q": 0.5}, "t": "NaT", "s": "SGk=", "r": [1, 0]}


def test_fields_are_packed_in_their_order() -> None:
    data_type = DataType.from_json(OUTER)
    assert data_type.dtype.names == ("a", "n", "t", "s", "r")
    assert data_type.dtype.itemsize == 4 + 4 + 2 + 8 + 3 + 2
    assert data_type.to_json() == OUTER
    assert DataType.from_numpy(data_type.dtype).dtype == data_type.dtype
    assert pickle.loads(pickle.dumps(data_type)) == data_type


def test_the_older_form_is_parsed_and_the_newer_form_is_rendered() -> None:
    legacy = struct(
        ["a", "int32"], ["n", struct(["p", "float32"], ["q", "bfloat16"], name="structured")], name="structured"
    )
    data_type = DataType.from_json(legacy, strict=True)
    assert data_type.to_json() == struct(field("a", "int32"), field("n", INNER))
    mixed = struct(["a", "int32"], field("n", INNER))
    assert DataType.from_json(mixed) == data_type
    with pytest.raises(InvalidMetadataError):
        DataType.from_json(mixed, strict=True)


def test_numpy_records_are_repacked_in_native_byte_order() -> None:
    aligned = np.dtype([("a", "u1"), ("b", ">f8"), ("c", [("d", ">i2")])], align=True)
    data_type = DataType.from_numpy(aligned)
    assert data_type.dtype == np.dtype([("a", "u1"), ("b", "=f8"), ("c", [("d", "=i2")])])
    assert data_type.dtype.itemsize == 11
    assert data_type.dtype.isnative


def test_fields_that_are_arrays_cannot_be_represented_in_v3() -> None:
    data_type = DataType.from_numpy([("a", "i4"), ("b", ">f8", (2, 3))])
    assert data_type.dtype == np.dtype([("a", "i4"), ("b", "f8", (2, 3))])
    fill = data_type.make_fill_value({"a": 1, "b": 2.5})
    assert fill["b"].tolist() == [[2.5] * 3] * 2
    with pytest.raises(UnsupportedMetadataError):
        data_type.to_json()
    with pytest.raises(UnsupportedMetadataError):
        data_type.render_fill_value(fill)
    with pytest.raises(InvalidMetadataError):
        data_type.parse_fill_value({"a": 1, "b": 2.5})


@pytest.mark.parametrize(
    ("value", "member"),
    [
        ({"name": "struct"}, "fields"),
        ("struct", "fields"),
        (struct(), "fields"),
        ({"name": "struct", "configuration": {"fields": {"a": "int8"}}}, "fields"),
        ({"name": "struct", "configuration": {"fields": [field("a", "int8")], "align": True}}, "align"),
        (struct("int8"), "fields[0]"),
        (struct(["a"]), "fields[0]"),
        (struct(["a", "int8", [2]]), "fields[0]"),
        (struct(field(1, "int8")), "fields[0]"),
        (struct(field("", "int8")), "fields[0]"),
        (struct({"name": "a", "data_type": "int8", "shape": [2]}), "fields[0]"),
        (struct(field("a", "int8"), field("a", "int8")), "fields[1]"),
        (struct(field("a", "string")), "fields[0]"),
        (struct(field("a", "bytes")), "fields[0]"),
        (struct(field("a", "r7")), "fields[0].data_type"),
        (struct(field("a", struct(field("b", None)))), "fields[0].data_type.configuration.fields[0].data_type"),
    ],
)
def test_an_invalid_record_is_rejected_with_its_path(value: Any, member: str) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        DataType.from_json(value)
    assert caught.value.member == f"data_type.configuration.{member}"


def nested(levels: int) -> Any:
    value: Any = "int8"
    for _ in range(levels):
        value = struct(field("a", value))
    return value


@pytest.mark.parametrize(
    "value",
    [
        nested(MAX_DEPTH + 1),
        struct(*[field(str(i), "int8") for i in range(MAX_FIELDS + 1)]),
        struct(*[field(str(i), struct(*[field(str(j), "int8") for j in range(40)])) for i in range(40)]),
        struct(field("a", "r8388608"), field("b", "int8")),
        struct(field("a", "no such type")),
    ],
    ids=["deep", "wide", "wide inside", "large", "unknown"],
)
def test_records_that_exceed_the_limits_are_rejected(value: Any) -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        DataType.from_json(value)
    assert caught.value.point == "data_type"
    assert (caught.value.member or "").startswith("data_type.configuration.fields")


def test_records_at_the_limits_are_accepted() -> None:
    assert DataType.from_json(nested(MAX_DEPTH)).dtype.itemsize == 1
    widest = struct(*[field(str(i), "int8") for i in range(MAX_FIELDS)])
    assert DataType.from_json(widest).dtype.itemsize == MAX_FIELDS


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype({"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 2]}),
        np.dtype({"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [4, 0]}),
        np.dtype([(("title", "a"), "i4")]),
        np.dtype([("a", "O")]),
    ],
)
def test_numpy_records_with_overlaps_or_objects_are_rejected(dtype: np.dtype[Any]) -> None:
    with pytest.raises(MetadataError):
        DataType.from_numpy(dtype)


def test_a_fill_value_is_an_object_with_every_bit_of_every_field() -> None:
    data_type = DataType.from_json(OUTER)
    array = data_type.parse_fill_value(FILL, strict=True)
    assert not array.flags.writeable
    assert array["n"]["p"].view("u4") == 0x7FC01234
    assert data_type.render_fill_value(array) == FILL
    assert json.loads(json.dumps(data_type.render_fill_value(array))) == FILL


def test_base64_of_the_packed_little_endian_bytes_is_parsed_unless_strict() -> None:
    data_type = DataType.from_json(struct(["a", "int16"], ["b", "float32"], name="structured"))
    array = data_type.parse_fill_value("AQAAAIA/")
    assert array.item() == (1, 1.0)
    assert data_type.render_fill_value(array) == {"a": 1, "b": 1.0}
    with pytest.raises(InvalidMetadataError):
        data_type.parse_fill_value("AQAAAIA/", strict=True)


@pytest.mark.parametrize(
    ("value", "member"),
    [
        (0, "fill_value"),
        ([1, 2], "fill_value"),
        ("AQA=", "fill_value"),
        ("!", "fill_value"),
        ({"a": 1}, "fill_value.n"),
        (FILL | {"z": 1}, "fill_value.z"),
        (FILL | {"a": 1.5}, "fill_value.a"),
        (FILL | {"n": {"p": 1, "q": "x"}}, "fill_value.n.q"),
    ],
)
def test_other_fill_values_are_rejected_with_their_path(value: Any, member: str) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        DataType.from_json(OUTER).parse_fill_value(value)
    assert caught.value.member == member


def test_a_fill_value_of_a_caller_has_a_value_for_each_field() -> None:
    data_type = DataType.from_json(struct(field("a", "int16"), field("b", INNER)))
    expected = data_type.parse_fill_value({"a": 1, "b": {"p": 2, "q": 3}})
    packed = expected.tobytes()
    swapped = expected.astype(data_type.dtype.newbyteorder("S"))
    for value in ({"a": 1, "b": (2, 3)}, (1, {"p": 2, "q": 3.0}), [1, [2, 3]], expected, expected[()], packed, swapped):
        assert data_type.make_fill_value(value).tobytes() == packed
    assert not any(data_type.make_fill_value(0).tobytes())
    for wrong, error in (
        ((1,), TypeError),
        (1, TypeError),
        ("x", TypeError),
        ({"a": 1}, ValueError),
        ({"a": 1, "b": (2, 3), "c": 4}, ValueError),
        ({"a": 1.5, "b": (2, 3)}, ValueError),
        (b"abc", ValueError),
        (np.zeros((), [("x", "i2"), ("y", "f4")]), ValueError),
    ):
        with pytest.raises(error):
            data_type.make_fill_value(wrong)


def test_fill_values_of_sub_arrays_keep_the_bits_of_each_nan() -> None:
    dtype = np.dtype([("a", "<f4", (2,)), ("b", [("c", "<c8", (2,))])])
    fill = np.full(dtype.itemsize // 4, 0x7F800001, "<u4").view(dtype).reshape(())
    assert DataType.from_numpy(dtype).make_fill_value(fill).tobytes() == fill.tobytes()
