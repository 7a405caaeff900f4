"""Calls from the loops and threads of callers to the I/O thread. A cancellation is passed on, and its end awaited."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from aiozarr.concurrency import wait_uncancelled
from aiozarr.engine.engine import Engine
from aiozarr.engine.mailbox import Mailbox, forget_mailboxes, mailbox_of, report_error
from aiozarr.errors import StoreTimeoutError

T = TypeVar("T")

SIGNAL_POLL_SECONDS = 0.5
"""A waiting thread handles Ctrl-C at most this much later."""

JOIN_SECONDS = 2.0


class _ThreadState(threading.local):
    """The engine of the calling thread: the I/O thread has one, all other threads have None."""

    engine: Engine | None = None


_thread_state = _ThreadState()


class IOThread:
    """The thread whose loop runs the engine, the request queues and the stores."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.engine: Engine | None = None
        self.exiting = False
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="aiozarr-io", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def _serve(self) -> None:
        try:
            self.loop = new_loop()
            self.mailbox = Mailbox(self.loop)
            asyncio.set_event_loop(self.loop)
            self.engine = _thread_state.engine = Engine(self.loop)
        except BaseException as error:
            self._failure = error
            self._ready.set()
            return
        self.ident = threading.get_ident()
        self.loop.call_soon(self._ready.set)
        try:
            self.loop.run_forever()
        finally:
            with contextlib.suppress(Exception):
                self._shutdown()

    def _shutdown(self) -> None:
        loop = self.loop
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=JOIN_SECONDS / 2))
        assert self.engine is not None
        loop.run_until_complete(self.engine.close())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def is_current_thread(self) -> bool:
        """Return whether the calling thread is this one."""
        return threading.get_ident() == self.ident

    def stop(self, *, exiting: bool = False) -> None:
        """Cancel all operations and end the thread, within two seconds.

        With `exiting`, callers that still wait are not resumed. They are daemon threads, which end with the process;
        resumed, they would only print a traceback.
        """
        self.exiting = exiting
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(JOIN_SECONDS)


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop: one of uvloop if that is installed."""
    if _exiting:
        # Nothing stops a thread that starts now. The interpreter ends it, which crashes one process in ten with uvloop.
        return asyncio.new_event_loop()
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_lock = threading.Lock()
_thread: IOThread | None = None
_exiting = False


def io_thread() -> IOThread:
    """Return the process's I/O thread, started on first use.

    Raises:
        RuntimeError: the interpreter is exiting and has ended its threads.
    """
    global _thread
    thread = _thread
    if thread is None:
        if sys.is_finalizing():
            raise RuntimeError("aiozarr cannot be used any more: the interpreter is exiting")
        with _lock:
            if _thread is None:
                _thread = IOThread()
            thread = _thread
    return thread


def _forget_after_fork() -> None:
    # Threads do not survive a fork, and threads of the parent may have held these locks.
    global _thread, _lock
    _thread = None
    _lock = threading.Lock()
    _thread_state.engine = None
    forget_mailboxes()


def shut_down(*, exiting: bool = False) -> None:
    """End the I/O thread, if there is one. The next call starts another."""
    global _thread, _exiting
    _exiting = exiting
    with _lock:
        thread, _thread = _thread, None
    if thread is not None and thread.pid == os.getpid():
        thread.stop(exiting=exiting)


atexit.register(shut_down, exiting=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def current_engine() -> Engine | None:
    """Return the engine if the caller runs on the I/O thread, else None."""
    # State of the thread itself: a thread that is shutting down is not `_thread` any more, but has its engine.
    return _thread_state.engine


class _CrossThreadCall(ABC, Generic[T]):
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


class _AwaitedCall(_CrossThreadCall[T]):
    """A call that a task of another loop awaits. One object holds all of it: a small read is one of hundreds.

    Attributes:
        future: the outcome, on the caller's loop.
        is_settled: whether the outcome has arrived there.
        end: set when it arrives, for a caller that was cancelled meanwhile.
    """

    __slots__ = ("_ended_task", "_engine", "_function", "_mailbox", "_timeout", "end", "future", "is_settled")

    def __init__(
        self,
        thread: IOThread,
        engine: Engine,
        loop: asyncio.AbstractEventLoop,
        function: Callable[[Engine], Awaitable[T]],
        timeout: float | None,
    ) -> None:
        super().__init__(thread)
        self._engine = engine
        self._function = function
        self._timeout = timeout
        self._mailbox = mailbox_of(loop)
        self._ended_task: asyncio.Task[T] | None = None
        self.future: asyncio.Future[T] = loop.create_future()
        self.is_settled = False
        self.end: asyncio.Future[None] | None = None

    def coroutine(self) -> Coroutine[Any, Any, T]:
        return _limited(self._function, self._engine, self._timeout)

    def answer(self, task: asyncio.Task[T] | None) -> None:
        self._ended_task = task
        self._mailbox.post(self._settle)

    def _settle(self) -> None:
        """Runs on the caller's loop."""
        self.is_settled = True
        task, self._ended_task = self._ended_task, None
        if not self.future.done():
            copy_outcome(task, self.future)
        elif task is not None and not task.cancelled():
            task.exception()  # another error is raised already: this one counts as retrieved
        if self.end is not None:
            self.end.set_result(None)

    def fail(self, error: Exception) -> None:
        """Give the caller the exception of its callback. Runs on the caller's loop."""
        if not self.future.done():
            self.future.set_exception(error)


