"""The number of connections that the process's limit on open files allows."""

from __future__ import annotations

import contextlib
import sys

RESERVED_FILES = 64
"""Files for the rest of the process. Half of the remaining ones are left to it too."""


def open_file_limit() -> int:
    """Return how many connections may be open at once; `sys.maxsize` if the process has no limit on open files."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            return max(8, (soft - RESERVED_FILES) // 2)
    return sys.maxsize
