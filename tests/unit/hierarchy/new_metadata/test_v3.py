"""The metadata of a new array: every default, and every spelling of the arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.codecs import get_codec
from aiozarr.errors import InvalidMetadataError, LimitError, UnsupportedMetadataError
from aiozarr.hierarchy.new_metadata_v3 import check_shape, new_v3_array, storage_order
from aiozarr.metadata.formats import parse_node, render_node
from aiozarr.metadata.records import NamedConfig


def describe(**changes: Any) -> Any:
    return new_v3_array(**{"shape": (8, 6), "dtype": "float32", "chunks": (4, 3), **changes})


def codec_names(metadata: Any) -> list[str]:
    return [codec.name for codec in metadata.codecs]


def test_defaults_are_little_endian_bytes_in_zstd_under_slashes() -> None:
    metadata = describe()
    assert metadata.codecs == (
        NamedConfig("bytes", {"endian": "little"}),
        NamedConfig("zstd", {"level": 3, "checksum": False}),
    )
    assert metadata.chunk_key_encoding == NamedConfig("default", {"separator": "/"})
    assert metadata.fill_value == np.float32(0)
    assert metadata.attributes == {}
    assert metadata.dimension_names is None


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"shards": (8, 6)},
        {"order": "F"},
        {"shape": (), "chunks": "auto"},
        {"shape": (0, 5), "chunks": 2},
        {"dtype": "r24", "fill_value": b"abc"},
        {"dtype": ">c16", "fill_value": complex(1, float("nan"))},
        {"dtype": bool, "fill_value": True},
        {"dimension_names": ["x", None], "attributes": {"units": "m"}},
        {"chunk_key_encoding": "v2"},
        {"codecs": ["bytes", "crc32c"]},
    ],
)
def test_new_metadata_are_parsed_equal_from_their_document(changes: dict[str, Any]) -> None:
    metadata = describe(**changes)
    assert parse_node(render_node(metadata), node="a") == metadata


def test_a_single_number_is_a_shape_of_one_dimension() -> None:
    assert describe(shape=5, chunks=2).shape == (5,)


@pytest.mark.parametrize("dtype", ["f4", np.float32, np.dtype("<f4"), float, "int8", "?", "complex64"])
def test_types_are_named_as_numpy_names_them(dtype: Any) -> None:
    assert describe(dtype=dtype).dtype == np.dtype(dtype)


def test_a_byte_order_that_is_given_is_the_stored_one() -> None:
    metadata = describe(dtype=">f4")
    assert metadata.codecs[0].configuration == {"endian": "big"}
    assert metadata.dtype == np.dtype("f4")


def test_single_bytes_have_no_byte_order() -> None:
    assert "endian" not in describe(dtype="u1").codecs[0].configuration


def test_codecs_are_taken_by_name_as_json_and_as_objects() -> None:
    gzip = get_codec("gzip").from_json({"level": 1})
    metadata = describe(codecs=["bytes", {"name": "crc32c"}, gzip])
    assert codec_names(metadata) == ["bytes", "crc32c", "gzip"]
    assert metadata.codecs[0].configuration == {"endian": "little"}
    assert metadata.codecs[2].configuration == {"level": 1}


def test_with_shards_the_codecs_are_those_of_the_inner_chunks() -> None:
    metadata = describe(shards=(8, 6), codecs=["bytes", "crc32c"])
    assert codec_names(metadata) == ["sharding_indexed"]
    configuration = metadata.codecs[0].configuration
    assert configuration["chunk_shape"] == [4, 3]
    assert [codec["name"] for codec in configuration["codecs"]] == ["bytes", "crc32c"]
    assert [codec["name"] for codec in configuration["index_codecs"]] == ["bytes", "crc32c"]
    assert configuration["index_location"] == "end"
    assert metadata.chunk_grid.configuration == {"chunk_shape": [8, 6]}


@pytest.mark.parametrize("name", ["zstd", "gzip", "blosc"])
def test_a_codec_given_by_name_gets_a_complete_configuration(name: str) -> None:
    codec = describe(codecs=["bytes", name]).codecs[1]
    assert codec.configuration == get_codec(name).from_json(codec.configuration).to_json() != {}


@pytest.mark.parametrize("shards", [None, (8, 6)])
def test_order_f_is_a_transpose_codec_of_the_chunks(shards: Any) -> None:
    assert storage_order(describe(order="F", shards=shards)) == "F"
    assert storage_order(describe(order="C", shards=shards)) == "C"


def test_the_order_of_one_dimension_needs_no_codec() -> None:
    assert codec_names(describe(shape=4, chunks=2, order="F")) == ["bytes", "zstd"]


@pytest.mark.parametrize(
    ("given", "name", "separator"),
    [
        ("default", "default", "/"),
        ("v2", "v2", "."),
        (("v2", "/"), "v2", "/"),
        ({"name": "default", "separator": "."}, "default", "."),
        ({"name": "v2", "configuration": {"separator": "/"}}, "v2", "/"),
    ],
)
def test_every_spelling_of_a_key_encoding_is_stored_completely(given: Any, name: str, separator: str) -> None:
    assert describe(chunk_key_encoding=given).chunk_key_encoding == NamedConfig(name, {"separator": separator})


@pytest.mark.parametrize(
    ("dtype", "fill_value", "bits"),
    [
        ("f4", "NaN", np.float32("nan").tobytes()),
        ("f4", "0x7fc00001", np.uint32(0x7FC00001).tobytes()),
        ("f8", float("-inf"), np.float64("-inf").tobytes()),
        ("i2", -3, np.int16(-3).tobytes()),
        ("r16", b"ab", b"ab"),
    ],
)
def test_fill_values_keep_their_bits(dtype: str, fill_value: Any, bits: bytes) -> None:
    assert describe(dtype=dtype, fill_value=fill_value).fill_value.tobytes() == bits


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": (8, -1)},
        {"shape": (1 << 63, 1)},
        {"chunks": (4,)},
        {"shards": (6, 3)},
        {"order": "A"},
        {"dtype": "i4", "fill_value": 1.5},
        {"dtype": "u1", "fill_value": 300},
        {"dimension_names": ["x"]},
        {"codecs": [{"name": "bytes", "config": {}}]},
    ],
)
def test_invalid_values_are_a_value_error(changes: dict[str, Any]) -> None:
    with pytest.raises((ValueError, OverflowError)):
        describe(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": (8.0, 6)},
        {"shape": (True, 6)},
        {"dtype": None},
        {"dtype": "no such type"},
        {"dimension_names": "xy"},
        {"dimension_names": ["x", 3]},
        {"attributes": {"a": object()}},
        {"codecs": [3]},
        {"codecs": [{"configuration": {}}]},
        {"chunk_key_encoding": {"separator": "/"}},
    ],
)
def test_wrong_types_are_a_type_error(changes: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        describe(**changes)


def test_codecs_that_do_not_fit_together_are_invalid_metadata() -> None:
    with pytest.raises(InvalidMetadataError, match="it encodes arrays, and 'bytes' before it yields bytes"):
        describe(codecs=["bytes", "bytes"])
    with pytest.raises(UnsupportedMetadataError, match="no_such_codec"):
        describe(codecs=["bytes", "no_such_codec"])
    with pytest.raises(UnsupportedMetadataError):
        describe(dtype="O")


def test_an_array_has_at_most_32_dimensions() -> None:
    assert len(check_shape([1] * 32)) == 32
    with pytest.raises(LimitError):
        check_shape([1] * 33)
