"""Decoded chunks, kept within a number of bytes until they are too old or this process has changed their object."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple

from numpy.typing import NDArray

from aiozarr.settings import Settings
from aiozarr.stores.contract import Store

ENTRY_BYTES = 1024
"""What an entry takes besides its elements: array object, tokens, key, places in three tables; measured, rounded up."""

MAX_CACHES = 8
"""Limits of different size that are at work side by side; beyond that the cache that was used least recently goes."""


class _Entry(NamedTuple):
    chunk: NDArray[Any]
    since: float
    place: Hashable
    store: Hashable


class ChunkCache:
    """Least recently used chunks go first. What is kept are arrays that own their memory and are read-only.

    That nothing is stored is never kept: what somebody else stores there is seen by the next read.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._places: dict[Hashable, set[Hashable]] = {}
        # A store without a value of its own is told apart by its address, so it must not go before its chunks.
        self._stores: dict[Hashable, tuple[Store, int]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def fits(self, nbytes: int) -> bool:
        """Return whether a chunk of so many bytes can be kept: a larger one would only drive out all others."""
        return nbytes + ENTRY_BYTES <= self.max_bytes

    def get(self, token: Hashable, since: float) -> NDArray[Any] | None:
        """Return the chunk if it came at `since`, a time of the loop, or later; it counts as used."""
        entry = self._entries.get(token)
        if entry is None or entry.since < since:
            return None
        self._entries.move_to_end(token)
        return entry.chunk

    def has(self, token: Hashable, since: float) -> bool:
        """Return whether `get` would return a chunk. Any thread."""
        entry = self._entries.get(token)
        return entry is not None and entry.since >= since

    def put(self, token: Hashable, store: Store, key: str, chunk: NDArray[Any], since: float) -> None:
        """Keep `chunk` of the object `key`; its memory is its own and nobody writes to it any more."""
        if not self.fits(chunk.nbytes):
            return
        self._forget(token)
        entry = _Entry(chunk, since, store.place_of(key), store.identity)
        self._entries[token] = entry
        self._places.setdefault(entry.place, set()).add(token)
        held, count = self._stores.get(entry.store, (store, 0))
        self._stores[entry.store] = (held, count + 1)
        self.nbytes += chunk.nbytes + ENTRY_BYTES
        while self.nbytes > self.max_bytes:
            self._forget(next(iter(self._entries)))

    def drop(self, place: Hashable) -> None:
        """Forget all chunks of the stored object at `place`: it has changed."""
        for token in list(self._places.get(place, ())):
            self._forget(token)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._places.clear()
        self._stores.clear()
        self.nbytes = 0

    def _forget(self, token: Hashable) -> None:
        entry = self._entries.pop(token, None)
        if entry is None:
            return
        self.nbytes -= entry.chunk.nbytes + ENTRY_BYTES
        tokens = self._places[entry.place]
        tokens.discard(token)
        if not tokens:
            del self._places[entry.place]
        held, count = self._stores.pop(entry.store)
        if count > 1:
            self._stores[entry.store] = (held, count - 1)


class ChunkCaches:
    """The caches of one process: readers whose `Settings.chunk_cache_bytes` are equal share one."""

    def __init__(self) -> None:
        self._caches: OrderedDict[int, ChunkCache] = OrderedDict()

    def of(self, max_bytes: int) -> ChunkCache | None:
        """Return the cache of this size; None where it is 0."""
        if not max_bytes:
            return None
        cache = self._caches.get(max_bytes)
        if cache is None:
            cache = self._caches[max_bytes] = ChunkCache(max_bytes)
            if len(self._caches) > MAX_CACHES:
                _, oldest = self._caches.popitem(last=False)
                oldest.clear()
                oldest.max_bytes = 0  # a read that still has it keeps nothing more there
        else:
            self._caches.move_to_end(max_bytes)
        return cache

    def has(self, settings: Settings, token: Hashable, now: float) -> bool:
        """Return whether a reader with these settings would be served now; the chunk does not count as used."""
        cache = self._caches.get(settings.chunk_cache_bytes)
        return cache is not None and cache.has(token, now - settings.chunk_cache_seconds)

    def __len__(self) -> int:
        return sum([len(cache) for cache in self._caches.values()])

    def drop(self, place: Hashable) -> None:
        """Forget the chunks of the stored object at `place` everywhere."""
        for cache in self._caches.values():
            cache.drop(place)

    def clear(self) -> None:
        """Forget everything."""
        for cache in self._caches.values():
            cache.clear()
