"""Data types: the core types of v3, and nothing that only looks like one."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.data_type import MAX_ITEM_SIZE, DataType

NAMES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "r8", "r16", "r24", "r8388608"),
]


@pytest.mark.parametrize("name", NAMES)
def test_names_and_numpy_types_belong_together(name: str) -> None:
    data_type = DataType.from_json(name)
    assert (data_type.name, data_type.to_json()) == (name, name)
    assert data_type.dtype.isnative
    assert data_type.dtype == (np.dtype(name) if name[0] != "r" else np.dtype(f"V{int(name[1:]) // 8}"))
    for order in "<>=":
        assert DataType.from_numpy(data_type.dtype.newbyteorder(order)) == data_type  # type: ignore[arg-type]
    assert DataType.from_json({"name": name}) == data_type
    assert DataType.from_json({"name": name, "configuration": {}, "must_understand": True}) == data_type
    assert pickle.loads(pickle.dumps(data_type)) == data_type
    assert hash(DataType.from_numpy(data_type.dtype)) == hash(data_type)


@pytest.mark.parametrize("name", NAMES)
def test_the_default_fill_value_is_zero(name: str) -> None:
    value = DataType.from_json(name).default_fill_value
    assert value.shape == ()
    assert not any(value.tobytes())
    assert not value.flags.writeable


def test_types_of_equal_width_are_one_type() -> None:
    assert DataType.from_numpy(np.longlong) == DataType.from_numpy(np.int64) == DataType.from_numpy(int)
    assert DataType.from_numpy("f4").dtype is DataType.from_json("float32").dtype


@pytest.mark.parametrize(
    "dtype",
    [
        *("O", "S5", "U5", "M8[s]", "m8", "V0", [("a", "i4")], ("i4", (2,)), np.dtypes.StrDType(3)),
        f"V{MAX_ITEM_SIZE + 1}",
        pytest.param(
            np.longdouble, marks=pytest.mark.skipif(np.dtype("g").itemsize == 8, reason="long double is float64 here")
        ),
    ],
)
def test_what_the_core_cannot_store_is_refused_by_name(dtype: Any) -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        DataType.from_numpy(dtype)
    assert caught.value.point == "data_type"
    assert caught.value.name == str(np.dtype(dtype))


@pytest.mark.parametrize("dtype", [None, "no such type", object()])
def test_what_is_no_type_is_a_type_error(dtype: Any) -> None:
    with pytest.raises(TypeError):
        DataType.from_numpy(dtype)


@pytest.mark.parametrize(
    ("value", "member"),
    [
        (None, "data_type"),
        (8, "data_type"),
        (["int8"], "data_type"),
        ({}, "data_type.name"),
        ({"name": 8}, "data_type.name"),
        ({"name": "int8", "configuration": {"bits": 4}}, "data_type.configuration"),
        ({"name": "int8", "must_understand": False}, "data_type.must_understand"),
        ({"name": "int8", "endian": "big"}, "data_type.endian"),
        ("r0", "data_type"),
        ("r7", "data_type"),
        ("r12", "data_type"),
    ],
)
def test_what_is_no_data_type_is_refused_with_its_place(value: Any, member: str) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        DataType.from_json(value)
    assert caught.value.member == member


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "float128",
            "Int8",
            "int8 ",
            "<i4",
            "O",
            "r",
            "r08",
            "r-8",
            "r8.0",
            "r8\n",
            "r\N{ARABIC-INDIC DIGIT EIGHT}",
            "datetime64",
            "string",
        ),
        *("r17179869184", "r8388616", "r" + "8" * 5000, "x" * 100_000),
    ],
)
def test_unknown_types_are_named(name: str) -> None:
    for value in (name, {"name": name, "configuration": {"length_bytes": 1 << 31}}):
        if isinstance(value, dict) and name[:2] in ("r1", "r8") and name.strip().isascii() and name[1:].isdigit():
            continue  # an r* type with a configuration is invalid whatever its size
        with pytest.raises(UnsupportedMetadataError) as caught:
            DataType.from_json(value)
        assert caught.value.point == "data_type"
        assert caught.value.name is not None
        assert name.startswith(caught.value.name.rstrip("…"))
        assert len(str(caught.value)) < 1000
