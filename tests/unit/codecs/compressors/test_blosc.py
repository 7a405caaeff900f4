"""The codec `blosc`: its header is checked before native code sees it."""

from __future__ import annotations

import contextlib
import struct
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs import blosc as native

from aiozarr.codecs.blosc import FORMAT, BloscCodec
from aiozarr.codecs.chain import strict_copy
from aiozarr.errors import CodecError

CONTENT = b"".join(struct.pack("<i", i) for i in range(5000))
CODEC = BloscCodec("lz4", 5, "shuffle", 4, 0)
WHOLE = native.compress(CONTENT, b"lz4", 5, 1, 0, 4)


def with_header(**fields: int) -> bytes:
    names = ("version", "versionlz", "flags", "typesize", "nbytes", "blocksize", "cbytes")
    values = dict(zip(names, struct.unpack_from("<BBBBIII", WHOLE), strict=True)) | fields
    return struct.pack("<BBBBIII", *values.values()) + WHOLE[16:]


def test_an_unchanged_header_decodes() -> None:
    assert with_header() == WHOLE
    assert bytes(CODEC.decode(WHOLE, max_size=len(CONTENT))) == CONTENT
    out = memoryview(bytearray(len(CONTENT)))
    assert CODEC.decode(WHOLE, max_size=len(CONTENT), out=out) is out
    assert bytes(CODEC.decode(WHOLE, max_size=len(CONTENT) + 9, out=memoryview(bytearray(9)))) == CONTENT


@pytest.mark.parametrize(
    "fields",
    [
        {"version": 0},
        {"version": 3},
        {"flags": 0xFF},
        {"flags": 0xA1},
        {"flags": 0x02},
        {"typesize": 0},
        {"nbytes": 0, "cbytes": 17},
        {"nbytes": len(CONTENT) + 1},
        {"nbytes": 2**32 - 1},
        {"blocksize": 0},
        {"blocksize": len(CONTENT) + 1},
        {"blocksize": 1},
        {"cbytes": 0},
        {"cbytes": len(WHOLE) - 1},
        {"cbytes": 2**32 - 1},
    ],
)
def test_an_inconsistent_header_is_refused(fields: dict[str, int]) -> None:
    """H34, H35."""
    with pytest.raises(CodecError) as caught:
        strict_copy(CODEC).decode(with_header(**fields), max_size=len(CONTENT))
    assert caught.value.codec == "blosc"


@pytest.mark.parametrize("data", [b"", b"\x02\x01", bytes(15), bytes(16), bytes(100)])
def test_other_bytes_than_blosc_chunks_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        CODEC.decode(data, max_size=100)


def test_a_declared_size_alone_allocates_nothing() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CodecError, match="at most 64"):
            CODEC.decode(with_header(nbytes=2**31 - 1), max_size=64)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@settings(deadline=None)
@given(position=st.integers(0, len(WHOLE) - 1), value=st.integers(0, 255))
def test_a_changed_byte_gives_bytes_of_the_right_size_or_a_codec_error(position: int, value: int) -> None:
    data = bytearray(WHOLE)
    data[position] = value
    with contextlib.suppress(CodecError):
        assert memoryview(CODEC.decode(data, max_size=len(CONTENT))).nbytes <= len(CONTENT)


def test_empty_input_encodes_to_a_header() -> None:
    assert bytes(CODEC.decode(CODEC.encode(b""), max_size=0)) == b""


def test_the_typesize_of_the_configuration_is_the_one_in_the_bytes() -> None:
    for typesize in (1, 2, 3, 16):
        encoded = bytes(BloscCodec("zstd", 1, "bitshuffle", typesize, 0).encode(CONTENT))
        assert encoded[3] == typesize
        assert bytes(CODEC.decode(encoded, max_size=len(CONTENT))) == CONTENT


def test_a_missing_compressor_raises_codec_error() -> None:
    if "snappy" in native.list_compressors():
        pytest.skip("this build of blosc has snappy, so there is no compressor that it lacks")
    with pytest.raises(CodecError, match="snappy"):
        BloscCodec("snappy", 5, "noshuffle", None, 0).encode(CONTENT)


def test_worker_threads_decode_without_the_threads_of_the_library() -> None:
    """Else blosc would serialise all callers behind its global state."""
    seen: list[Any] = []
    worker = threading.Thread(target=lambda: seen.append(native._get_use_threads()))
    worker.start()
    worker.join()
    assert seen == [False]


BLOCKED = BloscCodec(cname="lz4", clevel=1, shuffle="noshuffle", typesize=1, blocksize=4096)
BLOCKS = 1024
SIZE = BLOCKS * 4096
CHUNK = bytes(BLOCKED.encode(np.random.default_rng(0).integers(0, 256, SIZE // 8, np.uint8).repeat(8).tobytes()))


def with_offsets(*offsets: int) -> bytes:
    """The chunk with other offsets of its first blocks."""
    table = struct.pack(f"<{len(offsets)}I", *offsets)
    return CHUNK[: FORMAT.size] + table + CHUNK[FORMAT.size + len(table) :]


@pytest.mark.parametrize(
    "offsets",
    [
        pytest.param([2**32 - 1], id="behind the end"),
        pytest.param([FORMAT.size + 4 * BLOCKS] * 64, id="all at one place"),
        pytest.param([FORMAT.size, 2, 1], id="in the header"),
    ],
)
def test_impossible_block_offsets_are_not_decoded_in_part_and_allocate_nothing(
    offsets: list[int],
) -> None:
    out = memoryview(bytearray(SIZE))
    damaged = with_offsets(*offsets)
    tracemalloc.start()
    try:
        assert BLOCKED.decode_spans(damaged, [(0, 64 * 4096)], max_size=SIZE, out=out) is None
        assert tracemalloc.get_traced_memory()[1] < len(CHUNK)
    finally:
        tracemalloc.stop()
