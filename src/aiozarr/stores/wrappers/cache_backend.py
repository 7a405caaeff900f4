"""Where a cache stores values: the interface of a backend, and the backend in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from aiozarr.fork_safe_lock import ForkSafeLock
from aiozarr.model import ByteRange, Value, resolve_range

ObjectKey: TypeAlias = tuple[Hashable, str]
"""A store's identity, and a key in it."""


MIN_ENTRY_BYTES = 64
"""The least that a value in memory counts for: its key takes memory too."""


@dataclass(frozen=True, slots=True)
class CachedValue:
    """A value from a cache.

    Attributes:
        value: the value as the store returned it.
        checked: when the store was last asked for it, in seconds since the epoch.
        location: where the backend has it; only the backend reads this.
    """

    value: Value
    checked: float
    location: Any = None


@dataclass(eq=False, slots=True)
class InvalidationGuard:
    """Belongs to one running fetch. Its result must not be cached if its key was invalidated meanwhile."""

    invalidated: bool = False


class CacheBackend(ABC):
    """Values by object and range, up to `max_bytes`; the least recently used are evicted. Thread-safe.

    A whole value also serves its ranges. The backend does not know whether a value is still current: the caller checks.
    """

    def __init__(self, max_bytes: int) -> None:
        given: object = max_bytes
        if not isinstance(given, int) or isinstance(given, bool):
            raise TypeError(f"max_bytes is an int, not {type(max_bytes).__name__}")
        if max_bytes < 1:
            raise ValueError(f"max_bytes is at least 1, not {max_bytes}")
        self.max_bytes = max_bytes
        self._lock = ForkSafeLock()
        self._guards: dict[ObjectKey, list[InvalidationGuard]] = {}

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the cached values."""

    @abstractmethod
    def lookup(self, key: ObjectKey, byte_range: ByteRange | None) -> CachedValue | None:
        """Return the cached bytes of `byte_range`, or None."""

    @abstractmethod
    def insert(
        self, key: ObjectKey, byte_range: ByteRange | None, value: Value, checked: float, guard: InvalidationGuard
    ) -> None:
        """Cache a fetched value, unless `guard` was invalidated. The least recently used values are evicted for it."""

    @abstractmethod
    def revalidate(self, cached: CachedValue, checked: float) -> None:
        """Record that the store has confirmed the value at the time `checked`."""

    @contextmanager
    def guard(self, key: ObjectKey) -> Iterator[InvalidationGuard]:
        """Guard a fetch of `key`: an invalidation meanwhile marks the guard."""
        guard = InvalidationGuard()
        with self._lock:
            self._guards.setdefault(key, []).append(guard)
        try:
            yield guard
        finally:
            with self._lock:
                guards = self._guards[key]
                guards.remove(guard)
                if not guards:
                    del self._guards[key]

    def invalidate(self, key: ObjectKey) -> None:
        """Remove all cached bytes of one object."""
        with self._lock:
            for guard in self._guards.get(key, ()):
                guard.invalidated = True
        self._remove_object(key)

    def invalidate_prefix(self, store: Hashable, prefix: str) -> None:
        """Remove all cached values of a store whose keys start with `prefix`."""
        with self._lock:
            for key, guards in self._guards.items():
                if is_below(key, store, prefix):
                    for guard in guards:
                        guard.invalidated = True
        self._remove_prefix(store, prefix)

    @abstractmethod
    def _remove_object(self, key: ObjectKey) -> None: ...

    @abstractmethod
    def _remove_prefix(self, store: Hashable, prefix: str) -> None: ...


def is_below(key: ObjectKey, store: Hashable, prefix: str) -> bool:
    """Return whether the object `key` is in `store`, below `prefix`."""
    return key[0] == store and key[1].startswith(prefix)


class MemoryCache(CacheBackend):
    """Values in the memory of this process."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._values: OrderedDict[tuple[ObjectKey, ByteRange | None], CachedValue] = OrderedDict()
        self._ranges: dict[ObjectKey, set[ByteRange | None]] = {}
        self._used = 0

    @property
    def nbytes(self) -> int:
        with self._lock:
            return sum([memoryview(cached.value.data).nbytes for cached in self._values.values()])

    def lookup(self, key: ObjectKey, byte_range: ByteRange | None) -> CachedValue | None:
        with self._lock:
            for location in ((key, byte_range), (key, None)):
                cached = self._values.get(location)
                if cached is not None:
                    self._values.move_to_end(location)
                    return cached if location[1] is byte_range else _slice(cached, byte_range)
        return None

    def insert(
        self, key: ObjectKey, byte_range: ByteRange | None, value: Value, checked: float, guard: InvalidationGuard
    ) -> None:
        size = _counted_bytes(value)
        if size > self.max_bytes:
            return
        # A copy: the store's value may be a small view of a large block, and its reader may change it.
        value = Value(bytes(value.data), value.version, value.size)
        location = (key, byte_range)
        with self._lock:
            if guard.invalidated:
                return
            others = [(key, other) for other in self._ranges.get(key, ())]
            for other in others:
                if byte_range is None or other == location or self._values[other].value.version != value.version:
                    self._remove(other)
            self._values[location] = CachedValue(value, checked, location)
            self._ranges.setdefault(key, set()).add(byte_range)
            self._used += size
            while self._used > self.max_bytes:
                self._remove(next(iter(self._values)))

    def revalidate(self, cached: CachedValue, checked: float) -> None:
        with self._lock:
            now = self._values.get(cached.location)
            if now is not None and now.value.version == cached.value.version:
                self._values[now.location] = replace(now, checked=checked)

    def clear(self) -> None:
        """Remove all values."""
        with self._lock:
            for guards in self._guards.values():
                for guard in guards:
                    guard.invalidated = True
            self._values.clear()
            self._ranges.clear()
            self._used = 0

    def _remove_object(self, key: ObjectKey) -> None:
        with self._lock:
            self._remove_all([key])

    def _remove_prefix(self, store: Hashable, prefix: str) -> None:
        with self._lock:
            self._remove_all([key for key in self._ranges if is_below(key, store, prefix)])

    def _remove_all(self, keys: list[ObjectKey]) -> None:
        for location in [(key, byte_range) for key in keys for byte_range in self._ranges.get(key, ())]:
            self._remove(location)

    def _remove(self, location: tuple[ObjectKey, ByteRange | None]) -> None:
        self._used -= _counted_bytes(self._values.pop(location).value)
        ranges = self._ranges[location[0]]
        ranges.discard(location[1])
        if not ranges:
            del self._ranges[location[0]]


def _counted_bytes(value: Value) -> int:
    return max(MIN_ENTRY_BYTES, memoryview(value.data).nbytes)


def _slice(whole: CachedValue, byte_range: ByteRange | None) -> CachedValue:
    if byte_range is None:
        return whole
    data = memoryview(whole.value.data)
    start, stop = resolve_range(len(data), byte_range)
    return replace(whole, value=replace(whole.value, data=data[start:stop]))
