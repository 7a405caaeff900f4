"""Blosc chunks with snappy inside are read by a build of the library that leaves snappy out."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.codecs.blosc import BloscCodec
from aiozarr.codecs.blosc_snappy import decompress, snappy_decompress


def literal(data: bytes) -> bytes:
    """A snappy block that holds `data` as it is."""
    size, varint = len(data), b""
    while size > 0x7F:
        varint += bytes([size & 0x7F | 0x80])
        size >>= 7
    return varint + bytes([size, 61 << 2]) + struct.pack("<H", len(data) - 1) + data


def chunk(data: bytes, flags: int, typesize: int) -> bytes:
    """A blosc chunk of one block, in one part."""
    block = literal(data)
    body = struct.pack("<II", 20, len(block)) + block
    head = struct.pack("<BBBBIII", 2, 1, 2 << 5 | 0x10 | flags, typesize, len(data), len(data), 16 + len(body))
    return head + body


def bit_planes(data: bytes, typesize: int) -> bytes:
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").reshape(-1, 8 * typesize)
    return np.packbits(bits.T.reshape(-1), bitorder="little").tobytes()


def test_copies_may_overlap_themselves() -> None:
    assert snappy_decompress(bytes([9, 2 << 2]) + b"abc" + bytes([5 << 2 | 2, 3, 0]), 9) == b"abcabcabc"
    assert snappy_decompress(bytes([8, 0]) + b"a" + bytes([3 << 2 | 1, 1]), 8) == b"a" * 8


@given(data=st.binary(min_size=64, max_size=640).map(lambda part: part[: len(part) // 64 * 64]))
def test_all_kinds_of_shuffle_are_undone(data: bytes) -> None:
    planes = np.frombuffer(data, np.uint8).reshape(-1, 4).T.tobytes()
    codec = BloscCodec("snappy", 5, "noshuffle", None, 0)
    for stored in (chunk(data, 0, 4), chunk(planes, 1, 4), chunk(bit_planes(data, 4), 4, 4)):
        assert decompress(memoryview(stored)) == data
        assert bytes(codec.decode(stored, max_size=len(data))) == data


@given(damage=st.data())
def test_damaged_blocks_raise_value_error_or_keep_their_size(damage: st.DataObject) -> None:
    good = bytearray(bytes([40, 9 << 2]) + b"0123456789" + bytes([29 << 2 | 2, 10, 0]))
    assert len(snappy_decompress(bytes(good), 40)) == 40
    for _ in range(damage.draw(st.integers(1, 3))):
        good[damage.draw(st.integers(0, len(good) - 1))] = damage.draw(st.integers(0, 255))
    try:
        decoded = snappy_decompress(bytes(good[: damage.draw(st.integers(0, len(good)))]), 40)
    except ValueError:
        return
    assert len(decoded) == 40


@pytest.mark.parametrize("data", [b"", b"\xff" * 5, bytes([4, 0]), bytes([4, 1, 1]), bytes([4, 63 << 2, 255, 255])])
def test_blocks_that_end_early_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"snappy|literal|copy"):
        snappy_decompress(data, 4)
