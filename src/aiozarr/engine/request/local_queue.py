"""The queue of a blocking store: calls go to the workers in batches, where bytes are read and decoded in one hop."""

from __future__ import annotations

import time
from collections import deque

from aiozarr.engine.plan.bounds import LOCAL_GAP
from aiozarr.engine.request.errand import Errand
from aiozarr.engine.work.pool import BATCH_BYTES, MIN_BATCH_BYTES, Work, WorkerPool
from aiozarr.errors import StoreError
from aiozarr.schedule.call import Source
from aiozarr.schedule.coalesce import Economy
from aiozarr.schedule.origin import Origin
from aiozarr.settings import Settings
from aiozarr.stores.blocking import BlockingStore

BATCH_CALLS = 256
RUN_BYTES = 4 * BATCH_BYTES
"""What a worker reads and decodes of a long operation in one hop: each hop makes it wait for the loop's thread once."""

BATCHES_PER_THREAD = 3


class LocalQueue(Origin):
    """Callers in turn, as in `Origin`; what is limited is the number of batches that the threads have before them."""

    blocking = True

    def __init__(self, pool: WorkerPool) -> None:
        super().__init__()
        self._pool = pool
        self._sources: deque[Source] = deque()
        self._batches = 0
        self._pumping = False

    def economy(self, settings: Settings) -> Economy:
        # Small requests keep all threads busy; merging only saves system calls.
        gap = LOCAL_GAP if settings.gap == "auto" else settings.gap
        return Economy(gap, settings.max_over_read, min(BATCH_BYTES, settings.max_request_bytes))

    def enter(self, source: Source) -> None:
        pass

    def leave(self, source: Source) -> None:
        if source in self._sources:
            self._sources.remove(source)

    def release(self, cost: int) -> None:
        pass

    def now(self) -> float:
        """Return the time by the clock of the workers, who send the calls."""
        return time.monotonic()

    def offer(self, source: Source) -> None:
        if source not in self._sources:
            self._sources.append(source)
        self.pump()

    def pump(self) -> None:
        """Send batches while the threads have too few before them."""
        # A source that is asked for its next call may offer itself again: the loop that asks it sees to that.
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._sources and self._batches < BATCHES_PER_THREAD * self._pool.threads:
                batch = self._next_batch()
                if not batch:
                    return
                self._batches += 1
                batch[-1].last = True
                self._pool.submit_batch(batch)
        finally:
            self._pumping = False

    def _next_batch(self) -> list[ErrandWork]:
        batch: list[ErrandWork] = []
        weight = 0
        while self._sources and weight < BATCH_BYTES and len(batch) < BATCH_CALLS:
            source = self._sources[0]
            call = source.next()
            if call is None:
                # `next` may have ended the source, which takes it out of the queue.
                if self._sources and self._sources[0] is source:
                    self._sources.popleft()
                continue
            self._sources.rotate(-1)
            assert isinstance(call, Errand)
            work = ErrandWork(self, call)
            batch.append(work)
            weight += work.weight
            if call.fills_batch:
                break
        return batch

    def share(self, nbytes: int) -> int:
        """Return how many bytes a batch of an operation on `nbytes` has, so that no thread is left without work."""
        return min(RUN_BYTES, max(MIN_BATCH_BYTES, nbytes // (2 * self._pool.threads)))

    def batch_done(self) -> None:
        """The threads have one batch less before them."""
        self._batches -= 1
        self.pump()


class ErrandWork(Work):
    """Carry out one errand in a worker."""

    __slots__ = ("errand", "last", "queue", "works")

    def __init__(self, queue: LocalQueue, errand: Errand) -> None:
        self.queue = queue
        self.errand = errand
        self.last = False
        self.works = errand.begin_now()
        super().__init__(max(errand.cost, sum([work.weight for work in self.works])))

    def run(self) -> None:
        errand = self.errand
        # For the policy of repetitions, whoever observes.
        begun = errand.started = time.monotonic()
        store = errand.store
        assert isinstance(store, BlockingStore)
        while True:
            errand.attempts += 1
            try:
                errand.send_now(store)
            except StoreError as error:
                errand.seconds = time.monotonic() - begun
                delay = errand.policy.delay(error, attempt=errand.attempts, elapsed=errand.seconds, jitter=0.5)
                if delay is None:
                    error.attempts, error.elapsed = errand.attempts, errand.seconds
                    raise
                time.sleep(delay)
            else:
                break
        if errand.watch is not None:
            errand.seconds = time.monotonic() - begun
        errand.unpack_now(self.works)

    def finished(self) -> None:
        self.errand.finish_now(self.works, self.error)
        if self.last:
            self.queue.batch_done()
