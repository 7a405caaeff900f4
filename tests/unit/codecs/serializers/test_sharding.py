"""The codec `sharding_indexed`: layout, index, assembly, and hostile indexes."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import google_crc32c
import numpy as np
import pytest

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.chunk_layouts import ShardLayout
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.errors import ChecksumError, CodecError
from aiozarr.model import Range, Suffix, resolve_range

EMPTY = 2**64 - 1
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 1}}
CRC = {"name": "crc32c"}


def pipeline_of(
    shape: tuple[int, ...] = (4, 6),
    inner: tuple[int, ...] = (2, 3),
    *,
    fill: float = 0,
    codecs: Any = (BYTES,),
    **more: Any,
) -> CodecPipeline:
    configuration = {"chunk_shape": list(inner), "codecs": list(codecs), "index_codecs": [BYTES, CRC], **more}
    spec = ArraySpec(shape, np.dtype("<f4"), np.array(fill, "<f4"))
    return CodecPipeline.resolve([{"name": "sharding_indexed", "configuration": configuration}], spec)


def layout_of(*shapes: tuple[int, ...], **more: Any) -> ShardLayout:
    layout = pipeline_of(*shapes, **more).shard
    assert layout is not None
    return layout


def index_bytes(*entries: tuple[int, int]) -> bytes:
    plain = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    checksum: int = google_crc32c.value(plain)
    return plain + struct.pack("<I", checksum)


@pytest.mark.parametrize("location", ["start", "end"])
def test_a_shard_holds_its_inner_chunks_in_c_order_and_an_index(location: str) -> None:
    pipeline = pipeline_of(index_location=location)
    layout = pipeline.shard
    assert layout is not None
    values = np.arange(1, 25, dtype="<f4").reshape(4, 6)
    shard = bytes(pipeline.encode(values))
    chunks = [values[i : i + 2, j : j + 3].tobytes() for i in (0, 2) for j in (0, 3)]
    first = layout.index_nbytes if location == "start" else 0
    index = index_bytes(*((first + 24 * i, 24) for i in range(4)))
    assert layout.index_nbytes == len(index) == 4 * 16 + 4
    assert shard == (index + b"".join(chunks) if location == "start" else b"".join(chunks) + index)
    assert layout.index_range == (Range(0, 68) if location == "start" else Suffix(68))
    assert (layout.shard_shape, layout.inner_shape, layout.grid_shape) == ((4, 6), (2, 3), (2, 2))
    assert layout.inner.spec.shape == (2, 3)
    parsed = layout.parse_index(index, len(shard))
    assert [parsed.locate(i) for i in range(4)] == [Range(first + 24 * i, 24) for i in range(4)]
    assert parsed.offsets.dtype == parsed.lengths.dtype == np.uint64
    assert not parsed.offsets.flags.writeable
    assert parsed.nbytes == 4 * 16


def test_inner_chunks_that_are_fill_bit_for_bit_are_not_stored() -> None:
    pipeline = pipeline_of()
    layout = pipeline.shard
    assert layout is not None
    values = np.zeros((4, 6), "<f4")
    values[0, 0] = -0.0
    values[3, 5] = 1
    shard = bytes(pipeline.encode(values))
    index = layout.parse_index(shard[-68:], len(shard))
    assert [index.locate(i) for i in range(4)] == [Range(0, 24), None, None, Range(24, 24)]
    assert pipeline.decode(shard).tobytes() == values.tobytes()
    nan = pipeline_of(fill=float("nan"))
    assert len(bytes(nan.encode(np.full((4, 6), np.nan, "<f4")))) == 68
    assert np.isnan(nan.decode(nan.encode(np.full((4, 6), np.nan, "<f4")))).all()


def test_a_shard_is_assembled_from_parts_in_any_order_and_missing_ones_are_empty() -> None:
    for location, first in (("start", 68), ("end", 0)):
        layout = layout_of(index_location=location)
        shard = bytes(layout.assemble({3: memoryview(b"ccc"), 0: bytearray(b"a"), 2: np.frombuffer(b"bb", "u1")}))
        assert len(shard) == 68 + 6
        assert shard[first : first + 6] == b"abbccc"
        start, stop = resolve_range(len(shard), layout.index_range)
        index = layout.parse_index(shard[start:stop], len(shard))
        where = [index.locate(i) for i in range(4)]
        assert where == [Range(first, 1), None, Range(first + 1, 2), Range(first + 3, 3)]
    assert bytes(layout_of().assemble({})) == index_bytes(*[(EMPTY, EMPTY)] * 4)
    for bad in (-1, 4):
        with pytest.raises(ValueError, match="4 inner chunks"):
            layout_of().assemble({bad: b""})


def test_a_shard_without_dimensions_has_one_inner_chunk() -> None:
    pipeline = pipeline_of((), ())
    assert pipeline.shard is not None
    assert pipeline.shard.count == 1
    assert pipeline.decode(pipeline.encode(np.array(5, "<f4"))) == 5


def test_only_shards_without_outer_codecs_have_a_layout() -> None:
    sharding = pipeline_of().to_json()
    spec = pipeline_of().spec
    transpose = {"name": "transpose", "configuration": {"order": [0, 1]}}
    assert CodecPipeline.resolve(sharding, spec).shard is not None
    assert CodecPipeline.resolve([*sharding, CRC], spec).shard is None
    assert CodecPipeline.resolve([transpose, *sharding], spec).shard is None
    assert CodecPipeline.resolve([BYTES, ZSTD], spec).shard is None


SIZE = 4 * 24 + 68


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        pytest.param((SIZE, 1), "extends past", id="H43 offset at the end"),
        pytest.param((10**6, 24), "extends past", id="H43 offset past the end"),
        pytest.param((0, 2**62), "extends past", id="H44 length 2^62"),
        pytest.param((0, 2**63), "extends past", id="H44 length 2^63"),
        pytest.param((2**63, 24), "extends past", id="offset 2^63"),
        pytest.param((2**64 - 8, 24), "extends past", id="H45 the sum wraps"),
        pytest.param((24, 2**64 - 24), "extends past", id="H45 the sum wraps to 0"),
        pytest.param((EMPTY, 16), "half", id="H46 offset only"),
        pytest.param((EMPTY, 0), "half", id="H46 offset only, no length"),
        pytest.param((16, EMPTY), "extends past", id="H46 length only"),
        pytest.param((4 * 24, 24), "extends past", id="H48 into the index"),
        pytest.param((4 * 24 - 1, 2), "extends past", id="H48 one byte into the index"),
        pytest.param((0, 25), "longer than the 24", id="longer than an inner chunk can be"),
    ],
)
def test_an_impossible_entry_is_refused(entry: tuple[int, int], reason: str) -> None:
    layout = layout_of()
    for position in range(4):
        entries = [(24 * i, 24) for i in range(4)]
        entries[position] = entry
        with pytest.raises(CodecError, match=f"inner chunk {position}.*{reason}") as caught:
            layout.parse_index(index_bytes(*entries), SIZE)
        assert caught.value.codec == "sharding_indexed"
        with pytest.raises(CodecError):
            pipeline_of().decode(bytes(96) + index_bytes(*entries))


def test_an_entry_in_an_index_at_the_start_is_refused() -> None:
    """H48."""
    layout = layout_of(index_location="start")
    for start in (0, 67):
        with pytest.raises(CodecError, match="overlaps the index"):
            layout.parse_index(index_bytes((start, 4), *[(EMPTY, EMPTY)] * 3), SIZE)
    sound = index_bytes((68, 24), *[(EMPTY, EMPTY)] * 3)
    assert layout.parse_index(sound, SIZE).locate(0) == Range(68, 24)


def test_entries_are_checked_without_the_size_of_the_shard() -> None:
    layout = layout_of()
    empty = [(EMPTY, EMPTY)] * 3
    assert layout.parse_index(index_bytes((10**12, 24), *empty), None).locate(0) == Range(10**12, 24)
    for entry in ((0, 25), (2**63, 24), (EMPTY, 3), (EMPTY - 1, 24), (3, EMPTY)):
        with pytest.raises(CodecError):
            layout.parse_index(index_bytes(entry, *empty), None)


def test_a_shard_shorter_than_its_index_is_refused() -> None:
    """H42."""
    for location in ("start", "end"):
        layout = layout_of(index_location=location)
        for size in (0, 3, 67):
            with pytest.raises(CodecError, match=f"a shard of {size} bytes is shorter than its index of 68"):
                layout.parse_index(bytes(size), size)
            with pytest.raises(CodecError):
                pipeline_of(index_location=location).decode(bytes(size))


def test_a_wrong_checksum_of_the_index_is_found() -> None:
    """H49."""
    data = bytearray(index_bytes(*((24 * i, 24) for i in range(4))))
    data[5] ^= 1
    with pytest.raises(ChecksumError):
        layout_of().parse_index(data, SIZE)


def test_entries_may_overlap_up_to_a_bound() -> None:
    """H47, H50: a blob may be used twice, but the entries never add up to more than four times the shard."""
    layout = layout_of((100, 6), (1, 6), codecs=(BYTES, ZSTD))
    nbytes = layout.index_nbytes
    blob = 2 * nbytes
    twice = [(0, blob)] * 2 + [(EMPTY, EMPTY)] * 98
    assert layout.parse_index(index_bytes(*twice), blob + nbytes).locate(1) == Range(0, blob)
    with pytest.raises(CodecError, match="overlap"):
        layout.parse_index(index_bytes(*[(0, blob)] * 100), blob + nbytes)


def test_strict_reading_refuses_overlapping_and_accepts_adjacent_entries() -> None:
    """H47."""
    layout = layout_of(codecs=(BYTES, ZSTD))
    for entries, overlapping in (
        ([(0, 10), (10, 10), (EMPTY, EMPTY), (20, 5)], None),
        ([(20, 5), (EMPTY, EMPTY), (0, 10), (10, 10)], None),
        ([(5, 0), (0, 10), (10, 0), (10, 3)], None),
        ([(0, 10), (20, 5), (9, 2), (EMPTY, EMPTY)], "0 and 2"),
        ([(EMPTY, EMPTY), (7, 3), (7, 3), (0, 7)], "1 and 2"),
    ):
        data = index_bytes(*entries)
        layout.parse_index(data, 100)
        if overlapping is None:
            layout.parse_index(data, 100, strict=True)
        else:
            with pytest.raises(CodecError, match=f"inner chunks {overlapping} overlap"):
                layout.parse_index(data, 100, strict=True)


def test_a_million_entries_for_one_blob_are_refused_in_bounded_memory() -> None:
    """H50."""
    count = 10**6
    layout = layout_of((count, 6), (1, 6), codecs=(BYTES, ZSTD))
    size = layout.inner.max_encoded_size
    entries = np.tile(np.array([0, size], "<u8"), count).tobytes()
    checksum: int = google_crc32c.value(entries)
    data = entries + struct.pack("<I", checksum)
    tracemalloc.start()
    try:
        with pytest.raises(CodecError, match="overlap"):
            layout.parse_index(data, size + len(data))
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_the_size_of_an_index_is_known_before_it_is_fetched() -> None:
    """H51: the bound itself is the reader's."""
    layout = layout_of((2**40, 2**20), (1, 1))
    assert layout.index_nbytes == 2**60 * 16 + 4


def test_inner_chunks_are_bounded_like_any_others() -> None:
    """H41 inside of a shard."""
    pipeline = pipeline_of()
    layout = pipeline.shard
    assert layout is not None
    for part in (b"", b"x" * 23):
        with pytest.raises(CodecError, match=f"chunk has {len(part)} bytes, expected 24"):
            pipeline.decode(layout.assemble({1: part}))


def test_inner_chunks_decode_directly_into_contiguous_places() -> None:
    pipeline = pipeline_of((4, 6), (2, 6), codecs=(BYTES, ZSTD))
    values = np.arange(24, dtype="<f4").reshape(4, 6)
    out = np.empty((4, 6), "<f4")
    assert pipeline.decode(pipeline.encode(values), out) is out
    assert np.array_equal(out, values)
