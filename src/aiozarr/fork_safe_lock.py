"""A lock that is free in a forked process, even if a thread of the parent held it."""

from __future__ import annotations

import os
import threading
from weakref import WeakSet


class ForkSafeLock:
    """A `threading.Lock` for `with`, replaced in a forked child: the thread that held it does not exist there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Replace the lock by a free one."""
        self._lock = threading.Lock()


_locks: WeakSet[ForkSafeLock] = WeakSet()


def _after_fork() -> None:
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
