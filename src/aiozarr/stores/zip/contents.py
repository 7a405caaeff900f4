"""The contents of an archive on disk at one moment: an open file and its members, whose ranges can be read."""

from __future__ import annotations

import bz2
import lzma
import os
import stat
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self, TypeAlias

from aiozarr.errors import LimitError, ShortReadError, StoreError
from aiozarr.stores.local.atomic_write import version_of
from aiozarr.stores.zip.format import (
    BZIP2,
    DEFLATED,
    LOCAL_HEADER_BYTES,
    LZMA,
    MAX_END_BYTES,
    STORED,
    EndRecord,
    Member,
    damaged,
    find_data_start,
    find_end,
    read_directory,
)

PIECE_BYTES = 1 << 20

Duplicates: TypeAlias = Literal["refuse", "last"]
"""The treatment of an archive with two members of one name."""


class ArchiveFile:
    """A descriptor that is closed when it is collected, so that no other thread can read from a closed one."""

    def __init__(self, descriptor: int, url: str) -> None:
        self.descriptor = descriptor
        self._url = url

    def read(self, start: int, length: int) -> bytes:
        """Return `length` bytes from `start`.

        Raises:
            ShortReadError: the file ends earlier.
            OSError: the file cannot be read.
        """
        data = os.pread(self.descriptor, length, start)
        if len(data) == length:
            return data
        parts = [data]
        done = len(data)
        while done < length:
            part = os.pread(self.descriptor, length - done, start + done)
            if not part:
                raise ShortReadError(f"the archive ended {length - done} bytes early", store=self._url)
            parts.append(part)
            done += len(part)
        return b"".join(parts)

    def __del__(self) -> None:
        os.close(self.descriptor)


@dataclass(eq=False)
class KeyIndex:
    """Members by key, and sorted keys for listings.

    Attributes:
        members: members by key.
        starts: offset of a member's data, by the offset of its header. A member that replaces another one has another
            header, so a late reader stores no wrong offset.
        repeated: a name that occurs twice in the archive.
    """

    members: dict[str, Member]
    starts: dict[int, int] = field(default_factory=dict)
    repeated: str | None = None
    _sorted: list[str] | None = None

    def check(self, duplicates: Duplicates, url: str) -> Self:
        """Return the index if it may be used.

        Raises:
            StoreError: a name occurs twice, and `duplicates` is "refuse".
        """
        if self.repeated is not None and duplicates == "refuse":
            raise StoreError("the name occurs twice in the archive", store=url, key=self.repeated)
        return self

    def keys_changed(self) -> None:
        """Discard the sorted keys."""
        self._sorted = None

    def below(self, prefix: str) -> list[str]:
        """Return the keys that start with `prefix`."""
        names = self._in_order()
        return names[bisect_left(names, prefix) : bisect_left(names, _after_prefix(prefix)) if prefix else len(names)]

    def children(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys directly below `prefix`, and the prefixes one level below it."""
        names = self._in_order()
        position, end = bisect_left(names, prefix), bisect_left(names, _after_prefix(prefix)) if prefix else len(names)
        keys, prefixes = [], []
        while position < end:
            name, slash, _ = names[position][len(prefix) :].partition("/")
            if slash:
                prefixes.append(f"{prefix}{name}/")
                position = bisect_left(names, _after_prefix(prefixes[-1]), position)
            else:
                keys.append(prefix + name)
                position += 1
        return keys, prefixes

    def _in_order(self) -> list[str]:
        names = self._sorted
        if names is None:
            names = self._sorted = sorted(self.members.copy())
        return names


def _after_prefix(prefix: str) -> str:
    """Return the smallest text that sorts after all texts with `prefix`, which ends with a slash."""
    return prefix[:-1] + "0"


@dataclass(eq=False)
class Contents(KeyIndex):
    """The members of an open archive; `token` is part of the versions of its members."""

    file: ArchiveFile | None = None
    token: str = ""

    def read(self, member: Member, start: int, stop: int, limit: int, url: str) -> bytes:
        """Return the decompressed bytes `[start, stop)` of a member; whole members are verified.

        Raises:
            StoreError: the archive is damaged, or cannot be read.
            LimitError: the member decompresses to more than `limit` bytes.
        """
        member.check_readable(url)
        file = self.file
        assert file is not None
        begin = self.starts.get(member.offset)
        if begin is None:
            header = file.read(member.offset, LOCAL_HEADER_BYTES + len(member.raw))
            begin = self.starts[member.offset] = find_data_start(header, member, url)
        if member.method == STORED:
            data = file.read(begin + start, stop - start)
            if stop - start == member.size:
                check_checksum(member, data, url)
            return data
        check_limit(member, limit, url)
        return unpack(member, pieces_of(file, begin, member.packed_size), start, stop, url)


def pieces_of(file: ArchiveFile, start: int, length: int) -> Iterator[bytes]:
    """Yield `length` bytes from `start`, in pieces of at most `PIECE_BYTES`."""
    for done in range(0, length, PIECE_BYTES):
        yield file.read(start + done, min(PIECE_BYTES, length - done))


def load(descriptor: int, url: str) -> Contents:
    """Read the directory of an archive. The result owns the descriptor; it is closed after an error.

    Raises:
        StoreError, LimitError: the file is not a readable archive.
    """
    file = ArchiveFile(descriptor, url)
    status = os.fstat(descriptor)
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise StoreError("not a zip archive: not a regular file", store=url)
    length = min(MAX_END_BYTES, status.st_size)
    while True:
        end: EndRecord | int = find_end(file.read(status.st_size - length, length), status.st_size, url)
        if isinstance(end, EndRecord):
            break
        length = status.st_size - end
    members, repeated = read_directory(file.read(end.start, end.length), end, url)
    return Contents(members, repeated=repeated, file=file, token=token_of(status))


def token_of(status: os.stat_result) -> str:
    """Return a token that is different for every state of a file."""
    return version_of(status).etag or ""


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
