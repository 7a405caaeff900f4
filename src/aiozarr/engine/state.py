"""The state that all readers and writers of one I/O thread share: queues, chunks in flight, caches, locks, workers."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import TYPE_CHECKING

from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.engine.blocking_queue import BlockingQueue
from aiozarr.engine.caches import SizeCache
from aiozarr.engine.group_commit import KeyLocks
from aiozarr.engine.worker_pool import WorkerPool
from aiozarr.errors import UnsafeWriteWarning
from aiozarr.schedule.requests import RequestQueue
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.engine.caches import ChunkCaches
    from aiozarr.engine.chunk_request import RangeCoalescer
    from aiozarr.engine.in_flight import ChunksInFlight
    from aiozarr.engine.shard_index import ShardIndexes
    from aiozarr.schedule.executor import RequestExecutor, RequestQueues


MAX_NOTED_STORES = 4096
"""Stores that a set notes. A service may open a store for each of its users."""


class NotedStores(set[Hashable]):
    """Identities of stores. When there are too many, all are forgotten, and noted again later."""

    def add(self, element: Hashable) -> None:
        """Note a store."""
        if len(self) >= MAX_NOTED_STORES:
            self.clear()
        super().add(element)


class EngineState:
    """Shared state of one I/O thread; used on its loop only.

    The tables of array reads are made when the first array is read: copies need neither them nor numpy.

    Attributes:
        pool: the worker threads.
        blocking_queue: the request queue of blocking stores.
        sizes: sizes of shards, for stores that refuse suffix ranges.
        key_locks: stored objects that are being changed in part.
        stores_without_versions: stores whose responses lack the promised version.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.blocking_queue = BlockingQueue(pool)
        self.sizes = SizeCache()
        self.key_locks = KeyLocks()
        self.stores_without_versions = NotedStores()
        self._warned = NotedStores()

    @fork_safe_cached_property
    def queues(self) -> RequestQueues:
        """The queues of the requests that the loop sends."""
        from aiozarr.schedule.executor import RequestQueues

        return RequestQueues(self._after_responses)

    @fork_safe_cached_property
    def in_flight(self) -> ChunksInFlight:
        """Chunks that are being fetched."""
        from aiozarr.engine.in_flight import ChunksInFlight

        return ChunksInFlight()

    @fork_safe_cached_property
    def indexes(self) -> ShardIndexes:
        """Shard indexes, cached or in flight."""
        from aiozarr.engine.shard_index import ShardIndexes

        return ShardIndexes(self.sizes)

    @fork_safe_cached_property
    def chunk_caches(self) -> ChunkCaches:
        """Decoded chunks, if settings have a cache. Direct reads look into them from other threads."""
        from aiozarr.engine.caches import ChunkCaches

        return ChunkCaches()

    @fork_safe_cached_property
    def coalescer(self) -> RangeCoalescer:
        """Ranges that wait for the end of this turn of the loop, to be merged into requests."""
        from aiozarr.engine.chunk_request import RangeCoalescer

        return RangeCoalescer()

    def _after_responses(self) -> None:
        """Request the ranges that responses have located, and give the workers what has come."""
        coalescer: RangeCoalescer | None = vars(self).get("coalescer")
        if coalescer is not None:
            coalescer.flush()
        self.pool.flush()

    @property
    def indexes_if_made(self) -> ShardIndexes | None:
        """The shard indexes; None if no shard was read. Any thread may ask."""
        return vars(self).get("indexes")

    @property
    def has_read_arrays(self) -> bool:
        """True if the tables of array reads have been made. Any thread may ask."""
        return "chunk_caches" in vars(self)

    def loop_queue(self, store: Store) -> RequestExecutor:
        """Return the queue of the requests to `store` that the loop sends: single calls of a blocking store, too."""
        return self.queues.of(store.origin)

    def queue_for(self, store: Store) -> RequestQueue:
        """Return the queue of the requests for chunks of `store`, which workers send if it blocks."""
        return self.blocking_queue if isinstance(store, BlockingStore) else self.queues.of(store.origin)

    def has_versions(self, store: Store) -> bool:
        """Return whether responses of `store` have the version of the object."""
        return store.supports.conditional_reads and store.identity not in self.stores_without_versions

    def invalidate(self, store: Store, key: str | None) -> None:
        """Let later readers see that this process has changed the object `key`, or many objects (None).

        Chunks in flight may have been read before it: their subscribers get them, later readers do not.
        """
        if not self.has_read_arrays:
            return
        indexes = self.indexes_if_made
        if (indexes is None or indexes.is_idle) and not (self.in_flight or self.chunk_caches):
            return
        identity = None if key is None else store.object_identity(key)
        self.in_flight.invalidate(key, identity)
        if indexes is not None:
            indexes.invalidate(key, identity)
        if key is None:
            self.chunk_caches.clear()
        else:
            self.chunk_caches.drop_object(identity)

    def warn_unsafe(self, store: Store) -> None:
        """Warn, once per store, that partial writes to it are safe in this process only. Any thread."""
        if store.identity in self._warned:
            return
        self._warned.add(store.identity)
        warnings.warn(
            f"{store.url} does not support conditional writes: partial chunk writes are serialised in this "
            "process only, and updates are lost if another process writes the same chunks",
            UnsafeWriteWarning,
            stacklevel=2,
        )

    @property
    def is_idle(self) -> bool:
        """True if nothing is queued, in flight, waiting to be merged, or locked."""
        made = [vars(self)[name] for name in ("queues", "indexes", "coalescer") if name in vars(self)]
        if not all([part.is_idle for part in (self.blocking_queue, self.key_locks, *made)]):
            return False
        return not (self.has_read_arrays and self.in_flight)

    async def close(self) -> None:
        """Cancel all requests in flight and wait for their ends."""
        if "queues" in vars(self):
            await self.queues.close()
