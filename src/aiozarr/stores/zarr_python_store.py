"""Adapters of zarr-python's stores for the engine: any store, called on its own loop, and its store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from typing import Any
from uuid import uuid4

from typing_extensions import Buffer
from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import default_buffer_prototype

from aiozarr.common.fork_safe import ForkSafeLock, SerialNumbers
from aiozarr.errors import ChangedError, PreconditionFailedError
from aiozarr.model import (
    ByteRange,
    Entry,
    Precondition,
    Range,
    Supports,
    Value,
    Version,
    check_prefix,
    is_met,
    resolve_range,
)
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store, byte_view, check_max_bytes
from aiozarr.stores.fsspec.file_system_calls import run_on_loop

_generations = SerialNumbers()
_PROCESS = uuid4().hex
"""Buffers are pickled with their versions."""

_lock = ForkSafeLock()
"""One lock for all, because several stores may have one dictionary, and an operation takes a microsecond."""


class AdaptedStore(Store):
    """Any store of zarr-python. It has no versions, so nothing is cached beyond one operation."""

    def __init__(self, store: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        # Stores of zarr-python may raise beyond the end of a value, or return what follows it in a larger file.
        self.supports = Supports(
            writable=store.supports_writes and not store.read_only,
            listable=store.supports_listing,
            clipped_reads=False,
        )

    @property
    def url(self) -> str:
        return str(self._store)

    @property
    def identity(self) -> Hashable:
        # The store lives as long as this one, and caches need versions.
        return (AdaptedStore, id(self._store))

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        prototype = default_buffer_prototype()
        found = await run_on_loop(self._loop, lambda: self._store.get(key, prototype, byte_request(range)))
        if found is None:
            return None
        data = memoryview(found.as_numpy_array())
        return Value(data, None, data.nbytes if range is None else None)

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> None:
        # The store may keep the buffer, and an encoded chunk may be a view of the caller's array.
        buffer = default_buffer_prototype().buffer.from_bytes(bytes(byte_view(value)))
        await run_on_loop(self._loop, lambda: self._store.set(key, buffer))

    async def erase(self, key: str) -> None:
        await run_on_loop(self._loop, lambda: self._store.delete(key))

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        check_prefix(prefix, store=self.url)

        async def keys() -> list[str]:
            return [key async for key in self._store.list_prefix(prefix)]

        for key in await run_on_loop(self._loop, keys):
            yield Entry(key, None)


class BufferStore(BlockingStore):
    """The dictionary of buffers of zarr-python's store in memory."""

    supports = Supports(
        writable=True, listable=True, conditional_reads=True, conditional_writes=True, bounded_reads=True
    )

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    @property
    def url(self) -> str:
        return f"memory://{id(self._values)}"

    @property
    def identity(self) -> Hashable:
        return (BufferStore, id(self._values))

    def fetch_now(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        found = self._values.get(key)
        if found is None:
            return None
        version = _version_of(found)
        if if_match is not None and version != if_match:
            raise ChangedError("the value was replaced", store=self.url, key=key, range=range)
        data = memoryview(found.as_numpy_array())
        start, stop = resolve_range(data.nbytes, range)
        check_max_bytes(stop - start, max_bytes, store=self.url, key=key, range=range)
        return Value(data[start:stop], version, data.nbytes)

    def set_now(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        buffer = default_buffer_prototype().buffer.from_bytes(bytes(byte_view(value)))
        with _lock:
            found = self._values.get(key)
            if not is_met(precondition, None if found is None else _version_of(found)):
                raise PreconditionFailedError(f"{precondition} does not hold", store=self.url, key=key)
            self._values[key] = buffer
        return _version_of(buffer)

    def erase_now(self, key: str) -> None:
        with _lock:
            self._values.pop(key, None)

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        check_prefix(prefix, store=self.url)
        with _lock:
            found = [(key, value) for key, value in self._values.items() if key.startswith(prefix)]
        for key, value in found:
            yield Entry(key, len(value), _version_of(value))

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        return self.fetch_now(key, range, if_match=if_match, max_bytes=max_bytes)

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        return self.set_now(key, value, precondition=precondition)

    async def erase(self, key: str) -> None:
        self.erase_now(key)


def _version_of(buffer: Any) -> Version:
    """Return the version of a buffer, which is stored in it, because a write replaces the buffer."""
    generation: str = buffer.__dict__.setdefault("_aiozarr_generation", f"{_PROCESS}-{_generations.next()}")
    return Version(generation=generation)


def byte_request(wanted: ByteRange | None) -> ByteRequest | None:
    """Return zarr-python's request for a byte range."""
    if wanted is None:
        return None
    if not isinstance(wanted, Range):
        return SuffixByteRequest(wanted.length)
    if wanted.length is None:
        return OffsetByteRequest(wanted.start)
    return RangeByteRequest(wanted.start, wanted.start + wanted.length)
