"""The border between callers and the I/O thread: calls go over in bursts, cancellation crosses and is awaited."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, ref

from aiozarr.engine.engine import Engine
from aiozarr.errors import StoreTimeoutError

T = TypeVar("T")

JOIN_SECONDS = 2.0


class Mailbox:
    """Functions to call on a loop, from any thread: one wake-up of the loop for all that have gathered."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak: the table of mailboxes must not keep a loop alive that its owner has dropped.
        self._loop = ref(loop)
        self._letters: deque[Callable[[], None]] = deque()
        self._woken = False

    def post(self, function: Callable[[], None]) -> bool:
        """Have `function` called on the loop; return False where the loop is closed."""
        # The letter goes in before the flag is read, and the flag is cleared before letters are taken out: whoever
        # finds the flag set is served by the wake-up that is under way.
        self._letters.append(function)
        if not self._woken:
            loop = self._loop()
            if loop is None:
                return False
            self._woken = True
            try:
                loop.call_soon_threadsafe(self._empty)
            except RuntimeError:
                return False
        return True

    def _empty(self) -> None:
        self._woken = False
        letters = self._letters
        while letters:
            try:
                letters.popleft()()
            except Exception as error:
                # A caller's callback: its mistake must not keep the other letters from their readers.
                loop = asyncio.get_running_loop()
                loop.call_exception_handler({"message": "a callback of aiozarr raised", "exception": error})


class IOThread:
    """The thread with the loop that engine, schedule and stores run on."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.engine: Engine | None = None
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
            self.engine = Engine(self.loop)
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

    def stop(self) -> None:
        """Cancel what is under way and end the thread, within two seconds."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(JOIN_SECONDS)


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop: uvloop's where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


_lock = threading.Lock()
_thread: IOThread | None = None
_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = WeakKeyDictionary()


def io_thread() -> IOThread:
    """Return the process's I/O thread, started on first use."""
    global _thread
    thread = _thread
    if thread is None:
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
    _mailboxes.clear()


@atexit.register
def shut_down() -> None:
    """End the I/O thread, if there is one; the next call starts another."""
    global _thread
    with _lock:
        thread, _thread = _thread, None
    if thread is not None and thread.pid == os.getpid():
        thread.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def current_engine() -> Engine | None:
    """Return the engine where the caller runs on the I/O thread, else None."""
    thread = _thread
    return thread.engine if thread is not None and thread.here() else None


def _mailbox_of(loop: asyncio.AbstractEventLoop) -> Mailbox:
    mailbox = _mailboxes.get(loop)
    if mailbox is None:
        mailbox = _mailboxes[loop] = Mailbox(loop)
    return mailbox


class _Crossing(Generic[T]):
    """One call across the border: a task on the I/O thread, and whoever waits for it."""

    def __init__(
        self, make: Callable[[], Coroutine[Any, Any, T]], answer: Callable[[asyncio.Task[T] | None], object]
    ) -> None:
        self._make = make
        self._answer = answer
        self._task: asyncio.Task[T] | None = None
        self._cancelled = False

    def begin(self) -> None:
        """On the I/O thread."""
        if self._cancelled:
            self._answer(None)
            return
        self._task = asyncio.get_running_loop().create_task(self._make())
        self._task.add_done_callback(self._answer)

    def cancel(self) -> None:
        """On the I/O thread."""
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()


async def run(function: Callable[[Engine], Awaitable[T]], *, timeout: float | None = None) -> T:
    """Await `function(engine)` on the I/O thread, from any loop.

    A cancellation crosses over and is awaited: when it is raised here, nothing is under way there any more.

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
    mailbox = _mailbox_of(loop)
    future: asyncio.Future[T] = loop.create_future()
    ended = False

    def settle(task: asyncio.Task[T] | None) -> None:
        nonlocal ended
        ended = True
        if not future.done():
            hand_over(task, future)

    crossing = _Crossing(lambda: _limited(function, engine, timeout), lambda task: mailbox.post(lambda: settle(task)))
    thread.mailbox.post(crossing.begin)
    try:
        return await future
    except asyncio.CancelledError:
        if ended:
            raise
        thread.mailbox.post(crossing.cancel)
        while not ended:
            future = loop.create_future()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await future
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
        ) from error


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

    crossing = _Crossing(call, settle)
    thread.mailbox.post(crossing.begin)
    try:
        _serve_letters(letters)
    except BaseException:
        thread.mailbox.post(crossing.cancel)
        with contextlib.suppress(Exception):
            while not outcome:
                letters.get()
        raise
    task = outcome[0]
    if task is None or task.cancelled():
        raise asyncio.CancelledError
    return task.result()


def _serve_letters(letters: SimpleQueue[Callable[[], None] | None]) -> None:
    while (letter := letters.get()) is not None:
        letter()


def callback_here(function: Callable[[T], object] | None) -> Callable[[T], None] | None:
    """Return a function for the I/O thread that has `function` called where this is called, with the latest value only.

    The caller is the running loop, or the thread that waits in `run_blocking`.
    """
    if function is None:
        return None
    if current_engine() is None:
        return _latest(function, _mailbox_of(asyncio.get_running_loop()).post)
    letters = _blocking_caller.get()
    return _latest(function, call_now if letters is None else letters.put)


def call_now(letter: Callable[[], None]) -> None:
    """Call `letter`: on the I/O thread itself there is nobody to send it to."""
    letter()


def _latest(function: Callable[[T], object], post: Callable[[Callable[[], None]], object]) -> Callable[[T], None]:
    values: deque[T] = deque(maxlen=1)

    def deliver() -> None:
        # Emptied by an earlier letter that found a later value already.
        if values:
            function(values.pop())

    def keep(value: T) -> None:
        waiting = bool(values)
        values.append(value)
        if not waiting:
            post(deliver)

    return keep
