"""Bounds on the bytes of stored objects, by which longer ones are refused."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numcodecs.registry import codec_registry

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import DIAGNOSED_BYTES, MAX_PADDING_FACTOR, CodecPipeline

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
BLOSC = {
    "name": "blosc",
    "configuration": {"cname": "lz4", "clevel": 1, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": True}}
GZIP = {"name": "gzip", "configuration": {"level": 1}}
SHARDING = {
    "name": "sharding_indexed",
    "configuration": {"chunk_shape": [4], "codecs": [BYTES], "index_codecs": [BYTES, "crc32c"]},
}
TRANSPOSE = {"name": "transpose", "configuration": {"order": [0]}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
N5 = {"name": "n5_default", "configuration": {"codecs": [TRANSPOSE, BIG]}}
COMPRESSED = ["numcodecs.zlib", "numcodecs.bz2", "numcodecs.lzma", "numcodecs.lz4", "numcodecs.zstd"]


def resolve(*codecs: Any, size: int = 16, dtype: str = "<i4") -> CodecPipeline:
    return CodecPipeline.resolve(list(codecs), ArraySpec((size,), np.dtype(dtype), np.zeros((), dtype)))


def v2_elements(*filters: Any) -> dict[str, Any]:
    return {"name": "v2_elements", "configuration": {"dtype": "<i4", "filters": list(filters)}}


def test_without_compression_the_bound_is_the_size_and_what_codecs_diagnose() -> None:
    assert resolve(BYTES).max_stored_size == 64 + DIAGNOSED_BYTES
    assert resolve(BYTES, "crc32c").max_stored_size == 68 + DIAGNOSED_BYTES
    assert resolve(TRANSPOSE, BYTES).max_stored_size == 64 + DIAGNOSED_BYTES
    assert resolve(BYTES).max_stored_size == 64 + DIAGNOSED_BYTES


@pytest.mark.parametrize(
    "codecs", [[BYTES, ZSTD], [BYTES, GZIP], [BYTES, BLOSC], *([BYTES, name] for name in COMPRESSED)]
)
@pytest.mark.parametrize("size", [0, 1, 20, 100_000])
def test_the_bound_of_a_compressor_holds_for_data_that_do_not_compress(codecs: list[Any], size: int) -> None:
    pipeline = resolve(*codecs, size=size)
    noise = np.random.default_rng(0).integers(-(2**31), 2**31, size, "i4")
    bound = pipeline.max_stored_size
    assert bound is not None
    assert memoryview(pipeline.encode(noise)).nbytes <= bound
    # 80 bytes are refused long before 1 GiB has come.
    assert bound <= 2 * MAX_PADDING_FACTOR * noise.nbytes + (1 << 20)


@given(st.integers(0, 9), st.binary(max_size=1000), st.integers(8, 15))
def test_the_bound_of_gzip_holds_for_streams_of_other_writers(level: int, content: bytes, bits: int) -> None:
    pipeline = resolve(BYTES, GZIP, size=len(content), dtype="u1")
    bound = pipeline.max_stored_size
    assert bound is not None
    compressor = zlib.compressobj(level, zlib.DEFLATED, 16 + max(9, bits))
    pieces = [
        compressor.compress(content[i : i + 1]) + compressor.flush(zlib.Z_FULL_FLUSH) for i in range(len(content))
    ]
    stored = b"".join([*pieces, compressor.flush()])
    assert gzip.decompress(stored) == content
    assert len(stored) <= bound
    assert bytes(memoryview(pipeline.decode(stored))) == content


@pytest.mark.parametrize("block", [1, 2, 16])
def test_the_bound_of_a_compressor_has_room_for_padding(block: int) -> None:
    content = np.random.default_rng(0).bytes(100_000)
    pipeline = resolve(BYTES, GZIP, size=len(content), dtype="u1")
    bound = pipeline.max_stored_size
    assert bound is not None
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    pieces = [
        compressor.compress(content[at : at + 1000 * block]) + compressor.flush(zlib.Z_FULL_FLUSH)
        for at in range(0, len(content), 1000 * block)
    ]
    empty = gzip.compress(b"", mtime=0)
    stored = b"".join([*pieces, compressor.flush(), *[empty] * (200_000 // len(empty))])
    assert 2 * len(content) < len(stored) <= bound
    assert bytes(memoryview(pipeline.decode(stored))) == content


def test_elements_of_variable_length_are_bounded_by_their_setting() -> None:
    spec = ArraySpec((4,), np.dtype(object), np.array("", object), max_bytes=1000)
    assert CodecPipeline.resolve(["vlen-utf8"], spec).max_stored_size == 1000 + DIAGNOSED_BYTES
    compressed = CodecPipeline.resolve(["vlen-utf8", ZSTD], spec)
    assert compressed.max_stored_size == compressed.max_encoded_size + DIAGNOSED_BYTES


def test_a_shard_has_no_bound_and_its_index_has_one_size() -> None:
    pipeline = resolve(SHARDING)
    assert pipeline.shard is not None
    assert pipeline.max_stored_size is None
    assert pipeline.shard.inner.max_stored_size == 16 + DIAGNOSED_BYTES
    assert pipeline.shard.index_nbytes == 4 * 16 + 4
    stored = bytes(pipeline.encode(np.arange(1, 17, dtype="i4")))
    # Unused bytes before the index.
    assert pipeline.decode(stored[:64] + bytes(1000) + stored[64:]).tolist() == list(range(1, 17))


def test_a_compressed_shard_is_bounded_as_its_decoder_is() -> None:
    pipeline = resolve(SHARDING, ZSTD)
    assert pipeline.max_stored_size == MAX_PADDING_FACTOR * pipeline.max_encoded_size + DIAGNOSED_BYTES


def test_an_n5_block_may_be_larger_than_its_chunk() -> None:
    assert resolve(N5).max_stored_size is None


def test_a_filter_of_another_package_has_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    class Repeat(numcodecs.abc.Codec):  # type: ignore[misc,name-defined]  # numcodecs has no types
        codec_id = "aiozarr_test_repeat"

        def encode(self, buf: Any) -> bytes:
            return bytes(memoryview(buf).cast("B")) * 10

        def decode(self, buf: Any, out: Any = None) -> bytes:
            data = bytes(memoryview(buf).cast("B"))
            return data[: len(data) // 10]

    monkeypatch.setitem(codec_registry, Repeat.codec_id, Repeat)
    assert resolve(v2_elements({"id": Repeat.codec_id})).max_stored_size is None
    known = resolve(v2_elements({"id": Repeat.codec_id}, {"id": "zlib", "level": 1}))
    assert known.max_stored_size == known.max_encoded_size + DIAGNOSED_BYTES
    assert resolve(v2_elements({"id": "delta", "dtype": "<i4"})).max_stored_size == 64 + DIAGNOSED_BYTES
