from __future__ import annotations

from pathlib import Path

import numcodecs
import numpy as np
import pytest
from zarr.codecs import BytesCodec, GzipCodec, TransposeCodec

import aiozarr
from aiozarr.integrations.xarray.data_store import GroupDataStore, chunk_encoding, codec_encoding
from aiozarr.integrations.xarray.group_contents import OpenOptions, fetch_groups
from aiozarr.stores import MemoryStore


async def test_attributes_of_the_formats_are_hidden_in_format_2(tmp_path: Path) -> None:
    group = await aiozarr.create_group(tmp_path, zarr_format=2, attributes={"title": "t", "_NCProperties": "x"})
    await group.create_array(
        "v", data=np.arange(3), attributes={"_ARRAY_DIMENSIONS": ["x"], "_nczarr_x": 1, "units": "m"}, fill_value=9
    )
    opened = await fetch_groups(tmp_path, OpenOptions(), deep=False)
    store = GroupDataStore(opened.groups[0], None, is_root=False)
    assert store.get_attrs() == {"title": "t"}
    variable = store.get_variables()["v"]
    assert variable.dims == ("x",)
    assert variable.attrs == {"units": "m", "_FillValue": 9}
    assert store.get_dimensions() == {"x": 3}


async def test_a_fill_value_that_is_not_stored_masks_nothing(tmp_path: Path) -> None:
    group = await aiozarr.create_group(tmp_path, zarr_format=2)
    array = await group.create_array("v", data=np.arange(3), attributes={"_ARRAY_DIMENSIONS": ["x"]})
    assert not array.metadata.has_fill_value
    opened = await fetch_groups(tmp_path, OpenOptions(), deep=False)
    variable = GroupDataStore(opened.groups[0], True, is_root=False).get_variables()["v"]
    assert "_FillValue" not in variable.attrs


async def test_codecs_of_format_3_are_zarr_pythons_by_kind() -> None:
    codecs = [{"name": "transpose", "configuration": {"order": [1, 0]}}, "bytes", {"name": "gzip", "level": 3}]
    array = await aiozarr.create_array(MemoryStore(), shape=(4, 4), dtype="f4", codecs=codecs)
    encoding = codec_encoding(array)
    assert encoding["filters"] == (TransposeCodec(order=(1, 0)),)
    assert encoding["serializer"] == BytesCodec()
    assert encoding["compressors"] == (GzipCodec(level=3),)


async def test_codecs_of_shards_are_those_of_the_inner_chunks() -> None:
    array = await aiozarr.create_array(
        MemoryStore(), shape=(8, 8), dtype="f4", chunks=(2, 2), shards=(4, 8), codecs=["gzip"]
    )
    assert codec_encoding(array)["compressors"][0].to_dict()["name"] == "gzip"
    assert chunk_encoding(array, ("y", "x")) == {
        "chunks": (2, 2),
        "shards": (4, 8),
        "preferred_chunks": {"y": 4, "x": 8},
    }


async def test_codecs_of_format_2_are_those_of_numcodecs() -> None:
    array = await aiozarr.create_array(
        MemoryStore(), shape=4, dtype="f4", zarr_format=2, filters=[numcodecs.Delta("f4")], compressor=numcodecs.Zlib(2)
    )
    assert codec_encoding(array) == {"compressors": (numcodecs.Zlib(2),), "filters": (numcodecs.Delta("f4"),)}
    plain = await aiozarr.create_array(MemoryStore(), shape=4, dtype="f4", zarr_format=2, compressor=None)
    assert codec_encoding(plain) == {"compressors": (), "filters": ()}


async def test_codecs_unknown_to_zarr_python_are_their_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    array = await aiozarr.create_array(MemoryStore(), shape=4, dtype="f4", codecs=["gzip"])

    def unknown(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr("zarr.registry.get_codec_class", unknown)
    encoding = codec_encoding(array)
    assert encoding["serializer"]["name"] == "bytes"
    assert [each["name"] for each in encoding["compressors"]] == ["gzip"]


async def test_lengths_that_are_equal_are_one_number() -> None:
    array = await aiozarr.create_array(MemoryStore(), shape=(6, 7), dtype="f4", chunks=[[1, 5], [3, 3, 1]])
    assert chunk_encoding(array, ("y", "x"))["chunks"] == ((1, 5), 3)
    assert np.dtype("f4") == array.dtype
