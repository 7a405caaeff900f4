"""A read-only store over a table of references: values are ranges of other objects, or inlined in the table."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from hashlib import blake2b
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from typing_extensions import Buffer

from aiozarr.common.concurrency import map_concurrently
from aiozarr.errors import ChangedError, LimitError, StoreError
from aiozarr.model import (
    ByteRange,
    Entry,
    Range,
    Suffix,
    Supports,
    Value,
    Version,
    check_key,
    check_prefix,
    resolve_range,
)
from aiozarr.stores.capabilities import LocatingStore, Location
from aiozarr.stores.contract import Keys, Store, byte_view, check_max_bytes, split_root, with_root
from aiozarr.stores.reference.columns import Reference
from aiozarr.stores.reference.table import Found, ReferenceTable
from aiozarr.stores.reference.target_stores import TargetResolver, TargetStore

_WAKING_TURNS = 2  # turns of the loop until tasks that wait for a future continue
_Loads: TypeAlias = WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Hashable, asyncio.Future[None]]]

MAX_SIZED_AT_ONCE = 64
"""Sizes of objects that are requested at the same time."""


class ReferenceStore(LocatingStore):
    """Values that a table of references describes. `from_references` makes one.

    Bytes are read from the referenced objects, never beyond the end of a reference. An object that is missing is a
    `DanglingReferenceError`, and one that is replaced while the store is in use is a `ChangedError`.
    """

    supports = Supports(listable=True, conditional_reads=True, bounded_reads=True)

    def __init__(
        self, table: ReferenceTable, resolver: TargetResolver, *, url: str, identity: Hashable, prefix: str = ""
    ) -> None:
        self._table = table
        self._resolver = resolver
        self._url = url
        self._identity = identity
        self._prefix = prefix
        self._loads: _Loads = WeakKeyDictionary()

    # --- the table ---------------------------------------------------------------------------------------------------

    def limit_documents(self, max_bytes: int | None) -> None:
        self._table.limit_documents(max_bytes)

    async def prepare(self, key: str) -> None:
        while (part := self._look(self._prefix + key)[0]) is not None:
            await self._single_flight(part)

    def locate(self, key: str) -> Location | None:
        part, found, target = self._look(self._prefix + key)
        if part is not None:
            raise LookupError(key)
        if not isinstance(found, Reference) or found.length is None or target is None:
            return None
        return Location(*target, found.start, found.length)

    def _look(self, full: str) -> tuple[Hashable, Found | None, tuple[TargetStore, str] | None]:
        """Look up a key of the table.

        Returns: the next part of the table to load, or object to find, or None if all is known; what is under the key;
            and the store and key of the object if it is a reference.
        """
        part = self._table.unloaded_part(full)
        if part is not None:
            return part, None, None
        found = self._table.find(full)
        if not isinstance(found, Reference):
            return None, found, None
        target = self._resolver.opened(found.target)
        return found.target if target is None else None, found, target

    async def _single_flight(self, part: Hashable) -> None:
        """Load a part of the table, or find an object (a URL), once for all tasks of this loop that need it.

        All of them continue in one turn of the loop, so that the engine merges their requests.
        """
        loop = asyncio.get_running_loop()
        loads = self._loads.setdefault(loop, {})
        if part in loads:
            await asyncio.wait([loads[part]])  # waiting tasks look again, because the load may have failed
            return
        loads[part] = loop.create_future()
        try:
            if isinstance(part, str):
                await self._resolver.open(part)
            else:
                await self._table.load(part)
        finally:
            loads.pop(part).set_result(None)
        for _ in range(_WAKING_TURNS):
            await asyncio.sleep(0)

    async def _load_table(self) -> None:
        """Load the parts of the table that contain its keys."""
        while (part := self._table.unloaded_part("")) is not None:
            await self._single_flight(part)

    # --- reading -----------------------------------------------------------------------------------------------------

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        check_key(key, store=self.url)
        await self.prepare(key)
        found = self._table.find(self._prefix + key)
        try:
            if isinstance(found, Reference):
                return await self._fetch_reference(key, found, range, if_match, max_bytes)
        except (StoreError, LimitError) as error:
            error.store, error.key, error.range = self.url, key, range
            raise
        if found is None:
            return None
        data = byte_view(found)
        version = _version_of(found)
        if if_match is not None and version != if_match:
            raise ChangedError("the value was replaced", store=self.url, key=key, range=range)
        start, stop = resolve_range(len(data), range)
        check_max_bytes(stop - start, max_bytes, store=self.url, key=key, range=range)
        return Value(data[start:stop], version, len(data))

    async def _fetch_reference(
        self,
        key: str,
        reference: Reference,
        range: ByteRange | None,
        if_match: Version | None,
        max_bytes: int | None,
    ) -> Value:
        target, target_key = await self._resolver.open(reference.target)
        wanted: ByteRange | None = range
        if reference.length is not None:
            start, stop = resolve_range(reference.length, range)
            wanted = Range(reference.start + start, stop - start)
            check_max_bytes(stop - start, max_bytes, store=self.url, key=key, range=range)
        elif isinstance(range, Suffix) and not target.supports.suffix_reads:
            start, stop = resolve_range((await target.stat(target_key)).size or 0, range)
            wanted = Range(start, stop - start)
        bound = max_bytes if target.has_bounded_reads else None
        is_whole = reference.length is None
        value = await target.fetch(target_key, wanted, if_match=if_match, max_bytes=bound, clips=is_whole)
        if if_match is not None and value.version is not None and value.version != if_match:
            raise ChangedError("the object was replaced", target=target.url_of(target_key))
        check_max_bytes(memoryview(value.data).nbytes, max_bytes, store=self.url, key=key, range=range)
        size = value.size if is_whole else reference.length
        return Value(value.data, value.version, size, status=value.status)

    async def stat(self, key: str) -> Entry | None:
        check_key(key, store=self.url)
        await self.prepare(key)
        found = self._table.find(self._prefix + key)
        if found is None:
            return None
        if not isinstance(found, Reference):
            return Entry(key, memoryview(found).nbytes, _version_of(found))
        if found.length is not None:
            return Entry(key, found.length)
        try:
            target, target_key = await self._resolver.open(found.target)
            entry = await target.stat(target_key)
        except StoreError as error:
            error.store, error.key = self.url, key
            raise
        return Entry(key, entry.size, entry.version)

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        """Iterate over all keys of the table. The sizes of whole objects are requested; missing objects have None."""
        check_prefix(prefix, store=self.url)
        await self._load_table()
        unsized: list[str] = []
        async for entry in self._table.scan(self._prefix + prefix):
            key = entry.key[len(self._prefix) :]
            if entry.size is not None:
                yield Entry(key, entry.size)
                continue
            unsized.append(key)
            if len(unsized) == MAX_SIZED_AT_ONCE:
                for sized in await map_concurrently(self._sized, unsized):
                    yield sized
                unsized.clear()
        for sized in await map_concurrently(self._sized, unsized):
            yield sized

    async def _sized(self, key: str) -> Entry:
        try:
            return await self.stat(key) or Entry(key, None)
        except StoreError:
            return Entry(key, None)

    async def list_dir(self, prefix: str) -> tuple[Keys, Keys]:
        check_prefix(prefix, store=self.url)
        await self._load_table()
        start = len(self._prefix)
        found = await self._table.list_dir(self._prefix + prefix)
        keys, prefixes = (sorted(each[start:] for each in names) for names in found)
        return keys, prefixes

    async def aclose(self) -> None:
        """Discard the table of a URL, and close the stores that were opened for it."""
        await self._table.aclose()
        await self._resolver.aclose()

    # --- identity ----------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The URL of the root among the references."""
        return self.url_of("")

    def url_of(self, path: str) -> str:
        """Return the URL of `path`: the URL of the table, a mark, and the path in the table."""
        inside = (self._prefix + path).removesuffix("/")
        if self._url.endswith("://"):
            return self._url + inside
        return f"{self._url}!/{inside}" if inside else self._url

    @property
    def server(self) -> str | None:
        servers = {store.server for store in self._resolver.stores}
        return servers.pop() if len(servers) == 1 else None

    @property
    def origin(self) -> Hashable:
        """The origin of the referenced objects, if a single one is known."""
        origins = {store.origin for store in self._resolver.stores}
        return origins.pop() if len(origins) == 1 else (self._identity, self._prefix)

    @property
    def identity(self) -> Hashable:
        return (ReferenceStore, self._identity, self._table.reading_id, self._prefix)

    def __hash__(self) -> int:
        return hash((self._identity, self._prefix))  # the same before and after the document is read

    def parent_store(self) -> tuple[Store, str] | None:
        above, name = split_root(self._prefix)
        return (with_root(self, _prefix=above), name) if name else None

    def child_store(self, path: str) -> Store:
        return with_root(self, _prefix=f"{self._prefix}{check_key(path, store=self.url)}/")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_loads"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _loads=WeakKeyDictionary())


def _version_of(inlined: Buffer) -> Version:
    """Return the version of an inlined value, which follows from its bytes."""
    return Version(generation=blake2b(inlined, digest_size=12).hexdigest())
