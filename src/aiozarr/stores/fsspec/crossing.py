"""From the loop that calls to the loop that a file system lives on: the one rule about loops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from aiozarr.errors import StoreError

T = TypeVar("T")


async def cross(there: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine that `make` returns on the loop `there`, and return its result here.

    A cancellation crosses over and is awaited: when it is raised here, nothing is under way there any more.

    Raises:
        StoreError: the loop `there` has ended, or somebody there has cancelled the work.
    """
    here = asyncio.get_running_loop()
    if here is there:
        return await make()
    crossing = _Crossing(there, here, make)
    try:
        there.call_soon_threadsafe(crossing.begin)
    except RuntimeError as error:
        raise StoreError("the loop of the file system has ended") from error
    try:
        await crossing.answer
    except BaseException as stop:
        with contextlib.suppress(RuntimeError):  # the loop there has ended meanwhile, and with it the work
            there.call_soon_threadsafe(crossing.cancel)
            while not crossing.ended and not isinstance(stop, GeneratorExit):
                crossing.answer = here.create_future()
                with contextlib.suppress(asyncio.CancelledError):
                    await crossing.answer
        raise
    task = crossing.task
    if task is None or task.cancelled():
        raise StoreError("the request was cancelled on the loop of the file system", retryable=True)
    return task.result()


class _Crossing(Generic[T]):
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
        """There. What is posted arrives in order, so a cancellation comes after this."""
        self.task = self._there.create_task(self._make())
        self.task.add_done_callback(self._tell)

    def cancel(self) -> None:
        """There."""
        if self.task is not None:
            self.task.cancel()

    def _tell(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # it counts as seen, also where nobody waits for it any more
        with contextlib.suppress(RuntimeError):  # the loop of a caller that did not wait may be closed
            self._here.call_soon_threadsafe(self._arrive)

    def _arrive(self) -> None:
        self.ended = True
        if not self.answer.done():
            self.answer.set_result(None)
