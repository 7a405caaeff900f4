"""Directories that are reached from a root without following a link, and whose entries are removed by descriptor.

A path is resolved by each call, so that another user of a shared directory could replace a part of it by a link between
two calls. A descriptor stays at its directory. Systems whose calls take no descriptor of a directory use paths.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_INNER = DIRECTORY | getattr(os, "O_NOFOLLOW", 0)
HAS_DESCRIPTORS = {os.open, os.stat, os.unlink, os.rmdir} <= os.supports_dir_fd and os.scandir in os.supports_fd


class OpenDirectory:
    """An open directory.

    Args:
        path: its path, or its name in `above`.
        above: the directory that contains it; a link is then not followed.

    Attributes:
        path: its path when it was opened.
        descriptor: of the directory.

    Raises:
        OSError: it could not be opened; `ELOOP` if it is a link in `above`.
    """

    __slots__ = ("descriptor", "path")

    def __init__(self, path: bytes, above: OpenDirectory | None = None) -> None:
        if above is None:
            self.path, self.descriptor = path, os.open(path, DIRECTORY)
            return
        self.path = b"%s/%s" % (above.path.rstrip(b"/"), path)
        try:
            if HAS_DESCRIPTORS:  # directly, because erasing a key walks down from the root
                self.descriptor = os.open(path, _INNER, dir_fd=above.descriptor)
            else:
                self.descriptor = os.open(self.path, _INNER)
        except OSError as error:
            if error.errno == errno.ENOTDIR and stat.S_ISLNK(above.status(path).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self.path) from None
            raise

    @classmethod
    def below(cls, root: bytes, path: bytes) -> OpenDirectory:
        """Open the directory `path` below `root`, without following a link on the way."""
        directory = cls(root)
        for name in path[len(root) :].split(b"/"):
            if name:
                above = directory
                try:
                    directory = cls(name, above)
                finally:
                    os.close(above.descriptor)
        return directory

    def __enter__(self) -> OpenDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)

    def _entry(self, name: bytes) -> tuple[bytes, dict[str, int]]:
        return (name, {"dir_fd": self.descriptor}) if HAS_DESCRIPTORS else (b"%s/%s" % (self.path, name), {})

    def open(self, name: bytes, flags: int) -> int:
        """Open an entry that is not a link."""
        entry, at = self._entry(name)
        return os.open(entry, flags | getattr(os, "O_NOFOLLOW", 0), **at)

    def status(self, name: bytes, *, follows_link: bool = False) -> os.stat_result:
        """Return the status of an entry."""
        entry, at = self._entry(name)
        return os.stat(entry, follow_symlinks=follows_link, **at)

    def entries(self) -> Iterator[tuple[bytes, os.DirEntry[Any]]]:
        """Iterate over the names and the entries."""
        place: Any = self.descriptor if HAS_DESCRIPTORS else self.path
        with os.scandir(place) as entries:
            for entry in entries:
                yield os.fsencode(entry.name), entry

    def unlink(self, name: bytes) -> None:
        """Remove a file or a link, if it exists."""
        entry, at = self._entry(name)
        with suppress(FileNotFoundError):
            os.unlink(entry, **at)

    def rmdir(self, name: bytes) -> None:
        """Remove an empty directory."""
        entry, at = self._entry(name)
        os.rmdir(entry, **at)
