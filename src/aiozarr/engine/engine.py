"""The face of the engine: reads, writes, plans, and operations on single keys, for the callers of one I/O thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from aiozarr.common.concurrency import TurnGate, gather_all
from aiozarr.engine.group_commit import GroupCommit
from aiozarr.engine.state import EngineState
from aiozarr.engine.worker_pool import BATCH_BYTES, ThreadPool, WorkerPool
from aiozarr.errors import AiozarrError, StoreError
from aiozarr.schedule.events import Report, add_operation
from aiozarr.schedule.requests import RequestQueue, RequestSource, ScheduledRequest, retry_delay
from aiozarr.settings import Settings
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.capabilities import LocatingStore
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.common.progress import Progress
    from aiozarr.engine.array_read import BlockStream
    from aiozarr.engine.object_write import ObjectWrite
    from aiozarr.engine.plan import Plan
    from aiozarr.engine.read import Read
    from aiozarr.engine.scheduled_store import ScheduledStore
    from aiozarr.engine.write_operation import Write

T = TypeVar("T")


MAX_STARTS_PER_TURN = 64
"""Operations that begin in one turn of the loop. One takes 0.1 to 0.25 ms, so that others wait 16 ms at most; and 64
readers of neighbours in a shard still share requests, which are cut once a turn."""


class Engine:
    """The engine of one loop, which all callers share. All methods run on that loop.

    Reads and writes of arrays import their modules on first use, because copies need none of them, nor numpy.

    Args:
        loop: the loop it runs on.
        pool: where codecs run; by default threads of its own.

    Attributes:
        state: the state that all readers and writers share.
        group_commit: partial writes that wait for the one in progress.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: WorkerPool | None = None) -> None:
        self._loop = loop
        self._clock_offset: float | None = None
        self.state = EngineState(pool or ThreadPool(loop))
        self.group_commit: GroupCommit[ObjectWrite] = GroupCommit(self.state.key_locks)
        self._start_gate = TurnGate(MAX_STARTS_PER_TURN)

    def scheduled(self, store: Store, settings: Settings, report: Report | None = None) -> ScheduledStore:
        """Return `store` for operations on single keys, which wait their turn like everything else."""
        from aiozarr.engine.scheduled_store import ScheduledStore

        return ScheduledStore(self.state, store, settings, report)

    def key_lock(self, store: Store, key: str) -> AbstractAsyncContextManager[None]:
        """Return the lock that partial writes of the object `key` hold in this process."""
        return self.state.key_locks.hold(store.object_identity(key))

    @contextmanager
    def request_limit(self, settings: Settings, *stores: Store) -> Iterator[None]:
        """Let a fixed `Settings.max_requests` hold at the queues of `stores` meanwhile."""
        limit = _RequestLimit(settings)
        queues = {id(queue): queue for queue in [self.state.loop_queue(store) for store in stores]}
        for queue in queues.values():
            queue.register(limit)
        try:
            yield
        finally:
            for queue in queues.values():
                queue.unregister(limit)

    def invalidate(self, store: Store, key: str | None) -> None:
        """Let later readers see that this process has changed the object `key`, or many objects (None)."""
        self.state.invalidate(store, key)

    def idle(self) -> bool:
        """Return whether nothing is queued, in flight, being decoded or locked."""
        return self.state.is_idle and self.group_commit.is_idle

    def may_read_from_memory(self, store: Store, settings: Settings) -> bool:
        """Return whether chunks of `store` can be in memory at all. Any thread."""
        return self.state.has_read_arrays and (
            settings.chunk_cache_bytes > 0 or (isinstance(store, BlockingStore) and store.is_in_memory)
        )

    def may_read_from_disk(self, store: Store, settings: Settings) -> bool:
        """Return whether a thread that may block can read a small chunk now: no other read is under way. Any thread."""
        if not isinstance(store, BlockingStore) or settings.chunk_cache_bytes or settings.timeout is not None:
            return False
        state = self.state
        return state.has_read_arrays and state.blocking_queue.is_idle and state.pool.is_idle

    def read_direct(self, read: Read, settings: Settings, *, may_block: bool = False) -> bool:
        """Fill the `out` of a small read if nothing has to be waited for; return whether it is filled. Any thread.

        Args:
            read: as `may_read_from_memory` or `may_read_from_disk` allows.
            settings: of the reader.
            may_block: whether the calling thread may wait for the disk.

        Raises:
            LimitError: as `read`.
            StoreError: with `may_block`, if the ordinary read may repeat the request after a pause.
        """
        from aiozarr.engine.read import read_direct

        read.layout.check_read(settings, read.maps)
        # The time of an idle loop of uvloop stands still.
        now = self._loop.time()
        if self._clock_offset is None:
            self._clock_offset = now - monotonic()
        now = max(now, monotonic() + self._clock_offset)
        return read_direct(self.state, read, settings, now, may_block=may_block)

    async def read_direct_in_worker(self, read: Read, settings: Settings) -> bool:
        """Have a worker do `read_direct`, without the I/O thread. Any loop."""
        try:
            return await self.state.pool.call(partial(self.read_direct, read, settings, may_block=True))
        except StoreError as error:
            # As after a failed request: a busy store gets its pause, in which a cancellation takes effect.
            delay = retry_delay(error, settings)
        if delay is not None:
            await asyncio.sleep(delay)
        return False

    async def read(
        self,
        reads: Sequence[Read],
        *,
        settings: Settings,
        progress: Callable[[Progress], None] | None = None,
        report: Report | None = None,
    ) -> None:
        """Fill the `out` of every read.

        The first error stops the rest and is raised when nothing is in flight any more.

        Raises:
            StoreError, CodecError, MissingChunkError, LimitError
        """
        from aiozarr.engine.array_read import read_steps
        from aiozarr.engine.read_operation import ReadOperation

        for read in reads:
            read.layout.check_read(settings, read.maps)
        if not self._start_gate.try_enter():
            await self._start_gate.enter()
        await self.prepare(reads, settings)
        begun = 0.0 if report is None else monotonic()
        groups: Sequence[Sequence[Read]] = [reads] if len(reads) == 1 else self._by_origin(reads)
        operations = [
            ReadOperation(self.state, group, read_steps, settings=settings, report=report, progress=progress)
            for group in groups
        ]
        try:
            if len(operations) == 1:
                await operations[0].run()
            else:
                await gather_all(each.run() for each in operations)
        finally:
            if report is not None:
                add_operation(report, seconds=monotonic() - begun)

    async def write(
        self,
        write: Write,
        *,
        settings: Settings,
        progress: Callable[[Progress], None] | None = None,
        report: Report | None = None,
    ) -> None:
        """Store the `values` of a write; each stored object is replaced whole or not at all.

        The first error stops the rest and is raised when nothing is in flight any more.

        Raises:
            StoreError, CodecError, LimitError
        """
        from aiozarr.engine.write_operation import WriteOperation

        write.layout.check_write(settings, write.maps)
        await self._start_gate.enter()
        await self.prepare((write,), settings)
        begun = 0.0 if report is None else monotonic()
        commit = self.group_commit
        try:
            await WriteOperation(self.state, write, commit, settings=settings, report=report, progress=progress).run()
        finally:
            if report is not None:
                add_operation(report, seconds=monotonic() - begun)

    def stream(
        self, read: Read, *, settings: Settings, prefetch: int | None = None, report: Report | None = None
    ) -> BlockStream:
        """Return the blocks of a read as they are complete; `read.out` gives type and shape and is not filled."""
        from aiozarr.engine.array_read import BlockStream

        read.layout.check_read(settings, read.maps)
        return BlockStream(self.state, read, settings=settings, prefetch=prefetch, report=report)

    async def probe(self, read: Read, *, settings: Settings, report: Report | None = None) -> Plan:
        """Return exactly what `read` would fetch now; indexes and sizes are looked up for it."""
        from aiozarr.engine.probe import probe

        read.layout.check_read(settings, read.maps)
        await self.prepare([read], settings)
        return await probe(self.state, read, settings=settings, report=report)

    async def prepare(self, operations: Sequence[Read | Write], settings: Settings) -> None:
        """Sort long index arrays by chunk, in a worker, and have the first of located chunks located.

        The others usually need nothing else, and are begun in one turn of the loop then. `read`, `write` and `probe` do
        this themselves. The caller of `stream` must do it before the stream begins.
        """
        from aiozarr.grid.chunk_grid import is_expensive

        if settings.decode_threads is not None:
            self.state.pool.resize(settings.decode_threads)
        for each in operations:
            if is_expensive(each.maps):
                await self.run_in_worker(partial(getattr, each, "parts"))
            if isinstance(each.store, LocatingStore) and (first := next(iter(each.parts), None)) is not None:
                with suppress(AiozarrError):  # the request for the chunk raises it
                    await each.store.prepare(each.prefix + each.layout.key_of(first))

    async def run_in_worker(self, function: Callable[[], T], nbytes: int = BATCH_BYTES) -> T:
        """Run `function` in a worker because it would hold up a loop, for example by copying arrays.

        Args:
            function: the work.
            nbytes: the bytes that it moves; a worker takes several small pieces of work at once.
        """
        return await self.state.pool.call(function, nbytes)

    async def close(self) -> None:
        """Stop everything in flight and let the threads end."""
        await self.state.close()
        self.state.pool.close()

    def _by_origin(self, reads: Iterable[Read]) -> list[list[Read]]:
        groups: dict[int, tuple[RequestQueue, list[Read]]] = {}
        for read in reads:
            queue = self.state.queue_for(read.store)
            groups.setdefault(id(queue), (queue, []))[1].append(read)
        return [group for _, group in groups.values()]


class _RequestLimit(RequestSource):
    """A caller without requests, whose limit holds while it is registered."""

    def __init__(self, settings: Settings) -> None:
        self.limit_to(settings)

    def next(self) -> ScheduledRequest | None:
        return None

    def pending(self) -> int:
        return 0
