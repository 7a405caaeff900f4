"""Blocks of N5, which say their own shape."""

from __future__ import annotations

import gzip
import struct
from typing import Any

import numpy as np
import pytest

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.errors import CodecError, InvalidMetadataError, UnsupportedMetadataError

TRANSPOSE = {"name": "transpose", "configuration": {"order": [1, 0]}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
GZIP = {"name": "gzip", "configuration": {"level": 1}}


def pipeline_of(codecs: list[Any], shape: tuple[int, ...] = (2, 3), dtype: Any = "i2", **limits: int) -> CodecPipeline:
    spec = ArraySpec(shape, np.dtype(dtype), np.array(-1).astype(dtype), **limits)
    return CodecPipeline.resolve([{"name": "n5_default", "configuration": {"codecs": codecs}}], spec)


def block(shape: tuple[int, ...], values: bytes, mode: int = 0) -> bytes:
    return struct.pack(f">HH{len(shape)}I", mode, len(shape), *shape) + values


@pytest.mark.parametrize("codecs", [[TRANSPOSE, BIG], [TRANSPOSE, BIG, GZIP]])
def test_a_block_is_a_header_and_big_endian_values_of_which_the_first_dimension_varies_fastest(codecs: Any) -> None:
    pipeline = pipeline_of(codecs)
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    encoded = bytes(pipeline.encode(array))
    content = encoded[12:] if len(codecs) == 2 else gzip.decompress(encoded[12:])
    assert encoded[:12].hex() == "000000020000000200000003"
    assert np.frombuffer(content, ">i2").tolist() == [0, 3, 1, 4, 2, 5]
    assert np.array_equal(pipeline.decode(encoded), array)
    assert pipeline.to_json()[0]["configuration"]["codecs"] == codecs


def test_smaller_blocks_are_padded_and_larger_ones_cropped() -> None:
    pipeline = pipeline_of([TRANSPOSE, BIG])
    small = block((1, 2), struct.pack(">2h", 7, 8))
    assert pipeline.decode(small).tolist() == [[7, 8, -1], [-1, -1, -1]]
    mixed = block((3, 1), struct.pack(">3h", 1, 2, 3))
    assert pipeline.decode(mixed).tolist() == [[1, -1, -1], [2, -1, -1]]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(11),
        block((2, 3), bytes(11)),
        block((2, 3), bytes(13)),
        block((2, 3), bytes(12), mode=1),
        block((6,), bytes(20)),
        block((0, 3), b""),
        block((2**32 - 1, 2**32 - 1), bytes(12)),
        block((2**32 - 1, 1), bytes(12)),
    ],
)
def test_impossible_headers_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        pipeline_of([TRANSPOSE, BIG], max_bytes=1 << 20).decode(data)


def test_a_large_declared_shape_with_little_data_allocates_nothing() -> None:
    data = block((2**14, 2**14), gzip.compress(b""))
    with pytest.raises(CodecError):
        pipeline_of([TRANSPOSE, BIG, GZIP]).decode(data)


@pytest.mark.parametrize(
    "codecs",
    [
        [BIG],
        [{"name": "transpose", "configuration": {"order": [0, 1]}}, BIG],
        [TRANSPOSE, {"name": "bytes", "configuration": {"endian": "little"}}],
        [TRANSPOSE, BIG, GZIP, GZIP],
        [TRANSPOSE, TRANSPOSE, BIG],
        [TRANSPOSE, "packbits"],
    ],
)
def test_chains_that_n5_lacks_are_refused(codecs: list[Any]) -> None:
    with pytest.raises(InvalidMetadataError, match=r"transpos|bytes|little|packbits"):
        pipeline_of(codecs)


def test_types_that_n5_lacks_are_refused() -> None:
    with pytest.raises(InvalidMetadataError, match="no data type"):
        pipeline_of([TRANSPOSE, BIG], dtype="f2")
    assert pipeline_of([TRANSPOSE, "bytes"], dtype="u1").decode(block((2, 3), bytes(6))).sum() == 0


def test_an_unknown_inner_codec_is_named() -> None:
    with pytest.raises(UnsupportedMetadataError) as caught:
        pipeline_of([TRANSPOSE, BIG, "made_up"])
    assert caught.value.member == "codecs[0].configuration.codecs[2].name"
