"""The border between callers and the I/O thread: calls go over in bursts, cancellation crosses and is awaited."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from aiozarr.engine.engine import Engine
from aiozarr.engine.mailbox import Mailbox, forget_mailboxes, mailbox_of, report_error
from aiozarr.errors import StoreTimeoutError

T = TypeVar("T")

NOTICE_SECONDS = 0.5
"""How late a waiting thread may notice Ctrl-C."""

JOIN_SECONDS = 2.0


class _Here(threading.local):
    """What the calling thread is: the I/O thread has an engine."""

    engine: Engine | None = None


_here = _Here()


class IOThread:
    """The thread with the loop that engine, schedule and stores run on."""

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
            self.engine = _here.engine = Engine(self.loop)
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
                self._wind_up()

    def _wind_up(self) -> None:
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

    def here(self) -> bool:
        """Return whether the calling thread is this one."""
        return threading.get_ident() == self.ident

    def stop(self, *, exiting: bool = False) -> None:
        """Cancel what is under way and end the thread, within two seconds.

        When the interpreter is exiting nobody is told: who still waits is a daemon thread, which ends with the process,
        and would only write a traceback before.
        """
        self.exiting = exiting
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(JOIN_SECONDS)


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop: uvloop's where it is installed."""
    if _exiting:
        # Nobody stops a thread that begins now: the interpreter takes it down, which crashes one of ten with uvloop.
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
        RuntimeError: the interpreter is exiting, and has taken its threads down already.
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
    # Threads do not survive a fork, and locks may be held by threads that no longer are: everything is made anew.
    global _thread, _lock
    _thread = None
    _lock = threading.Lock()
    _here.engine = None
    forget_mailboxes()


def shut_down(*, exiting: bool = False) -> None:
    """End the I/O thread, if there is one; the next call starts another."""
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
    """Return the engine where the caller runs on the I/O thread, else None."""
    # Known to the thread itself, not by comparing with the present one: a thread that winds up is still this.
    return _here.engine


class _Crossing(Generic[T]):
    """One call across the border: a task on the I/O thread, in the context of whoever waits for it."""

    def __init__(
        self,
        thread: IOThread,
        make: Callable[[], Coroutine[Any, Any, T]],
        answer: Callable[[asyncio.Task[T] | None], object],
    ) -> None:
        self._thread = thread
        self._make = make
        self._answer = answer
        # The mailbox is emptied in the context of whoever woke it, who may be anyone.
        self._context = copy_context()
        self._task: asyncio.Task[T] | None = None
        self._cancelled = False

    def begin(self) -> None:
        """On the I/O thread."""
        if not self._cancelled:
            self._task = asyncio.get_running_loop().create_task(self._make(), context=self._context)
            self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        """On the I/O thread."""
        if self._task is not None:
            self._task.cancel()
        elif not self._cancelled:
            # Never begun: Ctrl-C came before the call was posted.
            self._cancelled = True
            self._answer(None)

    def _ended(self, task: asyncio.Task[T]) -> None:
        # Whoever raises its error still holds this.
        self._task, self._cancelled = None, True
        if not (self._thread.exiting and task.cancelled()):
            self._answer(task)


