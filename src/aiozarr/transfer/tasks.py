"""Several coroutines at once: the first error cancels the rest, and is raised as it is once they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any


async def together(coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all of `coroutines`."""
    failed: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in coroutines:
                group.create_task(coroutine)
    except BaseExceptionGroup as errors:
        failed = errors.exceptions[0]
    if failed is not None:
        # Outside of the handler: the error keeps its own cause and does not drag the group along.
        raise failed
