"""A store with the latency and the bandwidth of a remote one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from aiozarr.common.concurrency import PerLoop
from aiozarr.model import Entry
from aiozarr.stores.contract import Store
from aiozarr.stores.wrappers.wrapper_store import StoreOperation, WrapperStore, entries_of, transferred_bytes

T = TypeVar("T")

SLICE_SECONDS = 0.01
"""An operation uses the bandwidth alone for this long, then the others have their turn."""


class LatencyStore(WrapperStore):
    """Waits `seconds` in every operation, once per listing, before it calls the inner store.

    With `bytes_per_second`, all operations of one loop share this bandwidth. Writes use it before the inner store is
    called, reads after. The time is the running loop's, so tests in virtual time (`aiozarr.testing.virtual_time`) do
    not wait. Closing the store closes the inner store.

    Args:
        store: the store to slow down.
        seconds: the latency, at least 0.
        bytes_per_second: the bandwidth, more than 0, or None for no limit.

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
        self._bandwidth = _Bandwidth()

    def _settings(self) -> dict[str, Any]:
        return {"seconds": self._seconds, "bytes_per_second": self._bytes_per_second}

    async def _around(self, operation: StoreOperation, call: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(self._seconds)
        await self._transfer(operation.bytes_to_write)
        result = await call()
        if not operation.bytes_to_write:
            await self._transfer(transferred_bytes(operation, result))
        return result

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        await asyncio.sleep(self._seconds)
        async with entries_of(self._store, prefix) as entries:
            async for entry in entries:
                yield entry

    async def _transfer(self, nbytes: int) -> None:
        if self._bytes_per_second is not None and nbytes:
            await self._bandwidth.use(nbytes / self._bytes_per_second)


class _Bandwidth:
    """Bandwidth that operations use in turn, a slice each. Each loop has a clock, and so a bandwidth, of its own."""

    def __init__(self) -> None:
        # The time from which on the bandwidth of a loop is free.
        self._free = PerLoop(lambda loop: [loop.time()])

    async def use(self, seconds: float) -> None:
        loop, free = asyncio.get_running_loop(), self._free.get()
        slices = max(1, math.ceil(seconds / SLICE_SECONDS))
        for _ in range(slices):
            now = loop.time()
            free[0] = until = max(now, free[0]) + seconds / slices
            await asyncio.sleep(until - now)
