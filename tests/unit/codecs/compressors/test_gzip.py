"""The codec `gzip`: members within their bound, checked to the last byte."""

from __future__ import annotations

import contextlib
import gzip
import tracemalloc
import zlib
from itertools import pairwise
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiozarr.codecs import gzip as inflate
from aiozarr.codecs.gzip import GzipCodec
from aiozarr.errors import CodecError
from tests.support.inflate_libraries import inflating

__all__ = ["inflating"]

CODEC = GzipCodec(5)
CONTENT = bytes(range(256)) * 5


def test_adjacent_members_are_one_value() -> None:
    """H33: several members are decoded, within the bound."""
    for count in (1, 2, 7, 3000):
        data = b"".join(gzip.compress(CONTENT[:30]) for _ in range(count))
        assert bytes(CODEC.decode(data, max_size=30 * count)) == CONTENT[:30] * count
        with pytest.raises(CodecError, match="more than"):
            CODEC.decode(data, max_size=30 * count - 1)
    large = bytes(range(256)) * 1000
    assert bytes(CODEC.decode(gzip.compress(large) + gzip.compress(CONTENT), max_size=1 << 20)) == large + CONTENT
    assert bytes(CODEC.decode(gzip.compress(b""), max_size=0)) == b""


@pytest.mark.parametrize("damaged", [b"\x1f\x8b", gzip.compress(CONTENT)[:-1]])
def test_a_damaged_member_after_another_one_is_refused(damaged: bytes) -> None:
    with pytest.raises(CodecError):
        CODEC.decode(gzip.compress(CONTENT) + damaged, max_size=1 << 20)


@pytest.mark.parametrize("data", [b"", b"\x1f", zlib.compress(CONTENT), b"no gzip" * 9])
def test_bytes_without_gzip_magic_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        CODEC.decode(data, max_size=1 << 20)


def test_truncated_data_and_wrong_checksums_are_refused() -> None:
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
    with pytest.raises(CodecError, match="bytes follow"):
        CODEC.decode(gzip.compress(b"") * 100_000, max_size=10)


def test_equal_values_encode_to_equal_bytes() -> None:
    assert bytes(CODEC.encode(CONTENT)) == bytes(CODEC.encode(memoryview(CONTENT)))
    assert bytes(CODEC.encode(CONTENT))[4:8] == bytes(4)


@settings(deadline=None, max_examples=300)
@given(
    content=st.binary(max_size=900).map(lambda part: part * 40),
    level=st.integers(0, 9),
    splits=st.lists(st.integers(0, 36_000), max_size=2),
)
def test_streams_of_zlib_are_read_at_every_level(content: bytes, level: int, splits: list[int]) -> None:
    cuts = [0, *sorted(min(split, len(content)) for split in splits), len(content)]
    members = [gzip.compress(content[a:b], level, mtime=level) for a, b in pairwise(cuts)]
    assert bytes(CODEC.decode(b"".join(members), max_size=len(content))) == content


@settings(deadline=None, max_examples=300)
@given(position=st.integers(0, 2000), value=st.integers(0, 255))
def test_a_changed_byte_gives_no_more_than_the_bound_or_a_codec_error(position: int, value: int) -> None:
    data = bytearray(CODEC.encode(CONTENT * 3))
    data[position % len(data)] = value
    with contextlib.suppress(CodecError):
        # Of the header some fields, such as the time, say nothing about the content.
        assert bytes(CODEC.decode(data, max_size=len(CONTENT) * 3)) == CONTENT * 3


def test_names_comments_and_extra_fields_of_a_header_are_skipped() -> None:
    plain = gzip.compress(CONTENT)
    header = b"\x1f\x8b\x08\x1c" + bytes(6) + b"\x03\x00abc" + b"name\0" + b"comment\0"
    assert bytes(CODEC.decode(header + plain[10:], max_size=len(CONTENT))) == CONTENT


def test_encoded_bytes_are_the_same_with_either_library(inflating: str) -> None:
    """A level means what it means to zlib: users' bytes do not depend on what else is installed."""
    assert bytes(CODEC.encode(CONTENT)) == zlib.compress(CONTENT, 5, wbits=31)


def test_isal_is_used_if_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("isal")
    monkeypatch.setattr(inflate, "_library", None)
    assert bytes(CODEC.decode(gzip.compress(CONTENT), max_size=len(CONTENT))) == CONTENT
    library: ModuleType | None = inflate._library
    assert library is not None
    assert library.__name__ == "isal.isal_zlib"


def test_zlib_is_used_without_isal(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> ModuleType:
        raise ImportError(name)

    monkeypatch.setattr(inflate, "_library", None)
    monkeypatch.setattr(inflate, "import_module", refuse)
    assert bytes(CODEC.decode(gzip.compress(CONTENT), max_size=len(CONTENT))) == CONTENT
    assert inflate._library is zlib
