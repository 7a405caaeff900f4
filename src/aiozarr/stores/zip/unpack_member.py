"""Decompresses a range of a zip member, never more than the directory announces; whole members are verified."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Iterable
from typing import Protocol

from aiozarr.errors import LimitError, StoreError
from aiozarr.stores.zip.format import BZIP2, DEFLATED, LZMA, Member, damaged

STEP_BYTES = 1 << 20
"""Bytes that are decompressed at a time."""


class _Decoder(Protocol):
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def check_limit(member: Member, limit: int, url: str) -> None:
    """Check that `member` decompresses to at most `limit` bytes.

    Raises:
        LimitError: the directory announces more.
    """
    if member.size > limit:
        raise LimitError(
            f"the member {member.key!r} of {url} decompresses to {member.size} bytes",
            limit="max_member_bytes",
            value=member.size,
            allowed=limit,
        )


def packed_bound(size: int) -> int:
    """Return how many bytes `size` bytes are compressed to at most.

    Compressors add far less than an eighth and some headers. More can only be padding, such as empty deflate blocks.
    """
    return size + size // 8 + (1 << 16)


def check_checksum(member: Member, data: bytes | memoryview, url: str) -> None:
    """Verify the bytes of a whole member.

    Raises:
        StoreError: their checksum is wrong.
    """
    if zlib.crc32(data) != member.crc:
        raise damaged("a member's checksum does not match its bytes", url, member.key)


def unpack(member: Member, pieces: Iterable[bytes], start: int, stop: int, url: str) -> bytes:
    """Decompress the bytes `[start, stop)` of a member from `pieces` of its compressed bytes.

    Takes no more `pieces` than needed. Size and checksum of a whole member are verified.

    Raises:
        StoreError: the bytes cannot be decompressed, or decompress to another size than the directory announces.
    """
    whole = stop == member.size
    decoder: _Decoder | None = None
    out = bytearray()
    total = checksum = 0
    try:
        for piece in pieces:
            if decoder is None:
                decoder, piece = _decoder(member, piece)
            data = piece
            while total < stop + whole:
                part = decoder.decompress(data, min(STEP_BYTES, stop + whole - total))
                data = b""
                if not part:
                    break
                checksum = zlib.crc32(part, checksum)
                out += part[max(0, start - total) : max(0, stop - total)]
                total += len(part)
            if total >= stop + whole:
                break
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as error:
        if isinstance(error, StoreError):
            raise
        raise damaged(f"a member does not decompress: {error}", url, member.key) from error
    if total != stop and (whole or total < stop):
        raise damaged(f"a member decompresses to another size than {member.size} bytes", url, member.key)
    if whole and checksum != member.crc:
        raise damaged("a member's checksum does not match its bytes", url, member.key)
    return bytes(out)


class _DeflateDecoder:
    """Retains unconsumed input, as the other decoders do themselves."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(-15)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if self._inner.eof:
            return b""
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


class _StopsAtEnd:
    """Returns no bytes after the end of the stream, where the library's decoder raises EOFError."""

    def __init__(self, inner: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._inner = inner

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if self._inner.eof:
            return b""
        if not data and self._inner.needs_input:
            return b""
        return self._inner.decompress(data, max_length)


def _decoder(member: Member, first: bytes) -> tuple[_Decoder, bytes]:
    """Return a decoder, and the first piece without the decoder's properties."""
    if member.method == DEFLATED:
        return _DeflateDecoder(), first
    if member.method == BZIP2:
        return _StopsAtEnd(bz2.BZ2Decompressor()), first
    assert member.method == LZMA
    # A version, the length of the properties, and the properties: a byte with three numbers, the dictionary's size.
    if len(first) < 9 or first[2:4] != b"\x05\x00" or first[4] >= 9 * 5 * 5:
        raise ValueError("its LZMA properties cannot be read")
    rest, lc = divmod(first[4], 9)
    pb, lp = divmod(rest, 5)
    # No distance exceeds the output, so a larger dictionary is useless, and could exhaust the memory.
    size = min(int.from_bytes(first[5:9], "little"), member.size)
    properties = {"id": lzma.FILTER_LZMA1, "dict_size": max(size, 4096), "lc": lc, "lp": lp, "pb": pb}
    return _StopsAtEnd(lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[properties])), first[9:]
