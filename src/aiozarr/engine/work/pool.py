"""The worker threads: codecs, scatter and blocking file I/O run here, in batches by bytes, a hop per batch."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from aiozarr.engine.work.turns import Turns

T = TypeVar("T")

BATCH_BYTES = 1 << 20
MIN_BATCH_BYTES = 64 << 10
NICENESS = 5


class Work(ABC):
    """One piece of work for a thread.

    Attributes:
        weight: decoded bytes, by which batches are cut.
    """

    __slots__ = ("error", "weight")

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.error: BaseException | None = None

    @abstractmethod
    def run(self) -> None:
        """Do the work, in a worker thread; what it raises is kept as `error`."""

    def run_from(self, batch: Sequence[Work], at: int) -> int:
        """Do this piece, which is number `at` of `batch`, and those after it that go along; return how many."""
        run_quietly(self)
        return 1

    @abstractmethod
    def finished(self) -> None:
        """The work was done, or failed with `error`; called on the loop. Must not raise."""


class WorkerPool(ABC):
    """Where `Work` is done."""

    threads: int

    @abstractmethod
    def submit(self, work: Work, line: Hashable = None) -> None:
        """Hand over one piece; what is handed over in one turn of the loop travels together.

        Lines take turns: a long operation has one of its own, and all short ones share one.
        """

    @abstractmethod
    def submit_batch(self, batch: Sequence[Work]) -> None:
        """Hand over pieces that one thread does in one go."""

    @abstractmethod
    def flush(self) -> None:
        """Let what was handed over travel now: nothing goes along with it any more."""

    async def call(self, function: Callable[[], T], weight: int = BATCH_BYTES) -> T:
        """Run `function` in a worker and return its result; a cancellation waits for it."""
        work = _FunctionWork(function, weight)
        self.submit(work)
        try:
            return await asyncio.shield(work.future)
        except asyncio.CancelledError:
            # The function may be writing into memory or a file: it is not left behind.
            while not work.future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([work.future])
            work.future.exception()
            raise

    @abstractmethod
    def close(self) -> None:
        """Let the threads go once they are idle."""


class ThreadPool(WorkerPool):
    """As many threads as cores, at a lower priority than the loops, fed from one queue."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int | None = None) -> None:
        self.threads = threads or available_cores()
        self._loop = loop
        self._queue: Turns[Sequence[Work]] = Turns()
        self._ready: dict[Hashable, list[Work]] = {}
        self._started: list[threading.Thread] = []

    def submit(self, work: Work, line: Hashable = None) -> None:
        if not self._ready:
            # Answers arrive in bursts: what the rest of this turn brings goes along.
            self._loop.call_soon(self.flush)
        ready = self._ready.get(line)
        if ready is None:
            self._ready[line] = [work]
        else:
            ready.append(work)

    def submit_batch(self, batch: Sequence[Work]) -> None:
        self._put(batch, None)

    def _put(self, batch: Sequence[Work], line: Hashable) -> None:
        if len(self._started) < self.threads:
            self._start()
        self._queue.put(batch, line)

    def resize(self, threads: int) -> None:
        """Use at least this many threads from now on."""
        self.threads = max(self.threads, threads)

    def close(self) -> None:
        for _ in self._started:
            self._queue.stop_one()
        self._started.clear()

    def flush(self) -> None:
        ready, self._ready = self._ready, {}
        for line, works in ready.items():
            for batch in cut_batches(works, self.threads):
                self._put(batch, line)

    def _start(self) -> None:
        thread = threading.Thread(target=self._serve, name=f"aiozarr-worker-{len(self._started)}", daemon=True)
        self._started.append(thread)
        thread.start()

    def _serve(self) -> None:
        lower_priority()
        while (batch := self._queue.get()) is not None:
            run_all(batch)
            try:
                self._loop.call_soon_threadsafe(finish, batch)
            except RuntimeError:
                # The loop is closed: the process is going down, nobody waits any more.
                return
            # Bytes and arrays are not kept while the thread waits.
            del batch


class InlinePool(WorkerPool):
    """Does the work at once, on the loop: for tests in virtual time, where no thread may be waited for."""

    def __init__(self) -> None:
        self.threads = 1

    def submit(self, work: Work, line: Hashable = None) -> None:
        self.submit_batch([work])

    def submit_batch(self, batch: Sequence[Work]) -> None:
        run_all(batch)
        asyncio.get_running_loop().call_soon(finish, batch)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class _FunctionWork(Work, Generic[T]):
    __slots__ = ("function", "future", "result")

    def __init__(self, function: Callable[[], T], weight: int) -> None:
        super().__init__(weight)
        self.function = function
        self.result: T | None = None
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def run(self) -> None:
        self.result = self.function()

    def finished(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # run() has set it


def run_quietly(work: Work) -> None:
    """Run `work` and keep what it raises."""
    try:
        work.run()
    except BaseException as error:
        work.error = error


def run_all(batch: Sequence[Work]) -> None:
    """Run every piece of a batch."""
    at = 0
    while at < len(batch):
        at += batch[at].run_from(batch, at)


def finish(batch: Sequence[Work]) -> None:
    """Tell each piece of a batch, on the loop, that it was done."""
    for work in batch:
        work.finished()
        # Its traceback leads back to the work: no cycle may keep arrays alive.
        work.error = None


def cut_batches(works: Sequence[Work], threads: int) -> list[list[Work]]:
    """Return `works` in batches of about 1 MiB, smaller where that leaves a thread without work."""
    total = sum([work.weight for work in works])
    target = min(BATCH_BYTES, max(MIN_BATCH_BYTES, -(-total // threads)))
    batches: list[list[Work]] = []
    weight = target
    for work in works:
        if weight >= target:
            batches.append([])
            weight = 0
        batches[-1].append(work)
        weight += work.weight
    return batches


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def lower_priority() -> None:
    """Let the loops' threads go first on a busy machine: on Linux, niceness belongs to the thread."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        if os.uname().sysname == "Linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
