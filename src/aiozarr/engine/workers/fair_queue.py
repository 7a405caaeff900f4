"""A queue for threads that is fair between sub-queues: a long sub-queue does not delay the items of a short one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """First in, first out within a sub-queue; round-robin between sub-queues. Safe for any threads."""

    def __init__(self) -> None:
        """Create an empty queue."""
        # One entry for each item: a waiting thread does not need to look at the sub-queues.
        self._available: SimpleQueue[bool] = SimpleQueue()
        self._lock = threading.Lock()
        self._items: dict[Hashable, deque[T]] = {}
        self._order: deque[Hashable] = deque()

    def put(self, item: T, key: Hashable = None) -> None:
        """Add `item` at the end of the sub-queue `key`."""
        with self._lock:
            items = self._items.get(key)
            if items is None:
                items = self._items[key] = deque()
                self._order.append(key)
            items.append(item)
        self._available.put(True)

    def get(self) -> T | None:
        """Wait for the next item.

        Returns:
            The item, or None if this thread is to stop.
        """
        if not self._available.get():
            return None
        with self._lock:
            key = self._order[0]
            items = self._items[key]
            item = items.popleft()
            if items:
                self._order.rotate(-1)
            else:
                # The key may refer to an operation and its arrays.
                del self._items[key], self._order[0]
            return item

    def stop_one(self) -> None:
        """Stop one of the waiting threads, after all present items have been taken."""
        self._available.put(False)
