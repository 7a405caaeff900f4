"""Directories that are reached from a root without following a link, and whose entries are removed by descriptor.

A path is resolved by each call, so that another user of a shared directory could replace a part of it by a link between
two calls. A descriptor stays at its directory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_INNER = DIRECTORY | getattr(os, "O_NOFOLLOW", 0)


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
            self.descriptor = os.open(path, _INNER, dir_fd=above.descriptor)
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

    def open(self, name: bytes, flags: int) -> int:
        """Open an entry that is not a link."""
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), dir_fd=self.descriptor)

    def status(self, name: bytes, *, follows_link: bool = False) -> os.stat_result:
        """Return the status of an entry."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=follows_link)

    def entries(self) -> Iterator[tuple[bytes, os.DirEntry[str]]]:
        """Iterate over the names and the entries."""
        with os.scandir(self.descriptor) as entries:
            for entry in entries:
                yield os.fsencode(entry.name), entry

    def unlink(self, name: bytes) -> None:
        """Remove a file or a link, if it exists."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def rmdir(self, name: bytes) -> None:
        """Remove an empty directory."""
        os.rmdir(name, dir_fd=self.descriptor)
