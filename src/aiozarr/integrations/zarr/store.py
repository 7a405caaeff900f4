"""A store of aiozarr as a store of zarr-python, with aiozarr's retries, budget and HTTP client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, ClassVar, TypeAlias, TypeVar

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.abc.store import Store as ForeignStore
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from aiozarr.common.concurrency import map_concurrently
from aiozarr.engine import ScheduledStore, run
from aiozarr.errors import InvalidKeyError, PreconditionFailedError
from aiozarr.model import ByteRange, Entry, IfAbsent, Range, Suffix, Value, check_key
from aiozarr.schedule.events import current_recorder
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores.contract import Store
from aiozarr.sync.wait import wait

T = TypeVar("T")
# Inside the class, `list` is the operation of that name.
Entries: TypeAlias = list[Entry]


class ZarrStore(ForeignStore):
    """A store of aiozarr with zarr-python's interface.

    `zarr.open(Store(aiozarr.stores.from_url("s3://bucket/a.zarr")))` reads and writes through aiozarr's requests, from
    any event loop and from blocking code. Values are passed on without a copy.

    Args:
        inner: the store of aiozarr.
        read_only: True to refuse writes.
        settings: limits and policies of the requests.
    """

    # zarr-python shows and pickles a class by these names.
    __module__ = "aiozarr.integrations.zarr"
    __qualname__ = "Store"

    supports_deletes: ClassVar[Any] = True
    supports_partial_writes: ClassVar[Any] = False

    def __init__(self, inner: Store, *, read_only: bool = False, settings: Settings | None = None) -> None:
        if not isinstance(inner, Store):
            raise TypeError(f"expected an aiozarr store, not {type(inner).__name__}")
        super().__init__(read_only=read_only)
        self.inner = inner
        self._settings = settings_or_default(settings)

    @property
    def supports_writes(self) -> bool:
        """True if the store of aiozarr can be written to."""
        return self.inner.supports.writable

    @property
    def supports_listing(self) -> bool:
        """True if the store of aiozarr can be listed."""
        return self.inner.supports.listable

    def with_read_only(self, read_only: bool = False) -> ZarrStore:
        return ZarrStore(self.inner, read_only=read_only, settings=self._settings)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZarrStore) and self.inner == other.inner and self.read_only == other.read_only

    __hash__ = None  # type: ignore[assignment]  # as zarr-python's own stores

    def __str__(self) -> str:
        return self.inner.url

    def __repr__(self) -> str:
        return f"Store({self.inner!r})"

    # --- reading ----------------------------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        wanted = range_of(byte_range)
        await self._ensure_opened()
        if not _is_key(key):
            return None
        return _buffer(await self._request(lambda store: store.fetch(key, wanted)), prototype)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        wanted = [(key, range_of(each)) for key, each in key_ranges]
        await self._ensure_opened()

        async def fetch_all(store: ScheduledStore) -> list[Value | None]:
            async def fetch(item: tuple[str, ByteRange | None]) -> Value | None:
                return await store.fetch(*item) if _is_key(item[0]) else None

            return await map_concurrently(fetch, wanted)

        return [_buffer(value, prototype) for value in await self._request(fetch_all)]

    async def exists(self, key: str) -> bool:
        return _is_key(key) and await self._request(lambda store: store.stat(key)) is not None

    async def getsize(self, key: str) -> int:
        found = await self._request(lambda store: store.stat(key)) if _is_key(key) else None
        if found is None:
            raise FileNotFoundError(key)
        if found.size is not None:
            return found.size
        value = await self._request(lambda store: store.fetch(key))
        return 0 if value is None else memoryview(value.data).nbytes

    async def getsize_prefix(self, prefix: str) -> int:
        entries = await self._entries(_folder(prefix))
        return sum([await self.getsize(entry.key) if entry.size is None else entry.size for entry in entries])

    # --- writing ----------------------------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        data = _bytes_of(value)
        await self._ensure_opened()
        await self._request(lambda store: store.set(key, data))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        self._check_writable()
        data = _bytes_of(value)
        await self._ensure_opened()
        supports = self.inner.supports.conditional_writes
        if supports is None:
            supports = await self._request(lambda _: self.inner.probe_conditional_writes())
        if not supports:
            if not await self.exists(key):
                await self.set(key, value)
            return
        try:
            await self._request(lambda store: store.set(key, data, precondition=IfAbsent()))
        except PreconditionFailedError:
            return

    async def delete(self, key: str) -> None:
        self._check_writable()
        if _is_key(key):
            await self._request(lambda store: store.erase(key))

    async def delete_dir(self, prefix: str) -> None:
        self._check_writable()
        folder = _folder(prefix)
        await self._request(lambda store: store.erase_prefix(folder))

    # --- listing ----------------------------------------------------------------------------------------------------

    async def list(self) -> AsyncIterator[str]:
        for entry in await self._entries(""):
            yield entry.key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        prefix = prefix.lstrip("/")
        # A prefix that ends inside of a name is listed by its folder.
        for entry in await self._entries(prefix[: prefix.rfind("/") + 1]):
            if entry.key.startswith(prefix):
                yield entry.key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        folder = _folder(prefix)
        keys, prefixes = await self._request(lambda store: store.list_dir(folder))
        for name in [*keys, *prefixes]:
            yield name.removeprefix(folder).removesuffix("/")

    async def is_empty(self, prefix: str) -> bool:
        folder = _folder(prefix)
        keys, prefixes = await self._request(lambda store: store.list_dir(folder))
        # Empty directories of a local store are prefixes without keys.
        return not keys and not (prefixes and await self._entries(folder))

    # --- blocking ---------------------------------------------------------------------------------------------------

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Do what `get` does; the calling thread waits."""
        return wait(lambda _: self.get(key, prototype, byte_range))

    def set_sync(self, key: str, value: Buffer) -> None:
        """Do what `set` does; the calling thread waits."""
        wait(lambda _: self.set(key, value))

    def delete_sync(self, key: str) -> None:
        """Do what `delete` does; the calling thread waits."""
        wait(lambda _: self.delete(key))

    # --- requests ---------------------------------------------------------------------------------------------------

    async def _ensure_opened(self) -> None:
        if not self._is_open:
            await self._open()

    async def _request(self, function: Callable[[ScheduledStore], Coroutine[Any, Any, T]]) -> T:
        report = current_recorder()
        return await run(
            lambda engine: function(engine.scheduled(self.inner, self._settings, report)),
            timeout=self._settings.timeout,
        )

    async def _entries(self, prefix: str) -> Entries:
        async def scan(store: ScheduledStore) -> Entries:
            return [entry async for entry in store.scan(prefix)]

        return await self._request(scan)


def _is_key(key: str) -> bool:
    """Return whether a value can be stored under `key`; other strings have no value."""
    try:
        check_key(key)
    except InvalidKeyError:
        return False
    return True


def _buffer(value: Value | None, prototype: BufferPrototype | None) -> Buffer | None:
    if value is None:
        return None
    return (prototype or default_buffer_prototype()).buffer.from_bytes(value.data)  # type: ignore[arg-type]


def _bytes_of(value: Buffer) -> Any:
    if not isinstance(value, Buffer):
        raise TypeError(f"a value must be a zarr-python Buffer, not {type(value).__name__}")
    return value.as_buffer_like()


def _folder(prefix: str) -> str:
    return f"{prefix.strip('/')}/" if prefix.strip("/") else ""


def range_of(wanted: ByteRequest | None) -> ByteRange | None:
    """Return the byte range of one of zarr-python's requests.

    Raises:
        TypeError: it is not a byte range.
    """
    match wanted:
        case None:
            return None
        case RangeByteRequest(start, end):
            return Range(start, end - start)
        case OffsetByteRequest(offset):
            return Range(offset, None)
        case SuffixByteRequest(suffix):
            return Suffix(suffix)
    raise TypeError(f"Unexpected byte_range, got {wanted!r}.")
