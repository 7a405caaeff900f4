"""Zarr v1 documents: `meta` and `attrs`, and back to the same model."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.formats import parse_node, render_node
from aiozarr.metadata.records import GroupMetadata, NamedConfig
from aiozarr.settings import Settings

STRICT = Settings(strict=True)
LITTLE = NamedConfig("bytes", {"endian": "little"})
REVERSED = NamedConfig("transpose", {"order": [1, 0]})
META: dict[str, Any] = {
    "zarr_format": 1,
    "shape": [20, 20],
    "chunks": [10, 10],
    "dtype": "<i4",
    "compression": "zlib",
    "compression_opts": 1,
    "fill_value": 42,
    "order": "C",
}


def parse(settings: Settings | None = None, attributes: Any = None, **members: Any) -> Any:
    documents = {"meta": json.dumps(META | members).encode(), "attrs": json.dumps(attributes or {}).encode()}
    return parse_node(documents, node="memory://x", settings=settings or Settings())


def test_the_example_of_the_specification_is_read_and_written() -> None:
    metadata = parse(attributes={"foo": 42})
    assert (metadata.zarr_format, metadata.shape, metadata.dtype) == (1, (20, 20), np.dtype("int32"))
    assert metadata.chunk_grid == NamedConfig("regular", {"chunk_shape": [10, 10]})
    assert metadata.chunk_key_encoding == NamedConfig("v2", {"separator": "."})
    assert metadata.codecs == (LITTLE, NamedConfig("numcodecs.zlib", {"level": 1}))
    assert (metadata.fill_value.item(), metadata.attributes) == (42, {"foo": 42})
    documents = render_node(metadata)
    assert json.loads(documents["meta"]) == META
    assert json.loads(documents["attrs"]) == {"foo": 42}


BLOSC = {"clevel": 5, "cname": "lz4", "shuffle": 1}
LZMA = {"check": 0, "filters": [{"dist": 4, "id": 3}, {"id": 33, "preset": 1}], "format": 3, "preset": None}


@pytest.mark.parametrize(
    ("compression", "options", "codec"),
    [
        ("none", None, None),
        ("zlib", 9, NamedConfig("numcodecs.zlib", {"level": 9})),
        ("bz2", 1, NamedConfig("numcodecs.bz2", {"level": 1})),
        ("lzma", LZMA, NamedConfig("numcodecs.lzma", LZMA)),
        ("blosc", BLOSC, NamedConfig("numcodecs.blosc", BLOSC)),
        ("zstd", 3, NamedConfig("numcodecs.zstd", {"level": 3})),
        ("zlib", None, NamedConfig("numcodecs.zlib", {})),
    ],
)
def test_a_compression_is_a_codec(compression: str, options: Any, codec: NamedConfig | None) -> None:
    metadata = parse(compression=compression, compression_opts=options)
    assert metadata.codecs == ((LITTLE,) if codec is None else (LITTLE, codec))
    meta = json.loads(render_node(metadata)["meta"])
    assert (meta["compression"], meta["compression_opts"]) == (compression, options)


def test_null_means_no_compression_unless_strict() -> None:
    assert parse(compression=None, compression_opts=None).codecs == (LITTLE,)
    with pytest.raises(InvalidMetadataError):
        parse(STRICT, compression=None)


@pytest.mark.parametrize(
    ("compression", "options", "written"),
    [("zlib", 1, (LITTLE,)), ("none", None, (LITTLE,)), ("blosc", BLOSC, (REVERSED, LITTLE))],
)
def test_order_f_is_as_the_specification_says_or_as_zarr_python_1_wrote_it(
    compression: str, options: Any, written: tuple[NamedConfig, ...]
) -> None:
    members = {"order": "F", "compression": compression, "compression_opts": options}
    metadata = parse(**members)
    assert metadata.codecs[:2] == (REVERSED, LITTLE)
    assert json.loads(render_node(metadata)["meta"])["order"] == "F"
    assert parse(Settings(v1_order_f="written"), **members).codecs[: len(written)] == written
    with pytest.raises(ValueError, match="v1_order_f"):
        Settings(v1_order_f="C")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_have_are_fill_values_unless_strict(value: float) -> None:
    metadata = parse(dtype="<f4", fill_value=value)
    assert metadata.fill_value.item() == value or math.isnan(value)
    assert parse_node(render_node(metadata), node="memory://x") == metadata
    with pytest.raises(InvalidMetadataError) as caught:
        parse(STRICT, dtype="<f4", fill_value=value)
    assert caught.value.member == "fill_value"


@pytest.mark.parametrize(
    ("dtype", "given", "value"),
    [
        ("|b1", 0, False),
        ("<c8", 0, 0j),
        ("<c16", [1.0, -2.0], 1 - 2j),
        ("|S3", "ab", b"ab"),
        ("<U3", "é", "é"),
        ("<f8", 1, 1.0),
        ([["r", "|u1"], ["g", "<u2"]], None, (0, 0)),
    ],
)
def test_any_scalar_is_a_fill_value(dtype: Any, given: Any, value: Any) -> None:
    metadata = parse(STRICT, dtype=dtype, fill_value=given)
    assert metadata.fill_value.item() == value
    assert metadata.has_fill_value is (given is not None)
    assert parse_node(render_node(metadata), node="memory://x") == metadata


def test_other_members_are_kept_and_attrs_may_be_absent_unless_strict() -> None:
    metadata = parse(STRICT, note="x")
    assert metadata.extra == {"note": "x"}
    assert json.loads(render_node(metadata)["meta"])["note"] == "x"
    alone = {"meta": json.dumps(META).encode()}
    assert parse_node(alone, node="memory://x") is not None
    with pytest.raises(InvalidMetadataError) as caught:
        parse_node(alone, node="memory://x", settings=STRICT)
    assert caught.value.key == "attrs"


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("zarr_format", 2),
        ("shape", [-1, 1]),
        ("chunks", [0, 1]),
        ("dtype", "|O"),
        ("compression", 1),
        ("compression_opts", "fast"),
        ("order", "A"),
        ("fill_value", "x"),
    ],
)
def test_invalid_members_are_rejected(member: str, value: Any) -> None:
    with pytest.raises(InvalidMetadataError):
        parse(STRICT, **{member: value})


def test_pickle_is_rejected() -> None:
    with pytest.raises(UnsupportedMetadataError, match="never"):
        parse(compression="pickle", compression_opts=None)


def test_metadata_that_v1_cannot_represent_are_not_written() -> None:
    with pytest.raises(UnsupportedMetadataError):
        render_node(GroupMetadata(1))
    v2 = {"zarr_format": 2, "compressor": None, "filters": [{"id": "delta"}]}
    metadata = parse_node({".zarray": json.dumps(META | v2).encode()}, node="memory://x")
    assert metadata is not None
    object.__setattr__(metadata, "zarr_format", 1)
    with pytest.raises(UnsupportedMetadataError, match="filters"):
        render_node(metadata)
