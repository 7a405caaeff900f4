"""What is left under way after an operation: at the server, on the I/O thread, and in the logs."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiozarr.engine import Engine, run
from aiozarr.testing import http_replies as spoil
from aiozarr.testing.http_server import FaultServer


async def left_on_the_io_thread() -> list[str]:
    """Return what is still there of operations; nothing is, where all of them have ended."""

    async def look(engine: Engine) -> list[str]:
        desk = engine.desk
        found = [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        found += [f"flight {token}" for token in desk.flights]
        found += [f"index {token}" for token in desk.index_fetches]
        if desk.local._sources or desk.local._batches:
            found.append(f"{len(desk.local._sources)} callers and {desk.local._batches} batches of blocking stores")
        for name, queue in desk.scheduler._origins.items():
            budget = queue.budget
            held = {
                "requests": budget.in_flight,
                "bytes": budget.bytes_in_flight,
                "waiting": len(queue._waiting),
                "held": int(queue._held is not None),
                "caps": len(budget._caps),
            }
            found += [f"{count} {what} of {name}" for what, count in held.items() if count]
        return found

    return await run(look)


async def wait_for(condition: Callable[[], bool], rounds: int = 500) -> bool:
    """Wait, up to some seconds, for what other threads bring about."""
    for _ in range(rounds):
        if condition():
            return True
        await asyncio.sleep(0.01)
    return condition()


@asynccontextmanager
async def nothing_left(*servers: FaultServer) -> AsyncIterator[None]:
    """Assert that what is done inside leaves no request, task or budget behind, and no complaint of an event loop."""
    complaints: list[Any] = []
    records = _Records()
    logging.getLogger().addHandler(records)

    async def listen(handler: Any) -> None:
        async def on_the_io_thread(engine: Engine) -> None:
            asyncio.get_running_loop().set_exception_handler(handler)

        asyncio.get_running_loop().set_exception_handler(handler)
        await run(on_the_io_thread)

    await listen(lambda loop, context: complaints.append(context))
    try:
        yield
        # Here and now, not some time later: who has been told of the end may rely on it.
        left = await left_on_the_io_thread()
        assert not left, left
        for server in servers:
            # The server needs a moment to see that its client has gone.
            assert await wait_for(lambda server=server: server.in_flight == 0), server.requests  # type: ignore[misc]
        gc.collect()
        await left_on_the_io_thread()  # a round of the loop, in which finalizers have their say
    finally:
        await listen(None)
        logging.getLogger().removeHandler(records)
    assert not complaints, complaints
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
    """Keeps warnings and errors, whoever logs them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))
