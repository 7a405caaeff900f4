"""Where fetched values are kept: what a shelf does, and the one in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from aiozarr.model import ByteRange, Value, resolve_range
from aiozarr.stores.lock import Lock

Place: TypeAlias = tuple[Hashable, str]
"""A store's identity, and a key."""


LEAST_BYTES = 64
"""What a value in memory takes of the room at least: its place is kept too."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A value from a shelf.

    Attributes:
        value: as the store gave it.
        checked: when the store was asked, in seconds since the epoch: the answer said that this is the value.
        mark: where the shelf has it.
    """

    value: Value
    checked: float
    mark: Any = None


@dataclass(eq=False, slots=True)
class Watch:
    """A fetch under way; spoilt where its key was written to since it began."""

    spoilt: bool = False


class Shelf(ABC):
    """Values by place and range, up to `max_bytes`: those used last. May be used from any thread.

    A whole value answers all of its ranges. What lies here was true once; who takes it sees whether it still is.
    """

    def __init__(self, max_bytes: int) -> None:
        given: object = max_bytes
        if not isinstance(given, int) or isinstance(given, bool):
            raise TypeError(f"max_bytes is an int, not {type(max_bytes).__name__}")
        if max_bytes < 1:
            raise ValueError(f"max_bytes is at least 1, not {max_bytes}")
        self.max_bytes = max_bytes
        self._lock = Lock()
        self._watches: dict[Place, list[Watch]] = {}

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes that are kept now."""

    @abstractmethod
    def find(self, place: Place, byte_range: ByteRange | None) -> Kept | None:
        """Return what is kept of the value, as much as `byte_range` asks for."""

    @abstractmethod
    def keep(self, place: Place, byte_range: ByteRange | None, value: Value, checked: float, watch: Watch) -> None:
        """Keep what was fetched, unless `watch` is spoilt; what was used longest ago makes room."""

    @abstractmethod
    def confirm(self, kept: Kept, checked: float) -> None:
        """Note that the store has said again that this is the value."""

    @contextmanager
    def watching(self, place: Place) -> Iterator[Watch]:
        """Watch `place` while it is fetched: what is forgotten meanwhile must not come back."""
        watch = Watch()
        with self._lock:
            self._watches.setdefault(place, []).append(watch)
        try:
            yield watch
        finally:
            with self._lock:
                watches = self._watches[place]
                watches.remove(watch)
                if not watches:
                    del self._watches[place]

    def forget(self, place: Place) -> None:
        """Forget all that is kept of one value."""
        with self._lock:
            for watch in self._watches.get(place, ()):
                watch.spoilt = True
        self._drop(place)

    def forget_below(self, store: Hashable, prefix: str) -> None:
        """Forget all values of a store whose keys start with `prefix`."""
        with self._lock:
            for place, watches in self._watches.items():
                if is_below(place, store, prefix):
                    for watch in watches:
                        watch.spoilt = True
        self._drop_below(store, prefix)

    @abstractmethod
    def _drop(self, place: Place) -> None: ...

    @abstractmethod
    def _drop_below(self, store: Hashable, prefix: str) -> None: ...


def is_below(place: Place, store: Hashable, prefix: str) -> bool:
    """Return whether `place` is in `store`, below `prefix`."""
    return place[0] == store and place[1].startswith(prefix)


class MemoryShelf(Shelf):
    """Values in the memory of this process."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._kept: OrderedDict[tuple[Place, ByteRange | None], Kept] = OrderedDict()
        self._ranges: dict[Place, set[ByteRange | None]] = {}
        self._used = 0

    @property
    def nbytes(self) -> int:
        with self._lock:
            return sum([memoryview(kept.value.data).nbytes for kept in self._kept.values()])

    def find(self, place: Place, byte_range: ByteRange | None) -> Kept | None:
        with self._lock:
            for mark in ((place, byte_range), (place, None)):
                kept = self._kept.get(mark)
                if kept is not None:
                    self._kept.move_to_end(mark)
                    return kept if mark[1] is byte_range else cut(kept, byte_range)
        return None

    def keep(self, place: Place, byte_range: ByteRange | None, value: Value, checked: float, watch: Watch) -> None:
        size = _room(value)
        if size > self.max_bytes:
            return
        # A copy: what the store gave may be a small view of a large block, and may be changed by who gets it.
        value = Value(bytes(value.data), value.version, value.size)
        mark = (place, byte_range)
        with self._lock:
            if watch.spoilt:
                return
            others = [(place, other) for other in self._ranges.get(place, ())]
            for other in others:
                if byte_range is None or other == mark or self._kept[other].value.version != value.version:
                    self._remove(other)
            self._kept[mark] = Kept(value, checked, mark)
            self._ranges.setdefault(place, set()).add(byte_range)
            self._used += size
            while self._used > self.max_bytes:
                self._remove(next(iter(self._kept)))

    def confirm(self, kept: Kept, checked: float) -> None:
        with self._lock:
            now = self._kept.get(kept.mark)
            if now is not None and now.value.version == kept.value.version:
                self._kept[now.mark] = replace(now, checked=checked)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            for watches in self._watches.values():
                for watch in watches:
                    watch.spoilt = True
            self._kept.clear()
            self._ranges.clear()
            self._used = 0

    def _drop(self, place: Place) -> None:
        with self._lock:
            self._remove_all([place])

    def _drop_below(self, store: Hashable, prefix: str) -> None:
        with self._lock:
            self._remove_all([place for place in self._ranges if is_below(place, store, prefix)])

    def _remove_all(self, places: list[Place]) -> None:
        for mark in [(place, byte_range) for place in places for byte_range in self._ranges.get(place, ())]:
            self._remove(mark)

    def _remove(self, mark: tuple[Place, ByteRange | None]) -> None:
        self._used -= _room(self._kept.pop(mark).value)
        ranges = self._ranges[mark[0]]
        ranges.discard(mark[1])
        if not ranges:
            del self._ranges[mark[0]]


def _room(value: Value) -> int:
    return max(LEAST_BYTES, memoryview(value.data).nbytes)


def cut(whole: Kept, byte_range: ByteRange | None) -> Kept:
    """Return the part that `byte_range` asks for of a whole value."""
    if byte_range is None:
        return whole
    data = memoryview(whole.value.data)
    start, stop = resolve_range(len(data), byte_range)
    return replace(whole, value=replace(whole.value, data=data[start:stop]))
