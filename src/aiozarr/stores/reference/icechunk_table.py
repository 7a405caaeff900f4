"""The references of an icechunk session: chunks of an array as columns, everything else through the session's store."""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiozarr.errors import ChangedError, PermissionDeniedError, StoreError
from aiozarr.model import ByteRange, Entry, Range, Supports, Value, Version
from aiozarr.stores.contract import Store
from aiozarr.stores.reference.columns import ROW_BYTES, KeyFamily, Reference, ReferenceColumns, check_end
from aiozarr.stores.reference.guard import shown_location
from aiozarr.stores.reference.reference_opening import check_resolve, store_of_table
from aiozarr.stores.reference.table import Found, LoadedReferences, ReferenceTable, check_document
from aiozarr.stores.reference.target_stores import TargetStore
from aiozarr.stores.urls import from_url

MAX_KEPT_BYTES = 32 << 20
"""Chunks in memory that were read through icechunk to have their objects checked."""

_CHUNK = re.compile(r"(?:(.*)/)?c((?:/(?:0|[1-9]\d{0,9}))*)")
_NATIVE, _INLINE = 1, 3
_OWN = "\0"  # begins the targets that are chunks of the repository's own


def from_session(
    session: Any,
    *,
    resolve: Mapping[str, Mapping[str, Any] | Store | None] | None = None,
    storage: str | os.PathLike[str] | Store | None = None,
) -> Store:
    """Return a read-only store of the arrays in an icechunk session, at its snapshot.

    The session locates chunks and aiozarr reads them, so ranges of one object are merged into few requests. Documents
    and inlined chunks are read through the session, and so are the repository's own chunks without `storage`.

    Args:
        session: a read-only session, or its store.
        resolve: for virtual chunks, as in `aiozarr.stores.from_references`. The virtual chunk containers of the
            repository are allowed too, with their options but without their credentials, which icechunk does not
            reveal.
        storage: URL or path of the repository, or its store. If given, the repository's own chunks are read from there.

    Raises:
        ValueError: the session is writable: its chunks may change.
        TypeError: an argument has another type.
    """
    store = getattr(session, "store", session)
    session = getattr(store, "session", None)
    if session is None or not hasattr(store, "array_chunk_iterator"):
        raise TypeError(f"expected a session of icechunk 2.3 or later, or its store, not {type(store).__name__}")
    if not session.read_only:
        raise ValueError("the session is writable; commit it and pass a session from repository.readonly_session(...)")
    named = {
        each.url_prefix: _options_of(each.store) for each in (session.config.virtual_chunk_containers or {}).values()
    }
    opened = storage if isinstance(storage, Store | None) else from_url(storage)
    settings = session.config.storage
    concurrency = None if settings is None else settings.concurrency
    ideal = None if concurrency is None else concurrency.ideal_concurrent_request_size
    return store_of_table(
        IcechunkTable(store, opened, ideal or 0),
        url=f"icechunk:{session.snapshot_id}",
        identity=("icechunk", session.snapshot_id, None if opened is None else opened.identity),
        open_url=from_url,
        resolve={**named, **check_resolve(resolve)},
    )


def _options_of(config: Any) -> dict[str, Any]:
    """Return the storage options for the configuration of a virtual chunk container, as far as it has any."""
    options: Any = getattr(config, "_0", None)
    if not hasattr(options, "endpoint_url"):
        return {}
    found = {"region": options.region, "endpoint_url": options.endpoint_url, "anon": options.anonymous or None}
    if options.endpoint_url:  # whoever has written the repository has named it
        found["foreign_endpoint"] = True
    if options.requester_pays:
        found["requester_pays"] = True
    return {name: value for name, value in found.items() if value is not None}


