"""Runs a coroutine on the loop of a file system for a caller on another loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from aiozarr.common.concurrency import retrieve_error
from aiozarr.errors import StoreError

T = TypeVar("T")


async def run_on_loop(there: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine that `make` returns on the loop `there`, and return its result here.

    A cancellation is passed on and waited for: when it is raised here, the coroutine has ended.

    Raises:
        StoreError: the loop `there` has ended, or the coroutine was cancelled there.
    """
    here = asyncio.get_running_loop()
    if here is there:
        return await make()
    call = _LoopCall(there, here, make)
    try:
        there.call_soon_threadsafe(call.begin)
    except RuntimeError as error:
        raise StoreError("the loop of the file system has ended") from error
    try:
        await call.answer
    except BaseException as stop:
        with contextlib.suppress(RuntimeError):  # the loop there has ended, and with it the coroutine
            there.call_soon_threadsafe(call.cancel)
            while not call.ended and not isinstance(stop, GeneratorExit):
                call.answer = here.create_future()
                with contextlib.suppress(asyncio.CancelledError):
                    await call.answer
        raise
    task = call.task
    if task is None or task.cancelled():
        raise StoreError("the request was cancelled on the loop of the file system", retryable=True)
    return task.result()


class _LoopCall(Generic[T]):
    def __init__(
        self,
        there: asyncio.AbstractEventLoop,
        here: asyncio.AbstractEventLoop,
        make: Callable[[], Coroutine[Any, Any, T]],
    ) -> None:
        self._there, self._here, self._make = there, here, make
        self.task: asyncio.Task[T] | None = None
        self.ended = False
        self.answer: asyncio.Future[None] = here.create_future()

    def begin(self) -> None:
        """Run on the loop `there`, before `cancel`: callbacks run in the order in which they were posted."""
        self.task = self._there.create_task(self._make())
        self.task.add_done_callback(self._report_end)

    def cancel(self) -> None:
        """Run on the loop `there`."""
        if self.task is not None:
            self.task.cancel()

    def _report_end(self, task: asyncio.Task[T]) -> None:
        retrieve_error(task)  # the caller may have been cancelled
        with contextlib.suppress(RuntimeError):  # the loop of a cancelled caller may be closed
            self._here.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        self.ended = True
        if not self.answer.done():
            self.answer.set_result(None)
