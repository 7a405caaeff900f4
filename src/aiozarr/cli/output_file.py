"""The file of the option `--output`: it appears whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO


@contextmanager
def open_output(path: str) -> Iterator[IO[bytes]]:
    """Yield a binary file whose bytes are those of `path` when the context ends. An error leaves `path` as it was.

    The bytes are written to a temporary file beside it, which is renamed. A device, a pipe, or a file in a directory
    without permission is written itself.

    Raises:
        OSError: the file could not be written; it has the name of the file.
    """
    try:
        temporary = _temporary_of(path)
        if temporary is None:
            with open(path, "wb") as file:
                yield file
            return
        target, mode, name = temporary
        try:
            with open(name, "xb") as file:
                if mode is not None:
                    os.chmod(name, mode)
                yield file
            os.replace(name, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        if error.errno is not None and error.strerror is not None:
            # The system names no file where writing fails.
            error.filename, error.filename2 = path, None
        raise


def _temporary_of(path: str) -> tuple[str, int | None, str] | None:
    """Return the file to replace, its mode if it exists, and a temporary name beside it; None: it is written itself."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    target = os.path.realpath(path)
    directory = os.path.dirname(target)
    # A name such as /dev/stdout may be that of a regular file, to which others append.
    is_special = path.startswith(("/dev/", "/proc/")) or (status is not None and not stat.S_ISREG(status.st_mode))
    may_replace = os.access(directory, os.W_OK) and (status is None or os.access(target, os.W_OK))
    if is_special or not may_replace:
        return None
    mode = None if status is None else stat.S_IMODE(status.st_mode)
    return target, mode, os.path.join(directory, f".aiozarr-output~{os.getpid()}")
