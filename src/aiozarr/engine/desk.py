"""What all readers and writers of one I/O thread share: queues, chunks in flight, shard indexes, workers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from aiozarr.engine.cache.chunks import ChunkCaches
from aiozarr.engine.cache.indexes import IndexCache
from aiozarr.engine.cache.sizes import SizeCache
from aiozarr.engine.convoys import Convoys
from aiozarr.engine.key_locks import KeyLocks
from aiozarr.engine.request.bulk import Bulk
from aiozarr.engine.request.flight import Flight
from aiozarr.engine.request.gathering import Gathering
from aiozarr.engine.request.index_fetch import IndexFetch
from aiozarr.engine.request.local_queue import LocalQueue
from aiozarr.engine.work.pool import WorkerPool
from aiozarr.errors import UnsafeWriteWarning
from aiozarr.schedule.events import Event
from aiozarr.schedule.origin import Origin
from aiozarr.schedule.scheduler import Scheduler
from aiozarr.settings import DEFAULT_SETTINGS
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.engine.write.object_write import ObjectWrite

_log = logging.getLogger("aiozarr")


class Desk:
    """Shared state of the I/O thread; touched on its loop only.

    Attributes:
        pool: the worker threads.
        scheduler: the queues of the stores that are reached over a network.
        local: the queue of the stores that block.
        flights: chunks that are being fetched, by token.
        bulks: many chunks of one object that are being fetched for one reader, by the object's token.
        indexes: shard indexes that were decoded.
        sizes: sizes of shards, for stores that refuse suffix ranges.
        index_fetches: shard indexes that are being fetched, by token.
        chunk_caches: chunks that were decoded, where settings say that they are kept.
        gathering: ranges that wait for the end of this turn of the loop, to be fetched by common requests.
        locks: stored objects that are being changed in part.
        convoys: who waits to change them.
        versionless: stores that should tell versions in their answers, and do not.
    """

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        # Before the loop looks for more answers, the workers have what these have brought.
        self.scheduler = Scheduler(pool.flush)
        self.local = LocalQueue(pool)
        self.flights: dict[Hashable, Flight] = {}
        self.bulks: dict[Hashable, list[Bulk]] = {}
        self.indexes = IndexCache(DEFAULT_SETTINGS.index_cache_bytes)
        self.sizes = SizeCache()
        self.index_fetches: dict[Hashable, IndexFetch] = {}
        self.chunk_caches = ChunkCaches()
        self.gathering = Gathering()
        self.locks = KeyLocks()
        self.convoys: Convoys[ObjectWrite] = Convoys(self.locks)
        self.versionless: set[Hashable] = set()
        self._warned: set[Hashable] = set()

    def queue_of(self, store: Store) -> Origin:
        """Return the queue that requests to `store` wait in."""
        return self.local if isinstance(store, BlockingStore) else self.scheduler.origin(store.origin)

    def tells_versions(self, store: Store) -> bool:
        """Return whether several answers of `store` can be told to be of one state of an object."""
        return store.supports.conditional_reads and store.identity not in self.versionless

    def changed(self, store: Store, key: str | None) -> None:
        """This process has changed the object `key`, or many of them (None): readers who come now see it.

        What is on its way may have been read before the change: those who wait get it, and nobody else.
        """
        if not (self.flights or self.bulks or self.index_fetches or self.chunk_caches):
            return
        place = None if key is None else store.place_of(key)
        for token, flight in list(self.flights.items()):
            request = flight.request
            if key is None or request is None or request.may_carry(key, place):
                del self.flights[token]
                flight.keepers = flight.keepers and {}
        for token, bulks in list(self.bulks.items()):
            if key is None or any(bulk.may_carry(key, place) for bulk in bulks):
                del self.bulks[token]
        for token, fetch in list(self.index_fetches.items()):
            if key is None or fetch.may_carry(key, place):
                del self.index_fetches[token]
        if key is None:
            self.chunk_caches.clear()
        else:
            self.chunk_caches.drop(place)

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
