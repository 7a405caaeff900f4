"""Numbers that no two callers get, in any thread."""

from __future__ import annotations

import itertools

from aiozarr.fork_safe_lock import ForkSafeLock


class SerialNumbers:
    """The numbers 1, 2, 3 and so on, each of them once. In free-threaded builds `itertools.count` may repeat some."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._lock = ForkSafeLock()

    def next(self) -> int:
        """Return the next number."""
        with self._lock:
            return next(self._numbers)
