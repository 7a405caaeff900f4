"""A read whose blocks are handed out as they are complete, a bounded number of them ahead of the consumer."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from numpy.typing import NDArray

from aiozarr.common.concurrency import cancel_and_wait
from aiozarr.engine.read.array_read import read_steps
from aiozarr.engine.read.read import Read
from aiozarr.engine.read.read_operation import BlockSink, ReadOperation
from aiozarr.engine.state import EngineState
from aiozarr.engine.workers.decoder import ChunkOutput
from aiozarr.grid.projection import ChunkSelection, CoreRegion
from aiozarr.memory import empty
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings


class _BlockQueue(BlockSink):
    """A new array for each stored object; no more are begun while too many wait for the consumer."""

    def __init__(self, settings: Settings, prefetch: int | None) -> None:
        self._prefetch = prefetch
        self._max_bytes = settings.max_bytes_in_flight
        self._regions: dict[int, CoreRegion] = {}
        self._out_count = 0
        self._out_bytes = 0
        self.blocks: deque[tuple[CoreRegion, NDArray[Any]]] = deque()
        self.arrived = asyncio.Event()

    def may_begin(self) -> bool:
        if self._prefetch is None:
            return self._out_bytes < self._max_bytes
        # The block that the consumer has next is not ahead.
        return self._out_count < self._prefetch + 1

    def target(self, read: Read, part: ChunkSelection) -> ChunkOutput:
        shape, region, moved = part.rebased()
        block = empty(shape, read.out.dtype)
        self._regions[id(block)] = region
        self._out_count += 1
        self._out_bytes += block.nbytes
        return ChunkOutput(block, moved)

    def object_completed(self, out: NDArray[Any]) -> None:
        self.blocks.append((self._regions.pop(id(out)), out))
        self.arrived.set()

    def pop(self) -> tuple[CoreRegion, NDArray[Any]]:
        """Remove and return the next block: there is room for another."""
        region, block = self.blocks.popleft()
        self._out_count -= 1
        self._out_bytes -= block.nbytes
        return region, block


class BlockStream:
    """The blocks of one read, in the order in which they are complete. Lives on the I/O thread."""

    def __init__(
        self, state: EngineState, read: Read, *, settings: Settings, prefetch: int | None, report: Report | None
    ) -> None:
        self._queue = _BlockQueue(settings, prefetch)
        self._operation = ReadOperation(state, [read], read_steps, settings=settings, report=report, sink=self._queue)
        self._task: asyncio.Task[None] | None = None

    async def next(self) -> tuple[CoreRegion, NDArray[Any]] | None:
        """Return the next block and its region of the read's result; None after the last.

        Raises:
            StoreError, CodecError, MissingChunkError: the read has failed; nothing is in flight any more.
        """
        operation, queue = self._operation, self._queue
        if self._task is None:
            self._task = asyncio.ensure_future(operation.run())
            self._task.add_done_callback(lambda _: queue.arrived.set())
        while not queue.blocks:
            if self._task.done():
                self._task.result()
                return None
            queue.arrived.clear()
            await queue.arrived.wait()
        waited = not queue.may_begin()
        block = queue.pop()
        if waited:
            operation.ready_at = operation.now()
        operation.resume()
        return block

    async def aclose(self) -> None:
        """Stop the read and wait for its end."""
        self._queue.blocks.clear()
        if self._task is not None:
            await cancel_and_wait(self._task)
