"""Several coroutines at once: the first error cancels the rest, and is raised as it is once they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence, Sized
from typing import Any, TypeVar

T = TypeVar("T")
A = TypeVar("A")


async def together(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all of `coroutines` and return their results in order."""
    failed: BaseException | None = None
    tasks: list[asyncio.Task[T]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    except BaseExceptionGroup as errors:
        failed = errors.exceptions[0]
    if failed is not None:
        # Outside of the handler, so that the error keeps its own cause and does not drag the group along.
        try:
            raise failed
        finally:
            # Its traceback holds this frame: no way back may lead from here to the error.
            failed = None
            tasks.clear()
    return [task.result() for task in tasks]


async def each_bounded(function: Callable[[A], Awaitable[object]], items: Iterable[A], *, width: int = 64) -> None:
    """Await `function(item)` for all `items`; `width` workers pull from the iterable, lazily."""
    iterator = iter(items)

    async def work() -> None:
        for item in iterator:
            await function(item)

    await together(work() for _ in range(min(width, len(items)) if isinstance(items, Sized) else width))


async def map_bounded(function: Callable[[A], Awaitable[T]], items: Sequence[A], *, width: int = 64) -> list[T]:
    """Return `await function(item)` for all `items`, in order, at most `width` of them at a time."""
    results: dict[int, T] = {}

    async def keep(number: int) -> None:
        results[number] = await function(items[number])

    await each_bounded(keep, range(len(items)), width=width)
    return [results[number] for number in range(len(items))]
