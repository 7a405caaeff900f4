"""A store around a store: each primitive operation calls the same operation of the inner store.

A wrapper overrides the operations that it changes. The derived operations of `Store`, such as `get` and `list`, call
the primitive ones, so they change too. Wrappers of this package override `_around`, to change all operations at once.
Here each operation lasts as long as its own bytes (`LatencyStore` also shares the bandwidth between operations):

    class SlowStore(WrapperStore):
        def __init__(self, store, bytes_per_second):
            super().__init__(store)
            self._bytes_per_second = bytes_per_second

        def _settings(self):  # equality, pickles and repr: the arguments besides the store
            return {"bytes_per_second": self._bytes_per_second}

        async def _around(self, operation, call):
            result = await call()
            await asyncio.sleep(transferred_bytes(operation, result) / self._bytes_per_second)
            return result
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from typing_extensions import Buffer

from aiozarr.errors import UnsupportedOperationError
from aiozarr.model import ByteRange, Entry, Precondition, Supports, Value, Version
from aiozarr.stores.contract import Keys, Store, byte_view, with_root

T = TypeVar("T")

OperationName: TypeAlias = Literal[
    "fetch",
    "get",
    "get_partial_values",
    "exists",
    "stat",
    "set",
    "set_partial_values",
    "erase",
    "erase_if_match",
    "erase_values",
    "erase_prefix",
    "scan",
    "list",
    "list_prefix",
    "list_dir",
    "probe_conditional_writes",
]

_WRITES = frozenset({"set", "set_partial_values", "erase", "erase_if_match", "erase_values", "erase_prefix"})


@dataclass(frozen=True, slots=True)
class StoreOperation:
    """One call of the inner store.

    Attributes:
        name: the method's name.
        key: its key, or its prefix; None if it has several keys, or none.
        keys: its keys if it has several.
        range: the requested bytes of the value; None for all of it, and for operations that read nothing.
        bytes_to_write: how many bytes are written.
    """

    name: OperationName
    key: str | None = None
    range: ByteRange | None = None
    bytes_to_write: int = 0
    keys: tuple[str, ...] = ()

    @property
    def is_write(self) -> bool:
        """True for operations that store or remove values."""
        return self.name in _WRITES


class WrapperStore(Store):
    """Forwards every primitive operation to the inner store, which may have a cheaper way.

    A subclass overrides the operations that it changes. To do the same around all of them, it overrides `_around`, and
    `scan`, which is an iterator. A wrapper has the same values under the same keys as the inner store, unless it
    overrides `identity`, and so shares locks, caches and budget with it. It equals a wrapper of the same class and
    settings around an equal store.

    A wrapped blocking store, such as `LocalStore`, is called through its coroutines, which use threads of the loop, and
    not by the workers that decode. That costs some microseconds per request.
    """

    def __init__(self, store: Store) -> None:
        given: object = store
        if not isinstance(given, Store):
            raise TypeError(f"{type(self).__name__} wraps a Store, not {type(store).__name__}")
        self._store = store

    @property
    def store(self) -> Store:
        """The inner store."""
        return self._store

    @property
    def supports(self) -> Supports:  # type: ignore[override]  # read from the inner store, which may learn more
        """The capabilities of the inner store at this moment."""
        supports = self._store.supports
        if supports.bounded_reads and not (self._takes_max_bytes and self._store.has_bounded_reads):
            supports = replace(supports, bounded_reads=False)
        if supports.conditional_erases and not (self._erases_by_version and self._store.has_conditional_erases):
            supports = replace(supports, conditional_erases=False)
        return supports

    async def _around(self, operation: StoreOperation, call: Callable[[], Awaitable[T]]) -> T:
        """Run one operation: `call` calls the inner store."""
        return await call()

    def _inner_key(self, key: str) -> str:
        """Return the inner store's key of `key`."""
        return key

    def _inner_prefix(self, prefix: str) -> str:
        """Return the inner store's prefix of `prefix`."""
        return prefix

    # --- primitive operations ------------------------------------------------------------------------------------

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        # An inner store without bounded reads need not have the keyword.
        inner, bound = self._inner_key(key), {} if max_bytes is None else {"max_bytes": max_bytes}
        return await self._around(
            StoreOperation("fetch", key, range), lambda: self._store.fetch(inner, range, if_match=if_match, **bound)
        )

    async def stat(self, key: str) -> Entry | None:
        inner = self._inner_key(key)
        return await self._around(StoreOperation("stat", key), lambda: self._store.stat(inner))

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        inner, operation = self._inner_key(key), StoreOperation("set", key, bytes_to_write=byte_view(value).nbytes)
        return await self._around(operation, lambda: self._store.set(inner, value, precondition=precondition))

    async def erase(self, key: str) -> None:
        inner = self._inner_key(key)
        await self._around(StoreOperation("erase", key), lambda: self._store.erase(inner))

    async def erase_if_match(self, key: str, version: Version) -> None:
        inner, operation = self._inner_key(key), StoreOperation("erase_if_match", key)
        await self._around(operation, lambda: self._store.erase_if_match(inner, version))

    async def erase_values(self, keys: Iterable[str]) -> None:
        keys = tuple(keys)
        inner = [self._inner_key(key) for key in keys]
        await self._around(StoreOperation("erase_values", keys=keys), lambda: self._store.erase_values(inner))

    async def erase_prefix(self, prefix: str) -> None:
        inner = self._inner_prefix(prefix)
        await self._around(StoreOperation("erase_prefix", prefix), lambda: self._store.erase_prefix(inner))

    def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        return self._store.scan(prefix)

    async def list_dir(self, prefix: str) -> tuple[Keys, Keys]:
        inner = self._inner_prefix(prefix)
        return await self._around(StoreOperation("list_dir", prefix), lambda: self._store.list_dir(inner))

    async def probe_conditional_writes(self) -> bool:
        operation = StoreOperation("probe_conditional_writes")
        return await self._around(operation, self._store.probe_conditional_writes)

    async def _probe_below(self, prefix: str) -> bool:
        if type(self).probe_conditional_writes is not WrapperStore.probe_conditional_writes:
            return await super()._probe_below(prefix)  # a subclass decides, such as one that refuses writes
        operation = StoreOperation("probe_conditional_writes")
        return await self._around(operation, lambda: self._store._probe_below(prefix))

    async def aclose(self) -> None:
        """Close the inner store."""
        await self._store.aclose()

    # --- identity ------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The inner store's URL."""
        return self._store.url

    def url_of(self, path: str) -> str:
        """Return the inner store's URL of `path`."""
        return self._store.url_of(path)

    @property
    def server(self) -> str | None:
        """The inner store's server."""
        return self._store.server

    @property
    def origin(self) -> Hashable:
        """The origin of the inner store, so that both share one budget."""
        return self._store.origin

    @property
    def identity(self) -> Hashable:
        """The identity of the inner store, because both have the same values."""
        return self._store.identity

    def object_identity(self, key: str) -> Hashable:
        """Return the inner store's identity of the object."""
        return self._store.object_identity(key)

    def parent_store(self) -> tuple[Store, str] | None:
        """Return the parent of the inner store, in the same wrapper."""
        parent = self._store.parent_store()
        return None if parent is None else (with_root(self, _store=parent[0]), parent[1])

    def _settings(self) -> dict[str, Any]:
        """Return the arguments of the constructor besides the inner store, by name."""
        return {}

    @property
    def _equality_key(self) -> object:
        return (type(self), self._store._equality_key, self._settings())

    def __reduce__(self) -> tuple[Any, ...]:
        return (partial(type(self), self._store, **self._settings()), ())

    def __repr__(self) -> str:
        settings = "".join([f", {name}={value!r}" for name, value in self._settings().items()])
        return f"{type(self).__name__}({self._store!r}{settings})"


