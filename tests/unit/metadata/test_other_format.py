from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.hierarchy.new_metadata import new_array_metadata
from aiozarr.metadata.other_format import attributes_in_format, encoding_in_v2, v3_codecs
from aiozarr.metadata.records import ArrayMetadata, NamedConfig


def old(zarr_format: int = 2, **options: Any) -> ArrayMetadata:
    return new_array_metadata(zarr_format, {"shape": (4, 6), "dtype": "<i4", "chunks": (2, 3), **options})


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
    assert [codec.name for codec in v3_codecs(old(**options))] == names


def test_chains_of_format_3_and_2_are_inverse() -> None:
    for options in ({}, {"compressor": {"id": "zstd", "level": 4}}, {"filters": [{"id": "delta", "dtype": "<i4"}]}):
        metadata = old(**options)
        found = encoding_in_v2(v3_codecs(metadata), metadata.dtype, 2)
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
        v3_codecs(old(**options))


def test_numbers_that_json_lacks_become_strings_in_format_3_alone() -> None:
    attributes = {"a": float("nan"), "b": [float("inf"), {"c": -float("inf")}], "d": 1.5}
    assert attributes_in_format(attributes, 3) == {"a": "NaN", "b": ["Infinity", {"c": "-Infinity"}], "d": 1.5}
    assert attributes_in_format(attributes, 2) == attributes


@pytest.mark.parametrize("name", ["crc32c", "zfp"])
def test_what_format_2_cannot_describe_is_said(name: str) -> None:
    with pytest.raises(aiozarr.UnsupportedMetadataError):
        encoding_in_v2([NamedConfig("bytes", {"endian": "little"}), NamedConfig(name)], np.dtype("i4"), 1)
