"""Caches: decoded chunks, and sizes of shards.

Decoded chunks are bounded in bytes and age, and invalidated by changes of this process. Sizes are cached for stores
that refuse suffix ranges: the end of an object of known size is a plain range.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aiozarr.model import Entry, Version
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_SIZES = 1 << 16


class SizeCache:
    """The sizes last seen, each of one version of its object; those unused for longest go first.

    Only those that a later request can insist on are cached, and only of stores that refuse suffix ranges.
    """

    def __init__(self, max_sizes: int = MAX_SIZES) -> None:
        self._max = max_sizes
        self._entries: OrderedDict[tuple[object, str], Entry] = OrderedDict()

    def get(self, store: Store, key: str) -> Entry | None:
        """Return the size and version that were seen last."""
        entry = self._entries.get((store.identity, key)) if self._entries else None
        if entry is not None:
            self._entries.move_to_end((store.identity, key))
        return entry

    def record(self, store: Store, key: str, size: int | None, version: Version | None) -> None:
        """Cache the size that a response or a write has reported."""
        supports = store.supports
        if supports.suffix_reads or not supports.conditional_reads:
            return
        if size is None or version is None or version.weak:
            self.drop(store, key)
            return
        self._entries[store.identity, key] = Entry(key, size, version)
        self._entries.move_to_end((store.identity, key))
        if len(self._entries) > self._max:
            self._entries.popitem(last=False)

    def drop(self, store: Store, key: str) -> None:
        """Forget the size: the object has changed."""
        if self._entries:
            self._entries.pop((store.identity, key), None)


ENTRY_BYTES = 1024
"""Memory of an entry besides its elements (array object, keys, three table entries): measured, rounded up."""

MAX_PENDING_USES = 4096
"""Uses by other threads that are remembered until the next chunk is cached. Beyond that the oldest are forgotten."""

MAX_CACHES = 8
"""Caches of different size side by side. Beyond that, the least recently used one is dropped."""


class _Entry(NamedTuple):
    chunk: NDArray[Any]
    stored_at: float
    identity: Hashable
    store: Hashable


class ChunkCache:
    """An LRU cache of read-only arrays that own their memory.

    It never holds that a chunk is missing: the next read sees what another process stores there.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._pending_uses: deque[Hashable] = deque(maxlen=MAX_PENDING_USES)
        self._by_object: dict[Hashable, set[Hashable]] = {}
        # The identity of some stores is their address: they must outlive their chunks.
        self._stores: dict[Hashable, tuple[Store, int]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def fits(self, nbytes: int) -> bool:
        """Return whether a chunk of so many bytes is cached: a larger one would only evict all others."""
        return nbytes + ENTRY_BYTES <= self.max_bytes

    def get(self, token: Hashable, since: float) -> NDArray[Any] | None:
        """Return the chunk if it was stored at `since`, a time of the loop, or later; it counts as used."""
        entry = self._entries.get(token)
        if entry is None or entry.stored_at < since:
            return None
        self._entries.move_to_end(token)
        return entry.chunk

    def peek_all(self, tokens: Sequence[Hashable], since: float) -> list[NDArray[Any]] | None:
        """As `get` for several chunks, from any thread; None if one is not cached.

        The uses count when the next chunk is cached.
        """
        entries = self._entries
        chunks: list[NDArray[Any]] = []
        for token in tokens:
            entry = entries.get(token)
            if entry is None or entry.stored_at < since:
                return None
            chunks.append(entry.chunk)
        self._pending_uses.extend(tokens)
        return chunks

    def has(self, token: Hashable, since: float) -> bool:
        """Return whether `get` would return a chunk. Any thread."""
        entry = self._entries.get(token)
        return entry is not None and entry.stored_at >= since

    def put(self, token: Hashable, store: Store, key: str, chunk: NDArray[Any], since: float) -> None:
        """Cache `chunk` of the object `key`, which owns its memory and does not change any more."""
        if not self.fits(chunk.nbytes):
            return
        self._drop_entry(token)
        while self._pending_uses:
            used = self._pending_uses.popleft()
            if used in self._entries:
                self._entries.move_to_end(used)
        entry = _Entry(chunk, since, store.object_identity(key), store.identity)
        self._entries[token] = entry
        self._by_object.setdefault(entry.identity, set()).add(token)
        held, count = self._stores.get(entry.store, (store, 0))
        self._stores[entry.store] = (held, count + 1)
        self.nbytes += chunk.nbytes + ENTRY_BYTES
        while self.nbytes > self.max_bytes:
            self._drop_entry(next(iter(self._entries)))

    def drop(self, identity: Hashable) -> None:
        """Drop all chunks of the stored object with this identity: it has changed."""
        for token in list(self._by_object.get(identity, ())):
            self._drop_entry(token)

    def clear(self) -> None:
        """Drop everything."""
        self._entries.clear()
        self._by_object.clear()
        self._stores.clear()
        self.nbytes = 0

    def _drop_entry(self, token: Hashable) -> None:
        entry = self._entries.pop(token, None)
        if entry is None:
            return
        self.nbytes -= entry.chunk.nbytes + ENTRY_BYTES
        tokens = self._by_object[entry.identity]
        tokens.discard(token)
        if not tokens:
            del self._by_object[entry.identity]
        held, count = self._stores.pop(entry.store)
        if count > 1:
            self._stores[entry.store] = (held, count - 1)


class ChunkCaches:
    """The caches of one process: readers whose `Settings.chunk_cache_bytes` are equal share one."""

    def __init__(self) -> None:
        self._caches: OrderedDict[int, ChunkCache] = OrderedDict()

    def of(self, max_bytes: int) -> ChunkCache | None:
        """Return the cache of this size; None if it is 0."""
        if not max_bytes:
            return None
        cache = self._caches.get(max_bytes)
        if cache is None:
            cache = self._caches[max_bytes] = ChunkCache(max_bytes)
            if len(self._caches) > MAX_CACHES:
                _, oldest = self._caches.popitem(last=False)
                oldest.clear()
                oldest.max_bytes = 0  # a read that still has it caches nothing more there
        else:
            self._caches.move_to_end(max_bytes)
        return cache

    def find(self, max_bytes: int) -> ChunkCache | None:
        """Return the cache of this size if there is one. Any thread."""
        return self._caches.get(max_bytes)

    def has(self, settings: Settings, token: Hashable, now: float) -> bool:
        """Return whether a reader with these settings would find the chunk now; it does not count as used."""
        cache = self._caches.get(settings.chunk_cache_bytes)
        return cache is not None and cache.has(token, now - settings.chunk_cache_seconds)

    def __len__(self) -> int:
        return sum([len(cache) for cache in self._caches.values()])

    def drop(self, identity: Hashable) -> None:
        """Drop the chunks of the stored object with this identity from all caches."""
        for cache in self._caches.values():
            cache.drop(identity)

    def clear(self) -> None:
        """Drop everything."""
        for cache in self._caches.values():
            cache.clear()
