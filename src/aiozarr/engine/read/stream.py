"""A read whose blocks are handed out as they are complete, a bounded number of them ahead of the consumer."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from numpy.typing import NDArray

from aiozarr.common.concurrency import cancel_and_wait
from aiozarr.engine.read.array_read import ArrayRead
from aiozarr.engine.read.read import Read
from aiozarr.engine.state import EngineState
from aiozarr.grid.projection import ChunkSelection, CoreRegion
from aiozarr.memory import empty
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings


class _StreamRead(ArrayRead):
    """A read into one new array per stored object, which begins no more while too many wait for the consumer."""

    def __init__(
        self, state: EngineState, read: Read, *, settings: Settings, prefetch: int | None, report: Report | None
    ) -> None:
        super().__init__(state, [read], settings=settings, report=report)
        self._prefetch = prefetch
        self._regions: dict[int, CoreRegion] = {}
        self._out_count = 0
        self._out_bytes = 0
        self.blocks: deque[tuple[CoreRegion, NDArray[Any]]] = deque()
        self.arrived = asyncio.Event()

    def may_begin(self) -> bool:
        if self._prefetch is None:
            return self._out_bytes < self.max_bytes
        # The block that the consumer has next is not ahead.
        return self._out_count < self._prefetch + 1

    def target(self, read: Read, part: ChunkSelection) -> tuple[NDArray[Any], ChunkSelection]:
        shape, region, moved = part.rebased()
        block = empty(shape, read.out.dtype)
        self._regions[id(block)] = region
        self._out_count += 1
        self._out_bytes += block.nbytes
        return block, moved

    def object_completed(self, out: NDArray[Any]) -> None:
        self.blocks.append((self._regions.pop(id(out)), out))
        self.arrived.set()

    def taken(self, block: NDArray[Any]) -> None:
        """The consumer has taken this block: there is room for another."""
        waited = not self.may_begin()
        self._out_count -= 1
        self._out_bytes -= block.nbytes
        if waited:
            self.ready_at = self.now()
        self.queue.wake(self)


class BlockStream:
    """The blocks of one read, in the order in which they are complete. Lives on the I/O thread."""

    def __init__(
        self, state: EngineState, read: Read, *, settings: Settings, prefetch: int | None, report: Report | None
    ) -> None:
        self._operation = _StreamRead(state, read, settings=settings, prefetch=prefetch, report=report)
        self._task: asyncio.Task[None] | None = None

    async def next(self) -> tuple[CoreRegion, NDArray[Any]] | None:
        """Return the next block and its region of the read's result; None after the last.

        Raises:
            StoreError, CodecError, MissingChunkError: the read has failed; nothing is in flight any more.
        """
        operation = self._operation
        if self._task is None:
            self._task = asyncio.ensure_future(operation.run())
            self._task.add_done_callback(lambda _: operation.arrived.set())
        while not operation.blocks:
            if self._task.done():
                self._task.result()
                return None
            operation.arrived.clear()
            await operation.arrived.wait()
        region, block = operation.blocks.popleft()
        operation.taken(block)
        return region, block

    async def aclose(self) -> None:
        """Stop the read and wait for its end."""
        self._operation.blocks.clear()
        if self._task is not None:
            await cancel_and_wait(self._task)
