"""The worker threads run codecs, scatter and blocking file I/O, in batches of about 1 MiB, from one fair queue.

The queue serves its sub-queues in turn: a long operation does not delay the items of a short one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from queue import SimpleQueue
from time import monotonic
from typing import Generic, TypeVar

from aiozarr.common.concurrency import wait_uncancelled

T = TypeVar("T")


class FairQueue(Generic[T]):
    """First in, first out within a sub-queue; round-robin between sub-queues. Safe for any threads."""

    def __init__(self) -> None:
        """Create an empty queue."""
        # One entry for each item: a waiting thread does not need to look at the sub-queues.
        self._available: SimpleQueue[bool] = SimpleQueue()
        self._lock = threading.Lock()
        self._items: dict[Hashable, deque[T]] = {}
        self._order: deque[Hashable] = deque()

    def put(self, item: T, key: Hashable = None) -> None:
        """Add `item` at the end of the sub-queue `key`."""
        with self._lock:
            items = self._items.get(key)
            if items is None:
                items = self._items[key] = deque()
                self._order.append(key)
            items.append(item)
        self._available.put(True)

    def get(self) -> T | None:
        """Wait for the next item.

        Returns:
            The item, or None if this thread is to stop.
        """
        if not self._available.get():
            return None
        with self._lock:
            key = self._order[0]
            items = self._items[key]
            item = items.popleft()
            if items:
                self._order.rotate(-1)
            else:
                # The key may refer to an operation and its arrays.
                del self._items[key], self._order[0]
            return item

    @property
    def is_empty(self) -> bool:
        """True if no item waits. Any thread may ask."""
        return self._available.empty()

    def stop_one(self) -> None:
        """Stop one of the waiting threads, after all present items have been taken."""
        self._available.put(False)


BATCH_BYTES = 1 << 20
"""Decoded bytes of a batch of work items, which goes to a thread as one."""

MIN_BATCH_BYTES = 64 << 10
"""No batch is split below this size to occupy idle threads."""

NICENESS = 5


class WorkItem(ABC):
    """One piece of work for a worker thread.

    Attributes:
        weight: decoded bytes; the sum of a batch is bounded.
        error: the exception that `run` raised.
        started, ended: when a worker began and ended it, in seconds of `time.monotonic`.
    """

    __slots__ = ("ended", "error", "started", "weight")

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.error: BaseException | None = None
        self.started = self.ended = 0.0

    @property
    def is_short(self) -> bool:
        """Whether `run` takes at most 0.1 ms and never waits: the loop may call it if no thread is busy."""
        return False

    @abstractmethod
    def run(self) -> None:
        """Do the work in a worker thread. An exception becomes `error`."""

    def run_together(self, batch: Sequence[WorkItem], at: int) -> int:
        """Run this item, which is number `at` of `batch`, and following ones in one call.

        Returns:
            The number of items that were run; 0 if this one is to be run by itself.
        """
        return 0

    @abstractmethod
    def work_completed(self) -> None:
        """Process the result, or `error`, on the loop. Must not raise."""


class FunctionCall(WorkItem, Generic[T]):
    """A call of `function`, after which `on_completed` is called with this item on the loop.

    Attributes:
        result: what the function has returned.
    """

    __slots__ = ("function", "on_completed", "result")

    def __init__(
        self, function: Callable[[], T], on_completed: Callable[[FunctionCall[T]], object], weight: int
    ) -> None:
        super().__init__(weight)
        self.function = function
        self.on_completed = on_completed
        self.result: T | None = None

    def run(self) -> None:
        self.result = self.function()

    def work_completed(self) -> None:
        self.on_completed(self)


class WorkerPool(ABC):
    """Runs work items in `threads` threads."""

    threads: int

    @property
    def is_idle(self) -> bool:
        """Whether a thread waits for work and none is busy. Any thread may ask."""
        return False

    def resize(self, threads: int) -> None:
        """Use at least this many threads from now on."""
        self.threads = max(self.threads, threads)

    @abstractmethod
    def submit(self, work: WorkItem, fairness_key: Hashable = None) -> None:
        """Submit one item. The items of one turn of the loop form batches.

        Queues are served in turn: a long operation has a queue of its own, all short operations share one.
        """

    @abstractmethod
    def submit_batch(self, batch: Sequence[WorkItem]) -> None:
        """Submit items that one thread runs, one after the other."""

    def submit_from(self, loop: asyncio.AbstractEventLoop, work: WorkItem) -> None:
        """Submit an item from the thread of `loop`, on which `work_completed` is called."""
        self.submit(work)

    @abstractmethod
    def flush(self) -> None:
        """Send the submitted items to the threads now, without waiting for the end of the loop's turn."""

    async def call(self, function: Callable[[], T], weight: int = BATCH_BYTES) -> T:
        """Run `function` in a worker and return its result. A cancellation waits for the function to return.

        The calling loop may be another one than the loop of the pool.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        end: asyncio.Future[None] | None = None
        is_settled = False

        def settle(work: FunctionCall[T]) -> None:
            nonlocal is_settled
            is_settled = True
            if end is not None:
                end.set_result(None)
            if future.done():
                return
            if work.error is not None:
                future.set_exception(work.error)
            else:
                future.set_result(work.result)  # type: ignore[arg-type]  # run() has set it

        self.submit_from(loop, FunctionCall(function, settle, weight))
        try:
            return await future
        except asyncio.CancelledError:
            # The function may be writing to memory or to a file of the caller.
            if not is_settled:
                end = loop.create_future()
                with contextlib.suppress(asyncio.CancelledError):
                    await wait_uncancelled(end)
            raise

    @abstractmethod
    def close(self) -> None:
        """Stop the threads after all submitted work."""


class ThreadPool(WorkerPool):
    """As many threads as cores, with a lower priority than the loops, and one queue for all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int | None = None) -> None:
        self.threads = threads or available_cores()
        self._loop = loop
        self._queue: FairQueue[tuple[Sequence[WorkItem], asyncio.AbstractEventLoop]] = FairQueue()
        self._busy: set[int] = set()  # threads
        self._ready: dict[Hashable, list[WorkItem]] = {}
        self._started: list[threading.Thread] = []

    def submit(self, work: WorkItem, fairness_key: Hashable = None) -> None:
        if not self._ready:
            # Responses arrive in bursts: the items of the rest of this turn join the batch.
            self._loop.call_soon(self.flush)
        ready = self._ready.get(fairness_key)
        if ready is None:
            self._ready[fairness_key] = [work]
        else:
            ready.append(work)

    def submit_batch(self, batch: Sequence[WorkItem]) -> None:
        self._put(batch, None)

    def submit_from(self, loop: asyncio.AbstractEventLoop, work: WorkItem) -> None:
        if loop is self._loop:
            self.submit(work)
        else:
            self._queue.put(([work], loop))

    @property
    def is_idle(self) -> bool:
        return bool(self._started) and not self._busy and self._queue.is_empty

    def _put(self, batch: Sequence[WorkItem], fairness_key: Hashable) -> None:
        if len(self._started) < self.threads:
            self._start()
        self._queue.put((batch, self._loop), fairness_key)

    def close(self) -> None:
        for _ in self._started:
            self._queue.stop_one()
        self._started.clear()

    def flush(self) -> None:
        ready, self._ready = self._ready, {}
        if len(ready) == 1 and self.is_idle:
            (works,) = ready.values()
            if len(works) == 1 and works[0].is_short:
                # Two hand-overs would cost more than the work.
                run_all(works)
                complete_all(works)
                return
        for fairness_key, works in ready.items():
            for batch in cut_batches(works, self.threads):
                self._put(batch, fairness_key)

    def _start(self) -> None:
        thread = threading.Thread(target=self._serve, name=f"aiozarr-worker-{len(self._started)}", daemon=True)
        self._started.append(thread)
        thread.start()

    def _serve(self) -> None:
        lower_priority()
        ident = threading.get_ident()
        while (entry := self._queue.get()) is not None:
            batch, loop = entry
            self._busy.add(ident)
            run_all(batch)
            self._busy.discard(ident)
            try:
                loop.call_soon_threadsafe(complete_all, batch)
            except RuntimeError:
                if loop is self._loop:
                    # The loop is closed: the process is ending.
                    return
            # A waiting thread must not keep bytes and arrays alive.
            del entry, batch, loop


