"""A store that keeps its values in the memory of this process."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote
from weakref import WeakValueDictionary

from typing_extensions import Buffer

from aiozarr.errors import ChangedError, PreconditionFailedError
from aiozarr.model import (
    ByteRange,
    Entry,
    IfAbsent,
    Precondition,
    Supports,
    Value,
    Version,
    check_key,
    check_prefix,
    resolve_range,
)
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store, byte_view, rooted_at, split_root
from aiozarr.stores.lock import Lock


class MemoryStore(BlockingStore):
    """Values in a dictionary, each an immutable `bytes`: set copies, fetch returns a read-only view without a copy.

    `MemoryStore()` is empty and equal to itself alone. `MemoryStore.named(name)`, which is what the URL `memory://name`
    opens, has the same values wherever the process asks for that name. Reading, writing and conditions are atomic
    between threads.

    A pickle carries the values along: loaded in the process that holds the store it is the same store again, in another
    process a new one that starts with these values and goes its own way.
    """

    supports = Supports(writeable=True, listable=True, conditional_reads=True, conditional_writes=True)

    def __init__(self) -> None:
        self._space = _spaces.new()
        self._base = ""

    @classmethod
    def named(cls, name: str, prefix: str = "") -> MemoryStore:
        """Return the store called `name` of this process, seen from `prefix` (`""`, or ending with `/`)."""
        if not name:
            raise ValueError("a named memory store needs a name that is not empty")
        return cls._of(_spaces.get(name, keep=True), check_prefix(prefix))

    @classmethod
    def _of(cls, space: _Space, base: str) -> MemoryStore:
        store = cls.__new__(cls)
        store._space = space
        store._base = base
        return store

    @property
    def url(self) -> str:
        path = f"/{quote(self._base[:-1])}" if self._base else ""
        return f"memory://{quote(self._space.name, safe='')}{path}"

    @property
    def identity(self) -> Hashable:
        return (MemoryStore, self._space.name, self._base)

    def place_of(self, key: str) -> Hashable:
        """The name, and the full key."""
        return (MemoryStore, self._space.name, self._base + key)

    def rooted_above(self) -> tuple[Store, str] | None:
        base, name = split_root(self._base)
        return (rooted_at(self, _base=base), name) if name else None

    def __reduce__(self) -> tuple[Any, ...]:
        with self._space.lock:
            return (_restore, (self._space.name, self._base, dict(self._space.values)))

    # --- synchronous ---------------------------------------------------------------------------------------------

    def fetch_now(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        found = self._space.values.get(self._place(key))
        if found is None:
            return None
        data, version = found
        if if_match is not None and version != if_match:
            raise ChangedError("the value was replaced", store=self.url, key=key, range=range)
        start, stop = resolve_range(len(data), range)
        return Value(memoryview(data)[start:stop], version, len(data))

    def set_now(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        place = self._place(key)
        data = bytes(byte_view(value))
        version = Version(generation=str(next(_generations)))
        with self._space.lock:
            found = self._space.values.get(place)
            if not _holds(precondition, None if found is None else found[1]):
                raise PreconditionFailedError(f"{precondition} does not hold", store=self.url, key=key)
            self._space.values[place] = (data, version)
        return version

    def erase_now(self, key: str) -> None:
        place = self._place(key)
        with self._space.lock:
            self._space.values.pop(place, None)

    def _place(self, key: str) -> str:
        return self._base + check_key(key, store=self.url)

    # --- coroutines: there is nothing to wait for, so no thread either -------------------------------------------

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        return self.fetch_now(key, range, if_match=if_match)

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        return self.set_now(key, value, precondition=precondition)

    async def erase(self, key: str) -> None:
        self.erase_now(key)

    async def erase_prefix(self, prefix: str) -> None:
        start = self._base + check_prefix(prefix, store=self.url)
        with self._space.lock:
            for place in [place for place in self._space.values if place.startswith(start)]:
                del self._space.values[place]

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        start = self._base + check_prefix(prefix, store=self.url)
        with self._space.lock:
            found = [(place, *value) for place, value in self._space.values.items() if place.startswith(start)]
        for place, data, version in found:
            yield Entry(place[len(self._base) :], len(data), version)


_Values: TypeAlias = dict[str, tuple[bytes, Version]]


@dataclass(eq=False)
class _Space:
    """The values of one name. Reading a dictionary is atomic; the lock makes check-and-write and listing so."""

    name: str
    values: _Values
    lock: Lock = field(default_factory=Lock)


class _Spaces:
    """The spaces of this process. Names that were asked for stay; a nameless space goes with its last store."""

    def __init__(self) -> None:
        self._living: WeakValueDictionary[str, _Space] = WeakValueDictionary()
        self._named: dict[str, _Space] = {}
        self._lock = Lock()

    def new(self) -> _Space:
        return self.get(uuid.uuid4().hex)

    def get(self, name: str, *, keep: bool = False, values: _Values | None = None) -> _Space:
        """Return the space `name`; one that does not exist yet begins with `values`."""
        with self._lock:
            space = self._living.get(name)
            if space is None:
                space = self._living[name] = _Space(name, values or {})
            if keep:
                self._named[name] = space
            return space


_spaces = _Spaces()
_generations = itertools.count(1)


def _restore(name: str, base: str, values: _Values) -> MemoryStore:
    # Versions of another process could equal ones given out here: values that come from outside get new ones.
    fresh = {place: (data, Version(generation=str(next(_generations)))) for place, (data, _) in values.items()}
    return MemoryStore._of(_spaces.get(name, values=fresh), base)


def _holds(precondition: Precondition | None, current: Version | None) -> bool:
    match precondition:
        case None:
            return True
        case IfAbsent():
            return current is None
        case _:
            return current == precondition.version