class IcechunkTable(ReferenceTable):
    """The references of a read-only session.

    icechunk compares the ETag or the time of an object with those that virtual references carry, and refuses objects
    that the session was not authorised for. Its columns contain neither, so that one chunk of each array and object is
    read through icechunk before others are located.

    Args:
        store: the `IcechunkStore` of the session.
        storage: the objects of the repository; None to read its own chunks through the session.
        whole_chunk_bytes: the size up to which icechunk reads a chunk by one request.
    """

    def __init__(self, store: Any, storage: Store | None, whole_chunk_bytes: int) -> None:
        self._session_store = SessionStore(store)
        self._has_storage = storage is not None
        self._own_chunks = TargetStore(storage or self._session_store, immutable=True)
        self._whole_chunk_bytes = min(whole_chunk_bytes, MAX_KEPT_BYTES >> 5)
        self._documents: dict[str, bytes | None] = {}
        self._arrays: dict[str, LoadedReferences] = {}
        self._checked: set[tuple[str, str]] = set()
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes = 0

    def unloaded_part(self, key: str) -> Hashable:
        match = _CHUNK.fullmatch(key)
        if match is None:
            return None if not key or key in self._documents else ("document", key)
        path = match[1] or ""
        if path not in self._arrays:
            return ("array", path)
        found = self._arrays[path].find(key)
        if isinstance(found, Reference) and isinstance(found.target, str) and not found.target.startswith(_OWN):
            return None if (path, found.target) in self._checked else ("object", path, found.target, key)
        return None

    async def load(self, part: Hashable) -> None:
        match part:
            case "document", str(key):
                value = await self._session_store.fetch(key)
                self._documents[key] = None if value is None else bytes(memoryview(value.data))
            case "array", str(path):
                self._arrays[path] = await self._load_array(path)
            case "object", str(path), str(url), str(key):
                await self._check_object(path, url, key)

    async def _check_object(self, path: str, url: str, key: str) -> None:
        """Have icechunk read the chunk `key`, or one byte of it if it is large."""
        reference = self._arrays[path].find(key)
        assert isinstance(reference, Reference)
        is_whole = reference.length is not None and reference.length <= self._whole_chunk_bytes
        try:
            value = await self._session_store.fetch(key, None if is_whole else Range(0, min(1, reference.length or 1)))
        except StoreError as error:
            error.target = shown_location(url)
            raise
        if is_whole and value is not None:
            self._kept[key] = bytes(memoryview(value.data))
            self._kept_bytes += len(self._kept[key])
            while self._kept_bytes > MAX_KEPT_BYTES:
                self._kept_bytes -= len(self._kept.popitem(last=False)[1])
        self._checked.add((path, url))

    async def _load_array(self, path: str) -> LoadedReferences:
        loaded = LoadedReferences()
        numbers: dict[str, int] = {}
        batches: list[tuple[NDArray[Any], ...]] = []
        prefix = f"{path}/c" if path else "c"
        nbytes = 0
        async for coordinates, kinds, paths, offsets, lengths, inlined in self._session_store.references(path):
            nbytes += ROW_BYTES * len(kinds) + sum(map(len, paths)) + sum(map(len, inlined.values()))
            check_document(nbytes, self.max_document_bytes, prefix)
            for row, data in inlined.items():
                loaded.add_single("/".join([prefix, *map(str, coordinates[row])]), bytes(data))
            rows = np.flatnonzero(kinds != _INLINE)
            if not len(rows):
                continue
            is_own = kinds[rows] == _NATIVE
            names = [self._own_name(paths[row]) if own else paths[row] for row, own in zip(rows, is_own, strict=True)]
            objects = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int32)
            check_end(prefix, int(offsets[rows].max()) + int(lengths[rows].max()))
            starts = np.where(is_own & (not self._has_storage), 0, offsets[rows]).astype(np.int64)
            batches.append((coordinates[rows].astype(np.int64), objects, starts, lengths[rows].astype(np.int64)))
        loaded.targets.extend(numbers)
        if batches:
            places, *columns = [np.concatenate(each) for each in zip(*batches, strict=True)]
            dimensions = places.shape[1]
            family = KeyFamily(f"{prefix}/", "/" if dimensions > 1 else "", dimensions)
            made = ReferenceColumns.from_coordinates(family, places, *columns) if dimensions else None
            if made is not None:
                loaded.add_columns(made)
            else:
                for place, number, start, length in zip(places, *columns, strict=True):
                    key = "/".join([prefix, *map(str, place)])
                    loaded.add_single(key, Reference(loaded.targets[number], int(start), int(length)))
        return loaded

    def _own_name(self, chunk_id: str) -> str:
        return f"{_OWN}chunks/{chunk_id}" if self._has_storage else _OWN

    def find(self, key: str) -> Found | None:
        match = _CHUNK.fullmatch(key)
        if match is None:
            return self._documents.get(key)
        kept = self._kept.get(key)
        found = self._arrays[match[1] or ""].find(key) if kept is None else kept
        if isinstance(found, Reference) and isinstance(found.target, str) and found.target.startswith(_OWN):
            return found._replace(target=(self._own_chunks, found.target[len(_OWN) :] or key))
        return found

    async def scan(self, prefix: str) -> AsyncIterator[Entry]:
        async for key in self._session_store.names(prefix):
            while (part := self.unloaded_part(key)) is not None and part[0] != "object":  # type: ignore[index]
                await self.load(part)
            found = self.find(key)
            if found is not None:
                yield Entry(key, found.length if isinstance(found, Reference) else memoryview(found).nbytes)

    async def list_dir(self, prefix: str) -> tuple[set[str], set[str]]:
        keys: set[str] = set()
        prefixes: set[str] = set()
        async for name in self._session_store.members(prefix):
            is_key = await self._session_store.is_key(prefix + name)
            (keys if is_key else prefixes).add(prefix + name + ("" if is_key else "/"))
        return keys, prefixes


