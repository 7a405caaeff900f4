"""What all readers and writers of one I/O thread share: queues, chunks in flight, shard indexes, workers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Hashable

from aiozarr.engine.flight import Flight
from aiozarr.engine.index_cache import IndexCache
from aiozarr.engine.index_fetch import IndexFetch
from aiozarr.engine.key_locks import KeyLocks
from aiozarr.engine.local_queue import LocalQueue
from aiozarr.engine.pool import WorkerPool
from aiozarr.engine.size_cache import SizeCache
from aiozarr.errors import UnsafeWriteWarning
from aiozarr.schedule.events import Event
from aiozarr.schedule.scheduler import Origin, Scheduler
from aiozarr.settings import DEFAULT_SETTINGS
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store

_log = logging.getLogger("aiozarr")


class Desk:
    """Shared state of the I/O thread; touched on its loop only.

    Attributes:
        pool: the worker threads.
        scheduler: the queues of the stores that are reached over a network.
        local: the queue of the stores that block.
        flights: chunks that are being fetched, by token.
        indexes: shard indexes that were decoded.
        sizes: sizes of shards, for stores that refuse suffix ranges.
        index_fetches: shard indexes that are being fetched, by token.
        locks: stored objects that are being changed in part.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.scheduler = Scheduler()
        self.local = LocalQueue(pool)
        self.flights: dict[Hashable, Flight] = {}
        self.indexes = IndexCache(DEFAULT_SETTINGS.index_cache_bytes)
        self.sizes = SizeCache()
        self.index_fetches: dict[Hashable, IndexFetch] = {}
        self.locks = KeyLocks()
        self._warned: set[Hashable] = set()

    def queue_of(self, store: Store) -> Origin:
        """Return the queue that requests to `store` wait in."""
        return self.local if isinstance(store, BlockingStore) else self.scheduler.origin(store.origin)

    def warn_unsafe(self, store: Store) -> None:
        """Say, once per store, that partial writes to it are safe in this process only."""
        if store.identity in self._warned:
            return
        self._warned.add(store.identity)
        warnings.warn(
            f"{store.url} does not check conditions of writes: partial chunk writes are serialised in this process "
            "only, and another process that writes the same chunks may lose updates",
            UnsafeWriteWarning,
            stacklevel=2,
        )

    def emit(self, on_event: Callable[[Event], None], event: Event) -> None:
        """Call an observer; its mistakes are logged and do not stop the read."""
        try:
            on_event(event)
        except Exception:
            _log.exception("Settings.on_event raised")
