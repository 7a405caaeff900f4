"""A cache with a limit on the sum of sizes, and its subclasses for decoded chunks and for sizes of shards.

Decoded chunks are bounded in bytes and age, and invalidated by changes of this process. Sizes are cached for stores
that refuse suffix ranges: the end of an object of known size is a plain range.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from aiozarr.model import Entry, Version
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

V = TypeVar("V")


class SizedCache(Generic[V]):
    """Values by id, within a limit on the sum of their sizes. The least recently used values are dropped first.

    Attributes:
        max_size: the limit.
        size: the sum of the sizes of all values.
    """

    def __init__(self, max_size: int, size_of: Callable[[V], int]) -> None:
        self.max_size = max_size
        self.size = 0
        self._size_of = size_of
        self._entries: OrderedDict[Hashable, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, entry_id: Hashable) -> V | None:
        """Return the value, which counts as used."""
        value = self._entries.get(entry_id)
        if value is not None:
            self._entries.move_to_end(entry_id)
        return value

    def peek(self, entry_id: Hashable) -> V | None:
        """Return the value, from any thread; it does not count as used."""
        return self._entries.get(entry_id)

    def put(self, entry_id: Hashable, value: V) -> None:
        """Cache a value; the least recently used ones make room."""
        self.drop(entry_id)
        self._entries[entry_id] = value
        self.size += self._size_of(value)
        while self.size > self.max_size:
            self.drop(next(iter(self._entries)))

    def drop(self, entry_id: Hashable) -> V | None:
        """Drop and return a value, whose source has changed."""
        value = self._entries.pop(entry_id, None)
        if value is not None:
            self.size -= self._size_of(value)
        return value

    def clear(self) -> None:
        """Drop everything."""
        self._entries.clear()
        self.size = 0


MAX_SIZES = 1 << 16


class SizeCache:
    """The sizes last seen, each of one version of its object.

    Only those that a later request can insist on are cached, and only of stores that refuse suffix ranges.
    """

    def __init__(self, max_sizes: int = MAX_SIZES) -> None:
        self._entries: SizedCache[Entry] = SizedCache(max_sizes, lambda _: 1)

    def get(self, store: Store, key: str) -> Entry | None:
        """Return the size and version that were seen last."""
        return self._entries.get((store.identity, key)) if self._entries else None

    def record(self, store: Store, key: str, size: int | None, version: Version | None) -> None:
        """Cache the size that a response or a write has reported."""
        supports = store.supports
        if supports.suffix_reads or not supports.conditional_reads:
            return
        if size is None or version is None or version.weak:
            self.drop(store, key)
        else:
            self._entries.put((store.identity, key), Entry(key, size, version))

    def drop(self, store: Store, key: str) -> None:
        """Forget the size of an object that has changed."""
        if self._entries:
            self._entries.drop((store.identity, key))


ENTRY_BYTES = 1024
"""Memory of an entry without its elements, that is, array object, keys and three table entries (measured)."""

MAX_PENDING_USES = 4096
"""Uses by other threads that are remembered until the next chunk is cached. Beyond that the oldest are forgotten."""

MAX_CACHES = 8
"""Caches of different size side by side. Beyond that, the least recently used one is dropped."""


class _Entry(NamedTuple):
    chunk: NDArray[Any]
    stored_at: float
    identity: Hashable
    store: Hashable


class ChunkCache(SizedCache[_Entry]):
    """A cache of read-only arrays that own their memory.

    It never holds that a chunk is missing: the next read sees what another process stores there.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, lambda entry: entry.chunk.nbytes + ENTRY_BYTES)
        self._pending_uses: deque[Hashable] = deque(maxlen=MAX_PENDING_USES)
        self._by_object: dict[Hashable, set[Hashable]] = {}
        # The identity of some stores is their address: they must outlive their chunks.
        self._stores: dict[Hashable, tuple[Store, int]] = {}

    def fits(self, nbytes: int) -> bool:
        """Return whether a chunk of `nbytes` is cached. A larger one would only evict all others."""
        return nbytes + ENTRY_BYTES <= self.max_size

    def find(self, entry_id: Hashable, since: float) -> NDArray[Any] | None:
        """Return the chunk if it was stored at `since`, a time of the loop, or later. Any thread."""
        entry = self._entries.get(entry_id)
        return None if entry is None or entry.stored_at < since else entry.chunk

    def use(self, entry_id: Hashable, since: float) -> NDArray[Any] | None:
        """As `find`, on the loop; the chunk counts as used."""
        chunk = self.find(entry_id, since)
        if chunk is not None:
            self._entries.move_to_end(entry_id)
        return chunk

    def find_all(self, entry_ids: Sequence[Hashable], since: float) -> list[NDArray[Any]] | None:
        """As `find` for several chunks; None if one is not cached. The uses count when the next chunk is cached."""
        chunks: list[NDArray[Any]] = []
        for entry_id in entry_ids:
            chunk = self.find(entry_id, since)
            if chunk is None:
                return None
            chunks.append(chunk)
        self._pending_uses.extend(entry_ids)
        return chunks

    def add(self, entry_id: Hashable, store: Store, key: str, chunk: NDArray[Any], stored_at: float) -> None:
        """Cache `chunk` of the object `key`, which owns its memory and does not change any more."""
        if not self.fits(chunk.nbytes):
            return
        while self._pending_uses:
            self.get(self._pending_uses.popleft())
        entry = _Entry(chunk, stored_at, store.object_identity(key), store.identity)
        self.drop(entry_id)
        self._by_object.setdefault(entry.identity, set()).add(entry_id)
        held, count = self._stores.get(entry.store, (store, 0))
        self._stores[entry.store] = (held, count + 1)
        self.put(entry_id, entry)

    def drop(self, entry_id: Hashable) -> _Entry | None:
        """Drop and return a chunk."""
        entry = super().drop(entry_id)
        if entry is not None:
            entry_ids = self._by_object[entry.identity]
            entry_ids.discard(entry_id)
            if not entry_ids:
                del self._by_object[entry.identity]
            held, count = self._stores.pop(entry.store)
            if count > 1:
                self._stores[entry.store] = (held, count - 1)
        return entry

    def drop_object(self, identity: Hashable) -> None:
        """Drop all chunks of the stored object with this identity, which has changed."""
        for entry_id in list(self._by_object.get(identity, ())):
            self.drop(entry_id)

    def clear(self) -> None:
        """Drop everything."""
        super().clear()
        self._by_object.clear()
        self._stores.clear()


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
                oldest.max_size = 0  # a read that still has it caches nothing more there
        else:
            self._caches.move_to_end(max_bytes)
        return cache

    def find(self, max_bytes: int) -> ChunkCache | None:
        """Return the cache of this size if there is one. Any thread."""
        return self._caches.get(max_bytes)

    def has(self, settings: Settings, entry_id: Hashable, now: float) -> bool:
        """Return whether a reader with these settings would find the chunk now; it does not count as used."""
        cache = self._caches.get(settings.chunk_cache_bytes)
        return cache is not None and cache.find(entry_id, now - settings.chunk_cache_seconds) is not None

    def __len__(self) -> int:
        return sum([len(cache) for cache in self._caches.values()])

    def drop_object(self, identity: Hashable) -> None:
        """Drop the chunks of the stored object with this identity from all caches."""
        for cache in self._caches.values():
            cache.drop_object(identity)

    def clear(self) -> None:
        """Drop everything."""
        for cache in self._caches.values():
            cache.clear()