class SessionStore(Store):
    """The values of an icechunk session, read by icechunk itself."""

    supports = Supports(listable=True)

    def __init__(self, store: Any) -> None:
        self._store = store

    @property
    def url(self) -> str:
        return f"icechunk:{self._store.session.snapshot_id}"

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        from zarr.core.buffer import default_buffer_prototype

        from aiozarr.stores.zarr_python_store import byte_request

        try:
            found = await self._store.get(key, default_buffer_prototype(), byte_request(range))
        except Exception as error:
            if "invalid zarr key" in str(error):
                return None  # such as the documents of other formats
            raise _translated(error, self.url, key) from error
        if found is None:
            return None
        data = memoryview(found.as_numpy_array())
        return Value(data, None, data.nbytes if range is None else None)

    def references(self, path: str) -> AsyncIterator[Any]:
        """Iterate over columns of the references of the array at `path`."""
        iterator: AsyncIterator[Any] = self._store.array_chunk_iterator(f"/{path}")
        return iterator

    def names(self, prefix: str) -> AsyncIterator[str]:
        """Iterate over the keys that begin with `prefix`."""
        names: AsyncIterator[str] = self._store.list_prefix(prefix)
        return names

    def members(self, prefix: str) -> AsyncIterator[str]:
        """Iterate over the names directly below `prefix`."""
        names: AsyncIterator[str] = self._store.list_dir(prefix.removesuffix("/"))
        return names

    async def is_key(self, key: str) -> bool:
        """Return whether `key` is stored."""
        from icechunk import IcechunkError  # pyright: ignore[reportMissingImports]  # optional

        try:
            return bool(await self._store.exists(key))
        except IcechunkError:
            return False  # not a key of icechunk's


def _translated(error: Exception, store: str, key: str) -> StoreError:
    """Return the error of a store for one of icechunk."""
    message = str(error).partition("\n")[0]
    if "checksum" in message:
        return ChangedError(f"the object was replaced since it was referenced: {message}", store=store, key=key)
    if "authoriz" in message or "credentials" in message:
        return PermissionDeniedError(f"icechunk: {message}", store=store, key=key)
    return StoreError(f"icechunk: {message}", store=store, key=key)
