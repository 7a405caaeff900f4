"""Decoding a box gives the same bits as decoding the whole chunk, with less work."""

from __future__ import annotations

import contextlib
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.codecs.region_decoder import GAP_BYTES, spans_of
from aiozarr.errors import ChecksumError, CodecError

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
GZIP = {"name": "gzip", "configuration": {"level": 1}}
CRC = {"name": "crc32c"}


def spec_of(shape: tuple[int, ...], dtype: Any = "<f4") -> ArraySpec:
    return ArraySpec(shape, np.dtype(dtype), np.zeros((), dtype))


def blosc(blocksize: int, typesize: int = 4, cname: str = "zstd") -> dict[str, Any]:
    members = {"cname": cname, "clevel": 5, "shuffle": "shuffle", "typesize": typesize, "blocksize": blocksize}
    return {"name": "blosc", "configuration": members}


def smooth(shape: tuple[int, ...], dtype: str = "<f4") -> np.ndarray[Any, Any]:
    return (np.arange(np.prod(shape, dtype=int)) % 4093).astype(dtype).reshape(shape)


def garbage(pipeline: CodecPipeline) -> np.ndarray[Any, Any]:
    spec = pipeline.spec
    return np.full(spec.nbytes, 0xA5, np.uint8).view(spec.dtype).reshape(spec.shape)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[dict[str, Any]], tuple[int, ...], str]:
    # Large enough that a part of the blocks is worth it, in few dimensions or many.
    shape = draw(st.sampled_from([(70_000,), (300, 211), (9, 70, 101), (64, 64, 33), (2, 3, 40, 1, 301), (3, 2)]))
    dtype = draw(st.sampled_from(["<i2", "<f4", "<f8", "<u1", "<c8", "?", "V3"]))
    size = np.dtype(dtype).itemsize
    orders = draw(st.lists(st.permutations(range(len(shape))), max_size=2))
    chain: list[dict[str, Any]] = [{"name": "transpose", "configuration": {"order": order}} for order in orders]
    chain.append(draw(st.sampled_from([LITTLE, BIG])))
    blocksize = draw(st.sampled_from([0, 4096, 16384, 65536, 100_000]))
    compressor = blosc(blocksize, draw(st.sampled_from([size, 1, 7])), draw(st.sampled_from(["lz4", "zstd", "zlib"])))
    chain += draw(st.sampled_from([[], [compressor], [ZSTD], [compressor, CRC], [compressor, ZSTD], [GZIP], [CRC]]))
    return chain, shape, dtype


@settings(deadline=None, max_examples=50)
@given(case=cases(), data=st.data())
@example(case=([BIG, blosc(16384)], (64, 64, 33), "<f4"), data=None)
def test_a_box_decodes_to_the_same_elements_as_the_whole_chunk(case: Any, data: Any) -> None:
    codecs, shape, dtype = case
    pipeline = CodecPipeline.resolve(codecs, spec_of(shape, dtype))
    assert pipeline.regions is not None
    raw = np.resize(np.arange(4093, dtype="<u2").view(np.uint8), pipeline.spec.nbytes)
    array = (raw & 1 if dtype == "?" else raw).view(dtype).reshape(shape)
    encoded = bytes(pipeline.encode(array))
    for _ in range(3):
        box = tuple(_slice(data, length) for length in shape)
        for data_in in (encoded, memoryview(b"x" + encoded)[1:]):
            result = pipeline.regions.decode(data_in, garbage(pipeline), box)
            assert result.shape == shape
            taken = np.empty(array[box].shape, dtype)
            taken[...] = result[box]
            assert taken.tobytes() == array[box].tobytes()
    whole = np.empty(shape, dtype)
    whole[...] = pipeline.regions.decode(encoded, garbage(pipeline))
    assert whole.tobytes() == array.tobytes()


