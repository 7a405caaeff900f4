"""Blocking calls that one thread makes together: a hand-over costs five times as much as a small read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from aiozarr.engine import Engine
from aiozarr.stores.blocking import start_in_thread

T = TypeVar("T")

MAX_THREADS = 4
"""Threads that share the calls of one turn: the disk of another machine answers several at once."""
MIN_CALLS = 16
"""Calls that are worth a thread of their own: small reads of a disk at hand take 0.1 ms together."""


class CallBatches:
    """Collects the calls that tasks make in two turns of the loop: a task's own, and those of the tasks that it starts.

    Lives on the I/O thread.
    """

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    async def call(self, function: Callable[[], T]) -> T:
        """Return `function()`, run in a thread. A cancellation does not await it, so it must have no side effects."""
        loop = asyncio.get_running_loop()
        if not self._calls:
            loop.call_soon(loop.call_soon, self._start)
        future: asyncio.Future[T] = loop.create_future()
        self._calls.append((function, future))
        return await future

    def _start(self) -> None:
        calls, self._calls = self._calls, []
        length = max(MIN_CALLS, -(-len(calls) // MAX_THREADS))
        for first in range(0, len(calls), length):
            part = calls[first : first + length]
            run = partial(_run, [function for function, _ in part])
            started = start_in_thread(run)
            if started is None:  # the interpreter is exiting
                _deliver(part, run())
            else:
                started.add_done_callback(partial(_ended, part))


def _run(functions: Sequence[Callable[[], Any]]) -> list[tuple[Any, Exception | None]]:
    outcomes: list[tuple[Any, Exception | None]] = []
    for function in functions:
        try:
            outcomes.append((function(), None))
        except Exception as error:
            outcomes.append((None, error))
    return outcomes


def _ended(calls: Sequence[tuple[object, asyncio.Future[Any]]], done: asyncio.Future[Any]) -> None:
    if not done.cancelled():
        _deliver(calls, done.result())
        return
    for _, future in calls:  # the threads were shut down
        future.cancel()


def _deliver(calls: Sequence[tuple[object, asyncio.Future[Any]]], outcomes: Sequence[tuple[Any, Any]]) -> None:
    for (_, future), (result, error) in zip(calls, outcomes, strict=True):
        if future.done():
            continue  # its task was cancelled meanwhile
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


_batches: WeakKeyDictionary[Engine, CallBatches] = WeakKeyDictionary()


def calls_of(engine: Engine) -> CallBatches:
    """Return the batches of an engine."""
    found = _batches.get(engine)
    if found is None:
        found = _batches[engine] = CallBatches()
    return found
