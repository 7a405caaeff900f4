"""A write: every object it touches is encoded by the workers and put, overlapped; partial ones are read first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from aiozarr.engine.desk import Desk
from aiozarr.engine.job import Job
from aiozarr.engine.plan.plan import keyed_projections
from aiozarr.engine.progress import Progress
from aiozarr.engine.write.object_write import ObjectWrite
from aiozarr.engine.write.write import Write
from aiozarr.grid import core_shape_of
from aiozarr.grid.projection import Part
from aiozarr.schedule.call import Call
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings


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
        core = core_shape_of(write.maps)
        super().__init__(
            desk,
            queue,
            settings=settings,
            recorder=recorder,
            progress=progress,
            total=len(write.parts),
            bytes_total=prod(core) * write.layout.spec.dtype.itemsize,
        )
        self._write = write
        self._values = np.broadcast_to(write.values, core)
        self._plan: Iterator[tuple[str, Part]] = keyed_projections(write.layout, write.parts, write.prefix)
        self._begun = 0
        self._open: set[ObjectWrite] = set()

    def take(self) -> Call | None:
        if not self.stopped:
            step = next(self._plan, None)
            if step is not None:
                self._begun += 1
                errand = ObjectWrite(self, self._write.store, self._write.layout, self._values, *step)
                self._open.add(errand)
                return errand
            self._begun = self.total
        self.check_end()
        return None

    def pending(self) -> int:
        return self.total - self._begun

    def object_done(self, errand: ObjectWrite, error: BaseException | None) -> None:
        """One stored object has been dealt with."""
        self._open.discard(errand)
        self.desk.changed(self._write.store, errand.key)
        if error is not None:
            self.stop(error)
            return
        self.done += 1
        self.advanced(errand.projection.size * self._write.layout.spec.dtype.itemsize)
        self.check_end()

    def abandon(self) -> None:
        for errand in list(self._open):
            errand.cancel()

    def idle(self) -> bool:
        return not self._open

    def complete(self) -> bool:
        return self.done == self.total

    def report(self) -> None:
        if self.recorder is not None:
            self.recorder.operation(chunks=self.done)
