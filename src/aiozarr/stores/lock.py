"""A lock that a forked process finds open, whoever held it in the parent."""

from __future__ import annotations

import os
import threading
from types import TracebackType
from weakref import WeakSet


class Lock:
    """A `threading.Lock` for `with`, made anew in a forked child: a thread that held it does not exist there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Open the lock for a process in which nobody holds it."""
        self._lock = threading.Lock()


_locks: WeakSet[Lock] = WeakSet()


def _after_fork() -> None:
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
