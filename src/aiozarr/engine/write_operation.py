"""A write and its operation: workers encode each stored object that is touched, and meanwhile others are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.engine.encoder import INNER_GROUP_BYTES, ObjectEncoder
from aiozarr.engine.group_commit import GroupCommit
from aiozarr.engine.layout import ArrayLayout, keyed_projections
from aiozarr.engine.listed_chunks import ListedChunks
from aiozarr.engine.object_write import ObjectWrite, WriteContext
from aiozarr.engine.operation import Operation
from aiozarr.engine.state import EngineState
from aiozarr.grid.chunk_grid import project
from aiozarr.grid.fields import Fields
from aiozarr.grid.projection import ChunkSelection, SizedSelections
from aiozarr.grid.transform import DimensionMap, core_shape_of
from aiozarr.schedule.events import Report, add_operation
from aiozarr.schedule.requests import RequestQueue, ScheduledRequest
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.common.progress import Progress


@dataclass(frozen=True, eq=False)
class Write:
    """Values for elements of one array.

    Attributes:
        prefix: the prefix of the array's keys: `""`, or ending with `/`.
        maps: the elements: one map per dimension of the array, followed by the maps of `fields`.
        values: broadcast to the core shape: `core_shape_of` the maps. They are cast to the array's type as numpy's
            assignment does.
        fields: the fields of each element that are written, or None for all.
        stores_empty: whether chunks of fill values are stored. False: they are erased. None: they are stored if they
            were before, or if the metadata have no fill value.
        is_guarded: True to warn if the store cannot guard partial writes against other processes.
        listed: the chunks, in place of `maps`, if the caller lists them.
    """

    layout: ArrayLayout
    store: Store
    prefix: str
    maps: tuple[DimensionMap, ...]
    values: NDArray[Any]
    fields: Fields | None = None
    stores_empty: bool | None = None
    is_guarded: bool = True
    listed: ListedChunks | None = None

    @classmethod
    def of_listed(cls, store: Store, chunks: ListedChunks, values: NDArray[Any], *, stores_empty: bool) -> Self:
        """Return the write of listed chunks.

        A library that lists chunks has its own rule of empty ones. Its users know that one of two processes that write
        parts of a chunk may lose: nothing is warned of.
        """
        return cls(chunks.layout, store, "", (), values, stores_empty=stores_empty, is_guarded=False, listed=chunks)

    @property
    def core_shape(self) -> tuple[int, ...]:
        """The shape that `values` are broadcast to."""
        if self.listed is None:
            return core_shape_of(self.maps)
        return self.values.shape or self.listed.output_extents

    @fork_safe_cached_property
    def parts(self) -> SizedSelections:
        """The stored objects that are touched, as `Read.parts`."""
        return project(self.layout.axes, self.maps, self.fields) if self.listed is None else self.listed


class WriteOperation(Operation):
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
        queue: RequestQueue = state.loop_queue(write.store) if sharded else state.queue_for(write.store)
        core = write.core_shape
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
        self._state = state
        self._context = WriteContext(
            state,
            group_commit,
            ObjectEncoder(write.layout, np.broadcast_to(write.values, core), stores_empty=write.stores_empty),
            asyncio.Semaphore(_shards_encoded_at_once(state.pool.threads, write.layout.spec.nbytes)),
            write.stores_empty,
            write.is_guarded,
        )
        self._plan: Iterator[tuple[str, ChunkSelection]] = keyed_projections(write.layout, write.parts, write.prefix)
        self._begun = 0
        self._open: set[ObjectWrite] = set()

    def next_request(self) -> ScheduledRequest | None:
        if not self.stopped:
            step = next(self._plan, None)
            if step is not None:
                self._begun += 1
                request = ObjectWrite(self, self._context, self._write.store, *step, self._object_completed)
                self._open.add(request)
                return request
            self._begun = self.total
        self.check_end()
        return None

    def pending(self) -> int:
        return self.total - self._begun

    def _object_completed(self, request: ObjectWrite, error: BaseException | None) -> None:
        self._open.discard(request)
        self._state.invalidate(self._write.store, request.key)
        if error is not None:
            self.stop(error)
            return
        self.done += 1
        self.report_progress(request.projection.size * self._write.layout.spec.dtype.itemsize)
        self.check_end()

    def abandon(self) -> None:
        for request in list(self._open):
            self.queue.cancel(request)

    def is_idle(self) -> bool:
        return not (self._open or self._awaited)

    def add_to_report(self) -> None:
        if self.report is not None:
            add_operation(self.report, chunks=self.done)


def _shards_encoded_at_once(threads: int, shard_bytes: int) -> int:
    """Return how many shards give every thread two groups of inner chunks, but at least two shards."""
    return max(2, -(-2 * threads * INNER_GROUP_BYTES // max(1, shard_bytes)))
