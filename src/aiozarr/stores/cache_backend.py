"""The storage of a cache: the interface of a backend, and the backend in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from aiozarr.common.fork_safe import ForkSafeLock
from aiozarr.model import ByteRange, Value, resolve_range

ObjectKey: TypeAlias = tuple[Hashable, str]
"""A store's identity, and a key in it."""


MIN_ENTRY_BYTES = 64
"""The minimum that a value in memory counts for, because its key takes memory too."""


@dataclass(frozen=True, slots=True)
class CachedValue:
    """A value from a cache.

    Attributes:
        value: the value as the store returned it.
        checked: when it was last validated, in seconds since the epoch.
        location: the place in the backend, which only the backend reads.
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

    A whole value also serves its ranges. The caller checks whether a value is still current.
    """

    def __init__(self, max_bytes: int) -> None:
        given: object = max_bytes
        if not isinstance(given, int) or isinstance(given, bool):
            raise TypeError(f"max_bytes must be an int, not {type(max_bytes).__name__}")
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes}")
        self.max_bytes = max_bytes
        self._lock = ForkSafeLock()
        self._guards: dict[InvalidationGuard, ObjectKey] = {}

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
            self._guards[guard] = key
        try:
            yield guard
        finally:
            with self._lock:
                del self._guards[guard]

    def invalidate(self, key: ObjectKey) -> None:
        """Remove all cached bytes of one object."""
        self._mark_guards(lambda guarded: guarded == key)
        self._remove_object(key)

    def invalidate_prefix(self, store: Hashable, prefix: str) -> None:
        """Remove all cached values of a store whose keys start with `prefix`."""
        self._mark_guards(lambda guarded: is_below(guarded, store, prefix))
        self._remove_prefix(store, prefix)

    def _mark_guards(self, is_invalidated: Callable[[ObjectKey], bool]) -> None:
        with self._lock:
            for guard, key in self._guards.items():
                guard.invalidated |= is_invalidated(key)

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
        # The least recently used objects first, each with its least recently used ranges first, all of one version.
        self._values: OrderedDict[ObjectKey, OrderedDict[ByteRange | None, CachedValue]] = OrderedDict()
        self._used = 0

    @property
    def nbytes(self) -> int:
        with self._lock:
            ranges = [cached for ranges in self._values.values() for cached in ranges.values()]
        return sum([memoryview(cached.value.data).nbytes for cached in ranges])

    def lookup(self, key: ObjectKey, byte_range: ByteRange | None) -> CachedValue | None:
        with self._lock:
            ranges = self._values.get(key)
            stored = byte_range if ranges and byte_range in ranges else None
            if not ranges or stored not in ranges:
                return None
            ranges.move_to_end(stored)
            self._values.move_to_end(key)
            cached = ranges[stored]
        if stored == byte_range:
            return cached
        data = memoryview(cached.value.data)
        start, stop = resolve_range(len(data), byte_range)
        return replace(cached, value=replace(cached.value, data=data[start:stop]))

    def insert(
        self, key: ObjectKey, byte_range: ByteRange | None, value: Value, checked: float, guard: InvalidationGuard
    ) -> None:
        size = _counted_bytes(value)
        if size > self.max_bytes:
            return
        # A copy: the store's value may be a small view of a large block, and its reader may change it.
        value = Value(bytes(value.data), value.version, value.size)
        with self._lock:
            if guard.invalidated:
                return
            ranges = self._values.get(key)
            if ranges and (byte_range is None or next(iter(ranges.values())).value.version != value.version):
                self._remove([key])
            ranges = self._values.setdefault(key, OrderedDict())
            before = ranges.pop(byte_range, None)
            ranges[byte_range] = CachedValue(value, checked, (key, byte_range))
            self._values.move_to_end(key)
            self._used += size - (0 if before is None else _counted_bytes(before.value))
            while self._used > self.max_bytes:
                oldest = next(iter(self._values))
                self._used -= _counted_bytes(self._values[oldest].popitem(last=False)[1].value)
                if not self._values[oldest]:
                    del self._values[oldest]

    def revalidate(self, cached: CachedValue, checked: float) -> None:
        key, byte_range = cached.location
        with self._lock:
            ranges = self._values.get(key, OrderedDict())
            present = ranges.get(byte_range)
            if present is not None and present.value.version == cached.value.version:
                ranges[byte_range] = replace(present, checked=checked)

    def clear(self) -> None:
        """Remove all values."""
        self._mark_guards(lambda _: True)
        with self._lock:
            self._values.clear()
            self._used = 0

    def _remove_object(self, key: ObjectKey) -> None:
        with self._lock:
            self._remove([key])

    def _remove_prefix(self, store: Hashable, prefix: str) -> None:
        with self._lock:
            self._remove([key for key in self._values if is_below(key, store, prefix)])

    def _remove(self, keys: Iterable[ObjectKey]) -> None:
        for key in keys:
            self._used -= sum([_counted_bytes(cached.value) for cached in self._values.pop(key, {}).values()])


def _counted_bytes(value: Value) -> int:
    return max(MIN_ENTRY_BYTES, memoryview(value.data).nbytes)
