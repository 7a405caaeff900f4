"""Helpers for several coroutines at once: run them together, share one call, cancel a task and wait for its end.

`TurnGate` spreads many short pieces of work over turns of a loop, so that its other tasks are not kept waiting. The
process's limit on open files bounds the number of connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence, Sized
from contextlib import asynccontextmanager
from contextvars import ContextVar
from time import thread_time
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from aiozarr.common.fork_safe import ForkSafeLock
from aiozarr.errors import AiozarrError

T = TypeVar("T")
A = TypeVar("A")
K = TypeVar("K", bound=Hashable)


jitter_source: ContextVar[Callable[[], float] | None] = ContextVar("aiozarr_jitter_source", default=None)
"""Returns the numbers of `random_jitter` in place of the operating system, so that a run can be repeated."""


def random_jitter() -> float:
    """Return a number in [0, 1) for delays between attempts.

    The state of the module `random` belongs to the program, which may have seeded it, and forked processes share it.
    """
    source = jitter_source.get()
    return int.from_bytes(os.urandom(4), "big") / 2**32 if source is None else source()


def is_trio_running() -> bool:
    """Return whether the caller runs in a task of trio."""
    # Another thread may be importing it just now: then nothing runs on it yet.
    in_trio_task = getattr(sys.modules.get("trio.lowlevel"), "in_trio_task", None)
    return in_trio_task is not None and in_trio_task()


async def gather_all(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all of `coroutines` at once and return their results in order.

    The first error cancels the rest. It is raised as it is, not in a group, after all of them have ended.
    """
    every = list(coroutines)
    if len(every) < 2:
        return [await each for each in every]
    failed: BaseException | None = None
    tasks: list[asyncio.Task[T]] = []
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in every]
    except BaseExceptionGroup as errors:
        failed = errors.exceptions[0]
    if failed is not None:
        # Outside the handler, so that the error keeps its own cause and has no reference to the group.
        try:
            raise failed
        finally:
            # The error's traceback holds this frame, so the frame must not hold the error.
            failed = None
            tasks.clear()
    return [task.result() for task in tasks]


async def for_each(function: Callable[[A], Awaitable[object]], items: Iterable[A], *, concurrency: int = 64) -> None:
    """Await `function(item)` for all `items`, at most `concurrency` at a time; the iterable is consumed lazily."""
    iterator = iter(items)

    async def work() -> None:
        for item in iterator:
            await function(item)

    workers = min(concurrency, len(items)) if isinstance(items, Sized) else concurrency
    await gather_all(work() for _ in range(workers))


async def for_each_of(
    function: Callable[[A], Awaitable[object]], items: AsyncIterator[A], *, concurrency: int = 64
) -> None:
    """Await `function(item)` for all `items` of an asynchronous iterator, at most `concurrency` at a time."""
    lock = asyncio.Lock()
    end = object()

    async def pull() -> Any:
        async with lock:
            return await anext(items, end)

    async def work() -> None:
        while (item := await pull()) is not end:
            await function(item)

    await gather_all(work() for _ in range(concurrency))


async def map_concurrently(
    function: Callable[[A], Awaitable[T]], items: Sequence[A], *, concurrency: int = 64
) -> list[T]:
    """Return `await function(item)` for all `items`, in order, at most `concurrency` at a time."""
    results: dict[int, T] = {}

    async def store_result(number: int) -> None:
        results[number] = await function(items[number])

    await for_each(store_result, range(len(items)), concurrency=concurrency)
    return [results[number] for number in range(len(items))]


