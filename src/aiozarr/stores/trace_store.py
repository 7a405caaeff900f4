"""Stores for measurements: one reports every operation to a callback, another adds the latency of a remote store."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from typing_extensions import Buffer

from aiozarr.common.concurrency import PerLoop
from aiozarr.model import ByteRange, Entry
from aiozarr.stores.contract import Keys, Store, byte_view
from aiozarr.stores.wrapper_store import (
    OperationName,
    StoreOperation,
    WrapperStore,
    entries_of,
    transferred_bytes,
)

T = TypeVar("T")

SLICE_SECONDS = 0.01
"""The time for which one operation uses the whole bandwidth, before the next one does."""


class LatencyStore(WrapperStore):
    """Waits `seconds` before each call of the inner store, once per listing.

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
            raise ValueError(f"the latency must be at least 0 seconds, not {seconds}")
        if bytes_per_second is not None and not bytes_per_second > 0:
            raise ValueError(f"the bandwidth must be more than 0 bytes per second, not {bytes_per_second}")
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
    """Bandwidth that operations use in turn, a slice each. Each loop has its own clock, and so its own bandwidth."""

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


_log = logging.getLogger("aiozarr")


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """An operation of a store that has ended.

    Attributes:
        operation: the method's name.
        store: the store's URL.
        key: the key, or the prefix; None if the operation has several keys, or none.
        range: the requested bytes; None for a whole value, and for operations that read nothing.
        bytes: bytes of values that were read or written; 0 if the operation failed.
        entries: number of entries that a listing returned until it ended or was closed; None for other operations.
        started: the running loop's time at the start, in seconds.
        seconds: duration.
        error: type of the exception, `asyncio.CancelledError` included; None if the operation succeeded.
    """

    operation: OperationName
    store: str
    key: str | None
    range: ByteRange | None
    bytes: int
    entries: int | None
    started: float
    seconds: float
    error: type[BaseException] | None


class TraceStore(WrapperStore):
    """Calls `on_event` once for each operation, when it has ended, with a `StoreEvent`.

    An exception of `on_event` is logged (logger `aiozarr`) and has no other effect. `on_event` is called on the loop of
    the operation, for arrays in the I/O thread, so it should be quick. The store can be pickled if `on_event` can: use
    a function of a module, or an object. Closing the store closes the inner store.

    Args:
        store: the store to observe.
        on_event: called with each event.
    """

    def __init__(self, store: Store, on_event: Callable[[StoreEvent], object]) -> None:
        super().__init__(store)
        if not callable(on_event):
            raise TypeError(f"on_event must be callable, not {type(on_event).__name__}")
        self._on_event = on_event

    def _settings(self) -> dict[str, Any]:
        return {"on_event": self._on_event}

    def __repr__(self) -> str:
        return f"TraceStore({self._store!r})"  # on_event may hold secrets

    async def _around(self, operation: StoreOperation, call: Callable[[], Awaitable[T]]) -> T:
        started = _now()
        try:
            result = await call()
        except BaseException as error:
            self._report(operation, started, error=type(error))
            raise
        self._report(operation, started, nbytes=transferred_bytes(operation, result), entries=_count(operation, result))
        return result

    # Derived operations are one event each, by the name that the caller used.

    async def get(self, key: str) -> Buffer | None:
        return await self._around(StoreOperation("get", key), lambda: self._store.get(key))

    async def get_partial_values(self, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]) -> list[Buffer | None]:
        operation = StoreOperation("get_partial_values")
        return await self._around(operation, lambda: self._store.get_partial_values(key_ranges))

    async def exists(self, key: str) -> bool:
        return await self._around(StoreOperation("exists", key), lambda: self._store.exists(key))

    async def set_partial_values(self, key_start_values: Iterable[tuple[str, int, Buffer]]) -> None:
        parts = [*key_start_values]
        nbytes = sum([byte_view(value).nbytes for _, _, value in parts])
        operation = StoreOperation("set_partial_values", bytes_to_write=nbytes)
        await self._around(operation, lambda: self._store.set_partial_values(parts))

    async def list(self) -> Keys:
        return await self._around(StoreOperation("list"), self._store.list)

    async def list_prefix(self, prefix: str) -> Keys:
        return await self._around(StoreOperation("list_prefix", prefix), lambda: self._store.list_prefix(prefix))

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        started, count = _now(), 0
        failed: type[BaseException] | None = None
        try:
            async with entries_of(self._store, prefix) as entries:
                async for entry in entries:
                    count += 1
                    yield entry
        except GeneratorExit:  # the caller closed the listing
            raise
        except BaseException as error:
            failed = type(error)
            raise
        finally:
            self._report(StoreOperation("scan", prefix), started, entries=count, error=failed)

    def _report(
        self,
        operation: StoreOperation,
        started: float,
        *,
        nbytes: int = 0,
        entries: int | None = None,
        error: type[BaseException] | None = None,
    ) -> None:
        name, key, part = operation.name, operation.key, operation.range
        try:
            self._on_event(StoreEvent(name, self.url, key, part, nbytes, entries, started, _now() - started, error))
        except Exception:
            _log.exception("TraceStore: on_event raised")


def _now() -> float:
    return asyncio.get_running_loop().time()


def _count(operation: StoreOperation, result: Any) -> int | None:
    match operation.name:
        case "list" | "list_prefix":
            return len(result)
        case "list_dir":
            return len(result[0]) + len(result[1])
        case _:
            return None
