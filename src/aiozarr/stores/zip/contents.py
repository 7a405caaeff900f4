"""An archive on disk as it is at one moment: an open file, its members, and reading any range of one."""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Self, TypeAlias

from aiozarr.errors import ShortReadError, StoreError
from aiozarr.stores.zip.format import (
    LOCAL_HEADER,
    STORED,
    TAIL,
    End,
    Member,
    damaged,
    data_start,
    find_end,
    read_directory,
)
from aiozarr.stores.zip.members import check_limit, check_sum, expand

PIECE = 1 << 20

Duplicates: TypeAlias = Literal["refuse", "last"]
"""What is done with an archive that holds a name twice."""


class File:
    """A descriptor, closed when nobody reads from it any more: no read of another thread meets a closed one."""

    def __init__(self, descriptor: int, url: str) -> None:
        self.descriptor = descriptor
        self._url = url

    def read(self, start: int, length: int) -> bytes:
        """Return `length` bytes from `start`.

        Raises:
            ShortReadError: the file ends before.
            OSError: it cannot be read.
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
class Names:
    """Members by key, and their names in order for listings.

    Attributes:
        members: what the archive holds.
        starts: where the bytes of a member begin, by the offset of its header: a member that replaces another has
            another one, so a reader that is late keeps nothing wrong.
        repeated: a name that the archive holds twice.
    """

    members: dict[str, Member]
    starts: dict[int, int] = field(default_factory=dict)
    repeated: str | None = None
    _sorted: list[str] | None = None

    def check(self, duplicates: Duplicates, url: str) -> Self:
        """Return the names, where they may be used.

        Raises:
            StoreError: a name occurs twice, and `duplicates` is "refuse".
        """
        if self.repeated is not None and duplicates == "refuse":
            reason = (
                "the name occurs twice, and readers differ in which one they take; duplicates='last' takes the last"
            )
            raise damaged(reason, url, self.repeated)
        return self

    def changed(self) -> None:
        """Forget the order of names."""
        self._sorted = None

    def below(self, prefix: str) -> list[str]:
        """Return the keys that start with `prefix`."""
        names = self._in_order()
        return names[bisect_left(names, prefix) : bisect_left(names, _behind(prefix)) if prefix else len(names)]

    def children(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys directly below `prefix`, and the prefixes one level below it; whole branches are skipped."""
        names = self._in_order()
        at, end = bisect_left(names, prefix), bisect_left(names, _behind(prefix)) if prefix else len(names)
        keys, prefixes = [], []
        while at < end:
            name, slash, _ = names[at][len(prefix) :].partition("/")
            if slash:
                prefixes.append(f"{prefix}{name}/")
                at = bisect_left(names, _behind(prefixes[-1]), at)
            else:
                keys.append(prefix + name)
                at += 1
        return keys, prefixes

    def _in_order(self) -> list[str]:
        names = self._sorted
        if names is None:
            names = self._sorted = sorted(self.members.copy())
        return names


def _behind(prefix: str) -> str:
    """Return the least text that sorts behind all that start with `prefix`, which ends with a slash."""
    return prefix[:-1] + "0"


@dataclass(eq=False)
class Contents(Names):
    """What an open archive holds; `token` is part of the versions of its members."""

    file: File | None = None
    token: str = ""
    directory: int = 0

    def read(self, member: Member, start: int, stop: int, limit: int, url: str) -> bytes:
        """Return the bytes `[start, stop)` of a member, decompressed; whole ones are checked.

        Raises:
            StoreError: the archive is damaged, or cannot be read.
            LimitError: decompressed, the member has more than `limit` bytes.
        """
        file = self.file
        assert file is not None
        begin = self.starts.get(member.offset)
        if begin is None:
            header = file.read(member.offset, LOCAL_HEADER + len(member.raw))
            begin = self.starts[member.offset] = data_start(header, member, url)
        if member.method == STORED:
            data = file.read(begin + start, stop - start)
            if stop - start == member.size:
                check_sum(member, data, url)
            return data
        check_limit(member, limit, url)
        return expand(member, _pieces(file, begin, member.stored), start, stop, url)


def _pieces(file: File, start: int, length: int) -> Iterator[bytes]:
    for done in range(0, length, PIECE):
        yield file.read(start + done, min(PIECE, length - done))


def load(descriptor: int, url: str) -> Contents:
    """Read the directory of an archive; the descriptor is the result's, or closed.

    Raises:
        StoreError, LimitError: it is no archive that can be read.
    """
    file = File(descriptor, url)
    status = os.fstat(descriptor)
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise StoreError("this is no zip archive, nor any file", store=url)
    length = min(TAIL, status.st_size)
    while True:
        end: End | int = find_end(file.read(status.st_size - length, length), status.st_size, url)
        if isinstance(end, End):
            break
        length = status.st_size - end
    members, repeated = read_directory(file.read(end.start, end.length), end, url)
    return Contents(members, repeated=repeated, file=file, token=token_of(status), directory=end.start)


def token_of(status: os.stat_result) -> str:
    """Return what tells one state of a file from another."""
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"