async def run(
    function: Callable[[Engine], Awaitable[T]], *, timeout: float | None = None, callback: Callback[Any] | None = None
) -> T:
    """Await `function(engine)` on the I/O thread, from any loop.

    A cancellation crosses over and is awaited: when it is raised here, nothing is under way there any more. An
    exception of `callback`, which `callback_here` has made, ends the work likewise, and is raised.

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
    mailbox = mailbox_of(loop)
    future: asyncio.Future[T] = loop.create_future()
    ended = False

    def settle(task: asyncio.Task[T] | None) -> None:
        nonlocal ended
        ended = True
        if not future.done():
            hand_over(task, future)
        elif task is not None and not task.cancelled():
            task.exception()  # somebody else's error is raised already; this one counts as seen

    def fail(error: Exception) -> None:
        if not future.done():
            future.set_exception(error)

    if callback is not None:
        callback.fail = fail
    crossing = _Crossing(
        thread, lambda: _limited(function, engine, timeout), lambda task: mailbox.post(lambda: settle(task))
    )
    thread.mailbox.post(crossing.begin)
    try:
        return await future
    except GeneratorExit:
        thread.mailbox.post(crossing.cancel)
        raise
    except BaseException:
        if not ended:
            thread.mailbox.post(crossing.cancel)
        while not ended:
            future = loop.create_future()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await future
        # The traceback of an error holds this frame: no way back may lead from here to the error.
        future = loop.create_future()
        raise


def hand_over(task: asyncio.Task[T] | None, future: asyncio.Future[T]) -> None:
    """Give `future` what `task` ended with."""
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
        # The clock holds the task, which ends with the error: neither that nor its cause may hold frames that hold it.
        del limit


_blocking_caller: ContextVar[SimpleQueue[Callable[[], None] | None] | None] = ContextVar(
    "aiozarr_blocking_caller", default=None
)


def run_blocking(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine that `function` returns on the I/O thread and wait for it, from any thread but that one.

    Callbacks made with `callback_here` are called in the waiting thread. An exception that is raised in it meanwhile,
    such as `KeyboardInterrupt`, cancels the work, and is raised once that has ended.
    """
    thread = io_thread()
    if thread.here():
        raise RuntimeError("aiozarr.sync would wait for itself here: on the I/O thread, await the coroutine instead")
    letters: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
    outcome: list[asyncio.Task[T] | None] = []

    def settle(task: asyncio.Task[T] | None) -> None:
        outcome.append(task)
        letters.put(None)

    async def call() -> T:
        _blocking_caller.set(letters)
        return await function()

    crossing = _Crossing(thread, call, settle)
    try:
        thread.mailbox.post(crossing.begin)
        _serve_letters(letters)
    except BaseException:
        thread.mailbox.post(crossing.cancel)
        with contextlib.suppress(Exception):
            while not outcome:
                _next_letter(letters)
        raise
    task = outcome.pop()
    if task is None or task.cancelled():
        raise asyncio.CancelledError
    try:
        return task.result()
    finally:
        # The traceback of an error holds this frame: no way back may lead from here to the error.
        del task


def _serve_letters(letters: SimpleQueue[Callable[[], None] | None]) -> None:
    while (letter := _next_letter(letters)) is not None:
        letter()


def _next_letter(letters: SimpleQueue[T]) -> T:
    # A signal that comes in just before the wait begins does not end the wait: it is noticed after this time.
    while True:
        with contextlib.suppress(Empty):
            return letters.get(timeout=NOTICE_SECONDS)


class Callback(Generic[T]):
    """A caller's function, to be called from the I/O thread: where the caller is, and with the latest value only.

    Attributes:
        fail: called, where the function is called, with what it raises.
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
        # Emptied by an earlier letter that found a later value already.
        if not self._values:
            return
        try:
            self._function(self._values.pop())
        except Exception as error:
            if self.fail is None:
                raise
            self.fail(error)


def callback_here(function: Callable[[T], object] | None) -> Callback[T] | None:
    """Return a function for the I/O thread that has `function` called where this is called.

    The caller is the running loop, or the thread that waits in `run_blocking`. What `function` raises ends the
    operation: `run_blocking` raises it, and so does `run` where it is told of the callback.
    """
    if function is None:
        return None
    if current_engine() is None:
        return Callback(function, mailbox_of(asyncio.get_running_loop()).post)
    letters = _blocking_caller.get()
    return Callback(function, call_now if letters is None else letters.put)


def call_now(letter: Callable[[], None]) -> None:
    """Call `letter`: on the I/O thread itself there is nobody to send it to, and nobody to raise its error."""
    try:
        letter()
    except Exception as error:
        report_error(error)
