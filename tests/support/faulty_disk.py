"""Layers under `os`: a disk that refuses calls below one folder, and a recorder of what is flushed."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

_READS = ("open", "pread", "preadv", "scandir", "stat")
_CHANGES = (
    "open to write",
    "pwrite",
    "utime",
    "chmod",
    "fsync",
    "ftruncate",
    "replace",
    "link",
    "unlink",
    "mkdir",
    "rmdir",
)
_NAMES = ("open to write", "replace", "link", "unlink", "mkdir", "rmdir")

REFUSED = {
    errno.EMFILE: ("open", "open to write", "scandir"),
    errno.ESTALE: (*_READS, *_CHANGES),
    errno.ENOSPC: ("open to write", "pwrite", "mkdir"),
    errno.EACCES: ("open", "scandir", *_NAMES),
    errno.EIO: ("pread", "preadv", "scandir", "pwrite", "fsync"),
    errno.EROFS: ("utime", "chmod", "ftruncate", *_NAMES),
}
"""The calls that each fault refuses."""


@dataclass
class FaultyDisk:
    """The layer, which refuses nothing before `begin`.

    Attributes:
        refusals: how many calls it has refused.
    """

    folder: str
    refusals: int = 0
    _number: int = 0
    _after: int = 0

    def begin(self, number: int, after: int = 0) -> None:
        """From now on, refuse the calls that `REFUSED` names with this error number, except for the first `after`."""
        self._number, self._after, self.refusals = number, after, 0

    def end(self) -> None:
        """Refuse nothing more."""
        self._number = 0

    def check(self, name: str, path: Any) -> None:
        number = self._number
        if not number or name not in REFUSED[number] or not _path_of(path).startswith(self.folder):
            return
        if self._after:
            self._after -= 1
            return
        self.refusals += 1
        raise OSError(number, os.strerror(number), path)


@contextmanager
def faulty_disk(folder: os.PathLike[str]) -> Iterator[FaultyDisk]:
    """Put the layer under `os`."""
    disk = FaultyDisk(os.fspath(folder))
    with pytest.MonkeyPatch.context() as patch:
        for name in {*_READS, *_CHANGES} - {"open to write"}:
            patch.setattr(os, name, _checked(disk, name, getattr(os, name)))
        yield disk


def _checked(disk: FaultyDisk, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(path: Any, *args: Any, **keywords: Any) -> Any:
        disk.check(
            "open to write" if name == "open" and args[0] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR) else name, path
        )
        return real(path, *args, **keywords)

    return call


def _path_of(path: Any) -> str:
    """Return the path of a path or of an open file."""
    if isinstance(path, int):
        try:
            return os.readlink(f"/proc/self/fd/{path}")
        except OSError:
            return ""
    return os.fsdecode(path)


@dataclass
class FlushRecorder:
    """What a disk would lose if its power failed now, and what was done in the wrong order.

    Attributes:
        files: the inodes with bytes that are not flushed.
        directories: the directories with changes of names that are not flushed.
        mistakes: files that got their names before their bytes were flushed, and directories that were removed before
            the removal of their files was flushed.
        flushes: the number of flushes.
    """

    files: set[int] = field(default_factory=set)
    directories: set[str] = field(default_factory=set)
    mistakes: list[str] = field(default_factory=list)
    flushes: int = 0

    def before(self, name: str, args: tuple[Any, ...]) -> None:
        if name in ("replace", "link") and os.stat(args[0]).st_ino in self.files:
            self.mistakes.append(f"{os.fsdecode(args[1])} has its name before its bytes are flushed")

    def after(self, name: str, args: tuple[Any, ...]) -> None:
        path = _path_of(args[0])
        if name in ("pwrite", "ftruncate"):
            self.files.add(os.fstat(args[0]).st_ino)
        elif name == "fsync":
            self.flushes += 1
            self.files.discard(os.fstat(args[0]).st_ino)
            self.directories.discard(path)
        elif name in ("replace", "link"):
            self.directories.add(os.path.dirname(_path_of(args[1])))
        elif name == "mkdir" or (name == "unlink" and ".aiozarr-write~" not in path):
            self.directories.add(os.path.dirname(path))
        elif name == "rmdir" and path in self.directories:
            # An empty directory that comes back does no harm.
            self.directories.remove(path)
            self.mistakes.append(f"{path} is removed before the removal of what it held is flushed")


@contextmanager
def recorded_flushes() -> Iterator[FlushRecorder]:
    """Record the calls of this process from now on."""
    recorder = FlushRecorder()

    def recorded(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            directory = keywords.get("dir_fd")
            # A name below an open directory.
            named = args if directory is None else (os.path.join(_path_of(directory), _path_of(args[0])), *args[1:])
            recorder.before(name, named)
            result = real(*args, **keywords)
            recorder.after(name, named)
            return result

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("pwrite", "ftruncate", "fsync", "replace", "link", "unlink", "mkdir", "rmdir"):
            patch.setattr(os, name, recorded(name, getattr(os, name)))
        yield recorder