async def run(
    function: Callable[[Engine], Awaitable[T]], *, timeout: float | None = None, callback: Callback[Any] | None = None
) -> T:
    """Await `function(engine)` on the I/O thread, from any loop.

    A cancellation is passed to the I/O thread and raised here when the work has ended there. An exception of
    `callback`, a result of `bind_callback`, ends the work likewise, and is raised.

    Raises:
        StoreTimeoutError: the operation took more than `timeout` seconds.
    """
    engine = current_engine()
    if engine is not None:
        return await _limited(function, engine, timeout)
    thread = io_thread()
    engine = thread.engine
    assert engine is not None
    loop = asyncio.get_running_loop()
    call = _AwaitedCall(thread, engine, loop, function, timeout)
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


def copy_outcome(task: asyncio.Task[T] | None, future: asyncio.Future[T]) -> None:
    """Copy the result, error or cancellation of `task` to `future`."""
    if task is None or task.cancelled():
        future.cancel()
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


async def _limited(function: Callable[[Engine], Awaitable[T]], engine: Engine, timeout: float | None) -> T:
    if timeout is None:
        return await function(engine)
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


_blocking_caller: ContextVar[SimpleQueue[Callable[[], None] | None] | None] = ContextVar(
    "aiozarr_blocking_caller", default=None
)


class _BlockingCall(_CrossThreadCall[T]):
    """A call that a thread waits for.

    Attributes:
        callbacks: to be called in the waiting thread; None: the call has ended.
        outcome: the ended task; None: never started. Empty before the end.
    """

    __slots__ = ("_function", "callbacks", "outcome")

    def __init__(self, thread: IOThread, function: Callable[[], Coroutine[Any, Any, T]]) -> None:
        super().__init__(thread)
        self._function = function
        self.callbacks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.outcome: list[asyncio.Task[T] | None] = []

    async def coroutine(self) -> T:
        _blocking_caller.set(self.callbacks)
        return await self._function()

    def answer(self, task: asyncio.Task[T] | None) -> None:
        self.outcome.append(task)
        self.callbacks.put(None)


def run_blocking(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine that `function` returns on the I/O thread and wait for it, from any other thread.

    Callbacks of `bind_callback` run in the waiting thread. An exception in the waiting thread, such as
    `KeyboardInterrupt`, cancels the work and is raised when the work has ended.
    """
    thread = io_thread()
    if thread.is_current_thread():
        raise RuntimeError("aiozarr.sync would wait for itself here: on the I/O thread, await the coroutine instead")
    call = _BlockingCall(thread, function)
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


def bind_callback(function: Callable[[T], object] | None) -> Callback[T] | None:
    """Return a function for the I/O thread that calls `function` in the running loop.

    If that is the loop of the I/O thread, `function` is called in the thread that waits in `run_blocking`. An exception
    of `function` ends the operation: `run_blocking` raises it, and so does `run` if it is given the callback.
    """
    if function is None:
        return None
    if current_engine() is None:
        return Callback(function, mailbox_of(asyncio.get_running_loop()).post)
    callbacks = _blocking_caller.get()
    return Callback(function, run_callback if callbacks is None else callbacks.put)


def run_callback(callback: Callable[[], None]) -> None:
    """Call `callback` on the I/O thread itself. Its exception is reported to the loop: no caller could raise it."""
    try:
        callback()
    except Exception as error:
        report_error(error)
