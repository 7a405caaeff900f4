"""Interrupts an operation at each call of the store, and repeats it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from aiozarr.errors import StoreError
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Action, Call, Delay, LoseResponse, nth

Operation: TypeAlias = Callable[[FakeStore], Awaitable[Any]]
Fault: TypeAlias = Literal["error", "lost response", "cancellation"]
FAULTS: tuple[Fault, ...] = ("error", "lost response", "cancellation")


@dataclass(frozen=True)
class Interruption:
    """An operation that was interrupted at one call, and repeated.

    Attributes:
        name: names the call and the fault.
        between: the objects of the store before the repetition.
        after: the objects after it.
        error: the error of the repetition.
        seen: the result of `look` before the repetition.
    """

    name: str
    between: dict[str, bytes] = field(repr=False)
    after: dict[str, bytes] = field(repr=False)
    error: Exception | None
    seen: Any = field(repr=False, default=None)


def objects(store: FakeStore) -> dict[str, bytes]:
    """Return the objects of a store, without a call of it."""
    keys = asyncio.run(_keys(store))
    return {key: bytes(value.data) for key in keys if (value := store.memory.fetch_now(key)) is not None}


async def _keys(store: FakeStore) -> list[str]:
    return [entry.key async for entry in store.memory.scan()]


def undisturbed(begin: dict[str, bytes], operation: Operation) -> tuple[dict[str, bytes], int]:
    """Return the objects that the operation leaves, and the number of its calls."""
    store = FakeStore(begin, latency=0)
    asyncio.run(_run(operation, store))
    return objects(store), store.count


def interruptions(
    begin: dict[str, bytes],
    operation: Operation,
    repetition: Operation | None = None,
    look: Callable[[FakeStore], Awaitable[Any]] | None = None,
) -> Iterator[Interruption]:
    """Interrupt an operation at each of its calls by each fault, and repeat it with a store that works again.

    Args:
        begin: the objects before it.
        operation: the operation.
        repetition: how it is repeated, if not by itself.
        look: reads the store before the repetition.
    """
    _, count = undisturbed(begin, operation)
    for fault in FAULTS:
        for number in range(1, count + 1):
            yield _interrupt(begin, operation, repetition or operation, look, number, fault)


def _interrupt(
    begin: dict[str, bytes],
    operation: Operation,
    repetition: Operation,
    look: Callable[[FakeStore], Awaitable[Any]] | None,
    number: int,
    fault: Fault,
) -> Interruption:
    store = FakeStore(begin, latency=0)
    asyncio.run(_run_interrupted(operation, store, number, fault))
    call = store.calls[number - 1] if len(store.calls) >= number else None
    between = objects(store)
    seen = None if look is None else asyncio.run(_run(look, store))
    error = None
    try:
        asyncio.run(_run(repetition, store))
    except Exception as raised:
        error = raised
    return Interruption(f"{fault} at {number}: {call}", between, objects(store), error, seen)


async def _run_interrupted(operation: Operation, store: FakeStore, number: int, fault: Fault) -> None:
    task, loop = asyncio.ensure_future(_run(operation, store)), asyncio.get_running_loop()
    broken = StoreError("the disk is broken")

    def cancel(call: Call) -> Action:
        if call.number != number:
            return None
        loop.call_soon_threadsafe(task.cancel)
        return Delay(60)  # ended by the cancellation

    store.faults = {"error": nth(number, broken), "lost response": nth(number, LoseResponse(broken))}.get(fault, cancel)
    with suppress(Exception, asyncio.CancelledError):
        await task
    store.faults = None


async def _run(operation: Operation, store: FakeStore) -> Any:
    return await operation(store)
