"""A store that is as slow as one far away."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from aiozarr.model import Entry
from aiozarr.stores.contract import Store
from aiozarr.stores.lock import Lock
from aiozarr.stores.wrappers.base import Operation, WrapperStore, entries_of, moved

T = TypeVar("T")

TURN_SECONDS = 0.01
"""How long one operation has the line to itself, where several share it."""


class LatencyStore(WrapperStore):
    """Waits `seconds` in every operation, in a listing once, before the inner store is asked.

    With `bytes_per_second`, all operations of one loop share a line of that bandwidth: what is written passes it before
    the inner store gets it, what is read afterwards. Time is that of the running loop, so that tests in virtual time
    (`aiozarr.testing.virtual_time`) do not wait. Closing the store closes the inner store.

    Args:
        store: the store to slow down.
        seconds: the latency, at least 0.
        bytes_per_second: the bandwidth, more than 0; None: without limit.

    Raises:
        ValueError: the latency or the bandwidth is out of bounds.
    """

    def __init__(self, store: Store, seconds: float, *, bytes_per_second: float | None = None) -> None:
        super().__init__(store)
        if not 0 <= seconds < math.inf:
            raise ValueError(f"a latency is at least 0 seconds, not {seconds}")
        if bytes_per_second is not None and not bytes_per_second > 0:
            raise ValueError(f"a bandwidth is more than 0 bytes per second, not {bytes_per_second}")
        self._seconds = seconds
        self._bytes_per_second = bytes_per_second
        self._line = _Line()

    def _settings(self) -> dict[str, Any]:
        return {"seconds": self._seconds, "bytes_per_second": self._bytes_per_second}

    async def _carry(self, operation: Operation, call: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(self._seconds)
        await self._pass(operation.sent)
        result = await call()
        if not operation.sent:
            await self._pass(moved(operation, result))
        return result

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        await asyncio.sleep(self._seconds)
        async with entries_of(self._store, prefix) as entries:
            async for entry in entries:
                yield entry

    async def _pass(self, nbytes: int) -> None:
        if self._bytes_per_second is not None and nbytes:
            await self._line.use(nbytes / self._bytes_per_second)


class _Line:
    """What one operation at a time can use; they take turns. Each loop has a clock, and so a line, of its own."""

    def __init__(self) -> None:
        self._free: WeakKeyDictionary[asyncio.AbstractEventLoop, float] = WeakKeyDictionary()
        self._lock = Lock()

    async def use(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        turns = max(1, math.ceil(seconds / TURN_SECONDS))
        for _ in range(turns):
            now = loop.time()
            with self._lock:
                until = self._free[loop] = max(now, self._free.get(loop, now)) + seconds / turns
            await asyncio.sleep(until - now)
