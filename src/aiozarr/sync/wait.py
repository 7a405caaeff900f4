"""The bridge that every blocking name goes over: a coroutine runs on the I/O thread while the calling thread waits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import copy_context
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from aiozarr.engine import Progress, callback_here, run_blocking

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
N = TypeVar("N")

ProgressCallback = Callable[[Progress], object]


def wait(
    function: Callable[[Callable[[Progress], None] | None], Coroutine[Any, Any, T]],
    progress: ProgressCallback | None = None,
) -> T:
    """Run the coroutine `function(callback)` on the I/O thread and return its result.

    It runs in the caller's context, so that `record()` counts it; `callback` calls `progress` in this thread.
    """
    context = copy_context()

    async def call() -> T:
        callback = callback_here(progress)
        return await asyncio.get_running_loop().create_task(function(callback), context=context)

    return run_blocking(call)


def blocking(function: Callable[P, Coroutine[Any, Any, A]], wrap: Callable[[A], B]) -> Callable[P, B]:
    """Return the blocking twin of a coroutine function; `wrap` makes its result one of this package's classes."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> B:
        return wrap(wait(lambda _: function(*args, **kwargs)))

    return call


def method(
    function: Callable[Concatenate[N, P], Coroutine[Any, Any, A]], wrap: Callable[[A], B]
) -> Callable[Concatenate[Any, P], B]:
    """Return the blocking twin of a coroutine method, for a class that holds the asynchronous object as `_async`."""

    @wraps(function)
    def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> B:
        return wrap(wait(lambda _: function(self._async, *args, **kwargs)))

    return cast("Callable[Concatenate[Any, P], B]", call)


def same(value: A) -> A:
    """Return `value`: for results that need no wrapping."""
    return value


def iterate(items: AsyncGenerator[A, None], wrap: Callable[[A], B]) -> Generator[B, None, None]:
    """Iterate over an asynchronous generator; leaving early closes it, and waits until nothing is under way."""
    end = object()

    async def step(_: object) -> Any:
        return await anext(items, end)

    async def close(_: object) -> None:
        await items.aclose()

    try:
        while (item := wait(step)) is not end:
            yield wrap(item)
    finally:
        # At the interpreter's exit the I/O thread has ended already, and has closed what was open.
        if not sys.is_finalizing():
            wait(close)
