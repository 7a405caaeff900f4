"""The documents of new arrays of formats 1 and 2."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import MemoryStore


def document(store: MemoryStore, key: str) -> Any:
    value = store.fetch_now(key)
    assert value is not None, key
    return json.loads(bytes(value.data))


async def test_the_document_of_format_2_has_the_given_options(memory: MemoryStore) -> None:
    await aiozarr.create_array(
        memory,
        shape=(4, 6),
        dtype=[("x", "<f4"), ("y", ">i2", (2,))],
        chunks=(2, 3),
        order="F",
        compressor={"id": "zlib", "level": 2},
        dimension_separator="/",
        dimension_names=["t", "u"],
        attributes={"n": 1},
        zarr_format=2,
    )
    assert document(memory, ".zattrs") == {"n": 1, "_ARRAY_DIMENSIONS": ["t", "u"]}
    assert document(memory, ".zarray") == {
        "zarr_format": 2,
        "shape": [4, 6],
        "chunks": [2, 3],
        "dtype": [["x", "<f4"], ["y", ">i2", [2]]],
        "compressor": {"id": "zlib", "level": 2},
        "fill_value": None,
        "order": "F",
        "filters": None,
        "dimension_separator": "/",
    }
    assert (await aiozarr.open_array(memory)).dimension_names == ("t", "u")


async def test_the_defaults_of_format_2_are_those_of_zarr_python_2(memory: MemoryStore) -> None:
    await aiozarr.create_array(memory, shape=3, dtype="f4", fill_value=1.5, zarr_format=2)
    written = document(memory, ".zarray")
    assert written["compressor"] == {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    assert (written["fill_value"], written["filters"], written["dimension_separator"]) == (1.5, None, ".")


@pytest.mark.parametrize(
    ("given", "name", "options"),
    [
        ({}, "blosc", {"cname": "lz4", "clevel": 5, "shuffle": 1}),
        ({"compression": "zlib"}, "zlib", 1),
        ({"compression": "bz2", "compression_opts": 9}, "bz2", 9),
    ],
)
async def test_the_document_of_format_1_names_compression_and_options(
    memory: MemoryStore, given: dict[str, Any], name: str, options: Any
) -> None:
    array = await aiozarr.create_array(memory, shape=3, dtype="f4", fill_value=0, zarr_format=1, **given)
    await array[...].write(2)
    assert (document(memory, "meta")["compression"], document(memory, "meta")["compression_opts"]) == (name, options)
    assert document(memory, "attrs") == {}
    assert (await (await aiozarr.open_array(memory))[...]).tolist() == [2, 2, 2]


@pytest.mark.parametrize(("dtype", "values"), [(str, ["ä", "", "bc"]), (bytes, [b"\0", b"", b"bc"])])
async def test_strings_of_any_length_get_their_filter(memory: MemoryStore, dtype: Any, values: list[Any]) -> None:
    array = await aiozarr.create_array(memory, shape=3, dtype=dtype, zarr_format=2)
    await array[...].write(np.array(values, dtype=object))
    assert list(await (await aiozarr.open_array(memory))[...]) == values
    assert document(memory, ".zarray")["filters"] == [{"id": "vlen-utf8" if dtype is str else "vlen-bytes"}]


async def test_objects_need_a_codec_of_their_own(memory: MemoryStore) -> None:
    with pytest.raises(ValueError, match="object codec"):
        await aiozarr.create_array(memory, shape=3, dtype=object, zarr_format=2)
    array = await aiozarr.create_array(memory, shape=2, dtype=object, filters=[{"id": "json2"}], zarr_format=2)
    await array[...].write(np.array([{"a": [1]}, None], dtype=object))
    assert list(await array[...]) == [{"a": [1]}, None]
