"""A store that tells of every operation how it went."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from aiozarr.model import ByteRange, Entry
from aiozarr.stores.contract import Store
from aiozarr.stores.wrappers.base import Operation, OperationName, WrapperStore, entries_of, moved

T = TypeVar("T")

_log = logging.getLogger("aiozarr")


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """One operation of a store has ended.

    Attributes:
        operation: the method's name.
        store: the store's URL.
        key: the key, or the prefix; None where the operation has several keys, or none.
        range: the bytes that were asked for; None for a whole value, and for what is no read.
        bytes: bytes of values that came or were stored; 0 where it failed.
        entries: how many keys a listing brought, also where it was left early; None for all else.
        started: the running loop's time when it began, in seconds.
        seconds: how long it took.
        error: the type of what it ended with, `asyncio.CancelledError` included; None where it succeeded.
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

    What `on_event` raises is logged (logger `aiozarr`) and changes nothing. It is called on the loop of the operation,
    which for arrays is that of the I/O thread, so it should be quick. The store pickles where `on_event` does: give it
    a function of a module, or an object. Closing the store closes the inner store.

    Args:
        store: the store to watch.
        on_event: called with each event.
    """

    def __init__(self, store: Store, on_event: Callable[[StoreEvent], object]) -> None:
        super().__init__(store)
        if not callable(on_event):
            raise TypeError(f"on_event is called with each event; {type(on_event).__name__} cannot be")
        self._on_event = on_event

    def _settings(self) -> dict[str, Any]:
        return {"on_event": self._on_event}

    def __repr__(self) -> str:
        return f"TraceStore({self._store!r})"  # whatever on_event holds may be secret

    async def _carry(self, operation: Operation, call: Callable[[], Awaitable[T]]) -> T:
        started = _now()
        try:
            result = await call()
        except BaseException as error:
            self._tell(operation, started, error=type(error))
            raise
        self._tell(operation, started, nbytes=moved(operation, result), entries=_count(operation, result))
        return result

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        started, count = _now(), 0
        failed: type[BaseException] | None = None
        try:
            async with entries_of(self._store, prefix) as entries:
                async for entry in entries:
                    count += 1
                    yield entry
        except GeneratorExit:  # the reader has seen enough
            raise
        except BaseException as error:
            failed = type(error)
            raise
        finally:
            self._tell(Operation("scan", prefix), started, entries=count, error=failed)

    def _tell(
        self,
        operation: Operation,
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


def _count(operation: Operation, result: Any) -> int | None:
    match operation.name:
        case "list" | "list_prefix":
            return len(result)
        case "list_dir":
            return len(result[0]) + len(result[1])
        case _:
            return None
