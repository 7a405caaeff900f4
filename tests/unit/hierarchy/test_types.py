"""Arrays of every data type: created, written, opened again, and read back."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aiozarr
from aiozarr.hierarchy.new_metadata_v3 import new_v3_array, resolve_dtype
from aiozarr.metadata import DataType
from aiozarr.stores import MemoryStore

RECORD = np.dtype([("a", ">i4"), ("s", "S2"), ("n", [("p", "f4"), ("t", "M8[s]")])])
SMALL = ["int2", "int4", "uint4", "bfloat16", "float4_e2m1fn", "float6_e3m2fn", "float8_e4m3fn", "float8_e8m0fnu"]
POINT = {"name": "struct", "configuration": {"fields": [{"name": "x", "data_type": "bfloat16"}]}}
# What a caller writes as `dtype`, values, and a fill value.
CASES: list[tuple[Any, Any, Any]] = [
    *[(name, np.ones(5).astype(getattr(ml_dtypes, name)), 1) for name in SMALL],
    ("complex64", [1j, 2, 3, 4, 5], 1 + 2j),
    ("string", ["a", "", "naïve", "x" * 1000, "b\0"], "none"),
    (str, np.array(["a", "", "c", "d", "e"]), ""),
    ("bytes", [b"a", b"", b"\0", b"x" * 1000, b"b"], b"\0"),
    ("variable_length_bytes", [b"a"] * 5, b""),
    ("U3", ["a", "", "abc", "ü", "e"], "?"),
    (">U3", ["a", "", "abc", "ü", "e"], "?"),
    ("S3", [b"a", b"", b"abc", b"d", b"e"], b"?"),
    ("V3", [b"abc", b"\0\0\0", b"ab\0", b"\0bc", b"abc"], b"\xff\0\0"),
    ({"name": "raw_bytes", "configuration": {"length_bytes": 2}}, [b"ab"] * 5, b"\0\1"),
    ("M8[10ms]", np.array([1, 2, 3, 4, 5], "M8[10ms]"), np.datetime64("NaT", "ms")),
    (">m8[D]", np.array([1, 2, 3, 4, 5], "m8[D]"), 9),
    (RECORD, [(1, b"ab", (2.5, "2000-01-01"))] * 5, (9, b"z", (0.5, "NaT"))),
    (POINT, [(1.5,)] * 5, {"x": -1}),
]


@pytest.mark.parametrize(("dtype", "values", "fill"), CASES, ids=[str(case[0])[:40] for case in CASES])
@pytest.mark.parametrize("shards", [None, (4,)])
async def test_written_values_are_read_back(dtype: Any, values: Any, fill: Any, shards: Any) -> None:
    store = MemoryStore()
    created = await aiozarr.create_array(
        store, shape=(9,), chunks=(2,), shards=shards, dtype=dtype, fill_value=fill, attributes={"a": 1}
    )
    await created[1:6].write(values)
    opened = await aiozarr.open_array(store)
    assert opened.metadata == created.metadata
    assert hash(opened.metadata) == hash(created.metadata)
    assert opened.dtype == created.dtype == resolve_dtype(dtype)[0].dtype
    assert opened.dtype.isnative

    expected = np.full(9, created.metadata.fill_value, opened.dtype)
    expected[1:6] = values
    read = await opened[:].read()
    assert read.dtype == opened.dtype
    if read.dtype.kind in "TO":
        assert read.tolist() == expected.tolist()
    else:
        assert read.tobytes() == expected.tobytes()
    shown = [opened.fill_value, await opened[8].read(), read[8]]
    assert len({repr(each) for each in shown}) == 1
    assert (await opened.info()).data_type == opened.metadata.data_type.name
    assert repr(opened)


async def test_values_that_do_not_fit_are_refused_before_anything_is_stored() -> None:
    store = MemoryStore()
    array = await aiozarr.create_array(store, shape=(4,), chunks=(2,), dtype="S2")
    before = sorted(await store.list())
    with pytest.raises(ValueError, match="does not fit"):
        await array[:].write([b"a", b"b", b"c", b"long"])
    assert sorted(await store.list()) == before


@pytest.mark.parametrize(
    ("dtype", "name", "codecs"),
    [
        ("string", "string", ["vlen-utf8", "zstd"]),
        (str, "string", ["vlen-utf8", "zstd"]),
        (bytes, "bytes", ["vlen-bytes", "zstd"]),
        ("variable_length_bytes", "variable_length_bytes", ["vlen-bytes", "zstd"]),
        ("bfloat16", "bfloat16", ["bytes", "zstd"]),
        ("U5", "fixed_length_utf32", ["bytes", "zstd"]),
    ],
)
def test_the_codecs_are_chosen_by_the_type(dtype: Any, name: str, codecs: list[str]) -> None:
    metadata = new_v3_array(shape=(4,), dtype=dtype)
    assert metadata.data_type.name == name
    assert [codec.name for codec in metadata.codecs] == codecs


@pytest.mark.parametrize(
    ("dtype", "endian"),
    [
        *[(dtype, "little") for dtype in ("bfloat16", "U5", "M8[s]", "<i4", [("a", "<i4"), ("b", "u1")])],
        *[(dtype, "big") for dtype in (">U5", ">M8[s]", ">i4", [("a", ">i4"), ("b", "u1")])],
        *[(dtype, None) for dtype in ("S5", "V5", "int4", "float8_e4m3", "u1", [("a", "u1"), ("b", "S2")])],
        ([("a", ">i4"), ("b", "<i4")], "little"),
    ],
)
def test_byte_order_is_written_where_the_type_has_one(dtype: Any, endian: str | None) -> None:
    metadata = new_v3_array(shape=(4,), dtype=dtype)
    assert metadata.codecs[0].configuration == ({} if endian is None else {"endian": endian})


def test_blosc_shuffles_elements_of_a_fixed_and_small_size() -> None:
    for dtype, typesize in (("f8", 8), ("V300", 1), ("bfloat16", 2), ("S3", 3)):
        metadata = new_v3_array(shape=(4,), dtype=dtype, codecs=["bytes", "blosc"])
        assert metadata.codecs[1].configuration["typesize"] == typesize
    metadata = new_v3_array(shape=(4,), dtype="string", codecs=["vlen-utf8", "blosc"])
    assert metadata.codecs[1].configuration["typesize"] == 1


@pytest.mark.parametrize("dtype", ["no such type", None, object()])
def test_an_invalid_type_is_a_type_error(dtype: Any) -> None:
    with pytest.raises(TypeError):
        resolve_dtype(dtype)


def test_a_type_is_given_by_name_as_json_or_as_an_object() -> None:
    for given in ("r16", {"name": "r16"}, DataType.from_json("r16")):
        assert resolve_dtype(given) == (DataType.from_json("r16"), False)
    raw = DataType.from_json({"name": "raw_bytes", "configuration": {"length_bytes": 2}})
    assert {resolve_dtype(given) for given in ("V2", np.dtype("V2"))} == {(raw, False)}
    numpys = {"names": ["a"], "formats": ["i4"]}
    assert resolve_dtype(numpys)[0].dtype == np.dtype([("a", "i4")])


@pytest.mark.parametrize(
    ("dtype", "fill", "rendered"),
    [
        ("U3", "NaT", "NaT"),
        ("M8[s]", "NaT", "NaT"),
        ("f4", "NaN", "NaN"),
        ("S3", "ab", "YWI="),
        ("string", "0x1", "0x1"),
    ],
)
async def test_a_text_as_fill_value_is_parsed_by_the_type(dtype: str, fill: str, rendered: str) -> None:
    store = MemoryStore()
    await aiozarr.create_array(store, shape=(2,), dtype=dtype, fill_value=fill)
    data = await store.get("zarr.json")
    assert data is not None
    assert json.loads(bytes(data))["fill_value"] == rendered
