"""obstore in this process: never used after a fork of a process that used it, and put to rest before the exit."""

from __future__ import annotations

import atexit
import os
import time

from aiozarr.errors import ForkedProcessError

EXIT_PAUSE = 0.05
"""Seconds. obstore's threads let go of Python objects a moment after a call has ended; one that is still at it when the
interpreter goes aborts the process."""


class _Process:
    """Whether the client library was used here, and whether it was used in the process that this one is a fork of."""

    used = False
    parent_used = False


def check_process(url: str) -> None:
    """Note that the client library is used in this process.

    Raises:
        ForkedProcessError: it was used before this process was forked; its threads are not here, so it would hang.
    """
    if _Process.parent_used:
        raise ForkedProcessError(
            "the client library of object stores was used before this process was forked, and cannot be used after "
            "it: start the process with the 'spawn' or 'forkserver' method, or use such stores first in the child",
            store=url,
        )
    if not _Process.used:
        _Process.used = True
        atexit.register(time.sleep, EXIT_PAUSE)


def _after_fork() -> None:
    _Process.parent_used = _Process.parent_used or _Process.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
