"""A write: workers encode each stored object that it touches, and the store receives it, overlapped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from aiozarr.engine.group_commit import GroupCommit
from aiozarr.engine.plan.plan import keyed_projections
from aiozarr.engine.progress import Progress
from aiozarr.engine.state import EngineState
from aiozarr.engine.write.object_write import INNER_GROUP_BYTES, ObjectWrite, ObjectWriteOperation
from aiozarr.engine.write.write import Write
from aiozarr.grid.projection import ChunkSelection
from aiozarr.schedule.events import Report
from aiozarr.schedule.queue import RequestQueue
from aiozarr.schedule.scheduled_request import ScheduledRequest
from aiozarr.settings import Settings


class WriteOperation(ObjectWriteOperation):
    """One write, as a source of requests. Lives on the I/O loop."""

    def __init__(
        self,
        state: EngineState,
        write: Write,
        group_commit: GroupCommit[ObjectWrite],
        *,
        settings: Settings,
        report: Report | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        # All workers encode one shard together, so its request is a coroutine, also if the store blocks.
        sharded = write.layout.shard is not None
        queue: RequestQueue = state.queues.origin(write.store.origin) if sharded else state.queue_for(write.store)
        core = write.core_shape
        self.state = state
        self.group_commit = group_commit
        super().__init__(
            state.pool,
            queue,
            settings=settings,
            report=report,
            progress=progress,
            total=len(write.parts),
            bytes_total=prod(core) * write.layout.spec.dtype.itemsize,
        )
        self._write = write
        self.stores_empty = write.stores_empty
        self.is_guarded = write.is_guarded
        self._values = np.broadcast_to(write.values, core)
        self._plan: Iterator[tuple[str, ChunkSelection]] = keyed_projections(write.layout, write.parts, write.prefix)
        self._begun = 0
        self.encoding = asyncio.Semaphore(_shards_encoded_at_once(state.pool.threads, write.layout.spec.nbytes))
        self._open: set[ObjectWrite] = set()

    def next_request(self) -> ScheduledRequest | None:
        if not self.stopped:
            step = next(self._plan, None)
            if step is not None:
                self._begun += 1
                request = ObjectWrite(self, self._write.store, self._write.layout, self._values, *step)
                self._open.add(request)
                return request
            self._begun = self.total
        self.check_end()
        return None

    def pending(self) -> int:
        return self.total - self._begun

    def object_done(self, request: ObjectWrite, error: BaseException | None) -> None:
        self._open.discard(request)
        self.state.invalidate(self._write.store, request.key)
        if error is not None:
            self.stop(error)
            return
        self.done += 1
        self.report_progress(request.projection.size * self._write.layout.spec.dtype.itemsize)
        self.check_end()

    def abandon(self) -> None:
        for request in list(self._open):
            request.cancel()

    def is_idle(self) -> bool:
        return not self._open

    def is_complete(self) -> bool:
        return self.done == self.total

    def add_to_report(self) -> None:
        if self.report is not None:
            self.report.operation(chunks=self.done)


def _shards_encoded_at_once(threads: int, shard_bytes: int) -> int:
    """Return how many shards give every thread two groups of inner chunks, but at least two shards."""
    return max(2, -(-2 * threads * INNER_GROUP_BYTES // max(1, shard_bytes)))
