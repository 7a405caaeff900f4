"""Contexts: limits and caches that the arrays opened with them share (TensorStore's `Context`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from aiozarr.driver.json_members import JSON, Members, as_json, boolean, integer, invalid, number, shown
from aiozarr.model import Value
from aiozarr.stores.contract import Store
from aiozarr.stores.transformer import StorageTransformer
from aiozarr.stores.wrappers.cache_backend import CachedValue, MemoryCache
from aiozarr.stores.wrappers.cache_store import CacheStore

Bound: TypeAlias = bool | float
"""When cached data must be revalidated: True always, False never, or if they are older than this Unix time."""

RESOURCES = (
    *("cache_pool", "data_copy_concurrency", "memory_key_value_store", "file_io_concurrency", "file_io_sync"),
    *("file_io_locking", "http_request_concurrency", "http_request_retries", "s3_request_concurrency"),
    *("s3_request_retries", "gcs_request_concurrency", "gcs_request_retries", "gcs_user_project", "aws_credentials"),
    *("experimental_gcs_rate_limiter", "experimental_s3_rate_limiter"),
)


class CachePool:
    """Encoded chunks in memory, bounded in bytes, of all arrays that share the pool.

    Attributes:
        total_bytes_limit: the bound in bytes; 0 caches nothing.
    """

    def __init__(self, total_bytes_limit: int = 0) -> None:
        self.total_bytes_limit = total_bytes_limit
        self.backend = MemoryCache(total_bytes_limit) if total_bytes_limit else None

    @property
    def nbytes(self) -> int:
        """Bytes of the cached chunks."""
        return 0 if self.backend is None else self.backend.nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        return (CachePool, (self.total_bytes_limit,))  # a copy begins empty


class Context:
    """Resources by name. Specs with the same `Context` as their `context` share its cache pools.

    `Context({"cache_pool": {"total_bytes_limit": 100_000_000}})`; a name may have a suffix, as in `cache_pool#remote`.

    Raises:
        InvalidSpecError: a resource is unknown, or a member of one is not valid.
    """

    def __init__(self, spec: Mapping[str, JSON] | None = None) -> None:
        self._resources = _resources(spec or {}, "context")
        self._pools: dict[str, CachePool] = {}

    @classmethod
    def parse(cls, value: JSON, path: str) -> Context:
        """Return the context of its JSON; a `Context` is returned unchanged."""
        if isinstance(value, Context):
            return value
        if value is None:
            raise invalid(path, "expected an object, not None")
        return cls(value)

    def cache_pool(self, value: JSON, path: str) -> CachePool:
        """Return the pool that a spec's `cache_pool` names or describes."""
        name, found = self._resource("cache_pool", value, path)
        if name is None:
            return CachePool(_pool_limit(found, path))
        if name not in self._pools:
            self._pools[name] = CachePool(_pool_limit(found or {}, f"context.{name}"))
        return self._pools[name]

    def _resource(self, kind: str, value: JSON, path: str) -> tuple[str | None, JSON]:
        """Return the name of a resource, None if `value` is one itself, and its members; None if it is a default."""
        seen: list[str] = []
        while isinstance(value, str):
            if value.partition("#")[0] != kind or value in seen:
                raise invalid(path, f"expected a {kind} or the name of one, not {shown(value)}")
            if value not in self._resources and "#" in value:
                raise invalid(path, f"the context has no {value!r}")
            seen.append(value)
            value, path = self._resources.get(value), f"context.{value}"
        if value is not None and not isinstance(value, Mapping):
            raise invalid(path, f"expected a {kind} or the name of one, not {shown(value)}")
        return (seen[-1] if seen else None), value

    def limit(self, name: str, value: JSON, path: str) -> int | None:
        """Return the `limit` of a resource of concurrency; None if it is not limited here."""
        key, found = self._resource(name, name if value is None else value, path)
        return None if found is None else _concurrency(found, path if key is None else f"context.{key}")

    def __repr__(self) -> str:
        return f"Context({self._resources!r})"


