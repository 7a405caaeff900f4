"""Contexts: limits and caches that arrays opened with the same context share (TensorStore's `Context`)."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from aiozarr.common.formatting import shown
from aiozarr.driver.json_members import JSON, Members, Parse, boolean, integer, invalid, number, text
from aiozarr.model import Value
from aiozarr.stores.cache_backend import CachedValue, MemoryCache
from aiozarr.stores.cache_store import CacheStore
from aiozarr.stores.contract import Store
from aiozarr.stores.transformer import StorageTransformer

Bound: TypeAlias = bool | float
"""When cached data must be revalidated: always (True), never (False), or if they are older than a Unix time."""


class CachePool:
    """A bounded cache of encoded chunks in memory for all arrays that share the pool.

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
    """Resources by name. Specs whose `context` is the same `Context` share its cache pools.

    For example `Context({"cache_pool": {"total_bytes_limit": 100_000_000}})`. A name may have a suffix, as in
    `cache_pool#remote`.

    Raises:
        InvalidSpecError: a resource is unknown or has an invalid member.
    """

    def __init__(self, spec: Mapping[str, JSON] | None = None) -> None:
        self._resources = _resources(spec or {}, "context")
        self._pools: dict[str, CachePool] = {}

    @classmethod
    def parse(cls, value: JSON, path: str) -> Context:
        """Parse a context from JSON; a `Context` is returned unchanged."""
        if isinstance(value, Context):
            return value
        if value is None:
            raise invalid(path, "expected an object, not None")
        return cls(value)

    def cache_pool(self, value: JSON, path: str) -> CachePool:
        """Return the pool that a spec's `cache_pool` names or describes."""
        name, limits = self._resource("cache_pool", value, path)
        pool = CachePool(limits.get("limit", 0))
        return pool if name is None else self._pools.setdefault(name, pool)

    def resource(self, kind: str, value: JSON, path: str) -> dict[str, Any]:
        """Return the settings and storage options of the resource that a member names or describes.

        None means the context's own resource of this kind; if there is none, the result is empty.
        """
        return self._resource(kind, kind if value is None else value, path)[1]

    def _resource(self, kind: str, value: JSON, path: str) -> tuple[str | None, dict[str, Any]]:
        """Return the name of a resource (None if `value` describes it), and its settings and storage options."""
        seen: list[str] = []
        while isinstance(value, str):
            if value.partition("#")[0] != kind or value in seen:
                raise invalid(path, f"expected a {kind} or its name, not {shown(value)}")
            if value not in self._resources and "#" in value:
                raise invalid(path, f"the context does not define {value!r}")
            seen.append(value)
            value, path = self._resources.get(value), f"context.{value}"
        name = seen[-1] if seen else None
        return name, {} if name is not None and value is None else RESOURCES[kind][1](value, path)

    def extended(self, other: Context) -> Context:
        """Return the context with the resources of `other`, which replace resources of the same name."""
        return Context({**self._resources, **other._resources})

    def __repr__(self) -> str:
        return f"Context({self._resources!r})"


def _resources(value: JSON, path: str) -> dict[str, JSON]:
    members = Members(value, path)
    found = members.rest()
    for name, resource in found.items():
        kind = name.partition("#")[0]
        if kind not in RESOURCES:
            raise invalid(members.at(name), f"unknown resource {name!r}; expected one of {', '.join(RESOURCES)}")
        is_reference = isinstance(resource, str) and resource.partition("#")[0] == kind
        if resource is not None and not is_reference:
            RESOURCES[kind][1](resource, members.at(name))
    return found


# --- the effect of each resource ----------------------------------------------------------------------------------

Treatment: TypeAlias = Literal["honoured", "used", "accepted", "refused"]
"""The effect of a member that TensorStore knows.

honoured: it has the same meaning; used: it limits or repeats requests here too; accepted: it is valid, and the limits
of `Settings` apply instead; refused: it is an error, because it would have no effect, or because ignoring it would mean
other data, another payer or less safety.
"""


def refuse(reason: str) -> Parse[dict[str, Any]]:
    """Return the parser of a member that aiozarr refuses. An empty object, which stands for defaults, is valid."""

    def parse(value: JSON, path: str) -> dict[str, Any]:
        if value == {}:
            return {}
        raise invalid(path, f"aiozarr does not support this member: {reason}")

    return parse