class InlinePool(WorkerPool):
    """Runs the work at once, on the loop: for tests in virtual time, which cannot wait for threads."""

    def __init__(self) -> None:
        self.threads = 1

    def submit(self, work: WorkItem, fairness_key: Hashable = None) -> None:
        self.submit_batch([work])

    def submit_batch(self, batch: Sequence[WorkItem]) -> None:
        run_all(batch)
        asyncio.get_running_loop().call_soon(complete_all, batch)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


def run_captured(work: WorkItem) -> None:
    """Run `work` and store the exception that it raises as its `error`."""
    work.started = monotonic()
    try:
        work.run()
    except BaseException as error:
        work.error = error
    work.ended = monotonic()


def run_all(batch: Sequence[WorkItem]) -> None:
    """Run all items of a batch. If running them fails as a whole, the rest gets the error, and the thread continues."""
    at = 0
    try:
        while at < len(batch):
            count = batch[at].run_together(batch, at)
            if not count:
                run_captured(batch[at])
                count = 1
            at += count
    except BaseException as error:
        for work in islice(batch, at, None):
            work.error = error


def complete_all(batch: Sequence[WorkItem]) -> None:
    """Call `work_completed` of all items of a batch, on the loop."""
    for work in batch:
        work.work_completed()
        # The traceback refers to the item: a cycle would keep arrays alive.
        work.error = None


def cut_batches(works: Sequence[WorkItem], threads: int) -> list[list[WorkItem]]:
    """Return `works` in batches of about 1 MiB, smaller if a thread would have no work otherwise."""
    total = sum([work.weight for work in works])
    target = min(BATCH_BYTES, max(MIN_BATCH_BYTES, -(-total // threads)))
    batches: list[list[WorkItem]] = []
    weight = target
    for work in works:
        if weight >= target:
            batches.append([])
            weight = 0
        batches[-1].append(work)
        weight += work.weight
    return batches


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def lower_priority() -> None:
    """Give the calling thread a lower priority than the loops' threads. Only on Linux has a thread its own niceness."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        thread = threading.get_native_id()
        if os.uname().sysname == "Linux" and os.getpriority(os.PRIO_PROCESS, thread) < NICENESS:
            os.setpriority(os.PRIO_PROCESS, thread, NICENESS)
