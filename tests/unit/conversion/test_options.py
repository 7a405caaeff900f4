from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.conversion.options import ConversionOptions, resolve_region, result_metadata
from aiozarr.hierarchy import Array
from aiozarr.hierarchy.new_metadata import new_array_metadata
from aiozarr.hierarchy.node import HandleOptions
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.settings import Settings
from aiozarr.stores import MemoryStore


def array(zarr_format: int = 3, **options: Any) -> Array:
    given = {"shape": (8, 12), "dtype": "<f4", "chunks": (2, 3), "dimension_names": ["y", "x"], **options}
    return Array(MemoryStore(), "", new_array_metadata(zarr_format, given), HandleOptions(Settings(), "r"))


def result(source: Array, **options: Any) -> ArrayMetadata:
    metadata, note = result_metadata(source, source.shape, ConversionOptions(**options))
    assert not note
    return metadata


def made(metadata: ArrayMetadata) -> Array:
    return Array(MemoryStore(), "", metadata, HandleOptions(Settings(), "r"))


def names(metadata: ArrayMetadata) -> list[str]:
    return [codec.name for codec in metadata.codecs]


SHARDED = {"shards": {"shape": (4, 6), "index_location": "start"}}
SOURCES: list[tuple[int, dict[str, Any]]] = [
    (3, {"codecs": ["gzip"], "shards": (4, 6), "attributes": {"a": 1}, "fill_value": 3, "chunk_key_encoding": "v2"}),
    (3, {**SHARDED, "order": "F", "dtype": ">i2", "chunk_key_encoding": ("default", ".")}),
    (3, {"codecs": [{"name": "sharding_indexed", "chunk_shape": [1, 3]}, "crc32c"], "dimension_names": ["y", None]}),
    (2, {"dtype": ">i2", "order": "F", "fill_value": None, "dimension_separator": "/", "attributes": {"a": np.inf}}),
    (2, {"dtype": object, "filters": [{"id": "json2"}], "compressor": None}),
    (1, {"order": "F", "compression": "zlib", "dimension_names": None, "fill_value": 2}),
]


@pytest.mark.parametrize(("zarr_format", "options"), SOURCES)
def test_without_options_everything_stays(zarr_format: int, options: Any) -> None:
    source = array(zarr_format, **options)
    assert result(source) == source.metadata
    assert result_metadata(source, (3, 3), ConversionOptions())[0].codecs == source.metadata.codecs


@pytest.mark.parametrize(("zarr_format", "options"), SOURCES)
def test_everything_stays_that_other_options_do_not_change(zarr_format: int, options: Any) -> None:
    source = array(zarr_format, **options)
    found = made(result(source, chunks=(4, 6), **({} if source.dtype.hasobject else {"codecs": ["zstd"]})))
    assert (found.zarr_format, found.chunks, found.shards) == (zarr_format, (4, 6), source.shards and (4, 6))
    assert (found.order, found.dimension_names, found.attrs) == (source.order, source.dimension_names, source.attrs)
    assert found.metadata.chunk_key_encoding == source.metadata.chunk_key_encoding
    assert found.metadata.has_fill_value == source.metadata.has_fill_value
    assert found.fill_value == source.fill_value
    if "shards" in options:
        index = [
            codec.configuration["index_location"] for codec in (found.metadata.codecs[0], source.metadata.codecs[0])
        ]
        assert index[0] == index[1]


@pytest.mark.parametrize(
    ("options", "chunks", "shards"),
    [
        ({"chunks": (4, 2)}, (4, 2), (4, 6)),
        ({"chunks": {"y": 1}}, (1, 3), (4, 6)),
        ({"chunks": "auto"}, (4, 6), (4, 6)),
        ({"chunks": {"y": -1}, "shards": False}, (8, 3), None),
        ({"chunks": {"y": -1}, "shards": {"y": -1}}, (8, 3), (8, 6)),
        ({"chunks": {"x": None, "y": 1}, "shards": False}, (1, 12), None),
        ({"shards": False}, (2, 3), None),
        ({"shards": {"x": 12}}, (2, 3), (4, 12)),
        ({"shards": "auto"}, (2, 3), (8, 12)),
        ({"shards": True}, (2, 3), (8, 12)),
        ({"codecs": "auto"}, (2, 3), (4, 6)),
        ({}, (2, 3), (4, 6)),
    ],
)
def test_chunks_and_shards_are_those_of_the_options_else_of_the_source(
    options: Any, chunks: tuple[int, ...], shards: tuple[int, ...] | None
) -> None:
    found = made(result(array(shards=(4, 6)), **options))
    assert (found.chunks, found.shards) == (chunks, shards)


@pytest.mark.parametrize("chunks", [{"y": -1}, (-1, 3), (None, 3), False, (3, 3)])
def test_chunks_that_do_not_fit_into_the_shards_of_the_source_are_refused(chunks: Any) -> None:
    with pytest.raises(ValueError, match="not a multiple") as caught:
        result(array(shards=(4, 6)), chunks=chunks)
    assert "shards=False stores chunks without shards" in str(caught.value.__notes__)


