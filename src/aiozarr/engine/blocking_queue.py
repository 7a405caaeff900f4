"""The queue of blocking stores: worker threads send the requests in batches, and decode their responses at once."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from threading import Lock
from time import monotonic
from typing import TypeVar

from aiozarr.engine.fetch_request import ObjectRequest
from aiozarr.engine.worker_pool import BATCH_BYTES, MIN_BATCH_BYTES, WorkerPool, WorkItem, run_captured
from aiozarr.errors import StoreError
from aiozarr.schedule.coalesce import LOCAL_GAP, MergeLimits
from aiozarr.schedule.requests import RequestSource, ScheduledRequest, retry
from aiozarr.settings import Settings
from aiozarr.stores.blocking import BlockingStore

T = TypeVar("T")

MAX_BATCH_REQUESTS = 512

MAX_LONG_BATCH_BYTES = 4 * BATCH_BYTES
"""A long operation reads and decodes this many bytes per batch: after each batch a worker waits once for the loop."""

BATCHES_PER_THREAD = 3

FILES_OF_TURN = 64
"""Small files that a thread reads in one turn. The time of a turn is measured."""

MAX_FAST_FILE = 25e-6
"""Seconds to read a file that the system has in memory. Switching threads for each file takes about as long."""

MAX_SLOW_TURNS = 3
"""Successive slow turns after which threads take no turns. A single turn may be slow because of other programs."""

SECONDS_WITHOUT_TURNS = 1.0

MAX_TURN_WAIT = 0.02
"""Seconds that a thread waits for its turn. Then it reads without one: the other thread may be waiting for it."""


class FileTurns:
    """Lets one thread at a time read small files while other threads decode.

    Opening, reading and closing a file release the interpreter's lock three times in 4 µs. Threads that do so at the
    same time wait for the lock most of the time, and together are slower than one. If files are slow, because the
    system has to read a disk, threads read side by side.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._slow_turns = 0
        self._without_until = 0.0

    def take(self, read: Callable[[], T], files: int) -> T:
        """Call `read`, which reads `files` small files, when it is this thread's turn, and return its result."""
        if monotonic() < self._without_until or not self._lock.acquire(timeout=MAX_TURN_WAIT):
            return read()
        try:
            begun = monotonic()
            result = read()
            ended = monotonic()
            self._slow_turns = self._slow_turns + 1 if ended - begun > files * MAX_FAST_FILE else 0
            if self._slow_turns == MAX_SLOW_TURNS:
                self._slow_turns, self._without_until = 0, ended + SECONDS_WITHOUT_TURNS
        finally:
            self._lock.release()
        return result


