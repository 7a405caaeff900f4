"""Errors about a stored document name the document and the member in its format."""

from __future__ import annotations

import json
from typing import Any

import pytest

import aiozarr
from aiozarr.errors import MetadataError
from aiozarr.stores import MemoryStore

V3: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [4],
    "data_type": "int32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}},
    "chunk_key_encoding": {"name": "default"},
    "fill_value": 0,
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
}
V2: dict[str, Any] = {
    "zarr_format": 2,
    "shape": [4],
    "chunks": [2],
    "dtype": "<i4",
    "compressor": None,
    "fill_value": 0,
    "order": "C",
    "filters": None,
}
V1: dict[str, Any] = {
    "zarr_format": 1,
    "shape": [4],
    "chunks": [2],
    "dtype": "<i4",
    "compression": "zlib",
    "compression_opts": 1,
    "fill_value": 0,
    "order": "C",
}


@pytest.mark.parametrize(
    ("key", "document", "member"),
    [
        ("zarr.json", {**V3, "codecs": [*V3["codecs"], {"name": "unheard"}]}, "codecs[1].name"),
        ("zarr.json", {**V3, "chunk_grid": {"name": "unheard"}}, "chunk_grid.name"),
        (".zarray", {**V2, "compressor": {"id": "unheard"}}, "compressor.id"),
        (".zarray", {**V2, "compressor": {"id": "zlib", "level": "high"}}, "compressor.level"),
        (".zarray", {**V2, "compressor": {"id": "delta", "dtype": 7}}, "compressor.dtype"),
        (".zarray", {**V2, "filters": [{"id": "zlib"}, {"id": "unheard"}]}, "filters[1].id"),
        (".zarray", {**V2, "filters": [{"id": "delta", "dtype": 7}]}, "filters[0].dtype"),
        (".zarray", {**V2, "dtype": "|O", "filters": [{"id": "json2"}, {"id": "json2"}]}, "filters[1]"),
        (
            ".zarray",
            {**V2, "order": "F", "shape": [4, 4], "chunks": [2, 2], "compressor": {"id": "x"}},
            "compressor.id",
        ),
        ("meta", {**V1, "compression": "unheard", "compression_opts": None}, "compression"),
        ("meta", {**V1, "compression_opts": {"level": "high"}}, "compression_opts.level"),
    ],
)
async def test_an_error_about_codecs_names_the_document_and_its_own_member(
    key: str, document: dict[str, Any], member: str
) -> None:
    memory = MemoryStore()
    await memory.set(key, json.dumps(document).encode())
    with pytest.raises(MetadataError) as caught:
        await aiozarr.open_array(memory)
    error = caught.value
    assert (error.node, error.key, error.member) == (memory.url, key, member)
