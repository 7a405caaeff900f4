"""Translates errors of a local file system."""

from __future__ import annotations

import errno
import os

from aiozarr.errors import PermissionDeniedError, StoreError
from aiozarr.model import ByteRange

# A name that cannot exist on this file system: no value is or can be stored under it.
IMPOSSIBLE_NAME = frozenset({errno.ENAMETOOLONG, errno.EILSEQ})
# No file: missing, below a file, a dangling link, a directory, or a name that cannot exist.
MISSING = IMPOSSIBLE_NAME | {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_TRANSIENT = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ESTALE, errno.ETIMEDOUT, errno.ENOMEM})


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
