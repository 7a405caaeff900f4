"""Locks by key, such as the identity of a stored object. A lock exists only while it is held or waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class KeyLocks:
    """Locks by key. Lives on one loop."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, list[None]]] = {}

    @property
    def is_idle(self) -> bool:
        """True if no lock is held."""
        return not self._locks

    def held(self, key: Hashable) -> bool:
        """Return whether a task holds the lock of `key`, or waits for it."""
        return key in self._locks

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the lock of `key`."""
        lock, users = self._locks.setdefault(key, (asyncio.Lock(), []))
        users.append(None)
        try:
            async with lock:
                yield
        finally:
            users.pop()
            if not users:
                del self._locks[key]
