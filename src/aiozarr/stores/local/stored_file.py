"""A stored value that is read in pieces, all of one version; and the errors of a local file system."""

from __future__ import annotations

import errno
import os
from base64 import b64encode

from aiozarr.errors import ChangedError, InvalidKeyError, PermissionDeniedError, StoreError
from aiozarr.model import ByteRange, Version
from aiozarr.stores.local.atomic_write import version_of

# A name that cannot exist on this file system, so no value can be stored under it.
IMPOSSIBLE_NAME = frozenset({errno.ENAMETOOLONG, errno.EILSEQ})
# Errors for no file: missing, below a file, a dangling link, a directory, or a name that cannot exist.
MISSING = IMPOSSIBLE_NAME | {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_TRANSIENT = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ESTALE, errno.ETIMEDOUT, errno.ENOMEM})


def encode_path(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a local path.

    Raises:
        InvalidKeyError: it has a lone surrogate.
    """
    try:
        return os.fsencode(path)
    except UnicodeEncodeError:
        raise InvalidKeyError(f"the path {os.fspath(path)!a} has a lone surrogate, so no file has this name") from None


def absolute_path(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a local path, made absolute.

    Raises:
        InvalidKeyError: it has a lone surrogate.
        StoreError: it is relative, and the working directory has been deleted.
    """
    try:
        return os.path.abspath(encode_path(path))
    except FileNotFoundError:
        raise StoreError(
            f"the path {os.fspath(path)!r} is relative, and the working directory has been deleted"
        ) from None


def store_error(
    error: OSError, doing: str, *, store: str, key: str | None = None, range: ByteRange | None = None
) -> StoreError:
    """Return the typed error for `error`, raised while `doing` ("reading", "writing", ...)."""
    kind = PermissionDeniedError if error.errno in _DENIED else StoreError
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    reason = os.strerror(error.errno) if error.errno else str(error)
    return kind(
        f"{doing} failed: {reason} [{name}]", store=store, key=key, range=range, retryable=error.errno in _TRANSIENT
    )


READ_BYTES = 256 << 10
"""Bytes that are read, and then hashed, at once, while they are still in the processor's cache."""


class StoredFile:
    """An open file. Its methods may be called from any thread; all raise `StoreError` if the file cannot be read.

    A file that is replaced stays readable as it was. `check` detects a file that is changed in place.

    Attributes:
        size: its size in bytes when it was opened.
        version: its version then.
    """

    def __init__(self, descriptor: int, status: os.stat_result, store: str, key: str) -> None:
        self.size = status.st_size
        self.version: Version = version_of(status)
        self._descriptor = descriptor
        self._store = store
        self._key = key

    def read_into(self, start: int, memory: memoryview) -> None:
        """Fill `memory` with the bytes from `start`.

        Raises:
            ChangedError: the file has become shorter.
        """
        done = 0
        while done < len(memory):
            try:
                count = os.preadv(self._descriptor, [memory[done:]], start + done)
            except OSError as error:
                raise store_error(error, "reading", store=self._store, key=self._key) from error
            if not count:
                raise self._changed()
            done += count

    def check(self) -> None:
        """Check that the file has not been changed since it was opened.

        Raises:
            ChangedError: it has been.
        """
        try:
            version = version_of(os.fstat(self._descriptor))
        except OSError as error:
            raise store_error(error, "reading", store=self._store, key=self._key) from error
        if version != self.version:
            raise self._changed()

    def crc32c(self, start: int, nbytes: int) -> str:
        """Return the CRC32C of a range as object stores write it: big-endian, in base64."""
        # Imported here because a store that is only read does not need it.
        import google_crc32c

        value = 0
        for at in range(start, start + nbytes, READ_BYTES):
            value = google_crc32c.extend(value, self._read(at, min(READ_BYTES, start + nbytes - at)))
        return b64encode(value.to_bytes(4, "big")).decode()

    def md5(self) -> str:
        """Return the MD5 of the whole file, in hexadecimal digits."""
        from hashlib import md5

        digest = md5(usedforsecurity=False)
        for at in range(0, self.size, READ_BYTES):
            digest.update(self._read(at, min(READ_BYTES, self.size - at)))
        return digest.hexdigest()

    def _read(self, start: int, nbytes: int) -> bytes:
        try:
            data = os.pread(self._descriptor, nbytes, start)
        except OSError as error:
            raise store_error(error, "reading", store=self._store, key=self._key) from error
        if len(data) < nbytes:
            raise self._changed()
        return data

    def _changed(self) -> ChangedError:
        return ChangedError("the file was changed while it was read", store=self._store, key=self._key)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)
