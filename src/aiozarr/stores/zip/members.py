"""Decompresses members of a zip archive: any range of one, never more than it claims, checked where it is whole."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Iterable
from typing import Protocol

from aiozarr.errors import LimitError, StoreError
from aiozarr.stores.zip.format import BZIP2, DEFLATED, LZMA, Member, damaged

_STEP = 1 << 20


class _Decoder(Protocol):
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def check_limit(member: Member, limit: int, url: str) -> None:
    """See that decompressing `member` takes no more memory than `limit`.

    Raises:
        LimitError: it claims more.
    """
    if member.size > limit:
        raise LimitError(
            f"the member {member.key!r} of {url} decompresses to {member.size} bytes",
            limit="max_member_bytes",
            value=member.size,
            allowed=limit,
        )


def check_sum(member: Member, data: bytes | memoryview, url: str) -> None:
    """See that the bytes of a whole member are those that were written.

    Raises:
        StoreError: they are not.
    """
    if zlib.crc32(data) != member.crc:
        raise damaged("a member's checksum does not match its bytes", url, member.key)


def expand(member: Member, pieces: Iterable[bytes], start: int, stop: int, url: str) -> bytes:
    """Return the bytes `[start, stop)` of a compressed member from the start of its compressed bytes.

    No more of `pieces` is taken than is needed. A whole member is checked against its size and its checksum.

    Raises:
        StoreError: the bytes are no such compressed data, or decompress to less or more than the directory says.
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
                part = decoder.decompress(data, min(_STEP, stop + whole - total))
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


class _Deflate:
    """Keeps the input that was not consumed, as the other decoders do themselves."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(-15)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if self._inner.eof:
            return b""
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


class _UntilTheEnd:
    """Gives nothing behind the end of the stream, where the library's decoder raises EOFError."""

    def __init__(self, inner: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._inner = inner

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if self._inner.eof:
            return b""
        if not data and self._inner.needs_input:
            return b""
        return self._inner.decompress(data, max_length)


def _decoder(member: Member, first: bytes) -> tuple[_Decoder, bytes]:
    """Return a decoder, and the first piece without what only the decoder's making needs."""
    if member.method == DEFLATED:
        return _Deflate(), first
    if member.method == BZIP2:
        return _UntilTheEnd(bz2.BZ2Decompressor()), first
    assert member.method == LZMA
    # A version, the length of the properties, and those: one byte of three numbers, four of the dictionary's size.
    if len(first) < 9 or first[2:4] != b"\x05\x00" or first[4] >= 9 * 5 * 5:
        raise ValueError("its LZMA properties cannot be read")
    rest, lc = divmod(first[4], 9)
    pb, lp = divmod(rest, 5)
    # No distance is larger than the output: what a dictionary of more would hold is never looked at.
    size = min(int.from_bytes(first[5:9], "little"), member.size)
    properties = {"id": lzma.FILTER_LZMA1, "dict_size": max(size, 4096), "lc": lc, "lp": lp, "pb": pb}
    return _UntilTheEnd(lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[properties])), first[9:]
