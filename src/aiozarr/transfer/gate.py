"""Bounds the bytes that a copy holds in memory: objects enter in order, as far as they fit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ByteGate:
    """At most `limit` bytes are inside at a time. Lives on one loop.

    Who waits longest enters next, so that a large object is not kept out by small ones for ever; one that is larger
    than the limit enters alone.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Be inside with `size` bytes."""
        await self._enter(size)
        try:
            yield
        finally:
            self._leave(size)

    async def _enter(self, size: int) -> None:
        if not self._waiting and self._fits(size):
            self.held += size
            return
        waiter = (size, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            await waiter[1]
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                self._admit()
            else:
                # It was admitted in the same turn of the loop.
                self._leave(size)
            raise

    def _leave(self, size: int) -> None:
        self.held -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, future = self._waiting.popleft()
            self.held += size
            if not future.done():
                future.set_result(None)

    def _fits(self, size: int) -> bool:
        return self.held <= 0 or self.held + size <= self.limit
