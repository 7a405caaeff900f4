"""Checks that an operation leaves nothing unfinished: at the server, on the I/O thread, and in the logs."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiozarr.engine import Engine, run
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer


async def unfinished_on_io_thread() -> list[str]:
    """Return descriptions of unfinished work on the I/O thread, or an empty list if all operations have ended."""

    async def look(engine: Engine) -> list[str]:
        tasks = [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        return tasks + unfinished_in(engine)

    return await run(look)


def unfinished_in(engine: Engine) -> list[str]:
    """Return descriptions of requests, chunks and locks that the engine still holds."""
    return [] if engine.idle() else ["the engine is not idle"]


async def wait_for(condition: Callable[[], bool], rounds: int = 500) -> bool:
    """Wait up to 5 seconds for a condition that other threads fulfil, and return whether it holds."""
    for _ in range(rounds):
        if condition():
            return True
        await asyncio.sleep(0.01)
    return condition()


@asynccontextmanager
async def assert_no_leaks(*servers: FaultServer) -> AsyncIterator[None]:
    """Assert that the block leaves no request, task or lock unfinished, and no warning of a loop or a logger."""
    reports: list[Any] = []
    records = _Records()
    logging.getLogger().addHandler(records)

    async def listen(handler: Any) -> None:
        async def on_the_io_thread(engine: Engine) -> None:
            asyncio.get_running_loop().set_exception_handler(handler)

        asyncio.get_running_loop().set_exception_handler(handler)
        await run(on_the_io_thread)

    await listen(lambda loop, context: reports.append(context))
    try:
        yield
        # Without waiting: a caller may rely on the end of an operation as soon as it returns.
        left = await unfinished_on_io_thread()
        assert not left, left
        for server in servers:
            # The server sees a closed connection a moment later.
            assert await wait_for(lambda server=server: server.in_flight == 0), server.requests  # type: ignore[misc]
        gc.collect()
        await unfinished_on_io_thread()  # a turn of the loop, in which finalizers run
    finally:
        await listen(None)
        logging.getLogger().removeHandler(records)
    assert not reports, reports
    assert not records.found, records.found


def cancelling(task: asyncio.Task[Any], number: int) -> spoil.Script:
    """Cancel `task` when the request `number` has arrived."""
    loop = asyncio.get_running_loop()

    def script(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        if request.number == number:
            loop.call_soon_threadsafe(task.cancel)
        return reply

    return script


class _Records(logging.Handler):
    """Collects the warnings and errors of all loggers."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))
