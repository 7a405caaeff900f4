"""Blocks cut out of a Blosc chunk with impossible block offsets."""

from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest

from aiozarr.codecs import BloscCodec
from aiozarr.codecs.compressors.blosc_blocks import FORMAT

CODEC = BloscCodec(cname="lz4", clevel=1, shuffle="noshuffle", typesize=1, blocksize=4096)
BLOCKS = 1024
SIZE = BLOCKS * 4096
CHUNK = bytes(CODEC.encode(np.random.default_rng(0).integers(0, 256, SIZE // 8, np.uint8).repeat(8).tobytes()))


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
        assert CODEC.decode_spans(damaged, [(0, 64 * 4096)], max_size=SIZE, out=out) is None
        assert tracemalloc.get_traced_memory()[1] < len(CHUNK)
    finally:
        tracemalloc.stop()