@asynccontextmanager
async def entries_of(store: Store, prefix: str) -> AsyncGenerator[AsyncIterator[Entry], None]:
    """Open a listing of `store`, and close it at the end, even if it was not read completely."""
    entries = store.scan(prefix)
    try:
        yield entries
    finally:
        close = getattr(entries, "aclose", None)
        if close is not None:
            await close()


def transferred_bytes(operation: StoreOperation, result: Any) -> int:
    """Return how many bytes of values an operation with this result has read or written."""
    match operation.name:
        case "fetch":
            return 0 if result is None else memoryview(result.data).nbytes
        case "get":
            return 0 if result is None else memoryview(result).nbytes
        case "get_partial_values":
            return sum([memoryview(each).nbytes for each in result if each is not None])
        case _:
            return operation.bytes_to_write


class ReadOnlyStore(WrapperStore):
    """Refuses writes before any request is sent, and forwards reads to the inner store.

    Closing it closes the inner store.

    Args:
        store: the store to protect.

    Raises:
        UnsupportedOperationError: by every operation that stores or removes values.
    """

    @property
    def supports(self) -> Supports:  # type: ignore[override]  # as in the base class
        """The capabilities of the inner store, except for writes."""
        return replace(super().supports, writable=False, conditional_writes=False, conditional_erases=False)

    async def _around(self, operation: StoreOperation, call: Callable[[], Awaitable[T]]) -> T:
        if operation.is_write:
            raise self._refused(operation.name, operation.key)
        return await call()

    async def set_partial_values(self, key_start_values: Iterable[tuple[str, int, Buffer]]) -> None:
        # The derived operation would read the present values first.
        raise self._refused("set_partial_values", None)

    async def probe_conditional_writes(self) -> bool:
        """Return False; a probe would write."""
        return False

    def _refused(self, operation: OperationName, key: str | None) -> UnsupportedOperationError:
        return UnsupportedOperationError(f"the store was made read-only: no {operation}", store=self.url, key=key)
