"""A store that caches read values in memory or in a directory, and validates them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, TypeVar

from typing_extensions import Buffer

from aiozarr.common.concurrency import SingleFlight
from aiozarr.model import ByteRange, Value, Version, check_key, check_prefix
from aiozarr.stores.blocking import in_thread_uncancelled
from aiozarr.stores.cache_backend import CacheBackend, CachedValue, MemoryCache, ObjectKey, is_below
from aiozarr.stores.contract import Store, check_max_bytes
from aiozarr.stores.disk_cache import DiskCache
from aiozarr.stores.wrapper_store import StoreOperation, WrapperStore

T = TypeVar("T")


class CacheStore(WrapperStore):
    """Caches up to `max_bytes` of the most recently used values and ranges.

    Without a `max_age`, every cached value is validated by `stat` of the inner store, which costs a request without
    data. This holds for requests with `if_match` too, because their failure is how readers of shards notice that a
    shard was replaced. Values without a version are not cached, nor are values with a weak version, such as a time in
    whole seconds, because different values may share it. A missing key is not cached.

    A cached whole value also serves requests for its ranges. Equal requests at the same time are sent once, so a
    request may return the value from before another client's write that ended after the first of them was sent. A write
    through this store invalidates the cached value before and after, whether or not it succeeds. Closing the store
    closes the inner store; the cached values stay.

    With a `directory` the values are files there, complete and with checksums. Several processes may share it, and
    later processes find the values. A file that cannot be read counts as missing, and any file may be removed at any
    time. The files are not encrypted, so the directory is created with access for this user only. The first use of a
    directory that another user owns or can write to raises `PermissionDeniedError`.

    Args:
        store: the inner store.
        max_bytes: the size of the cache in bytes, at least 1. All processes that use a directory share it. A larger
            value is not cached.
        directory: the directory of the cache files. None caches in memory, and a pickled copy starts empty.
        max_age: seconds for which a cached value is used without validation; `math.inf` for immutable data. Writes by
            other clients may be seen that much later, and values without a strong version are cached too.

    Raises:
        ValueError: `max_bytes` or `max_age` is out of bounds.
        UnsupportedOperationError: a directory on a system that is not POSIX.
    """

    def __init__(
        self, store: Store, max_bytes: int, directory: str | os.PathLike[str] | None = None, *, max_age: float = 0.0
    ) -> None:
        super().__init__(store)
        if not max_age >= 0:
            raise ValueError(f"max_age must be at least 0 seconds, not {max_age}")
        name = None if directory is None else os.fsdecode(directory)
        if name is not None and (not name or "\0" in name):
            raise ValueError("the directory of a cache must not be empty and must not contain NUL")
        self._directory = None if name is None else os.path.abspath(name)
        self._max_age = max_age
        self._requests: SingleFlight[tuple[ObjectKey, Hashable]] = SingleFlight()
        self._backend: CacheBackend
        self._backend = MemoryCache(max_bytes) if self._directory is None else DiskCache(max_bytes, self._directory)

    @property
    def identity(self) -> Hashable:
        """The inner store's identity if every value is validated; with a `max_age`, values may be outdated."""
        inner = self._store.identity
        return (CacheStore, inner, self._max_age) if self._max_age else inner

    @property
    def nbytes(self) -> int:
        """Bytes of the cached values; for a directory, the sum of its files."""
        return self._backend.nbytes

    def _settings(self) -> dict[str, Any]:
        return {"max_bytes": self._backend.max_bytes, "directory": self._directory, "max_age": self._max_age}

    def __repr__(self) -> str:
        directory = "" if self._directory is None else f", {self._directory!r}"
        age = f", max_age={self._max_age}" if self._max_age else ""
        return f"CacheStore({self._store!r}, {self._backend.max_bytes}{directory}{age})"

    # --- reading -------------------------------------------------------------------------------------------------

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        object_key = self._object_key(key)
        cached = await self._call_backend(lambda: self._backend.lookup(object_key, range))
        is_usable = cached is not None and (if_match is None or cached.value.version == if_match)
        value: Value | None
        if is_usable and cached is not None and self._is_fresh(cached):
            value = self._answer(cached.value, 0)
        elif is_usable and cached is not None and await self._is_current(object_key, cached):
            value = self._answer(cached.value, 1)
        else:
            request = (range, if_match, max_bytes)
            value = await self._requests.run(
                (object_key, request), lambda: self._fetch_and_cache(object_key, range, if_match, max_bytes)
            )
        if value is not None and max_bytes is not None:
            check_max_bytes(memoryview(value.data).nbytes, max_bytes, store=self.url, key=key, range=range)
        return value

    def _object_key(self, key: str) -> ObjectKey:
        return (self._store.identity, check_key(key, store=self.url))

    def _answer(self, value: Value, checks: int) -> Value:
        """Return a cached value after `checks` requests to check it. A record counts each cached value as a request."""
        return value

    def _is_fresh(self, cached: CachedValue) -> bool:
        return self._max_age == math.inf or 0 <= time.time() - cached.checked < self._max_age

    async def _is_current(self, object_key: ObjectKey, cached: CachedValue) -> bool:
        """Return whether the inner store has the version of the cached value; if not, invalidate it."""
        version = cached.value.version
        if not _is_strong(version):
            return False
        checked = time.time()
        entry = await self._requests.run((object_key, "stat"), lambda: self._store.stat(object_key[1]))
        if entry is None or entry.version != version:
            await self._call_backend(lambda: self._backend.invalidate(object_key))
            return False
        if self._max_age:
            await self._call_backend(lambda: self._backend.revalidate(cached, checked))
        return True

    async def _fetch_and_cache(
        self, object_key: ObjectKey, byte_range: ByteRange | None, if_match: Version | None, max_bytes: int | None
    ) -> Value | None:
        bound = {} if max_bytes is None else {"max_bytes": max_bytes}
        with self._backend.guard(object_key) as guard:
            checked = time.time()
            value = await self._store.fetch(object_key[1], byte_range, if_match=if_match, **bound)
            if value is not None and (self._max_age or _is_strong(value.version)):
                found = value
                is_whole = value.size == memoryview(value.data).nbytes
                part = None if is_whole else byte_range
                await self._call_backend(lambda: self._backend.insert(object_key, part, found, checked, guard))
            return value

    # --- writing -------------------------------------------------------------------------------------------------

    async def set_partial_values(self, key_start_values: Iterable[tuple[str, int, Buffer]]) -> None:
        # The derived operation would merge the parts into a cached value, which may be old with a `max_age`.
        parts = [*key_start_values]
        operation = StoreOperation("set_partial_values", keys=tuple(key for key, _, _ in parts))
        await self._around(operation, lambda: self._store.set_partial_values(parts))

    async def _around(self, operation: StoreOperation, call: Callable[[], Awaitable[T]]) -> T:
        if not operation.is_write:
            return await call()
        # Before the write, so that no reader uses the old value, and after it, for readers meanwhile.
        await self._invalidate(operation)
        try:
            return await call()
        finally:
            await self._invalidate(operation)

    async def _invalidate(self, operation: StoreOperation) -> None:
        if operation.name == "erase_prefix":
            store, prefix = self._store.identity, check_prefix(operation.key or "", store=self.url)
            self._requests.forget(lambda request: is_below(request[0], store, prefix))
            await self._call_backend(lambda: self._backend.invalidate_prefix(store, prefix))
            return
        keys = operation.keys if operation.key is None else (operation.key,)
        written = {self._object_key(key) for key in keys}
        self._requests.forget(lambda request: request[0] in written)

        def invalidate() -> None:
            for object_key in written:
                self._backend.invalidate(object_key)

        await self._call_backend(invalidate)

    # --- threads -------------------------------------------------------------------------------------------------

    async def _call_backend(self, call: Callable[[], T]) -> T:
        """Call the backend; the one on disk in a thread, which a cancellation waits for."""
        return call() if self._directory is None else await in_thread_uncancelled(call)


def _is_strong(version: Version | None) -> bool:
    """Return whether equal versions mean equal bytes."""
    return version is not None and not version.weak
