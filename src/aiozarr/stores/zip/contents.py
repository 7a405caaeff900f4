"""The contents of an archive on disk at one moment: an open file and its members, whose ranges can be read."""

from __future__ import annotations

import os
import stat
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, Self, TypeAlias

from aiozarr.errors import LimitError, ShortReadError, StoreError
from aiozarr.stores.local.atomic_write import version_of
from aiozarr.stores.zip.format import (
    LOCAL_HEADER_BYTES,
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
    decoder = zlib.decompressobj(-15)
    out = bytearray()
    total = checksum = 0
    try:
        for piece in pieces:
            data = decoder.unconsumed_tail + piece
            while total < stop + whole and not decoder.eof:
                part = decoder.decompress(data, min(STEP_BYTES, stop + whole - total))
                data = decoder.unconsumed_tail
                if not part:
                    break
                checksum = zlib.crc32(part, checksum)
                out += part[max(0, start - total) : max(0, stop - total)]
                total += len(part)
            if total >= stop + whole:
                break
    except zlib.error as error:
        raise damaged(f"a member does not decompress: {error}", url, member.key) from error
    if total != stop and (whole or total < stop):
        raise damaged(f"a member decompresses to another size than {member.size} bytes", url, member.key)
    if whole and checksum != member.crc:
        raise damaged("a member's checksum does not match its bytes", url, member.key)
    return bytes(out)
