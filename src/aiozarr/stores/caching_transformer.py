"""A storage transformer that caches encoded chunks in memory."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Self

from aiozarr.errors import InvalidMetadataError
from aiozarr.stores.contract import Store
from aiozarr.stores.transformer import StorageTransformer
from aiozarr.stores.wrappers.cache_backend import MemoryCache
from aiozarr.stores.wrappers.cache_store import CacheStore


class CachingTransformer(StorageTransformer):
    """Caches up to `max_bytes` of encoded chunks, the most recently used; arrays that share the object share the limit.

    A write through it invalidates the cached value, whether or not it succeeds. Writes of other clients are not seen
    while a value is cached, so it is for data that others do not change. A request with `if_match` is never answered
    with another version. At run time: `array.with_storage_transformer(CachingTransformer(1 << 28))`.

    Args:
        max_bytes: bytes of values, at least 1; a larger value is not cached.
    """

    name: ClassVar[str] = "aiozarr.cache"

    def __init__(self, max_bytes: int = 256 << 20) -> None:
        self.backend = MemoryCache(max_bytes)
        self.max_bytes = max_bytes

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> Self:
        try:
            return cls(**configuration)
        except (TypeError, ValueError) as error:
            raise InvalidMetadataError(f"not a configuration of a cache: {error}", member="configuration") from error

    def to_json(self) -> dict[str, Any]:
        return {"max_bytes": self.max_bytes}

    def wrap(self, store: Store, prefix: str) -> Store:
        return CachedChunkStore(store, self)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.max_bytes,))

    # --- for the store -------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of the cached values."""
        return self.backend.nbytes

    def forget(self) -> None:
        """Remove all cached values."""
        self.backend.clear()


class CachedChunkStore(CacheStore):
    """The store of an array's chunks with the cache of a `CachingTransformer`."""

    def __init__(self, store: Store, cache: CachingTransformer) -> None:
        super().__init__(store, cache.max_bytes, max_age=math.inf)
        self._backend = cache.backend
        self._cache = cache

    @property
    def identity(self) -> Hashable:
        """The inner store's: writes through both are serialised together."""
        return self._store.identity

    def _settings(self) -> dict[str, Any]:
        return {"cache": self._cache}

    def __repr__(self) -> str:
        return f"CachedChunkStore({self._store!r})"
