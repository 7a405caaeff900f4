"""A storage transformer that keeps what was fetched: chunks that are read again come from memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable, Mapping
from typing import Any, ClassVar, Self, TypeAlias

from typing_extensions import Buffer

from aiozarr.errors import InvalidMetadataError
from aiozarr.model import ByteRange, Entry, Precondition, Value, Version
from aiozarr.stores.contract import Store
from aiozarr.stores.transformer import StorageTransformer

_Key: TypeAlias = tuple[Hashable, str]


class CachingTransformer(StorageTransformer):
    """Keeps up to `max_bytes` of encoded chunks, those used last; arrays that share one object share the room.

    What is written or erased through it is forgotten, whatever comes of the write. Others' writes are not seen while a
    value is kept, except that a request for a definite version (`if_match`) is never answered with another one: it is
    for data that others do not change. Run-time use: `array.with_storage_transformer(CachingTransformer(1 << 28))`.

    Args:
        max_bytes: bytes of values, at least 1; a value that is larger is not kept.
    """

    name: ClassVar[str] = "aiozarr.cache"

    def __init__(self, max_bytes: int = 256 << 20) -> None:
        given: object = max_bytes
        if not isinstance(given, int) or isinstance(given, bool):
            raise TypeError(f"max_bytes is an int, not {type(max_bytes).__name__}")
        if max_bytes < 1:
            raise ValueError(f"max_bytes is at least 1, not {max_bytes}")
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, dict[ByteRange | None, Value]] = OrderedDict()
        self._bytes = 0
        # Counts what was forgotten: a fetch that began before a write must not bring back what it replaced.
        self._writes = 0

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> Self:
        try:
            return cls(**configuration)
        except (TypeError, ValueError) as error:
            raise InvalidMetadataError(f"not what a cache is configured by: {error}", member="configuration") from error

    def to_json(self) -> dict[str, Any]:
        return {"max_bytes": self.max_bytes}

    def wrap(self, store: Store, prefix: str) -> Store:
        return CachedStore(store, self)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.max_bytes,))

    # --- for the store -------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes that are kept now."""
        return self._bytes

    def find(self, key: _Key, byte_range: ByteRange | None, if_match: Version | None) -> Value | None:
        """Return what is kept, where it has the version asked for."""
        with self._lock:
            value = self._kept.get(key, {}).get(byte_range)
            if value is None or (if_match is not None and value.version != if_match):
                return None
            self._kept.move_to_end(key)
            return value

    def begin(self) -> int:
        """Return a mark of now, for `keep`."""
        return self._writes

    def keep(self, key: _Key, byte_range: ByteRange | None, value: Value, begun: int) -> None:
        """Keep a value that was fetched, unless something was written since `begun`; the oldest make room."""
        size = memoryview(value.data).nbytes
        with self._lock:
            if size > self.max_bytes or begun != self._writes:
                return
            parts = self._kept.setdefault(key, {})
            if any(part.version != value.version for part in parts.values()):
                self._drop(key)
                parts = self._kept.setdefault(key, {})
            if byte_range not in parts:
                self._bytes += size
            parts[byte_range] = value
            self._kept.move_to_end(key)
            while self._bytes > self.max_bytes and self._kept:
                self._drop(next(iter(self._kept)))

    def forget(self, key: _Key | None = None) -> None:
        """Forget one key, or all."""
        with self._lock:
            self._writes += 1
            for each in list(self._kept) if key is None else [key]:
                self._drop(each)

    def _drop(self, key: _Key) -> None:
        self._bytes -= sum(memoryview(value.data).nbytes for value in self._kept.pop(key, {}).values())


class CachedStore(Store):
    """A store whose values are fetched once; see `CachingTransformer`."""

    def __init__(self, store: Store, cache: CachingTransformer) -> None:
        self._store = store
        self._cache = cache
        self.supports = store.supports

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def origin(self) -> Hashable:
        return self._store.origin

    @property
    def identity(self) -> Hashable:
        return self._store.identity

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        place = (self._store.identity, key)
        found = self._cache.find(place, range, if_match)
        if found is not None:
            return found
        begun = self._cache.begin()
        value = await self._store.fetch(key, range, if_match=if_match)
        if value is not None:
            # A copy: what the store gave may be a small view of a large block.
            value = Value(bytes(value.data), value.version, value.size)
            self._cache.keep(place, range, value, begun)
        return value

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        try:
            return await self._store.set(key, value, precondition=precondition)
        finally:
            self._cache.forget((self._store.identity, key))

    async def erase(self, key: str) -> None:
        try:
            await self._store.erase(key)
        finally:
            self._cache.forget((self._store.identity, key))

    async def erase_prefix(self, prefix: str) -> None:
        try:
            await self._store.erase_prefix(prefix)
        finally:
            self._cache.forget()

    def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        return self._store.scan(prefix)

    async def probe_conditional_writes(self) -> bool:
        """Return whether the store checks conditions of writes, as the engine asks where nobody knows."""
        probe = getattr(self._store, "probe_conditional_writes", None)
        return bool(await probe()) if probe is not None else bool(self._store.supports.conditional_writes)

    async def aclose(self) -> None:
        await self._store.aclose()
