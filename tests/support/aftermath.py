"""What is left under way after an operation: at the server, on the I/O thread, and in the logs."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiozarr.engine import Engine, run
from aiozarr.testing.http_server import FaultServer


async def left_on_the_io_thread() -> list[str]:
    """Return what is still there of operations; nothing is, where all of them have ended."""

    async def look(engine: Engine) -> list[str]:
        desk = engine.desk
        found = [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        found += [f"flight {token}" for token in desk.flights]
        found += [f"index {token}" for token in desk.index_fetches]
        queues = {"local": desk.local, **{str(key): queue for key, queue in desk.scheduler._origins.items()}}
        for name, queue in queues.items():
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
        assert await left_on_the_io_thread() == []
        for server in servers:
            # The server needs a moment to see that its client has gone.
            assert await wait_for(lambda server=server: server.in_flight == 0), server.requests  # type: ignore[misc]
        gc.collect()
        await left_on_the_io_thread()  # a round of the loop, in which finalizers have their say
    finally:
        await listen(None)
        logging.getLogger().removeHandler(records)
    assert complaints == []
    assert records.found == []


class _Records(logging.Handler):
    """Keeps warnings and errors, whoever logs them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(self.format(record))
