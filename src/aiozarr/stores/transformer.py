"""Storage transformers, between an array's chunks and its store (v3 core, "Storage transformers")."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

from aiozarr.errors import InvalidMetadataError
from aiozarr.plugins import NamedConfiguration, check_class, load_class, unknown_extension
from aiozarr.stores.cache_backend import MemoryCache
from aiozarr.stores.cache_store import CacheStore
from aiozarr.stores.contract import Store

_POINT = "storage_transformer"
_known: dict[str, type[StorageTransformer]] = {}


class StorageTransformer(ABC):
    """Changes how the chunks of an array are stored or fetched.

    A subclass has the class attribute `name`, its name in metadata documents. Register it with
    `register_storage_transformer` or an entry point in the group `aiozarr.storage_transformers`. It wraps the store of
    the chunks; metadata documents are in the unwrapped store.
    """

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> Self:
        """Create the transformer from the `configuration` member of a document.

        Raises:
            InvalidMetadataError: the configuration is invalid; `member` names the member.
        """

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the `configuration` member."""

    @abstractmethod
    def wrap(self, store: Store, prefix: str) -> Store:
        """Return the store of the chunks of the array below `prefix` (`""`, or ending with `/`).

        It must have the same keys as `store`.
        """


class NamedTransformer(NamedConfiguration, Protocol):
    """A storage transformer in a metadata document."""

    @property
    def must_understand(self) -> bool: ...


def register_storage_transformer(transformer: type[StorageTransformer]) -> type[StorageTransformer]:
    """Register a transformer under its `name`; also a class decorator.

    Raises:
        TypeError: it is not a concrete subclass of `StorageTransformer` with a name.
        ValueError: the name is registered for another class.
    """
    check_class(transformer, StorageTransformer)
    present = _known.setdefault(transformer.name, transformer)
    if present is not transformer:
        raise ValueError(
            f"the storage transformer {transformer.name!r} is already registered as {present.__qualname__}"
        )
    return transformer


def resolve_transformers(named: Iterable[NamedTransformer]) -> tuple[StorageTransformer, ...]:
    """Return the transformers of a document, in its order. Unknown ones are skipped if `must_understand` is false.

    Raises:
        UnsupportedMetadataError: a transformer is unknown. The message explains how to register one.
        InvalidMetadataError: a configuration is invalid for its transformer.
    """
    found: list[StorageTransformer] = []
    for number, each in enumerate(named):
        kind = _known.get(each.name) or load_class(_POINT, each.name, StorageTransformer)
        if kind is not None:
            found.append(kind.from_json(each.configuration))
        elif each.must_understand:
            raise unknown_extension(_POINT, each.name, _known, member=f"storage_transformers[{number}]")
    return tuple(found)


def wrap_store(store: Store, prefix: str, transformers: Sequence[StorageTransformer]) -> Store:
    """Return `store` wrapped in all transformers; the first one is the outermost."""
    for transformer in reversed(transformers):
        store = transformer.wrap(store, prefix)
    return store


class CachingTransformer(StorageTransformer):
    """Caches up to `max_bytes` of the most recently used encoded chunks; arrays that share the object share the limit.

    A write through it invalidates the cached value, whether or not it succeeds. Writes by other clients are not seen
    while a value is cached, so use it for data that others do not change. A request with `if_match` is never answered
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
            raise InvalidMetadataError(f"invalid cache configuration: {error}", member="configuration") from error

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
        """The inner store's, so that writes through both are serialised together."""
        return self._store.identity

    def _settings(self) -> dict[str, Any]:
        return {"cache": self._cache}

    def __repr__(self) -> str:
        return f"CachedChunkStore({self._store!r})"
