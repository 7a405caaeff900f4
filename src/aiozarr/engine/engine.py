"""The engine: what the I/O thread does for its callers. It knows arrays, and nothing of how users hold them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import monotonic
from typing import TypeVar

from aiozarr.engine.desk import Desk
from aiozarr.engine.job import Job
from aiozarr.engine.plan.plan import Plan
from aiozarr.engine.progress import Progress
from aiozarr.engine.read.job import ReadJob
from aiozarr.engine.read.probe import probe
from aiozarr.engine.read.read import Read
from aiozarr.engine.read.stream import BlockStream
from aiozarr.engine.session import Session
from aiozarr.engine.work.pool import ThreadPool, WorkerPool
from aiozarr.engine.write.job import WriteJob
from aiozarr.engine.write.write import Write
from aiozarr.grid.touched import takes_long
from aiozarr.schedule.events import Report
from aiozarr.schedule.origin import Origin
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store
from aiozarr.stores.tasks import together

T = TypeVar("T")


class Engine:
    """Everything that is shared by the callers of one loop. All methods run on that loop.

    Args:
        loop: the loop it runs on.
        pool: where codecs run; by default threads of its own.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: WorkerPool | None = None) -> None:
        self.desk = Desk(pool or ThreadPool(loop))

    def session(self, store: Store, settings: Settings, recorder: Report | None = None) -> Session:
        """Return `store` for operations on single keys."""
        return Session(self.desk, store, settings, recorder)

    async def read(
        self,
        reads: Sequence[Read],
        *,
        settings: Settings,
        progress: Callable[[Progress], None] | None = None,
        recorder: Report | None = None,
    ) -> None:
        """Fill the `out` of every read.

        The first error stops the rest and is raised once nothing is under way any more.

        Raises:
            StoreError, CodecError, MissingChunkError, LimitError
        """
        for read in reads:
            read.layout.check_read(settings, read.maps)
        self._prepare(settings)
        await self.sort(reads)
        begun = 0.0 if recorder is None else monotonic()
        jobs = [
            ReadJob(self.desk, group, settings=settings, recorder=recorder, progress=progress)
            for group in self._by_origin(reads)
        ]
        try:
            await _all(jobs)
        finally:
            if recorder is not None:
                recorder.operation(seconds=monotonic() - begun)

    async def write(
        self,
        writes: Sequence[Write],
        *,
        settings: Settings,
        progress: Callable[[Progress], None] | None = None,
        recorder: Report | None = None,
    ) -> None:
        """Store the `values` of every write; each stored object is replaced whole or not at all.

        The first error stops the rest and is raised once nothing is under way any more.

        Raises:
            StoreError, CodecError, LimitError
        """
        for write in writes:
            write.layout.check_write(settings, write.maps)
        self._prepare(settings)
        await self.sort(writes)
        begun = 0.0 if recorder is None else monotonic()
        try:
            await _all(
                [
                    WriteJob(self.desk, write, settings=settings, recorder=recorder, progress=progress)
                    for write in writes
                ]
            )
        finally:
            if recorder is not None:
                recorder.operation(seconds=monotonic() - begun)

    def stream(
        self, read: Read, *, settings: Settings, prefetch: int | None = None, recorder: Report | None = None
    ) -> BlockStream:
        """Return the blocks of a read as they land; `read.out` gives type and shape and is not filled."""
        read.layout.check_read(settings, read.maps)
        self._prepare(settings)
        return BlockStream(self.desk, read, settings=settings, prefetch=prefetch, recorder=recorder)

    async def probe(self, read: Read, *, settings: Settings, recorder: Report | None = None) -> Plan:
        """Return exactly what `read` would fetch now; indexes and sizes are looked up for it."""
        read.layout.check_read(settings, read.maps)
        await self.sort([read])
        return await probe(self.desk, read, settings=settings, recorder=recorder)

    async def sort(self, operations: Sequence[Read | Write]) -> None:
        """Sort long index arrays by chunk, in a worker: the loop has others to serve.

        `read`, `write` and `probe` do so themselves; before a stream begins it is its caller's to do.
        """
        for each in operations:
            if takes_long(each.maps):
                await self.work(partial(getattr, each, "parts"))

    async def work(self, function: Callable[[], T]) -> T:
        """Run what would hold up a loop, such as copying arrays, in a worker."""
        return await self.desk.pool.call(function)

    async def close(self) -> None:
        """Stop what is under way and let the threads go."""
        await self.desk.scheduler.close()
        self.desk.pool.close()

    def _prepare(self, settings: Settings) -> None:
        if settings.decode_threads is not None and isinstance(self.desk.pool, ThreadPool):
            self.desk.pool.resize(settings.decode_threads)

    def _by_origin(self, reads: Iterable[Read]) -> list[list[Read]]:
        groups: dict[int, tuple[Origin, list[Read]]] = {}
        for read in reads:
            queue = self.desk.queue_of(read.store)
            groups.setdefault(id(queue), (queue, []))[1].append(read)
        return [group for _, group in groups.values()]


async def _all(jobs: Sequence[Job]) -> None:
    """Run all jobs; the first error stops the others, and is raised once they have ended."""
    if len(jobs) == 1:
        # Nearly always; a task of its own would cost as much as a small read.
        await jobs[0].run()
    else:
        await together(job.run() for job in jobs)
