"""The metadata of a new node of any format, and the options that a format does not have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import MemoryStore


@pytest.mark.parametrize(
    ("zarr_format", "options", "message"),
    [
        (2, {"codecs": ["bytes"]}, "codecs is an option of format 3, not"),
        (2, {"shards": (4,)}, "shards"),
        (2, {"chunk_key_encoding": "v2"}, "chunk_key_encoding"),
        (2, {"compression": "zlib"}, "compression is an option of format 1"),
        (3, {"compressor": None}, "compressor is an option of format 2"),
        (2, {"serializer": "bytes"}, "serializer is an option of format 3, not of format 2$"),
        (1, {"compressors": None}, "compressors .*; use compression= instead"),
        (3, {"dimension_separator": "/"}, "dimension_separator"),
        (1, {"compressor": {"id": "zlib"}}, "compressor"),
        (1, {"dimension_names": ["x"]}, "dimension_names is an option of format 3 or 2"),
        (2, {"compressor": {"level": 3}}, "'id'"),
        (2, {"filters": [3]}, "a codec is a name, a mapping"),
    ],
)
async def test_an_option_of_another_format_is_a_type_error(
    memory: MemoryStore, zarr_format: int, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        await aiozarr.create_array(memory, shape=4, dtype="i4", zarr_format=zarr_format, **options)
    assert await memory.list() == []


async def test_a_group_of_format_1_is_a_value_error(memory: MemoryStore) -> None:
    with pytest.raises(ValueError, match="does not support groups"):
        await aiozarr.create_group(memory, zarr_format=1)
    with pytest.raises(ValueError, match="zarr_format"):
        await aiozarr.create_array(memory, shape=1, dtype="i4", zarr_format=4)


@pytest.mark.parametrize("zarr_format", [1, 2])
async def test_an_object_field_is_refused_in_every_format(memory: MemoryStore, zarr_format: int) -> None:
    with pytest.raises(
        aiozarr.UnsupportedMetadataError,
        match=r"the field 'b' is object; fields must have a fixed size in every format",
    ):
        await aiozarr.create_array(memory, shape=2, dtype=[("a", "i4"), ("b", "O")], zarr_format=zarr_format)


@pytest.mark.parametrize("zarr_format", [1, 2])
async def test_a_new_fill_value_is_the_one_parsed_from_its_document(memory: MemoryStore, zarr_format: int) -> None:
    payload = np.array(0xFFC12345, "<u4").view("<f4")[()]
    array = await aiozarr.create_array(memory, shape=2, dtype="<f4", fill_value=payload, zarr_format=zarr_format)
    opened = await aiozarr.open_array(memory)
    assert np.isnan(opened.fill_value)
    assert np.asarray(array.fill_value).tobytes() == np.asarray(opened.fill_value).tobytes()
