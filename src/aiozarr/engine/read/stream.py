"""A read whose blocks are handed out as they land, a bounded number of them ahead of whoever takes them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from numpy.typing import NDArray

from aiozarr.engine.desk import Desk
from aiozarr.engine.read.job import ReadJob
from aiozarr.engine.read.read import Read
from aiozarr.grid.projection import CoreRegion, Part
from aiozarr.memory import empty
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings


class _StreamJob(ReadJob):
    """A read into one new array per stored object, which begins no further objects while too many wait to be taken."""

    def __init__(
        self, desk: Desk, read: Read, *, settings: Settings, prefetch: int | None, recorder: Report | None
    ) -> None:
        super().__init__(desk, [read], settings=settings, recorder=recorder)
        self._prefetch = prefetch
        self._regions: dict[int, CoreRegion] = {}
        self._out_count = 0
        self._out_bytes = 0
        self.blocks: deque[tuple[CoreRegion, NDArray[Any]]] = deque()
        self.arrived = asyncio.Event()

    def may_begin(self) -> bool:
        if self._prefetch is None:
            return self._out_bytes < self.max_bytes
        # The one that is being taken is not ahead of anybody.
        return self._out_count < self._prefetch + 1

    def target(self, read: Read, projection: Part) -> tuple[NDArray[Any], Part]:
        shape, region, moved = projection.detached()
        block = empty(shape, read.out.dtype)
        self._regions[id(block)] = region
        self._out_count += 1
        self._out_bytes += block.nbytes
        return block, moved

    def completed(self, out: NDArray[Any]) -> None:
        self.blocks.append((self._regions.pop(id(out)), out))
        self.arrived.set()

    def taken(self, block: NDArray[Any]) -> None:
        """Whoever takes the blocks has taken this one: there is room for another."""
        waited = not self.may_begin()
        self._out_count -= 1
        self._out_bytes -= block.nbytes
        if waited:
            self.ready_at = self.now()
        self.queue.offer(self)


class BlockStream:
    """The blocks of one read, in the order in which they land. Lives on the I/O thread."""

    def __init__(
        self, desk: Desk, read: Read, *, settings: Settings, prefetch: int | None, recorder: Report | None
    ) -> None:
        self._job = _StreamJob(desk, read, settings=settings, prefetch=prefetch, recorder=recorder)
        self._task: asyncio.Task[None] | None = None

    async def next(self) -> tuple[CoreRegion, NDArray[Any]] | None:
        """Return the next block and its place in the read's result; None after the last.

        Raises:
            StoreError, CodecError, MissingChunkError: the read has failed; nothing is under way any more.
        """
        job = self._job
        if self._task is None:
            self._task = asyncio.ensure_future(job.run())
            self._task.add_done_callback(lambda _: job.arrived.set())
        while not job.blocks:
            if self._task.done():
                self._task.result()
                return None
            job.arrived.clear()
            await job.arrived.wait()
        region, block = job.blocks.popleft()
        job.taken(block)
        return region, block

    async def aclose(self) -> None:
        """Stop the read and wait for its end."""
        self._job.blocks.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()
