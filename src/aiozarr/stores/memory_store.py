"""A store in the memory of this process."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote
from weakref import WeakValueDictionary

from typing_extensions import Buffer

from aiozarr.common.fork_safe import ForkSafeLock, SerialNumbers
from aiozarr.errors import ChangedError, InvalidKeyError, PreconditionFailedError
from aiozarr.model import (
    ByteRange,
    Entry,
    Precondition,
    Supports,
    Value,
    Version,
    check_key,
    check_prefix,
    is_met,
    is_unicode,
    resolve_range,
)
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store, byte_view, check_max_bytes, split_root, with_root


class MemoryStore(BlockingStore):
    """Values in a dictionary, each an immutable `bytes`: set copies, fetch returns a read-only view without a copy.

    `MemoryStore()` is empty and equals no other store. `MemoryStore.named(name)`, which the URL `memory://name` opens,
    has the same values everywhere in the process. Reads, writes and preconditions are atomic between threads.

    A pickle contains the values. Loaded in the same process, it is the same store while that exists. In another
    process it is a new store that starts with these values.
    """

    supports = Supports(
        writable=True,
        listable=True,
        conditional_reads=True,
        conditional_writes=True,
        conditional_erases=True,
        bounded_reads=True,
    )
    is_in_memory = True

    def __init__(self) -> None:
        self._space = _spaces.new()
        self._base = ""

    @classmethod
    def named(cls, name: str, prefix: str = "") -> MemoryStore:
        """Return the store `name` of this process, with its root at `prefix` (`""`, or ending with `/`)."""
        if not name:
            raise ValueError("a named memory store needs a name that is not empty")
        if not is_unicode(name):
            raise InvalidKeyError(f"the name {name!a} of a memory store has a lone surrogate")
        return cls._of(_spaces.get(name, permanent=True), check_prefix(prefix))

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

    def object_identity(self, key: str) -> Hashable:
        """Return the store's name with the full key."""
        return (MemoryStore, self._space.name, self._base + key)

    def parent_store(self) -> tuple[Store, str] | None:
        base, name = split_root(self._base)
        return (with_root(self, _base=base), name) if name else None

    def __reduce__(self) -> tuple[Any, ...]:
        with self._space.lock:
            return (_restore, (self._space.name, self._base, dict(self._space.values)))

    # --- blocking ------------------------------------------------------------------------------------------------

    def fetch_now(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        found = self._space.values.get(self._full_key(key))
        if found is None:
            return None
        data, version = found
        if if_match is not None and version != if_match:
            raise ChangedError("the value was replaced", store=self.url, key=key, range=range)
        start, stop = resolve_range(len(data), range)
        if max_bytes is not None:
            check_max_bytes(stop - start, max_bytes, store=self.url, key=key, range=range)
        return Value(memoryview(data)[start:stop], version, len(data))

    def set_now(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        full_key = self._full_key(key)
        data = bytes(byte_view(value))
        version = Version(generation=str(_generations.next()))
        with self._space.lock:
            found = self._space.values.get(full_key)
            if not is_met(precondition, None if found is None else found[1]):
                raise PreconditionFailedError(f"{precondition} does not hold", store=self.url, key=key)
            self._space.values[full_key] = (data, version)
        return version

    def erase_now(self, key: str) -> None:
        full_key = self._full_key(key)
        with self._space.lock:
            self._space.values.pop(full_key, None)

    def erase_if_match_now(self, key: str, version: Version) -> None:
        full_key = self._full_key(key)
        with self._space.lock:
            found = self._space.values.get(full_key)
            if found is None or found[1] != version:
                raise PreconditionFailedError("the value was replaced", store=self.url, key=key)
            del self._space.values[full_key]

    def _full_key(self, key: str) -> str:
        return self._base + check_key(key, store=self.url)

    # --- coroutines ----------------------------------------------------------------------------------------------

    async def erase_prefix(self, prefix: str) -> None:
        start = self._base + check_prefix(prefix, store=self.url)
        with self._space.lock:
            for full_key in [full_key for full_key in self._space.values if full_key.startswith(start)]:
                del self._space.values[full_key]

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        start = self._base + check_prefix(prefix, store=self.url)
        with self._space.lock:
            found = [(full_key, *value) for full_key, value in self._space.values.items() if full_key.startswith(start)]
        for full_key, data, version in found:
            yield Entry(full_key[len(self._base) :], len(data), version)


_Values: TypeAlias = dict[str, tuple[bytes, Version]]


@dataclass(eq=False)
class _Space:
    """The values of one name. Reads of a dictionary are atomic; the lock makes check-and-write and listings atomic."""

    name: str
    values: _Values
    lock: ForkSafeLock = field(default_factory=ForkSafeLock)


class _Spaces:
    """The spaces of this process. A named space stays until the process ends, another one until its last store dies."""

    def __init__(self) -> None:
        self._living: WeakValueDictionary[str, _Space] = WeakValueDictionary()
        self._named: dict[str, _Space] = {}
        self._lock = ForkSafeLock()

    def new(self) -> _Space:
        return self.get(secrets.token_hex(16))

    def get(self, name: str, *, permanent: bool = False, values: _Values | None = None) -> _Space:
        """Return the space `name`; a new one starts with `values`."""
        with self._lock:
            space = self._living.get(name)
            if space is None:
                space = self._living[name] = _Space(name, values or {})
            if permanent:
                self._named[name] = space
            return space


_spaces = _Spaces()
_generations = SerialNumbers()


def _restore(name: str, base: str, values: _Values) -> MemoryStore:
    # Versions of another process could equal versions of this one, so unpickled values get new ones.
    fresh = {full_key: (data, Version(generation=str(_generations.next()))) for full_key, (data, _) in values.items()}
    return MemoryStore._of(_spaces.get(name, values=fresh), base)