def _slice(data: Any, length: int) -> slice:
    if data is None:
        return slice(length // 2, length // 2 + 1)
    start = data.draw(st.integers(0, length - 1))
    return slice(start, data.draw(st.one_of(st.just(start + 1), st.integers(start + 1, length))))


def blocks_decoded(pipeline: CodecPipeline, encoded: bytes, box: tuple[slice, ...]) -> int:
    """Return how many bytes of the block were written."""
    block = garbage(pipeline)
    assert pipeline.regions is not None
    pipeline.regions.decode(encoded, block, box)
    memory = block.reshape(-1).view(np.uint8)
    return int(np.count_nonzero((memory != 0xA5).reshape(-1, 1024).any(axis=1))) * 1024


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        (np.s_[5:6, 5:6, 5:6], 1),
        (np.s_[5:6, 0:64, 0:64], 1),
        (np.s_[5:7, 0:64, 0:64], 2),
        (np.s_[63:64, 63:64, 63:64], 1),
        (np.s_[0:64, 5:6, 0:64], 64),
        (np.s_[0:64, 0:64, 5:6], 64),
        (np.s_[0:60, 0:64, 0:64], 64),
    ],
)
def test_only_the_blocks_that_hold_the_box_are_decompressed(box: tuple[slice, ...], expected: int) -> None:
    """One plane of a chunk of 64 x 64 x 64, in blocks of a plane each."""
    pipeline = CodecPipeline.resolve([LITTLE, blosc(16384)], spec_of((64, 64, 64)))
    encoded = bytes(pipeline.encode(smooth((64, 64, 64)) + 1))
    assert int.from_bytes(encoded[8:12], "little") == 16384
    assert blocks_decoded(pipeline, encoded, box) == expected * 16384


def test_planes_across_a_large_chunk_are_decompressed_in_runs_of_their_own() -> None:
    pipeline = CodecPipeline.resolve([LITTLE, blosc(16384)], spec_of((4, 64, 64, 64)))
    encoded = bytes(pipeline.encode(smooth((4, 64, 64, 64)) + 1))
    assert blocks_decoded(pipeline, encoded, np.s_[0:4, 7:8, 0:64, 0:64]) == 4 * 16384


def test_blocks_in_any_order_are_found() -> None:
    """Several threads of blosc write their blocks as they are done."""
    pipeline = CodecPipeline.resolve([LITTLE, blosc(16384)], spec_of((64, 64, 64)))
    array = smooth((64, 64, 64)) + 1
    encoded = bytes(pipeline.encode(array))
    offsets = np.frombuffer(encoded, "<u4", 64, 16)
    ends = [*offsets[1:].tolist(), len(encoded)]
    blocks = [encoded[offset:end] for offset, end in zip(offsets.tolist(), ends, strict=True)]
    order = np.random.default_rng(0).permutation(64)
    body, places = b"", np.zeros(64, "<u4")
    for number in order:
        places[number] = 16 + 64 * 4 + len(body)
        body += blocks[number]
    shuffled = encoded[:16] + places.tobytes() + body
    assert pipeline.decode(shuffled).tobytes() == array.tobytes()
    assert pipeline.regions is not None
    for box in (np.s_[5:6], np.s_[5:9], np.s_[60:64], np.s_[63:64]):
        result = pipeline.regions.decode(shuffled, garbage(pipeline), (*[box], slice(0, 64), slice(0, 64)))
        assert result[box].tobytes() == array[box].tobytes()
        assert blocks_decoded(pipeline, shuffled, (box, slice(0, 64), slice(0, 64))) == (box.stop - box.start) * 16384


@settings(deadline=None, max_examples=150)
@given(position=st.integers(0, 16 + 4 * 64 + 40), value=st.integers(0, 255), first=st.integers(0, 63))
def test_a_changed_byte_gives_an_array_or_a_codec_error(position: int, value: int, first: int) -> None:
    data = bytearray(DAMAGED[1])
    data[position] = value
    pipeline = DAMAGED[0]
    assert pipeline.regions is not None
    with contextlib.suppress(CodecError):
        result = pipeline.regions.decode(data, garbage(pipeline), np.s_[first : first + 1, 0:64, 0:64])
        assert result.shape == (64, 64, 64)


def _damaged() -> tuple[CodecPipeline, bytes]:
    pipeline = CodecPipeline.resolve([LITTLE, blosc(16384)], spec_of((64, 64, 64)))
    return pipeline, bytes(pipeline.encode(smooth((64, 64, 64))))


DAMAGED = _damaged()


