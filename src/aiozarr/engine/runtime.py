"""Calls from the loops and threads of callers to the I/O thread. A cancellation is passed on, and its end awaited."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import partial
from queue import Empty, SimpleQueue
from time import sleep
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from aiozarr.common.concurrency import checkpoint, is_trio_running, take_turn, wait_uncancelled
from aiozarr.engine.engine import Engine
from aiozarr.engine.private_thread import (
    Callback,
    CrossThreadCall,
    IOThread,
    current_engine,
    io_thread,
    limited,
    mailbox_of,
    report_error,
)
from aiozarr.errors import StoreError
from aiozarr.schedule.requests import retry_delay
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.engine.read import Read

T = TypeVar("T")
DirectRead: TypeAlias = "tuple[Read, Callable[[], T]]"

SIGNAL_POLL_SECONDS = 0.5
"""A waiting thread handles Ctrl-C at most this much later."""


class _AwaitedCall(CrossThreadCall[T]):
    """A call that a task of another loop awaits. It is a single object, because small reads are numerous.

    Attributes:
        future: the outcome, on the caller's loop.
        is_settled: whether the outcome has arrived there.
        end: set when it arrives, for a caller that was cancelled meanwhile.
    """

    __slots__ = ("_ended_task", "_mailbox", "end", "future", "is_settled")

    def __init__(
        self, thread: IOThread, loop: asyncio.AbstractEventLoop, function: Callable[[], Coroutine[Any, Any, T]]
    ) -> None:
        super().__init__(thread, function)
        self._mailbox = mailbox_of(loop)
        self._ended_task: asyncio.Task[T] | None = None
        self.future: asyncio.Future[T] = loop.create_future()
        self.is_settled = False
        self.end: asyncio.Future[None] | None = None

    def completed(self, task: asyncio.Task[T] | None) -> None:
        self._ended_task = task
        self._mailbox.post(self._settle)

    def _settle(self) -> None:
        """Runs on the caller's loop."""
        self.is_settled = True
        task, self._ended_task = self._ended_task, None
        error = None if task is None or task.cancelled() else task.exception()  # retrieved, also if another is raised
        if self.future.done():
            pass
        elif task is None or task.cancelled():
            self.future.cancel()
        elif error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(task.result())
        error = None  # no cycle
        if self.end is not None:
            self.end.set_result(None)

    def fail(self, error: Exception) -> None:
        """Give the caller the exception of its callback. Runs on the caller's loop."""
        if not self.future.done():
            self.future.set_exception(error)


async def run(
    function: Callable[[Engine], Coroutine[Any, Any, T]],
    *,
    timeout: float | None = None,
    callback: Callback[Any] | None = None,
) -> T:
    """Await `function(engine)` on the I/O thread, from any loop.

    A cancellation is passed to the I/O thread and raised here when the work has ended there. An exception of
    `callback`, a result of `bind_callback`, also ends the work, and is raised.

    Raises:
        StoreTimeoutError: the operation took more than `timeout` seconds.
    """
    engine = current_engine()
    if engine is not None:
        return await limited(function, engine, timeout)
    thread = io_thread()
    engine = thread.engine
    assert engine is not None
    if is_trio_running():
        from aiozarr.engine.trio_calls import run_from_trio

        return await run_from_trio(thread, engine, function, timeout, callback)
    loop = asyncio.get_running_loop()
    call = _AwaitedCall(thread, loop, partial(limited, function, engine, timeout))
    if callback is not None:
        callback.fail = call.fail
    thread.mailbox.post(call.begin)
    try:
        return await call.future
    except GeneratorExit:
        thread.mailbox.post(call.cancel)
        raise
    except BaseException:
        if not call.is_settled:
            call.end = loop.create_future()
            thread.mailbox.post(call.cancel)
            with contextlib.suppress(asyncio.CancelledError):
                await wait_uncancelled(call.end)
        # The traceback of the error holds this frame, which must not refer back to the error.
        call.future = loop.create_future()
        raise


_blocking_caller: ContextVar[SimpleQueue[Callable[[], None] | None] | None] = ContextVar(
    "aiozarr_blocking_caller", default=None
)


class _BlockingCall(CrossThreadCall[T]):
    """A call that a thread waits for.

    Attributes:
        callbacks: to be called in the waiting thread; None: the call has ended.
        outcome: the ended task; None: never started. Empty before the end.
    """

    __slots__ = ("callbacks", "outcome")

    def __init__(
        self, thread: IOThread, function: Callable[[], Coroutine[Any, Any, T]], *, has_callbacks: bool
    ) -> None:
        super().__init__(thread, function)
        self.callbacks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.outcome: list[asyncio.Task[T] | None] = []
        if has_callbacks:
            self._context.run(_blocking_caller.set, self.callbacks)

    def completed(self, task: asyncio.Task[T] | None) -> None:
        self.outcome.append(task)
        self.callbacks.put(None)


