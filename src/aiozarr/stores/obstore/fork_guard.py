"""Refuses obstore in a child that was forked after obstore was used, and waits for its threads at exit."""

from __future__ import annotations

import atexit
import os
import time

from aiozarr.errors import ForkedProcessError

EXIT_PAUSE = 0.05
"""Seconds. obstore's threads release Python objects shortly after a call has ended. A thread that does so while the
interpreter shuts down aborts the process."""


class _Usage:
    """Whether obstore was used in this process, and whether in the parent before the fork."""

    used = False
    parent_used = False


def check_fork(url: str) -> None:
    """Record that obstore is used in this process.

    Raises:
        ForkedProcessError: it was used before this process was forked. Its threads do not exist here, so it would hang.
    """
    if _Usage.parent_used:
        raise ForkedProcessError(
            "the client library of object stores was used before this process was forked, and cannot be used after "
            "it: start the process with the 'spawn' or 'forkserver' method, or use such stores first in the child",
            store=url,
        )
    if not _Usage.used:
        _Usage.used = True
        atexit.register(time.sleep, EXIT_PAUSE)


def _after_fork() -> None:
    _Usage.parent_used = _Usage.parent_used or _Usage.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
