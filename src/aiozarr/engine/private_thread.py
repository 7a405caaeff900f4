"""The private thread of the process whose loop runs the engine, the request queues and the stores.

Threads call functions on a loop through its mailbox, with one wake-up of the loop per burst. A call to the I/O thread
is a task there, which its caller may cancel.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import ref

from aiozarr.common.concurrency import PerLoop
from aiozarr.engine.engine import Engine
from aiozarr.errors import StoreTimeoutError


class Mailbox:
    """A queue of functions to call on a loop. Any thread may post; one wake-up of the loop serves a burst."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak: the table of mailboxes must not keep a dropped loop alive.
        self._loop = ref(loop)
        self._callbacks: deque[Callable[[], None]] = deque()
        self._woken = False

    def post(self, function: Callable[[], None]) -> bool:
        """Call `function` on the loop.

        Returns: False if the loop is closed.
        """
        # The callback goes in before the flag is read, and the flag is cleared before callbacks are taken out. So a
        # wake-up that has not run yet serves every caller that finds the flag set.
        self._callbacks.append(function)
        if not self._woken:
            loop = self._loop()
            if loop is None:
                return False
            try:
                self._woken = True
                loop.call_soon_threadsafe(self._empty)
            except RuntimeError:
                return False
            except BaseException:
                # Ctrl-C between the flag and the wake-up: callers that found the flag set rely on it.
                loop.call_soon_threadsafe(self._empty)
                raise
        return True

    def _empty(self) -> None:
        self._woken = False
        callbacks = self._callbacks
        while callbacks:
            try:
                callbacks.popleft()()
            except Exception as error:
                # An exception in the callback of one caller must not stop the callbacks of others.
                report_error(error)


_mailboxes = PerLoop(Mailbox)


def mailbox_of(loop: asyncio.AbstractEventLoop) -> Mailbox:
    """Return the one mailbox of `loop`."""
    return _mailboxes.get(loop)


def report_error(error: Exception) -> None:
    """Report an exception of a callback to the running loop."""
    asyncio.get_running_loop().call_exception_handler({"message": "a callback of aiozarr raised", "exception": error})


JOIN_SECONDS = 2.0


class _ThreadState(threading.local):
    """The engine of the calling thread. Only the I/O thread has one."""

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
    """Return a new event loop, one of uvloop if that is installed, that resolves names in daemon threads.

    Nothing can end a look-up that hangs. asyncio's own would delay the exit of the process, and one of uvloop keeps its
    loop open while the interpreter ends, which crashes the process.
    """
    loop = _uvloop() or asyncio.new_event_loop()
    loop.getaddrinfo = _resolve  # type: ignore[method-assign]
    return loop


def _uvloop() -> asyncio.AbstractEventLoop | None:
    if _exiting:
        # Nothing stops a thread that starts now. The interpreter ends it, which crashes one process in ten with uvloop.
        return None
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop()


async def _resolve(*arguments: Any, **options: Any) -> list[Any]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[Any]] = loop.create_future()

    def look_up() -> None:
        try:
            settle = partial(future.set_result, socket.getaddrinfo(*arguments, **options))
        except Exception as error:
            settle = partial(future.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(lambda: future.done() or settle())

    threading.Thread(target=look_up, name="aiozarr-resolver", daemon=True).start()
    return await future


_lock = threading.Lock()
_thread: IOThread | None = None
_exiting = False


_REPLACING = (
    ("gevent", "gevent.monkey", "is_module_patched"),
    ("eventlet", "eventlet.patcher", "is_monkey_patched"),
)
_REPLACED = ("thread", "threading", "queue")
"""Modules of Python, by the names of both libraries."""


def io_thread() -> IOThread:
    """Return the process's I/O thread, started on first use.

    Raises:
        RuntimeError: the interpreter is exiting and has ended its threads, or threads or queues are not Python's own.
    """
    global _thread
    # They may be replaced at any time, also after the thread has started.
    for name, module, is_patched in _REPLACING:
        if module in sys.modules and any([getattr(sys.modules[module], is_patched)(each) for each in _REPLACED]):
            raise RuntimeError(
                f"aiozarr cannot be used under {name}, which replaces Python's threads or queues, because calls "
                "would never return; use it in a process without monkey patching"
            )
    thread = _thread
    if thread is None:
        if sys.is_finalizing():
            raise RuntimeError("aiozarr cannot be used while the interpreter is exiting")
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
    _mailboxes.clear()


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


T = TypeVar("T")


class CrossThreadCall(ABC, Generic[T]):
    """One call from another thread: a task on the I/O thread, in the context of the caller.

    Args:
        thread: the I/O thread.
        function: returns the work, as a new coroutine. It is called on the I/O thread.
    """

    __slots__ = ("_cancelled", "_context", "_function", "_task", "_thread")

    def __init__(self, thread: IOThread, function: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._thread = thread
        self._function = function
        # The mailbox is emptied in the context of the first caller of a burst.
        self._context = copy_context()
        self._task: asyncio.Task[T] | None = None
        self._cancelled = False

    @abstractmethod
    def completed(self, task: asyncio.Task[T] | None) -> None:
        """Pass the outcome to the caller; None: never started. Runs on the I/O thread."""

    def begin(self) -> None:
        """Runs on the I/O thread."""
        if self._cancelled:
            return
        work, loop = self._function(), self._thread.loop
        if sys.version_info >= (3, 12):
            # The first step is taken here, a turn of the loop earlier.
            self._task = asyncio.Task(work, loop=loop, context=self._context, eager_start=True)
        else:
            self._task = loop.create_task(work, context=self._context)
        self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """Runs on the I/O thread."""
        if self._task is not None:
            self._task.cancel()
        elif not self._cancelled:
            # Never started: Ctrl-C came before the call was posted.
            self._cancelled = True
            self.completed(None)

    def _ended(self, task: asyncio.Task[T]) -> None:
        # The traceback of its error may still hold this object.
        self._task, self._cancelled = None, True
        if not (self._thread.exiting and task.cancelled()):
            self.completed(task)


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

    It sees the context variables of the caller.

    Attributes:
        fail: called there with the exception of the function, if it raises one.
    """

    def __init__(self, function: Callable[[T], object], post: Callable[[Callable[[], None]], object]) -> None:
        self._function = function
        self._post = post
        # The mailbox is emptied in the context of the first caller of a burst.
        self._context = copy_context()
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
            self._context.run(self._function, self._values.pop())
        except Exception as error:
            if self.fail is None:
                raise
            self.fail(error)