def test_shards_are_not_lost_without_a_word() -> None:
    metadata, note = result_metadata(array(shards=(4, 6)), (8, 12), ConversionOptions(zarr_format=2))
    assert (made(metadata).chunks, note) == (
        (2, 3),
        "format 2 has no shards, so chunks are objects",
    )
    with pytest.raises(TypeError, match="shards is an option of format 3") as caught:
        result(array(2), shards="auto")
    assert "zarr_format is not given" in str(caught.value.__notes__)


def test_codecs_stay_in_all_formats() -> None:
    assert names(result(array(2, compressor={"id": "zstd", "level": 7}), zarr_format=3)) == ["bytes", "zstd"]
    back = result(array(codecs=[{"name": "zstd", "level": 7}]), zarr_format=2)
    assert back.codecs[-1].configuration == {"level": 7}
    one = result(array(codecs=[{"name": "gzip", "level": 7}]), zarr_format=1)
    assert (one.zarr_format, names(one)) == (1, ["bytes", "numcodecs.gzip"])


@pytest.mark.parametrize("codecs", [["zlib"], ["zstd"], [{"id": "zlib", "level": 1}], [{"name": "gzip", "level": 2}]])
def test_format_2_takes_codecs_in_every_form(codecs: list[Any]) -> None:
    assert len(result(array(), zarr_format=2, codecs=codecs).codecs) == 2
    assert names(result(array(), zarr_format=2, codecs=[])) == ["bytes"]


def test_codecs_that_a_format_lacks_are_replaced_with_a_remark() -> None:
    metadata, note = result_metadata(array(codecs=["crc32c"]), (8, 12), ConversionOptions(zarr_format=2))
    assert names(metadata) == ["bytes", "numcodecs.blosc"]
    assert note.startswith("the default codecs are used: ")


def test_a_cast_keeps_the_compressor_and_casts_the_fill_value() -> None:
    source = array(codecs=[{"name": "blosc", "clevel": 2}], fill_value=7)
    metadata = result(source, dtype="int16")
    assert metadata.codecs[-1].configuration["typesize"] == 2
    assert metadata.codecs[-1].configuration["clevel"] == 2
    assert metadata.fill_value[()] == 7
    for wrong in (np.nan, 70000):
        with pytest.raises(OverflowError, match=f"the value {wrong}.* int16") as caught:
            result(array(fill_value=wrong), dtype="int16")
        assert "casting the fill value" in str(caught.value.__notes__)


def test_dimension_names_and_attributes_go_where_the_format_has_them() -> None:
    two = result(array(attributes={"a": 1}), zarr_format=2)
    assert two.dimension_names == ("y", "x")
    assert result(made(two), zarr_format=3).attributes == {"a": 1}
    assert result(array(dimension_names=["y", None]), zarr_format=2).dimension_names is None
    assert result(array(), zarr_format=1).attributes == {"_ARRAY_DIMENSIONS": ["y", "x"]}


def test_listed_lengths_of_chunks_stay_and_do_not_go_with_a_region() -> None:
    source = array(chunks=([5, 5], [7, 7]))
    assert result(source).chunk_grid == source.metadata.chunk_grid
    with pytest.raises(ValueError, match="different lengths"):
        result_metadata(source, (3, 3), ConversionOptions())
    with pytest.raises(TypeError, match="only format 3 supports"):
        result(source, zarr_format=2)


def test_unknown_dimension_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="did you mean 'x'"):
        ConversionOptions(chunks={"xx": 1}).check_names([array()])
    with pytest.raises(ValueError, match="no array has dimension names"):
        ConversionOptions(shards={"xx": 1}).check_names([array(dimension_names=None)])


@pytest.mark.parametrize(
    ("region", "bounds"),
    [
        (None, ((0, 8), (0, 12))),
        (np.s_[2:4], ((2, 4), (0, 12))),
        (np.s_[..., -3:], ((0, 8), (9, 12))),
        (np.s_[1:2, ..., 1:2], ((1, 2), (1, 2))),
        (np.s_[5:3], ((5, 5), (0, 12))),
    ],
)
def test_a_region_is_made_of_slices(region: Any, bounds: Any) -> None:
    assert resolve_region(region, (8, 12)) == bounds


@pytest.mark.parametrize(
    ("region", "error", "text"),
    [
        (3, TypeError, "3:4"),
        ("ab", TypeError, "consist of slices, not str"),
        (np.s_[::2], ValueError, "step 1"),
        (np.s_[:, :, :], ValueError, "3 slices"),
        ((..., ...), ValueError, "only once"),
    ],
)
def test_other_regions_are_refused(region: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        resolve_region(region, (8, 12))


def test_what_a_format_lacks_is_said_before_anything_is_stored() -> None:
    source = array(2, dtype=object, filters=[{"id": "json2"}])
    with pytest.raises(aiozarr.UnsupportedMetadataError):
        result_metadata(source, source.shape, ConversionOptions(zarr_format=3))
