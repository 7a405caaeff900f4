from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.hierarchy.new_metadata import new_array_metadata
from aiozarr.metadata.formats import render_node
from aiozarr.metadata.other_format import as_v3, attributes_in_format, encoding_in_v2
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata, NamedConfig


def old(zarr_format: int = 2, **options: Any) -> ArrayMetadata:
    return new_array_metadata(zarr_format, {"shape": (4, 6), "dtype": "<i4", "chunks": (2, 3), **options})


def new(metadata: ArrayMetadata) -> ArrayMetadata:
    found = as_v3(metadata)
    assert isinstance(found, ArrayMetadata)
    assert "zarr.json" in render_node(found)
    return found


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, ["bytes", "blosc"]),
        ({"compressor": None}, ["bytes"]),
        ({"compressor": {"id": "zstd", "level": 1}}, ["bytes", "zstd"]),
        ({"compressor": {"id": "gzip", "level": 1}}, ["bytes", "gzip"]),
        ({"compressor": {"id": "zlib", "level": 1}}, ["bytes", "numcodecs.zlib"]),
        ({"order": "F", "compressor": None}, ["transpose", "bytes"]),
        ({"dtype": str, "compressor": None}, ["vlen-utf8"]),
        ({"dtype": bytes, "compressor": None}, ["vlen-bytes"]),
        ({"filters": [{"id": "delta", "dtype": "<i4"}], "compressor": None}, ["numcodecs.delta", "bytes"]),
        ({"filters": [{"id": "shuffle", "elementsize": 4}], "compressor": None}, ["bytes", "numcodecs.shuffle"]),
        ({"dtype": [("a", "<i2"), ("b", "u1")], "compressor": None}, ["bytes"]),
    ],
)
def test_chains_of_format_2_have_chains_of_format_3_of_the_same_bytes(options: Any, names: list[str]) -> None:
    assert [codec.name for codec in new(old(**options)).codecs] == names


def test_chains_of_format_3_and_2_are_inverse() -> None:
    for options in ({}, {"compressor": {"id": "zstd", "level": 4}}, {"filters": [{"id": "delta", "dtype": "<i4"}]}):
        metadata = old(**options)
        found = encoding_in_v2(new(metadata).codecs, metadata.dtype, 2)
        again = old(filters=list(found.filters) or None, compressor=found.compressor)
        assert again.codecs == metadata.codecs


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"dtype": [("a", ">i2"), ("b", "<i2")]}, "big-endian fields"),
        ({"dtype": ">i4", "filters": [{"id": "delta", "dtype": ">i4"}]}, "'delta' of big-endian"),
        ({"dtype": object, "filters": [{"id": "json2"}]}, "'json2'"),
    ],
)
def test_what_format_3_cannot_describe_is_said(options: Any, what: str) -> None:
    with pytest.raises(aiozarr.UnsupportedMetadataError, match=what):
        as_v3(old(**options))


def test_byte_order_keys_and_fill_values_stay_and_null_becomes_the_default() -> None:
    metadata = new(old(dtype=">f8", dimension_separator="/", compressor=None))
    assert metadata.codecs[0].configuration == {"endian": "big"}
    assert metadata.chunk_key_encoding == NamedConfig("v2", {"separator": "/"})
    assert metadata.has_fill_value
    assert metadata.fill_value[()] == 0
    assert np.isnan(new(old(dtype="f4", fill_value="NaN")).fill_value)


def test_dimension_names_leave_the_attributes() -> None:
    metadata = new(old(dimension_names=["y", "x"], attributes={"units": "K"}))
    assert metadata.dimension_names == ("y", "x")
    assert metadata.attributes == {"units": "K"}
    odd = new(old(attributes={"_ARRAY_DIMENSIONS": ["only one"]}))
    assert odd.attributes == {"_ARRAY_DIMENSIONS": ["only one"]}


def test_numbers_that_json_lacks_become_strings_in_format_3_alone() -> None:
    attributes = {"a": float("nan"), "b": [float("inf"), {"c": -float("inf")}], "d": 1.5}
    assert attributes_in_format(attributes, 3) == {"a": "NaN", "b": ["Infinity", {"c": "-Infinity"}], "d": 1.5}
    assert attributes_in_format(attributes, 2) == attributes


def test_groups_lose_their_consolidated_metadata_and_arrays_of_format_3_stay() -> None:
    assert as_v3(GroupMetadata(2, {"a": 1})) == GroupMetadata(3, {"a": 1})
    metadata = new_array_metadata(3, {"shape": 3, "dtype": "i1"})
    assert as_v3(metadata) is metadata
    assert new(old(1, dimension_names=None)).zarr_format == 3


@pytest.mark.parametrize("name", ["crc32c", "zfp"])
def test_what_format_2_cannot_describe_is_said(name: str) -> None:
    with pytest.raises(aiozarr.UnsupportedMetadataError):
        encoding_in_v2([NamedConfig("bytes", {"endian": "little"}), NamedConfig(name)], np.dtype("i4"), 1)
