"""What an input may take and may raise: time, memory, and errors of known types."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import logging
import os
import resource
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import aiozarr

T = TypeVar("T")

CPU_SECONDS = 2.0
"""Of processor time, all threads together. An input takes a few milliseconds."""
WALL_SECONDS = 30.0
"""A server that leaves a client waiting ends by `idle_timeout`, which targets set to far less."""
MEMORY_BYTES = 96 << 20
"""Resident memory above that before the input: 64 MiB, and the targets' own limits of chunks and documents."""
MESSAGE_CHARACTERS = 20_000
"""An error's text may quote its input, and need not repeat all of it."""


class Overtime(BaseException):
    """Raised in the thread that an endless input keeps busy."""


@dataclass(frozen=True)
class Finding:
    """An input that took too much, or raised what it should not.

    Attributes:
        kind: what is wrong; equal for findings of one cause.
        report: a traceback, or figures.
    """

    kind: str
    report: str


class Watchdog:
    """Runs inputs one by one, and interrupts those that do not end. One per process, used by one thread.

    An input that also ignores the interruption, such as a loop in a C library, ends the process: the number of the
    input and all stacks are on the standard error then.

    Args:
        cpu_seconds, wall_seconds, memory_bytes: the limits of one input.
    """

    def __init__(
        self,
        *,
        cpu_seconds: float = CPU_SECONDS,
        wall_seconds: float = WALL_SECONDS,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._cpu_seconds = cpu_seconds
        self._wall_seconds = wall_seconds
        self._memory_bytes = memory_bytes
        self._began: tuple[float, float] | None = None
        self._ended = threading.Event()
        self._complaints: list[str] = []
        self._busy: dict[int, float] = {}
        self._name = ""

    def __enter__(self) -> Watchdog:
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()
        self._stack = contextlib.ExitStack()
        self._stack.enter_context(self._listening())
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._stack.close()

    async def run(self, name: str, use: Callable[[], Awaitable[None]]) -> Finding | None:
        """Run one input; `use` raises everything that is not an allowed error."""
        self._complaints.clear()
        self._name = name
        memory = _reset_peak()
        self._busy = _thread_times()
        started, wall = time.process_time(), time.monotonic()
        self._began = (started, wall)
        try:
            async with asyncio.timeout(self._wall_seconds):
                await use()
        except Overtime:
            return Finding("endless", f"it was interrupted after {time.process_time() - started:.1f} s\n{_trace()}")
        except TimeoutError:
            return Finding("hang", f"it had not ended after {self._wall_seconds} s\n{_trace()}")
        except Exception as error:
            return Finding(_kind(error), traceback.format_exc())
        finally:
            self._began = None
        taken, grown = time.process_time() - started, _peak() - memory
        if taken > self._cpu_seconds:
            return Finding("slow", f"it took {taken:.2f} s of processor time")
        if grown > self._memory_bytes:
            return Finding("memory", f"it took {grown >> 20} MiB")
        if self._complaints:
            return Finding(f"log: {self._complaints[0].splitlines()[0][:80]}", "\n".join(self._complaints))
        return None

    # --- the other thread ----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        interrupted: tuple[float, float] | None = None
        while not self._ended.wait(0.2):
            began = self._began
            if began is None:
                continue
            cpu, wall = time.process_time() - began[0], time.monotonic() - began[1]
            if began is not interrupted and cpu > 2 * self._cpu_seconds:
                interrupted = began
                self._interrupt()
            elif cpu > 8 * self._cpu_seconds or wall > 2 * self._wall_seconds:
                os.write(2, f"{self._name} does not end, and cannot be interrupted\n".encode())
                faulthandler.dump_traceback(all_threads=True)
                os._exit(70)

    def _interrupt(self) -> None:
        """Raise `Overtime` in the thread that has used the most processor time since the input began."""
        used = {ident: seconds - self._busy.get(ident, 0.0) for ident, seconds in _thread_times().items()}
        used.pop(threading.get_ident(), None)
        if used:
            thread = max(used, key=lambda ident: used[ident])
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Overtime))

    # --- what nobody raises --------------------------------------------------------------------------------------

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Collect what only logs and hooks hear of: lost exceptions of tasks, threads and finalisers."""
        handler = logging.Handler(logging.ERROR)
        handler.emit = lambda record: self._complaints.append(record.getMessage())  # type: ignore[method-assign]
        logger, hook = logging.getLogger("asyncio"), sys.unraisablehook
        sys.unraisablehook = lambda lost: self._complaints.append(f"{lost.err_msg}: {lost.exc_value!r} {lost.object!r}")
        logger.addHandler(handler)
        # What aiozarr says about damaged files is right, and would fill the terminal.
        own, silence = logging.getLogger("aiozarr"), logging.NullHandler()
        own.addHandler(silence)
        try:
            yield
        finally:
            own.removeHandler(silence)
            logger.removeHandler(handler)
            sys.unraisablehook = hook


async def allowed(operation: Awaitable[T], *, known: tuple[type[Exception], ...] = ()) -> T | Exception:
    """Await an operation that may raise a typed error; return its result, or the error.

    Args:
        operation: the operation.
        known: further types that are documented for it, but not subclasses of these.
    """
    try:
        return await operation
    except aiozarr.AiozarrError as error:
        check_message(error)
        return error
    except known as error:
        if type(error) not in known:
            raise
        return error


def check_message(error: BaseException) -> None:
    """Check that an error can be shown: its text is bounded and not empty."""
    text = str(error)
    assert repr(error)
    assert text.strip(), f"{type(error).__name__} has no message"
    assert len(text) < MESSAGE_CHARACTERS, f"{type(error).__name__} has a message of {len(text)} characters"


def _kind(error: BaseException) -> str:
    """Return the type of an error and where aiozarr raised it; an exception group is its first member."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if f"{os.sep}aiozarr{os.sep}" in frame.filename] or frames[-1:]
    place = f"{os.path.basename(inside[-1].filename)}:{inside[-1].name}" if inside else "?"
    return f"{type(error).__name__} in {place}"


def _trace() -> str:
    return "".join(traceback.format_exc())


def _thread_times() -> dict[int, float]:
    if not hasattr(time, "pthread_getcpuclockid"):
        return {}
    times = {}
    for thread in threading.enumerate():
        if thread.ident is not None and thread.is_alive():
            with suppress(OSError):
                times[thread.ident] = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    return times


def _peak() -> int:
    scale = 0 if sys.platform == "darwin" else 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << scale


def _reset_peak() -> int:
    """Let the peak of resident memory begin at what there is now, where the system can, and return it."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    return _peak()