def test_short_or_damaged_chunks_are_refused_like_by_decoding_all() -> None:
    for codecs in ([LITTLE], [BIG], [LITTLE, CRC], [LITTLE, ZSTD], [LITTLE, blosc(16384)]):
        pipeline = CodecPipeline.resolve(codecs, spec_of((64, 64, 64)))
        assert pipeline.regions is not None
        encoded = bytes(pipeline.encode(smooth((64, 64, 64))))
        with pytest.raises(CodecError):
            pipeline.regions.decode(encoded[:-1], garbage(pipeline), np.s_[0:1, 0:64, 0:64])
    encoded = bytearray(
        CodecPipeline.resolve([LITTLE, blosc(16384), CRC], spec_of((64, 64, 64))).encode(np.ones((64, 64, 64), "f4"))
    )
    encoded[-9] ^= 1
    with pytest.raises(ChecksumError):
        CodecPipeline.resolve([LITTLE, blosc(16384), CRC], spec_of((64, 64, 64))).regions.decode(  # type: ignore[union-attr]
            encoded, np.empty((64, 64, 64), "f4"), np.s_[0:1, 0:64, 0:64]
        )


def test_uncompressed_elements_are_not_copied() -> None:
    values = smooth((8, 8))
    for codecs, order in (
        ([LITTLE], "<"),
        ([BIG], ">"),
        ([{"name": "transpose", "configuration": {"order": [1, 0]}}, BIG, CRC], ">"),
    ):
        pipeline = CodecPipeline.resolve(codecs, spec_of((8, 8)))
        encoded = np.frombuffer(bytes(pipeline.encode(values)), np.uint8)
        assert pipeline.regions is not None
        result = pipeline.regions.decode(encoded, np.empty((8, 8), "f4"))
        assert np.shares_memory(result, encoded)
        assert result.dtype == np.dtype(f"{order}f4")
        assert result.tolist() == values.tolist()


def test_chunks_that_decompress_into_the_block_are_not_copied() -> None:
    values = smooth((64, 64))
    for codecs in (
        [BIG, {"name": "numcodecs.lz4"}],
        [{"name": "transpose", "configuration": {"order": [1, 0]}}, LITTLE, blosc(0)],
    ):
        pipeline = CodecPipeline.resolve(codecs, spec_of((64, 64)))
        block = garbage(pipeline)
        assert pipeline.regions is not None
        result = pipeline.regions.decode(pipeline.encode(values), block)
        assert np.shares_memory(result, block)
        assert result.tolist() == values.tolist()


@pytest.mark.parametrize(
    ("codecs", "dtype"),
    [
        ([BIG], ml_dtypes.bfloat16),
        ([{"name": "bytes"}], ml_dtypes.int4),
        ([LITTLE], "<U3"),
        ([BIG], "<M8[s]"),
        ([BIG], [("a", "<i4"), ("b", "<f8")]),
        ([{"name": "bitround", "configuration": {"keepbits": 3}}, LITTLE], "<f4"),
        ([{"name": "vlen-utf8"}], object),
    ],
)
def test_chains_that_change_more_than_orders_have_no_region_decoder(codecs: list[Any], dtype: Any) -> None:
    fill: Any = np.array("", object) if dtype is object else np.zeros((), dtype)
    assert CodecPipeline.resolve(codecs, ArraySpec((4,), np.dtype(dtype), fill)).regions is None


@settings(deadline=None)
@given(data=st.data())
def test_spans_hold_the_box_and_ascend_with_gaps_between_them(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    item_size, gap = data.draw(st.sampled_from([1, 4])), data.draw(st.sampled_from([0, 3, 10]))
    box = [_slice(data, length) for length in shape]
    wanted = np.zeros(shape, bool)
    wanted[tuple(box)] = True
    held = np.flatnonzero(np.repeat(wanted.reshape(-1), item_size))
    spans = spans_of(shape, item_size, box, gap)
    if spans is None:
        return
    assert spans[0][0] == held[0]
    assert spans[-1][1] == held[-1] + 1
    assert all(after[0] - before[1] > gap for before, after in pairwise(spans))
    covered = np.zeros(wanted.size * item_size, bool)
    for start, stop in spans:
        covered[start:stop] = True
    assert covered[held].all()


def test_a_box_of_nearly_the_whole_array_has_no_spans() -> None:
    assert spans_of((64, 64, 64), 4, [slice(0, 64)] * 3, GAP_BYTES) is None
    assert spans_of((64, 64, 64), 4, [slice(0, 64), slice(0, 64), slice(3, 4)], GAP_BYTES) is None
    assert spans_of((64, 64, 64), 4, [slice(3, 4), slice(0, 64), slice(3, 4)], GAP_BYTES) == [(49164, 65296)]
    assert spans_of((16, 16), 4, [slice(3, 4), slice(0, 16)], GAP_BYTES) is None