def _resources(value: JSON, path: str) -> dict[str, JSON]:
    members = Members(value, path)
    found = members.rest()
    for name in found:
        if name.partition("#")[0] not in RESOURCES:
            raise invalid(members.at(name), f"unknown resource {name!r}; known are {', '.join(RESOURCES)}")
        _check_resource(name.partition("#")[0], found[name], members.at(name))
    return found


def _check_resource(kind: str, value: JSON, path: str) -> None:
    """Check the members of a resource; a string names another one of its kind."""
    if isinstance(value, str) and value.partition("#")[0] == kind:
        return
    if value is None:
        return
    if kind == "file_io_sync":
        boolean(value, path)
    elif not isinstance(value, Mapping):
        raise invalid(path, f"expected an object, not {shown(value)}")
    elif kind == "cache_pool":
        _pool_limit(value, path)
    elif kind.endswith("_concurrency"):
        _concurrency(value, path)


def _concurrency(value: JSON, path: str) -> int | None:
    with Members(value, path) as members:
        limit: int | None = members.take("limit", _limit, None)
    return limit


def parse_resource(kind: str) -> Callable[[JSON, str], JSON]:
    """Return a parser of a resource of this kind, or of the name of one."""

    def parse(value: JSON, path: str) -> JSON:
        _check_resource(kind, value, path)
        return value

    return parse


def _pool_limit(value: JSON, path: str) -> int:
    with Members(value, path) as members:
        limit = members.take("total_bytes_limit", lambda each, where: integer(each, where, 0), 0)
        members.take("queued_for_writeback_bytes_limit", as_json, None)
    return limit


def _limit(value: JSON, path: str) -> int | None:
    return None if value == "shared" else integer(value, path, 1)


def parse_bound(value: JSON, path: str) -> Bound | str:
    """Return a revalidation bound: true, false, "open" or a Unix time.

    Raises:
        InvalidSpecError: it is none of these.
    """
    if isinstance(value, bool) or value == "open":
        return bool(value) if isinstance(value, bool) else "open"
    if isinstance(value, int | float):
        return number(value, path)
    raise invalid(path, f'expected true, false, "open" or a Unix time, not {shown(value)}')


def must_recheck(bound: Bound, checked: float) -> bool:
    """Return whether what was checked at this Unix time must be revalidated."""
    return bound if isinstance(bound, bool) else checked < bound


class PooledChunks(StorageTransformer):
    """Caches the encoded chunks of an array in a pool, and revalidates them as a bound says."""

    name = "aiozarr.driver.cache_pool"

    def __init__(self, pool: CachePool, bound: Bound) -> None:
        self.pool = pool
        self.bound = bound

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> PooledChunks:
        """Return the transformer of a configuration; it is not stored in documents."""
        return cls(CachePool(configuration["total_bytes_limit"]), configuration["bound"])

    def to_json(self) -> dict[str, Any]:
        """Return the configuration."""
        return {"total_bytes_limit": self.pool.total_bytes_limit, "bound": self.bound}

    def wrap(self, store: Store, prefix: str) -> Store:
        """Return the store of the chunks."""
        return PooledChunkStore(store, self)

    def __reduce__(self) -> tuple[Any, ...]:
        return (PooledChunks, (self.pool, self.bound))


class PooledChunkStore(CacheStore):
    """The store of an array's chunks behind a cache pool."""

    def __init__(self, store: Store, pooled: PooledChunks) -> None:
        # With an age, a validated value counts as checked at that time.
        super().__init__(store, max(1, pooled.pool.total_bytes_limit), max_age=time.time())
        assert pooled.pool.backend is not None
        self._backend = pooled.pool.backend
        self._pooled = pooled

    @property
    def identity(self) -> Hashable:
        """The inner store's: writes through both are serialised together."""
        return self._store.identity

    def _is_fresh(self, cached: CachedValue) -> bool:
        return not must_recheck(self._pooled.bound, cached.checked)

    def _answer(self, value: Value, checks: int) -> Value:
        # The pool is part of the view and no store of the user's, so records count what it sends.
        return replace(value, cache_checks=checks)

    def _settings(self) -> dict[str, Any]:
        return {"pooled": self._pooled}

    def __repr__(self) -> str:
        return f"PooledChunkStore({self._store!r})"
