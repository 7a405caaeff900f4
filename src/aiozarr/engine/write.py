"""A write: every object it touches is encoded by the workers and put, overlapped; partial ones are read first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiozarr.engine.desk import Desk
from aiozarr.engine.job import Job
from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.object_write import ObjectWrite
from aiozarr.engine.plan import keyed_projections
from aiozarr.engine.progress import Progress
from aiozarr.grid import Strided
from aiozarr.grid.projection import ChunkProjection, Map, Projection
from aiozarr.schedule.events import Report
from aiozarr.schedule.scheduler import Call
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store


@dataclass(frozen=True, eq=False)
class Write:
    """Values for elements of one array.

    Attributes:
        prefix: the array's keys begin with it; `""` or ending with `/`.
        maps: the elements, one map per dimension of the array.
        values: broadcast to the core shape: one axis per dimension that is not indexed by an integer. They are cast to
            the array's type as numpy's assignment does.
    """

    layout: ArrayLayout
    store: Store
    prefix: str
    maps: tuple[Map, ...]
    values: NDArray[Any]


class WriteJob(Job):
    """One write as a source of requests. Lives on the I/O loop."""

    def __init__(
        self,
        desk: Desk,
        write: Write,
        *,
        settings: Settings,
        recorder: Report | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        # A shard is encoded by all threads at once, so its errand is not tied to one of them.
        sharded = write.layout.shard is not None
        queue = desk.scheduler.origin(write.store.origin) if sharded else desk.queue_of(write.store)
        super().__init__(desk, queue, settings, recorder)
        self._write = write
        core = tuple([each.count for each in write.maps if isinstance(each, Strided)])
        self._values = np.broadcast_to(write.values, core)
        self._plan: Iterator[tuple[str, ChunkProjection]] = keyed_projections(write.layout, write.maps, write.prefix)
        self._total = len(Projection(write.layout.axes, write.maps))
        self._bytes_total = prod(core) * write.layout.spec.dtype.itemsize
        self._progress = progress
        self._begun = self._done = self._bytes_done = 0
        self._open: set[ObjectWrite] = set()
        self._error: BaseException | None = None
        self._stopped = self._ended = False
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Write everything; after an error or a cancellation nothing is left under way when this returns."""
        if not self._total:
            return
        self.queue.enter(self)
        self.queue.offer(self)
        try:
            await self._future
        except asyncio.CancelledError as cancelled:
            self.stop(cancelled)
            while not self._ended:
                self._future = asyncio.get_running_loop().create_future()
                try:
                    await self._future
                except asyncio.CancelledError:
                    continue
                except Exception:
                    break
            raise
        finally:
            # The traceback of an error holds this frame: no way back may lead from the job to the error.
            self._error = None
            del self._future
            if self.recorder is not None:
                self.recorder.operation(chunks=self._done)

    def next(self) -> Call | None:
        if not self._stopped:
            step = next(self._plan, None)
            if step is not None:
                self._begun += 1
                errand = ObjectWrite(self, self._write.store, self._write.layout, self._values, *step)
                self._open.add(errand)
                return errand
            self._begun = self._total
        self._check_end()
        return None

    def pending(self) -> int:
        return self._total - self._begun

    def object_done(self, errand: ObjectWrite, error: BaseException | None) -> None:
        """One stored object has been dealt with."""
        self._open.discard(errand)
        if error is not None:
            self.stop(error)
        else:
            self._done += 1
            self._bytes_done += errand.projection.size * self._write.layout.spec.dtype.itemsize
            if self._progress is not None:
                self._progress(Progress(self._done, self._total, self._bytes_done, self._bytes_total))
        self._check_end()

    def stop(self, error: BaseException) -> None:
        """Give up: begin nothing more, cancel what is under way, and end once all of that has ended."""
        if not self._stopped:
            self._stopped = True
            self._error = error
            for errand in list(self._open):
                errand.cancel()
        self._check_end()

    def _check_end(self) -> None:
        if self._ended or self._open:
            return
        if not self._stopped and self._done < self._total:
            return
        self._ended = True
        self.queue.leave(self)
        if self._future.done():
            return
        if self._error is None or isinstance(self._error, asyncio.CancelledError):
            self._future.set_result(None)
        else:
            self._future.set_exception(self._error)
