"""A storage transformer that keeps what was fetched: chunks that are read again come from memory."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, Self

from aiozarr.errors import InvalidMetadataError
from aiozarr.stores.contract import Store
from aiozarr.stores.transformer import StorageTransformer
from aiozarr.stores.wrappers.cache import CacheStore
from aiozarr.stores.wrappers.shelf import MemoryShelf


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
        self.shelf = MemoryShelf(max_bytes)
        self.max_bytes = max_bytes

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
        return self.shelf.nbytes

    def forget(self) -> None:
        """Forget all."""
        self.shelf.clear()


class CachedStore(CacheStore):
    """A store whose values are fetched once; see `CachingTransformer`."""

    def __init__(self, store: Store, cache: CachingTransformer) -> None:
        super().__init__(store, cache.max_bytes, max_age=math.inf)
        self._shelf = cache.shelf
        self._cache = cache

    @property
    def identity(self) -> Hashable:
        """The inner store's: its writers and those of this one take turns."""
        return self._store.identity

    def _settings(self) -> dict[str, Any]:
        return {"cache": self._cache}

    def __repr__(self) -> str:
        return f"CachedStore({self._store!r})"
