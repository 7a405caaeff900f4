"""An aiozarr store as zarr-python sees a store: enough of an adapter for zarr-python's own conformance tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, ClassVar

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.abc.store import Store as ZarrStore
from zarr.core.buffer import Buffer, BufferPrototype, default_buffer_prototype

from aiozarr.errors import PreconditionFailedError
from aiozarr.model import ByteRange, IfAbsent, Range, Suffix
from aiozarr.stores import Store


class AdaptedStore(ZarrStore):
    """zarr-python's store contract over `inner`."""

    supports_writes: ClassVar[bool] = True
    supports_deletes: ClassVar[bool] = True
    supports_listing: ClassVar[bool] = True
    supports_partial_writes: ClassVar[Any] = False

    def __init__(self, inner: Store, *, read_only: bool = False) -> None:
        super().__init__(read_only=read_only)
        self.inner = inner

    def with_read_only(self, read_only: bool = False) -> AdaptedStore:
        return AdaptedStore(self.inner, read_only=read_only)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        if not self._is_open:
            await self._open()
        value = await self.inner.fetch(key, _range(byte_range))
        if value is None:
            return None
        return (prototype or default_buffer_prototype()).buffer.from_bytes(bytes(value.data))

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        return await self.inner.exists(key)

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        if not self._is_open:
            await self._open()
        await self.inner.set(key, value.to_bytes())

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        self._check_writable()
        try:
            await self.inner.set(key, value.to_bytes(), precondition=IfAbsent())
        except PreconditionFailedError:
            return

    async def delete(self, key: str) -> None:
        self._check_writable()
        await self.inner.erase(key)

    async def delete_dir(self, prefix: str) -> None:
        self._check_writable()
        await self.inner.erase_prefix(_folder(prefix))

    async def list(self) -> AsyncIterator[str]:
        for key in await self.inner.list():
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        prefix = prefix.lstrip("/")
        # A prefix that ends inside of a name is listed by its folder.
        for key in await self.inner.list_prefix(prefix[: prefix.rfind("/") + 1]):
            if key.startswith(prefix):
                yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        folder = _folder(prefix)
        keys, prefixes = await self.inner.list_dir(folder)
        for name in [*keys, *prefixes]:
            yield name.removeprefix(folder).removesuffix("/")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AdaptedStore) and self.inner == other.inner and self.read_only == other.read_only

    __hash__ = None  # type: ignore[assignment]  # as zarr-python's own stores

    def __repr__(self) -> str:
        return f"AdaptedStore({self.inner!r})"


def _folder(prefix: str) -> str:
    return f"{prefix.strip('/')}/" if prefix.strip("/") else ""


def _range(asked: ByteRequest | None) -> ByteRange | None:
    match asked:
        case None:
            return None
        case RangeByteRequest(start, end):
            return Range(start, end - start)
        case OffsetByteRequest(offset):
            return Range(offset, None)
        case SuffixByteRequest(suffix):
            return Suffix(suffix)
    raise TypeError(f"Unexpected byte_range, got {asked!r}.")
