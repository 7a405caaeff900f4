"""A queue for threads in which several lines take turns: a long one does not hold up what stands in another."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """First in, first out within a line; between lines, one item of each in turn. For any threads."""

    def __init__(self) -> None:
        # One entry for each item that may be taken, so that whoever waits need not look at the lines.
        self._there: SimpleQueue[bool] = SimpleQueue()
        self._lock = threading.Lock()
        self._lines: dict[Hashable, deque[T]] = {}
        self._order: deque[Hashable] = deque()

    def put(self, item: T, line: Hashable = None) -> None:
        """Add `item` at the end of its line."""
        with self._lock:
            items = self._lines.get(line)
            if items is None:
                items = self._lines[line] = deque()
                self._order.append(line)
            items.append(item)
        self._there.put(True)

    def get(self) -> T | None:
        """Wait for the next item; None: somebody is to stop."""
        if not self._there.get():
            return None
        with self._lock:
            line = self._order[0]
            items = self._lines[line]
            item = items.popleft()
            if items:
                self._order.rotate(-1)
            else:
                # Whose line it was is not kept by it.
                del self._lines[line], self._order[0]
            return item

    def stop_one(self) -> None:
        """Have one of those who wait stop, once what is there now has been taken."""
        self._there.put(False)