class ByteSemaphore:
    """Allows `limit` bytes to be held at a time. Used on one loop.

    First come, first served: small objects cannot starve a large one. An object larger than the limit is held alone.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._waiters: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Hold `size` bytes, as soon as they fit."""
        await self._acquire(size)
        try:
            yield
        finally:
            self._release(size)

    async def _acquire(self, size: int) -> None:
        if not self._waiters and self._fits(size):
            self.held += size
            return
        waiter = (size, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            await waiter[1]
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                self._wake_waiters()
            else:
                # It was woken in the same turn of the loop.
                self._release(size)
            raise

    def _release(self, size: int) -> None:
        self.held -= size
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        while self._waiters and self._fits(self._waiters[0][0]):
            size, future = self._waiters.popleft()
            self.held += size
            if not future.done():
                future.set_result(None)

    def _fits(self, size: int) -> bool:
        return self.held <= 0 or self.held + size <= self.limit


async def wait_uncancelled(*futures: asyncio.Future[Any]) -> None:
    """Wait until all `futures` are done. If this task is cancelled meanwhile, raise the cancellation only then.

    The results and errors of the futures are left to the caller.
    """
    if all(future.done() for future in futures):
        return
    from anyio import CancelScope  # imported here because most processes cancel nothing

    cancellation: asyncio.CancelledError | None = None
    while pending := [future for future in futures if not future.done()]:
        try:
            # A scope of anyio repeats its cancellation in each turn of the loop; a task's own cancellation comes once
            # per call.
            with CancelScope(shield=True):
                await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation is not None:
        try:
            raise cancellation
        finally:
            cancellation = None  # its traceback holds this frame


async def cancel_and_wait(*tasks: asyncio.Future[Any]) -> None:
    """Cancel `tasks` and wait until all have ended, even if this task is cancelled meanwhile; see `wait_uncancelled`.

    Their errors are dropped.
    """
    for task in tasks:
        task.cancel()
        task.add_done_callback(retrieve_error)
    await wait_uncancelled(*tasks)


class PerLoop(Generic[T]):
    """One value for each event loop, made when it is first used there. Used by any thread.

    All state of a loop is kept in one of these, except connections, which must be closed with their loop. A loop that
    was closed while tasks awaited something leaves futures in its value. They refer to the loop, which would never be
    collected, so closed loops are forgotten.

    Args:
        make: makes the value of a loop.
    """

    def __init__(self, make: Callable[[asyncio.AbstractEventLoop], T]) -> None:
        self._make = make
        self._values: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def get(self, loop: asyncio.AbstractEventLoop | None = None) -> T:
        """Return the value of `loop`; None: of the running loop."""
        loop = asyncio.get_running_loop() if loop is None else loop
        value = self._values.get(loop)
        if value is None:
            for reference in self._values.keyrefs():  # a copy, because other threads have loops of their own
                other = reference()
                if other is not None and other.is_closed():
                    self._values.pop(other, None)
            value = self._values.setdefault(loop, self._make(loop))
        return value

    def clear(self) -> None:
        """Forget all loops, which belong to the parent after a fork."""
        self._values.clear()


def retrieve_error(future: asyncio.Future[Any]) -> None:
    """Mark the error of a future as seen, so that asyncio does not log it as never retrieved."""
    if not future.cancelled():
        future.exception()


class _SharedCall:
    __slots__ = ("error_is_raised", "task", "waiters")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.waiters = 0
        self.error_is_raised = False


class SingleFlight(Generic[K]):
    """Shares one call between all callers with the same key, on the same loop, while the call is running.

    The call runs in a task of its own. A caller that is cancelled leaves the call to the others. The last one cancels
    the call and waits for its end. May be used from several threads and loops; each loop has its own calls.
    """

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._calls: dict[tuple[asyncio.AbstractEventLoop, K], _SharedCall] = {}

    async def run(self, key: K, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the running call for `key`, or of `start()` if no call is running.

        The exception of the call is raised: each caller gets its own copy of an `AiozarrError`.
        """
        loop_key = (asyncio.get_running_loop(), key)
        with self._lock:
            call = self._calls.get(loop_key)
            if call is None or call.task.done():
                call = self._calls[loop_key] = _SharedCall(asyncio.create_task(start()))
                call.task.add_done_callback(retrieve_error)
            call.waiters += 1
        try:
            await asyncio.wait([call.task])
        finally:
            call.waiters -= 1
            if not call.waiters:
                with self._lock:
                    if self._calls.get(loop_key) is call:
                        del self._calls[loop_key]
                await cancel_and_wait(call.task)
        result: T = _result(call)
        return result

    def forget(self, matches: Callable[[K], bool]) -> None:
        """Let later callers with a matching key start a new call, as the running one may return a replaced value."""
        with self._lock:
            for loop_key in [loop_key for loop_key in self._calls if matches(loop_key[1])]:
                del self._calls[loop_key]


def _result(call: _SharedCall) -> Any:
    error = None if call.task.cancelled() else call.task.exception()
    if not isinstance(error, AiozarrError) or not call.error_is_raised:
        call.error_is_raised = True
        return call.task.result()
    mine = copy.copy(error)
    mine.__cause__ = error.__cause__
    raise mine


MAX_DIRECT_READS_PER_TURN = 16
"""Reads from memory that a caller's loop does in one turn, if they are as short as most: 0.05 ms."""

MAX_DIRECT_SECONDS = 0.001
"""CPU seconds of one turn for reads from memory: a read of many inner chunks takes 0.2 to 0.4 ms."""


class TurnGate:
    """Lets a limited number of callers pass in one turn of a loop, first come, first served.

    Args:
        max_per_turn: callers that pass in one turn; the others wait for later turns.
        max_seconds: as many callers pass as would fit into this time at the pace of the last turn, but at least one.
            None: the time does not count.
        clock: returns the time in seconds: that of the thread, so that waits for the interpreter's lock do not count.
    """

    def __init__(
        self, max_per_turn: int, max_seconds: float | None = None, clock: Callable[[], float] = thread_time
    ) -> None:
        self._max_per_turn = self._limit = max_per_turn
        self._max_seconds = max_seconds
        self._clock = clock
        self._turn_began = 0.0
        self._passed = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_enter(self) -> bool:
        """Pass if that needs no wait; return whether the caller has passed."""
        if self._waiting or self._passed >= self._limit:
            return False
        if not self._passed:
            self._begin_turn()
        self._passed += 1
        return True

    async def enter(self) -> None:
        """Wait for a turn of the loop in which another caller may pass."""
        if not self.try_enter():
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def _next_turn(self) -> None:
        if self._max_seconds is not None:
            fitting = self._passed * self._max_seconds / max(self._clock() - self._turn_began, 1e-9)
            self._limit = min(self._max_per_turn, max(1, int(fitting)))
        self._passed = 0
        while self._waiting and self._passed < self._limit:
            future = self._waiting.popleft()
            if not future.done():  # its caller was cancelled
                self._passed += 1
                future.set_result(None)
        if self._passed:
            self._begin_turn()

    def _begin_turn(self) -> None:
        self._turn_began = self._clock()
        asyncio.get_running_loop().call_soon(self._next_turn)


_read_gates = PerLoop(lambda _: TurnGate(MAX_DIRECT_READS_PER_TURN, MAX_DIRECT_SECONDS))


def read_gate() -> TurnGate:
    """Return the one gate of the direct reads of the running loop."""
    return _read_gates.get()


async def take_turn() -> None:
    """Wait for a turn of the caller's loop in which another read from memory may be done; trio has no such turns."""
    if not is_trio_running():
        await read_gate().enter()


async def checkpoint() -> None:
    """Let other tasks of the caller's loop run, whether trio or asyncio runs it."""
    if is_trio_running():
        await sys.modules["trio"].lowlevel.checkpoint()
    else:
        await asyncio.sleep(0)


RESERVED_FILES = 64
"""Open files that are left to the rest of the process, together with half of the remaining ones."""


def open_file_limit() -> int:
    """Return how many connections may be open at once; `sys.maxsize` if the process has no limit on open files."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            return max(8, (soft - RESERVED_FILES) // 2)
    return sys.maxsize
