"""The codec `zstd`: every form of frame within its bound, and hostile ones refused before they cost anything."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from numcodecs import zstd as native

from aiozarr.codecs import ArraySpec, zstd
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.codecs.zstd import FrameError, ZstdCodec, scan, standard_headers
from aiozarr.errors import CodecError

MAGIC = b"\x28\xb5\x2f\xfd"
CODEC = ZstdCodec()


def raw_frame(content: bytes, *, told: bool, window: int = 0x50, block: int = 100) -> bytes:
    """A frame of uncompressed blocks, as a streaming encoder writes it: with a window, with or without its size."""
    head = bytes([0xC0, window]) + len(content).to_bytes(8, "little") if told else bytes([0x00, window])
    pieces = [content[i : i + block] for i in range(0, len(content), block)] or [b""]
    blocks = [
        ((len(piece) << 3) | (i == len(pieces) - 1)).to_bytes(3, "little") + piece for i, piece in enumerate(pieces)
    ]
    return MAGIC + head + b"".join(blocks)


def rle_frame(size: int, *, told: int | None = None) -> bytes:
    """A frame of `size` zero bytes in blocks of 128 KiB, four bytes each."""
    counts = [131072] * (size // 131072) + ([size % 131072] if size % 131072 else [])
    blocks = [((n << 3) | 2 | (i == len(counts) - 1)).to_bytes(3, "little") + b"\0" for i, n in enumerate(counts)]
    head = bytes([0x00, 0x50]) if told is None else bytes([0xC0, 0x50]) + told.to_bytes(8, "little")
    return MAGIC + head + b"".join(blocks)


def skippable(content: bytes) -> bytes:
    return b"\x53\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content


@contextmanager
def allocating_at_most(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def decode_both_ways(data: bytes, max_size: int) -> list[bytes]:
    return [
        bytes(CODEC.decode(data, max_size=max_size)),
        bytes(CODEC.decode(data, max_size=max_size, out=memoryview(bytearray(max_size)))),
    ]


CONTENT = bytes(range(200)) + bytes(1000)


@pytest.mark.parametrize(
    "data",
    [
        native.compress(CONTENT, 3),
        native.compress(CONTENT, 3, True),
        raw_frame(CONTENT, told=True),
        raw_frame(CONTENT, told=False),
        raw_frame(CONTENT[:700], told=False) + native.compress(CONTENT[700:], 1),
        native.compress(CONTENT[:700], 1) + native.compress(CONTENT[700:], 1),
        native.compress(CONTENT[:700], 1) + raw_frame(CONTENT[700:], told=False),
        native.compress(b"", 1) + native.compress(CONTENT, 1),
        skippable(b"note") + native.compress(CONTENT, 1),
        native.compress(CONTENT, 1) + skippable(b""),
        skippable(b"a") + raw_frame(CONTENT, told=False) + skippable(b"b"),
    ],
)
def test_frames_with_and_without_size_concatenated_and_skippable_are_read(data: bytes) -> None:
    """H29, H30: correct data within the bound."""
    assert decode_both_ways(data, len(CONTENT)) == [CONTENT, CONTENT]
    assert bytes(CODEC.decode(data, max_size=len(CONTENT) + 5000)) == CONTENT
    with pytest.raises(CodecError):
        CODEC.decode(data, max_size=len(CONTENT) - 1)
    with pytest.raises(CodecError):
        CODEC.decode(data, max_size=len(CONTENT) - 1, out=memoryview(bytearray(len(CONTENT) - 1)))


@pytest.mark.parametrize("size", [1, 254, 255, 256, 257, 511, 65535, 65536, 65791, 65792, 300_000])
@pytest.mark.parametrize("checksum", [False, True])
def test_standard_headers_are_those_of_the_encoder(size: int, checksum: bool) -> None:
    assert native.compress(bytes(size), 0, checksum).startswith(standard_headers(size))


def test_shorter_content_is_never_padded_with_old_memory() -> None:
    out = memoryview(bytearray(b"\xff" * len(CONTENT)))
    for data in (native.compress(CONTENT[:-1], 1), skippable(b"x") + native.compress(CONTENT[:-1], 1)):
        assert bytes(CODEC.decode(data, max_size=len(CONTENT), out=out)) == CONTENT[:-1]


def test_a_bomb_stops_at_the_expected_size() -> None:
    """H27: with its size told, without, with a lie, and behind a frame of the right size."""
    small = native.compress(bytes(64), 1)
    for bomb in (
        rle_frame(1 << 30, told=1 << 30),
        rle_frame(1 << 30),
        rle_frame(1 << 30, told=64),
        small + rle_frame(1 << 30),
        small + rle_frame(1 << 30, told=1 << 30),
    ):
        assert len(bomb) < 40_000
        with allocating_at_most(1 << 20):
            for out in (None, memoryview(bytearray(64))):
                with pytest.raises(CodecError) as caught:
                    CODEC.decode(bomb, max_size=64, out=out)
                assert caught.value.codec == "zstd"


def test_a_declared_size_alone_allocates_nothing() -> None:
    """H28."""
    for data in (rle_frame(64, told=1 << 40), rle_frame(64, told=2**64 - 2)):
        with allocating_at_most(1 << 20), pytest.raises(CodecError):
            CODEC.decode(data, max_size=64)


def test_a_wrong_content_size_within_the_bound_is_found() -> None:
    for told in (1, 63, 65, 1000):
        with pytest.raises(CodecError):
            CODEC.decode(rle_frame(64, told=told), max_size=1000)


def test_a_window_of_two_gib_is_refused() -> None:
    """H31: a window descriptor of 2^31 bytes, and the largest that is taken."""
    content = b"x" * 64
    with pytest.raises(CodecError, match="window"):
        CODEC.decode(raw_frame(content, told=False, window=21 << 3), max_size=64)
    with pytest.raises(CodecError, match="window"):
        CODEC.decode(skippable(b"") + raw_frame(content, told=True, window=18 << 3), max_size=64)
    assert bytes(CODEC.decode(raw_frame(content, told=False, window=17 << 3), max_size=64)) == content


@pytest.mark.parametrize("data", [b"", b"\x28", MAGIC, MAGIC + b"\x20", b"not zstd at all", skippable(b"abc")[:-1]])
def test_other_bytes_than_frames_are_refused(data: bytes) -> None:
    for out in (None, memoryview(bytearray(64))):
        with pytest.raises(CodecError):
            CODEC.decode(data, max_size=64, out=out)


@given(cut=st.integers(1, 60))
def test_a_truncated_frame_is_refused(cut: int) -> None:
    for whole in (native.compress(CONTENT, 1, True), raw_frame(CONTENT, told=False)):
        with pytest.raises(CodecError):
            CODEC.decode(whole[:-cut], max_size=len(CONTENT))


@given(data=st.binary(max_size=60), form=st.integers(0, 2))
def test_the_scan_of_any_bytes_ends_in_a_result_or_a_frame_error(data: bytes, form: int) -> None:
    data = (b"", MAGIC, native.compress(CONTENT, 1)[:20])[form] + data
    try:
        content = scan(data)
    except FrameError:
        return
    assert content.size is None or content.size <= content.bound


def test_a_million_tiny_blocks_are_not_walked_through() -> None:
    data = raw_frame(b"a", told=False) + MAGIC + bytes([0, 0x50]) + bytes(3 * ((1 << 20) + 5))
    with pytest.raises(CodecError, match="blocks"):
        CODEC.decode(data, max_size=10)


def test_a_chain_of_bombs_is_bounded_at_every_stage() -> None:
    """H38: gzip of zstd of zeros, and zstd of zstd, for a chunk of 64 bytes."""
    bytes_codec = {"name": "bytes"}
    zstd: dict[str, Any] = {"name": "zstd", "configuration": {"level": 1}}
    gzip: dict[str, Any] = {"name": "gzip", "configuration": {"level": 9}}
    spec = ArraySpec((64,), np.dtype("u1"), np.array(0, "u1"))
    bomb = rle_frame(1 << 30, told=1 << 30)
    for outer, codec in ((native.compress(bomb * 40, 1), zstd), (_gzip(bomb * 40), gzip)):
        pipeline = CodecPipeline.resolve([bytes_codec, zstd, codec], spec)
        with allocating_at_most(4 << 20), pytest.raises(CodecError):
            pipeline.decode(outer, np.empty(64, "u1"))


def _gzip(data: bytes) -> bytes:
    import gzip

    return gzip.compress(data, 9)


@pytest.mark.parametrize("size", [1, 1000, zstd._SMALL, zstd._SMALL + 1])
def test_content_of_any_size_is_the_same_with_and_without_memory_for_it(size: int) -> None:
    content = bytes(np.random.default_rng(1).integers(0, 9, size, np.uint8))
    codec = ZstdCodec(1)
    frame = bytes(codec.encode(content))
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    for data in (frame, frame + skippable):
        out = memoryview(bytearray(size))
        assert bytes(codec.decode(data, max_size=size, out=out)) == content
        assert bytes(codec.decode(data, max_size=size)) == content
    for damaged in (frame[:-1], frame + frame):
        with pytest.raises(CodecError):
            codec.decode(damaged, max_size=size, out=memoryview(bytearray(size)))


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (5000, 5003), (0, 700_000), (699_999, 750_000)])
def test_a_frame_is_decoded_up_to_the_last_span_only(start: int, stop: int) -> None:
    content = np.random.default_rng(2).integers(0, 9, 1_000_000, np.uint8).tobytes()
    frame = bytes(ZstdCodec(1).encode(content))
    out = memoryview(bytearray(b"\xff" * len(content)))
    assert ZstdCodec(1).decode_spans(frame, [(start, stop)], max_size=len(content), out=out) is out
    assert bytes(out[start:stop]) == content[start:stop]
    assert bytes(out[stop:]) == b"\xff" * (len(content) - stop)


def test_frames_that_cannot_be_decoded_in_part_are_decoded_whole() -> None:
    content = np.random.default_rng(2).integers(0, 9, 1_000_000, np.uint8).tobytes()
    frame = bytes(ZstdCodec(1).encode(content))
    spans = [(10, 20)]
    cases = {
        "nearly all is wanted": (frame, [(0, 1), (750_001, 750_002)]),
        "a checksum covers all": (bytes(ZstdCodec(1, checksum=True).encode(content)), spans),
        "of another size": (bytes(ZstdCodec(1).encode(content[:-1])), spans),
        "begins with another frame": (skippable(b"x") + frame, spans),
        "cut short": (frame[:100], spans),
        "no frame": (b"", spans),
    }
    for reason, (data, wanted) in cases.items():
        out = memoryview(bytearray(len(content)))
        assert ZstdCodec(1).decode_spans(data, wanted, max_size=len(content), out=out) is None, reason


@pytest.mark.parametrize("level", [-131072, -5, 0, 1, 3, 9, 22])
@pytest.mark.parametrize("size", [0, 1, 131072, 131073])
def test_headers_of_all_sizes_have_content_size_and_checksum_flag(level: int, size: int) -> None:
    data = np.random.default_rng(0).integers(0, 9, size, dtype="uint8")
    for checksum in (True, False, True):
        frame = bytes(memoryview(ZstdCodec(level, checksum).encode(data)))
        found = zstandard.get_frame_parameters(frame)
        assert (found.content_size, found.has_checksum) == (size, checksum)
        assert zstandard.ZstdDecompressor().decompress(frame) == data.tobytes()
