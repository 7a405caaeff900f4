"""A store around a store: every operation of the contract goes to the same operation of the inner one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from typing_extensions import Buffer

from aiozarr.model import ByteRange, Entry, Precondition, Supports, Value, Version
from aiozarr.stores.contract import Keys, Store, byte_view, rooted_at

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
    "erase_values",
    "erase_prefix",
    "scan",
    "list",
    "list_prefix",
    "list_dir",
    "probe_conditional_writes",
]

_WRITES = frozenset({"set", "set_partial_values", "erase", "erase_values", "erase_prefix"})


@dataclass(frozen=True, slots=True)
class Operation:
    """What is asked of the inner store.

    Attributes:
        name: the method's name.
        key: its key, or its prefix; None where it has several keys, or none.
        range: the bytes that are wanted of the value; None: all, or no read.
        sent: how many bytes are to be written.
    """

    name: OperationName
    key: str | None = None
    range: ByteRange | None = None
    sent: int = 0

    @property
    def writes(self) -> bool:
        """True for what stores or removes values."""
        return self.name in _WRITES


class WrapperStore(Store):
    """Hands every operation on as it is, so that what the inner store does better than the defaults is used.

    A subclass overrides the operations it changes; one that does the same around all of them overrides `_carry` (and
    `scan`). It has the same values under the same keys as the inner store, unless it overrides `identity`, and so
    shares locks, caches and budget with it; it equals a wrapper of the same kind and settings around an equal store.

    Wrapped, a blocking store such as `LocalStore` is reached by its coroutines, in threads of the loop, and no longer
    in the workers that decode: right, and some microseconds slower per request.
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
        """What the inner store can do, as it knows now."""
        return self._store.supports

    @property
    def url(self) -> str:
        """The inner store's URL."""
        return self._store.url

    def url_of(self, path: str) -> str:
        """Return the inner store's URL of `path`."""
        return self._store.url_of(path)

    @property
    def origin(self) -> Hashable:
        """The inner store's: they share one budget."""
        return self._store.origin

    @property
    def identity(self) -> Hashable:
        """The inner store's: they hold the same values."""
        return self._store.identity

    def place_of(self, key: str) -> Hashable:
        """The inner store's place of `key`."""
        return self._store.place_of(key)

    def rooted_above(self) -> tuple[Store, str] | None:
        """Return the store above the inner one, wrapped alike."""
        above = self._store.rooted_above()
        return None if above is None else (rooted_at(self, _store=above[0]), above[1])

    async def _carry(self, operation: Operation, call: Callable[[], Awaitable[T]]) -> T:
        """Carry out one operation: `call` asks the inner store."""
        return await call()

    # --- reading -------------------------------------------------------------------------------------------------

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        return await self._carry(
            Operation("fetch", key, range), lambda: self._store.fetch(key, range, if_match=if_match)
        )

    async def get(self, key: str) -> Buffer | None:
        return await self._carry(Operation("get", key), lambda: self._store.get(key))

    async def get_partial_values(self, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]) -> list[Buffer | None]:
        return await self._carry(Operation("get_partial_values"), lambda: self._store.get_partial_values(key_ranges))

    async def exists(self, key: str) -> bool:
        return await self._carry(Operation("exists", key), lambda: self._store.exists(key))

    async def stat(self, key: str) -> Entry | None:
        return await self._carry(Operation("stat", key), lambda: self._store.stat(key))

    # --- writing -------------------------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        operation = Operation("set", key, sent=byte_view(value).nbytes)
        return await self._carry(operation, lambda: self._store.set(key, value, precondition=precondition))

    async def set_partial_values(self, key_start_values: Iterable[tuple[str, int, Buffer]]) -> None:
        parts = [*key_start_values]
        operation = Operation("set_partial_values", sent=sum([byte_view(value).nbytes for _, _, value in parts]))
        await self._carry(operation, lambda: self._store.set_partial_values(parts))

    async def erase(self, key: str) -> None:
        await self._carry(Operation("erase", key), lambda: self._store.erase(key))

    async def erase_values(self, keys: Iterable[str]) -> None:
        await self._carry(Operation("erase_values"), lambda: self._store.erase_values(keys))

    async def erase_prefix(self, prefix: str) -> None:
        await self._carry(Operation("erase_prefix", prefix), lambda: self._store.erase_prefix(prefix))

    # --- listing -------------------------------------------------------------------------------------------------

    def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        return self._store.scan(prefix)

    async def list(self) -> Keys:
        return await self._carry(Operation("list"), self._store.list)

    async def list_prefix(self, prefix: str) -> Keys:
        return await self._carry(Operation("list_prefix", prefix), lambda: self._store.list_prefix(prefix))

    async def list_dir(self, prefix: str) -> tuple[Keys, Keys]:
        return await self._carry(Operation("list_dir", prefix), lambda: self._store.list_dir(prefix))

    # --- what the backend can do, and life -----------------------------------------------------------------------

    async def probe_conditional_writes(self) -> bool:
        return await self._carry(Operation("probe_conditional_writes"), self._store.probe_conditional_writes)

    async def _probe_below(self, prefix: str) -> bool:
        if type(self).probe_conditional_writes is not WrapperStore.probe_conditional_writes:
            return await super()._probe_below(prefix)  # a subclass has its own way, as where nothing may be written
        return await self._carry(Operation("probe_conditional_writes"), lambda: self._store._probe_below(prefix))

    async def aclose(self) -> None:
        """Close the inner store."""
        await self._store.aclose()

    def _settings(self) -> dict[str, Any]:
        """Return the arguments of the constructor besides the inner store, by name."""
        return {}

    @property
    def _sameness(self) -> object:
        return (type(self), self._store._sameness, self._settings())

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self._store, self._settings()))

    def __repr__(self) -> str:
        settings = "".join([f", {name}={value!r}" for name, value in self._settings().items()])
        return f"{type(self).__name__}({self._store!r}{settings})"


def _rebuild(kind: type[Any], store: Store, settings: dict[str, Any]) -> Any:
    return kind(store, **settings)


@asynccontextmanager
async def entries_of(store: Store, prefix: str) -> AsyncGenerator[AsyncIterator[Entry], None]:
    """Open the listing of `store`; on leaving it is closed, also where it was not read to its end."""
    entries = store.scan(prefix)
    try:
        yield entries
    finally:
        close = getattr(entries, "aclose", None)
        if close is not None:
            await close()


def moved(operation: Operation, result: Any) -> int:
    """Return how many bytes of values an operation that ended with `result` has brought or taken."""
    match operation.name:
        case "fetch":
            return 0 if result is None else memoryview(result.data).nbytes
        case "get":
            return 0 if result is None else memoryview(result).nbytes
        case "get_partial_values":
            return sum([memoryview(each).nbytes for each in result if each is not None])
        case _:
            return operation.sent