class BlockingQueue:
    """The `RequestQueue` of all blocking stores.

    Sources take turns, request by request. The number of batches that the threads have before them is limited. So are
    the bytes in memory, which are therefore not counted.

    A failed request waits on the loop for its next attempt, so that no thread sleeps, and a cancellation ends the wait.
    All requests of an operation wait side by side. Meanwhile the operation is not asked for more of them.

    Attributes:
        file_turns: lets worker threads take turns at reading small files.
    """

    is_blocking = True

    def __init__(self, pool: WorkerPool) -> None:
        self.file_turns = FileTurns()
        self._pool = pool
        # Ordered by whose turn it is.
        self._sources: OrderedDict[RequestSource, None] = OrderedDict()
        self._prepaid: deque[ScheduledRequest] = deque()
        self._batches = 0
        self._dispatch_is_scheduled = False
        self._retrying: dict[asyncio.Task[None], RequestSource | None] = {}
        self._paused: Counter[RequestSource] = Counter()

    def register(self, source: RequestSource) -> None:
        """Do nothing, because a fixed limit of requests is for servers."""

    def unregister(self, source: RequestSource) -> None:
        self._sources.pop(source, None)
        self._paused.pop(source, None)

    def wake(self, source: RequestSource, *, now: bool = False) -> None:
        self._sources[source] = None
        if now:
            self._dispatch()
        else:
            self._schedule_dispatch()

    def submit_prepaid(self, requests: Sequence[ScheduledRequest]) -> None:
        self._prepaid.extend(requests)
        self._schedule_dispatch()

    def cancel(self, request: ScheduledRequest) -> None:
        if request.cancelled:
            return
        request.cancelled = True
        if request.task is not None:
            request.task.cancel()
        elif request in self._prepaid:
            self._prepaid.remove(request)
            asyncio.get_running_loop().call_soon(request.completed, asyncio.CancelledError())

    def respond(self, request: ScheduledRequest, error: Exception | None) -> None:
        raise AssertionError("workers take the responses of blocking stores")

    def merge_limits(self, settings: Settings) -> MergeLimits:
        # Small requests keep all threads busy; merging only saves system calls.
        gap = LOCAL_GAP if settings.merge_gap_bytes == "auto" else settings.merge_gap_bytes
        return MergeLimits(gap, settings.max_over_read, min(BATCH_BYTES, settings.max_request_bytes))

    def batch_bytes(self, nbytes: int) -> int:
        # Enough batches that no thread is without one.
        return min(MAX_LONG_BATCH_BYTES, max(MIN_BATCH_BYTES, nbytes // (2 * self._pool.threads)))

    def charge(self, nbytes: int) -> None:
        """Do nothing, because bytes are not counted."""

    def observe(self, seconds: float, nbytes: int) -> None:
        """Do nothing, because the cost of a request is a constant, `LOCAL_GAP`."""

    def now(self) -> float:
        return monotonic()

    @property
    def is_idle(self) -> bool:
        return not (self._sources or self._prepaid or self._batches or self._retrying)

    def __repr__(self) -> str:
        return f"BlockingQueue(sources={len(self._sources)}, batches={self._batches})"

    def _schedule_dispatch(self) -> None:
        # Not at once: the caller may be an operation in the midst of something.
        if not self._dispatch_is_scheduled:
            self._dispatch_is_scheduled = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Hand batches to the threads until they have enough."""
        self._dispatch_is_scheduled = False
        while (self._sources or self._prepaid) and self._batches < BATCHES_PER_THREAD * self._pool.threads:
            batch = self._next_batch()
            if not batch:
                return
            self._batches += 1
            batch[-1].is_last = True
            self._pool.submit_batch(batch)

    def _next_batch(self) -> list[BlockingRequestTask]:
        batch: list[BlockingRequestTask] = []
        weight = 0
        while weight < BATCH_BYTES and len(batch) < MAX_BATCH_REQUESTS:
            source, request = self._next_request()
            if request is None:
                break
            assert isinstance(request, ObjectRequest)
            task = BlockingRequestTask(self, request, source)
            batch.append(task)
            weight += task.weight
            if request.is_full_batch:
                break
        return batch

    def _next_request(self) -> tuple[RequestSource | None, ScheduledRequest | None]:
        if self._prepaid:
            return None, self._prepaid.popleft()
        sources = self._sources
        while sources:
            source = next(iter(sources))
            request = None if source in self._paused else source.next()
            if request is None:
                # `next` of a source that has ended unregisters it.
                sources.pop(source, None)
                continue
            if len(sources) > 1 and source in sources:
                sources.move_to_end(source)
            return source, request
        return None, None

    def retry(self, work: BlockingRequestTask, failure: StoreError) -> None:
        """Repeat a request whose first attempt has failed, if its policy allows it. `finish` of the work follows."""
        task = work.request.task = asyncio.get_running_loop().create_task(self._retry(work, failure))
        self._retrying[task] = work.source
        if work.source is not None:
            self._paused[work.source] += 1
        task.add_done_callback(partial(self._retried, work))

    async def _retry(self, work: BlockingRequestTask, failure: StoreError) -> None:
        # In virtual time the first attempt was timed by another clock.
        clock = asyncio.get_running_loop().time
        work.request.started = clock() - (monotonic() - work.request.started)
        await retry(work.request, lambda: self._pool.call(work.send, work.weight), clock, failure)
        await self._pool.call(work.decode, work.weight)

    def _retried(self, work: BlockingRequestTask, task: asyncio.Task[None]) -> None:
        source = self._retrying.pop(task)
        work.request.task = None
        work.finish(asyncio.CancelledError() if task.cancelled() else task.exception())
        if source is None or source not in self._paused:
            return  # the operation has ended
        self._paused[source] -= 1
        if not self._paused[source]:
            del self._paused[source]
            self.wake(source)

    def batch_done(self) -> None:
        """Count a batch that the threads have completed, and hand them others."""
        self._batches -= 1
        self._dispatch()


class BlockingRequestTask(WorkItem):
    """Send one request in a worker thread, and decode its response there."""

    __slots__ = ("failure", "is_last", "queue", "request", "source", "works")

    def __init__(self, queue: BlockingQueue, request: ObjectRequest, source: RequestSource | None) -> None:
        self.queue = queue
        self.request = request
        self.source = source
        self.failure: StoreError | None = None
        self.is_last = False
        self.works = request.start_blocking()
        super().__init__(max(request.held, sum([work.weight for work in self.works])))

    def run(self) -> None:
        request = self.request
        request.started = monotonic()
        request.attempts = 1
        try:
            self.send()
        except StoreError as error:
            self.failure = error
            return
        request.seconds = monotonic() - request.started
        self.decode()

    def send(self) -> None:
        """Send the request once, in a worker."""
        store = self.request.store
        assert isinstance(store, BlockingStore)
        self.request.send_blocking(store)

    def decode(self) -> None:
        """Decode the response, in a worker."""
        for work in self.works:
            run_captured(work)

    def run_together(self, batch: Sequence[WorkItem], at: int) -> int:
        followers = _requests_of(islice(batch, at + 1, None))
        store = self.request.store
        assert isinstance(store, BlockingStore)
        return self.request.send_blocking_with(store, followers)

    def work_completed(self) -> None:
        failure, self.failure = self.failure, None
        if failure is not None and failure.retryable and not self.request.cancelled:
            self.queue.retry(self, failure)
        else:
            if failure is not None:
                failure.attempts, failure.elapsed = 1, monotonic() - self.request.started
            self.finish(failure or self.error)
        if self.is_last:
            self.queue.batch_done()

    def finish(self, error: BaseException | None) -> None:
        """End the request. On the loop."""
        self.request.completed_blocking(self.works, error)


def _requests_of(works: Iterable[WorkItem]) -> Iterator[ObjectRequest]:
    """Iterate over the requests of the first works, up to a work of another kind, because a batch is run in order."""
    for work in works:
        if not isinstance(work, BlockingRequestTask):
            return
        yield work.request
