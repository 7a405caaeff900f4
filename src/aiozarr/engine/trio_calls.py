"""Calls to the I/O thread from tasks of trio. Nothing here imports trio: it is running already, or not."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from aiozarr.engine.engine import Engine
from aiozarr.engine.private_thread import Callback, CrossThreadCall, IOThread, limited

T = TypeVar("T")


def post_to_trio() -> Callable[[Callable[[], None]], None]:
    """Return a function by which other threads have functions called in the running loop of trio."""
    trio = sys.modules["trio"]
    token = trio.lowlevel.current_trio_token()

    def post(function: Callable[[], None]) -> None:
        with contextlib.suppress(trio.RunFinishedError):
            token.run_sync_soon(function)

    return post


class _TrioCall(CrossThreadCall[T]):
    """A call that a task of trio awaits.

    Attributes:
        outcome: the ended task; None before, and if it was never started.
        failure: the exception of the caller's callback.
        is_ended: whether the call has ended.
        changed: set when the call has ended or a callback has failed.
        ended: set when the call has ended.
    """

    __slots__ = ("_post", "changed", "ended", "failure", "is_ended", "outcome")

    def __init__(self, thread: IOThread, function: Callable[[], Coroutine[Any, Any, T]]) -> None:
        super().__init__(thread, function)
        trio: Any = sys.modules["trio"]
        self._post = post_to_trio()
        self.outcome: asyncio.Task[T] | None = None
        self.failure: Exception | None = None
        self.is_ended = False
        self.changed, self.ended = trio.Event(), trio.Event()

    def completed(self, task: asyncio.Task[T] | None) -> None:
        self.outcome = task
        self._post(self._settle)

    def _settle(self) -> None:
        self.is_ended = True
        self.changed.set()
        self.ended.set()

    def fail(self, error: Exception) -> None:
        """Give the caller the exception of its callback. Runs on the caller's loop."""
        self.failure = error
        self.changed.set()


async def run_from_trio(
    thread: IOThread,
    engine: Engine,
    function: Callable[[Engine], Coroutine[Any, Any, T]],
    timeout: float | None,
    callback: Callback[Any] | None,
) -> T:
    """Await `function(engine)` on the I/O thread, from a task of trio; as `run` does it from asyncio.

    Raises:
        StoreTimeoutError: the operation took more than `timeout` seconds.
        RuntimeError: the I/O thread has ended meanwhile.
    """
    trio: Any = sys.modules["trio"]
    call = _TrioCall(thread, partial(limited, function, engine, timeout))
    if callback is not None:
        callback.fail = call.fail
    thread.mailbox.post(call.begin)
    try:
        await call.changed.wait()
        if call.failure is not None:
            raise call.failure
    except GeneratorExit:
        thread.mailbox.post(call.cancel)
        raise
    except BaseException:
        if not call.is_ended:
            thread.mailbox.post(call.cancel)
            with trio.CancelScope(shield=True):
                await call.ended.wait()
        _retrieve(call.outcome)
        call.outcome = call.failure = None
        raise
    task, call.outcome = call.outcome, None
    if task is None or task.cancelled():
        raise RuntimeError("aiozarr's I/O thread has ended")
    try:
        return task.result()
    finally:
        # The traceback of the error holds this frame, which must not refer back to the error.
        del task


def _retrieve(task: asyncio.Task[Any] | None) -> None:
    """Count the error of a task as retrieved, because another error is raised."""
    if task is not None and not task.cancelled():
        task.exception()
