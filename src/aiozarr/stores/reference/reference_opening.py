"""Opens tables of references: in memory, a JSON document, or a directory of parquet record files."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Hashable, Mapping
from hashlib import blake2b
from typing import Any

from aiozarr.errors import InvalidMetadataError, PermissionDeniedError, StoreError, UnsupportedMetadataError
from aiozarr.http1.url import fingerprint
from aiozarr.model import Entry
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.contract import Store
from aiozarr.stores.reference.guard import ReferenceGuard
from aiozarr.stores.reference.json_table import from_mapping, parse
from aiozarr.stores.reference.parquet_table import DOCUMENT_NAME, ParquetTable, read_document
from aiozarr.stores.reference.store import ReferenceStore
from aiozarr.stores.reference.table import Found, ReferenceTable
from aiozarr.stores.reference.target_stores import OpenURL, TargetResolver

_DOCUMENT = ("document",)


class DocumentTable(ReferenceTable):
    """A table that is read when a key is first needed.

    Args:
        store: the store of the document.
        key: the key of a JSON document, or the directory of a parquet table; `""` for the root.
    """

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key
        self._table: ReferenceTable | None = None

    def unloaded_part(self, key: str) -> Hashable:
        return _DOCUMENT if self._table is None else self._table.unloaded_part(key)

    def limit_documents(self, max_bytes: int | None) -> None:
        super().limit_documents(max_bytes)
        if self._table is not None:
            self._table.limit_documents(max_bytes)

    async def load(self, part: Hashable) -> None:
        if part != _DOCUMENT:
            await self._loaded.load(part)
        elif self._table is None:
            try:
                table, reading_id = await self._open()
            except (InvalidMetadataError, UnsupportedMetadataError) as error:
                error.node = self._store.url_of(self._key)
                raise
            if self._table is None:
                self.reading_id = reading_id
                self._table = table

    async def _open(self) -> tuple[ReferenceTable, bytes]:
        """Return the table, and what stands for its content."""
        if not self._key.lower().endswith(".json"):
            prefix = f"{self._key}/" if self._key else ""
            try:
                members = await read_document(self._store, prefix + DOCUMENT_NAME, self.max_document_bytes)
            except PermissionDeniedError:
                members = None  # the response of some buckets for a key that they do not have
            if members is not None:
                # Its record files, which are read later, may change by themselves.
                table = await in_thread(lambda: ParquetTable(self._store, prefix, members))
                table.max_document_bytes = self.max_document_bytes
                return table, os.urandom(16)
        data = None if not self._key else await read_document(self._store, self._key, self.max_document_bytes)
        if data is None:
            raise StoreError("there is no document of references", store=self._store.url, key=self._key or None)
        return await in_thread(lambda: (parse(data), blake2b(data, digest_size=16).digest()))

    @property
    def _loaded(self) -> ReferenceTable:
        assert self._table is not None
        return self._table

    def find(self, key: str) -> Found | None:
        return self._loaded.find(key)

    def scan(self, prefix: str) -> AsyncIterator[Entry]:
        return self._loaded.scan(prefix)

    async def list_dir(self, prefix: str) -> tuple[set[str], set[str]]:
        return await self._loaded.list_dir(prefix)

    async def aclose(self) -> None:
        self._table = None
        await self._store.aclose()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_table": None}


def open_references(target: tuple[Store, str, str] | Mapping[str, Any], **access: Any) -> ReferenceStore:
    """Return the store of the references in a document, or in memory.

    Args:
        target: store, key and location of the document, or the references themselves.
        access: keywords of `store_of_table`.

    Raises:
        TypeError: `resolve` is not such a mapping.
        InvalidMetadataError, UnsupportedMetadataError, LimitError: references in memory are not valid.
    """
    if isinstance(target, Mapping):
        table = from_mapping(target)
        return store_of_table(table, url="reference://", identity=("memory", os.urandom(16)), **access)
    store, key, location = target
    url, identity = f"reference::{store.url_of(key)}", (store.identity, key)
    return store_of_table(DocumentTable(store, key), url=url, identity=identity, document=location, **access)


def store_of_table(
    table: ReferenceTable,
    *,
    url: str,
    identity: Hashable,
    open_url: OpenURL,
    document: str | None = None,
    own_options: Mapping[str, Any] | None = None,
    resolve: Mapping[str, Any] | None = None,
    remote_protocol: str | None = None,
    remote_options: Mapping[str, Any] | None = None,
    prefix: str = "",
) -> ReferenceStore:
    """Return the store of a table of references.

    Args:
        table: the table.
        url: the URL of the store.
        identity: equal for equal tables, in all processes; what a document holds is not part of it.
        open_url: opens the stores of referenced objects.
        document: the location of the table; None for one that has no origin.
        own_options: storage options of the origin of the document.
        resolve: as of `from_references`.
        remote_protocol: the protocol of all referenced objects; they may then have any location of this protocol.
        remote_options: storage options of this protocol.
        prefix: the root of the store among the keys: `""`, or ending with `/`.

    Raises:
        TypeError: `resolve` is no such mapping.
    """
    resolve = check_resolve(resolve)
    guard = ReferenceGuard(document, tuple(resolve), remote_protocol)
    resolver = TargetResolver(guard, open_url, resolve, own_options or {}, remote_options or {})
    access_keys = tuple([(prefix, _access_key(access)) for prefix, access in resolve.items()])
    return ReferenceStore(table, resolver, url=url, identity=(identity, access_keys, remote_protocol), prefix=prefix)


def check_resolve(resolve: Any) -> Mapping[str, Any]:
    """Return the argument `resolve` if it maps prefixes of URLs to storage options or stores.

    Raises:
        TypeError: it does not.
    """
    if resolve is None:
        return {}
    if not isinstance(resolve, Mapping):
        raise TypeError(
            f"resolve must map URL prefixes to storage options, as in {{'s3://bucket/': {{}}}}, not {resolve!r}"
        )
    for name, access in resolve.items():
        if not isinstance(name, str) or not isinstance(access, Mapping | Store | None):
            raise TypeError(f"resolve must map URL prefixes to storage options or stores, not {name!r} to {access!r}")
    return resolve


def _access_key(access: Mapping[str, Any] | Store | None) -> Hashable:
    """Return a key that distinguishes ways of access, without secrets."""
    if isinstance(access, Store):
        return access.identity
    return fingerprint({name: repr(value) for name, value in (access or {}).items()})
