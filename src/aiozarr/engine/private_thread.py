"""The private thread of the process whose loop runs the engine, the request queues and the stores."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sys
import threading

from aiozarr.engine.engine import Engine
from aiozarr.engine.mailbox import Mailbox, forget_mailboxes

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