def _one(setting: str, member: str, parse: Parse[Any], **refused: str) -> Parse[dict[str, Any]]:
    """Return the parser of an object with one member that becomes a setting, and others that are refused."""

    def parse_object(value: JSON, path: str) -> dict[str, Any]:
        with Members(value, path) as members:
            found = members.take(member, parse, None)
            for name, reason in refused.items():
                members.take(name, refuse(reason), None)
        return {} if found is None else {setting: found}

    return parse_object


def _rate_limiter(value: JSON, path: str) -> dict[str, Any]:
    Members(value, path)
    return {}


def _limit(value: JSON, path: str) -> int | None:
    return None if value == "shared" else integer(value, path, 1)


def _credentials(value: JSON, path: str) -> dict[str, Any]:
    files = refuse("set AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE in the environment instead")
    source = refuse("credentials of instances and containers are found automatically, after the environment")
    with Members(value, path) as members:
        kind = members.take("type", text, "default")
        if kind not in ("default", "anonymous", "profile"):
            raise invalid(members.at("type"), f"expected default, anonymous or profile, not {shown(kind)}")
        profile = members.take("profile", text, None)
        for name in ("filename", "config_file", "credentials_file"):
            members.take(name, files, None)
        for name in ("metadata_endpoint", "endpoint", "auth_token_file"):
            members.take(name, source, None)
    if kind == "anonymous":
        return {"anon": True}
    if kind == "profile" and profile is None:
        profile = os.environ.get("AWS_PROFILE") or "default"
    return {} if profile is None else {"profile": profile}


_requests = _one("max_requests", "limit", _limit)
# TensorStore counts the first attempt, too.
_NO_QUEUE = "it would have no effect, because writes are not cached"
_delays = dict.fromkeys(
    ("initial_delay", "max_delay"), "it would have no effect, because aiozarr chooses the delays between attempts"
)
_attempts = _one("retries", "max_retries", lambda value, path: integer(value, path, 1) - 1, **_delays)
RESOURCES: dict[str, tuple[Treatment, Parse[dict[str, Any]]]] = {
    "cache_pool": (
        "used",
        _one("limit", "total_bytes_limit", lambda x, at: integer(x, at, 0), queued_for_writeback_bytes_limit=_NO_QUEUE),
    ),
    "data_copy_concurrency": ("used", _one("decode_threads", "limit", _limit)),
    "memory_key_value_store": ("refused", refuse("a process has a single memory store for each path")),
    "file_io_concurrency": ("used", _requests),
    "file_io_sync": ("honoured", lambda value, path: {"fsync": boolean(value, path)}),
    "file_io_locking": ("refused", refuse("files are always replaced under an operating system lock")),
    **{f"{service}_request_concurrency": ("used", _requests) for service in ("http", "s3", "gcs")},
    **{f"{service}_request_retries": ("used", _attempts) for service in ("http", "s3", "gcs")},
    "gcs_user_project": ("honoured", _one("requester_pays", "project_id", text)),
    "aws_credentials": ("honoured", _credentials),
    "experimental_gcs_rate_limiter": ("accepted", _rate_limiter),
    "experimental_s3_rate_limiter": ("accepted", _rate_limiter),
}
"""By kind: the effect, and the parser, which returns settings and storage options."""


def parse_bound(value: JSON, path: str) -> Bound | str:
    """Return a revalidation bound: true, false, "open" or a Unix time.

    Raises:
        InvalidSpecError: it is another value.
    """
    if isinstance(value, bool):
        return value
    if value == "open":
        return "open"
    if isinstance(value, int | float):
        return number(value, path)
    raise invalid(path, f'expected true, false, "open" or a Unix time, not {shown(value)}')


def must_recheck(bound: Bound, checked: float) -> bool:
    """Return whether data last checked at this Unix time must be revalidated."""
    return bound if isinstance(bound, bool) else checked < bound


class PooledChunks(StorageTransformer):
    """Caches the encoded chunks of an array in a pool, and revalidates them according to a bound."""

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
        """The inner store's, so that writes through both are serialised together."""
        return self._store.identity

    def _is_fresh(self, cached: CachedValue) -> bool:
        return not must_recheck(self._pooled.bound, cached.checked)

    def _answer(self, value: Value, checks: int) -> Value:
        # The pool belongs to the view and is not a store of the user's, so records count its requests.
        return replace(value, cache_checks=checks)

    def _settings(self) -> dict[str, Any]:
        return {"pooled": self._pooled}

    def __repr__(self) -> str:
        return f"PooledChunkStore({self._store!r})"
