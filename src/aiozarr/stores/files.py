"""How many connections the process's limit on open files leaves room for."""

from __future__ import annotations

import contextlib
import sys

RESERVE = 64
"""Files of the rest of the process that nothing here knows of; of what remains, half is left to it too."""


def open_file_limit() -> int:
    """Return how many connections there may be; a number that nobody reaches where there is no limit."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            return max(8, (soft - RESERVE) // 2)
    return sys.maxsize