def run_blocking(function: Callable[[], Coroutine[Any, Any, T]], *, has_callbacks: bool = True) -> T:
    """Run the coroutine that `function` returns on the I/O thread and wait for it, from any other thread.

    Callbacks of `bind_callback` run in the waiting thread, or without `has_callbacks` on the I/O thread. An exception
    in the waiting thread, such as `KeyboardInterrupt`, cancels the work and is raised when the work has ended.
    """
    thread = io_thread()
    if thread.is_current_thread():
        raise RuntimeError(
            "aiozarr.sync cannot be used on the I/O thread, where it would wait for itself; await the coroutine instead"
        )
    call = _BlockingCall(thread, function, has_callbacks=has_callbacks)
    try:
        thread.mailbox.post(call.begin)
        _run_callbacks(call.callbacks)
    except BaseException:
        thread.mailbox.post(call.cancel)
        with contextlib.suppress(Exception):
            while not call.outcome:
                _next_callback(call.callbacks)
        raise
    task = call.outcome.pop()
    if task is None or task.cancelled():
        raise asyncio.CancelledError
    try:
        return task.result()
    finally:
        # The traceback of the error holds this frame, which must not refer back to the error.
        del task


def _run_callbacks(callbacks: SimpleQueue[Callable[[], None] | None]) -> None:
    while (callback := _next_callback(callbacks)) is not None:
        callback()


def _next_callback(callbacks: SimpleQueue[T]) -> T:
    # A signal that arrives just before the wait begins does not end it: the next poll handles the signal.
    while True:
        with contextlib.suppress(Empty):
            return callbacks.get(timeout=SIGNAL_POLL_SECONDS)


async def read_directly(store: Store, settings: Settings, prepare: Callable[[], DirectRead[T]]) -> T | None:
    """Do a small read without the I/O thread, if chunks are in memory, or if nothing else is read from the disk.

    Two hand-overs between threads take longer than such a read.

    Args:
        store: of the array.
        settings: of the reader.
        prepare: returns the read, and a function that returns the result when it is done.

    Returns: the result, or None if the ordinary read has to be done. The output may have been changed.
    """
    engine = _any_engine()
    if engine.may_read_from_memory(store, settings):
        await take_turn()  # Hundreds of such reads must not keep others waiting.
        read, finish = prepare()
        if not engine.read_direct(read, settings):
            return None
        result = finish()
        await checkpoint()  # Nor must a loop of them.
        return result
    # A call from the I/O thread itself saves no hand-over.
    if not engine.may_read_from_disk(store, settings) or current_engine() is not None or is_trio_running():
        return None
    read, finish = prepare()
    return finish() if await engine.read_direct_in_worker(read, settings) else None


def read_directly_blocking(store: Store, settings: Settings, prepare: Callable[[], DirectRead[T]]) -> T | None:
    """As `read_directly`, in the calling thread, which has no loop and may wait for the disk."""
    engine = _any_engine()
    may_block = engine.may_read_from_disk(store, settings)
    if not may_block and not engine.may_read_from_memory(store, settings):
        return None
    read, finish = prepare()
    try:
        return finish() if engine.read_direct(read, settings, may_block=may_block) else None
    except StoreError as error:
        delay = retry_delay(error, settings)
    if delay is not None:
        sleep(delay)
    return None


def _any_engine() -> Engine:
    engine = current_engine() or io_thread().engine
    assert engine is not None
    return engine


def bind_callback(function: Callable[[T], object] | None) -> Callback[T] | None:
    """Return a function for the I/O thread that calls `function` in the running loop.

    If that is the loop of the I/O thread, `function` is called in the thread that waits in `run_blocking`. An exception
    of `function` ends the operation: `run_blocking` raises it, and so does `run` if it is given the callback.
    """
    if function is None:
        return None
    if current_engine() is None:
        if is_trio_running():
            from aiozarr.engine.trio_calls import post_to_trio

            return Callback(function, post_to_trio())
        return Callback(function, mailbox_of(asyncio.get_running_loop()).post)
    callbacks = _blocking_caller.get()
    return Callback(function, run_callback if callbacks is None else callbacks.put)


def run_callback(callback: Callable[[], None]) -> None:
    """Call `callback` on the I/O thread itself. An exception is reported to the loop, as no caller could raise it."""
    try:
        callback()
    except Exception as error:
        report_error(error)
