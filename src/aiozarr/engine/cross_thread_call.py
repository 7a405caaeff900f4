"""One call to the I/O thread: a task there, which its caller may cancel, and values on their way back."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, Generic, TypeVar

from aiozarr.engine.engine import Engine
from aiozarr.engine.private_thread import IOThread
from aiozarr.errors import StoreTimeoutError

T = TypeVar("T")


class CrossThreadCall(ABC, Generic[T]):
    """One call from another thread: a task on the I/O thread, in the context of the caller."""

    __slots__ = ("_cancelled", "_context", "_task", "_thread")

    def __init__(self, thread: IOThread) -> None:
        self._thread = thread
        # The mailbox is emptied in the context of the first caller of a burst.
        self._context = copy_context()
        self._task: asyncio.Task[T] | None = None
        self._cancelled = False

    @abstractmethod
    def coroutine(self) -> Coroutine[Any, Any, T]:
        """Return the work, as a new coroutine. Runs on the I/O thread."""

    @abstractmethod
    def answer(self, task: asyncio.Task[T] | None) -> None:
        """Pass the outcome to the caller; None: never started. Runs on the I/O thread."""

    def begin(self) -> None:
        """Runs on the I/O thread."""
        if not self._cancelled:
            self._task = self._thread.loop.create_task(self.coroutine(), context=self._context)
            self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """Runs on the I/O thread."""
        if self._task is not None:
            self._task.cancel()
        elif not self._cancelled:
            # Never started: Ctrl-C came before the call was posted.
            self._cancelled = True
            self.answer(None)

    def _ended(self, task: asyncio.Task[T]) -> None:
        # The traceback of its error may still hold this object.
        self._task, self._cancelled = None, True
        if not (self._thread.exiting and task.cancelled()):
            self.answer(task)


def limited(
    function: Callable[[Engine], Coroutine[Any, Any, T]], engine: Engine, timeout: float | None
) -> Coroutine[Any, Any, T]:
    """Return `function(engine)`, which runs for at most `timeout` seconds.

    Raises, when it is awaited:
        StoreTimeoutError: it took longer.
    """
    return function(engine) if timeout is None else _limited(function, engine, timeout)


async def _limited(function: Callable[[Engine], Coroutine[Any, Any, T]], engine: Engine, timeout: float) -> T:
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await function(engine)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise StoreTimeoutError(
            f"the operation took more than {timeout} seconds (Settings.timeout)", elapsed=timeout
        ) from error.with_traceback(None)
    finally:
        # `limit` holds the task, which ends with the error. No frame of the error may hold `limit`.
        del limit


class Callback(Generic[T]):
    """A caller's function, which the I/O thread calls in the caller's loop or thread, with the latest value only.

    Attributes:
        fail: called there with the exception of the function, if it raises one.
    """

    def __init__(self, function: Callable[[T], object], post: Callable[[Callable[[], None]], object]) -> None:
        self._function = function
        self._post = post
        self._values: deque[T] = deque(maxlen=1)
        self.fail: Callable[[Exception], None] | None = None

    def __call__(self, value: T) -> None:
        waiting = bool(self._values)
        self._values.append(value)
        if not waiting:
            self._post(self._deliver)

    def _deliver(self) -> None:
        # An earlier delivery may have taken a later value.
        if not self._values:
            return
        try:
            self._function(self._values.pop())
        except Exception as error:
            if self.fail is None:
                raise
            self.fail(error)
