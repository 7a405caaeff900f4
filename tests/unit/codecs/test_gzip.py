"""The codec `gzip`: members within their bound, checked to the last byte."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from aiozarr.codecs import GzipCodec
from aiozarr.errors import CodecError

CODEC = GzipCodec(5)
CONTENT = bytes(range(256)) * 5


def test_members_after_each_other_are_one_value() -> None:
    """H33: several members are decoded, within the bound."""
    for count in (1, 2, 7, 3000):
        data = b"".join(gzip.compress(CONTENT[:30]) for _ in range(count))
        assert bytes(CODEC.decode(data, max_size=30 * count)) == CONTENT[:30] * count
        with pytest.raises(CodecError, match="more than"):
            CODEC.decode(data, max_size=30 * count - 1)
    large = bytes(range(256)) * 1000
    assert bytes(CODEC.decode(gzip.compress(large) + gzip.compress(CONTENT), max_size=1 << 20)) == large + CONTENT
    assert bytes(CODEC.decode(gzip.compress(b""), max_size=0)) == b""


@pytest.mark.parametrize("junk", [b"\0", b"junk", b"\x1f\x8b", b"\0" * 40, gzip.compress(CONTENT)[:-1]])
def test_junk_behind_a_member_is_refused(junk: bytes) -> None:
    with pytest.raises(CodecError):
        CODEC.decode(gzip.compress(CONTENT) + junk, max_size=1 << 20)


@pytest.mark.parametrize("data", [b"", b"\x1f", zlib.compress(CONTENT), b"no gzip" * 9])
def test_what_is_no_gzip_is_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        CODEC.decode(data, max_size=1 << 20)


def test_cut_data_and_a_wrong_checksum_are_refused() -> None:
    whole = gzip.compress(CONTENT)
    for cut in range(1, len(whole)):
        with pytest.raises(CodecError):
            CODEC.decode(whole[:-cut], max_size=len(CONTENT))
    for position in (-1, -5):
        flipped = bytearray(whole)
        flipped[position] ^= 1
        with pytest.raises(CodecError):
            CODEC.decode(flipped, max_size=len(CONTENT))


def test_a_bomb_stops_at_the_bound() -> None:
    """H32."""
    encoder = zlib.compressobj(9, wbits=31)
    bomb = b"".join(encoder.compress(bytes(1 << 20)) for _ in range(64)) + encoder.flush()
    tracemalloc.start()
    try:
        with pytest.raises(CodecError, match="more than 64 bytes") as caught:
            CODEC.decode(bomb, max_size=64)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert caught.value.codec == "gzip"


def test_a_hundred_thousand_empty_members_are_refused() -> None:
    with pytest.raises(CodecError, match="members"):
        CODEC.decode(gzip.compress(b"") * 100_000, max_size=10)


def test_equal_values_encode_to_equal_bytes() -> None:
    assert bytes(CODEC.encode(CONTENT)) == bytes(CODEC.encode(memoryview(CONTENT)))
    assert bytes(CODEC.encode(CONTENT))[4:8] == bytes(4)
