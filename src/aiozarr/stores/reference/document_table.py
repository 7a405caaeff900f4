"""The table behind a URL: a JSON document, or a directory of parquet record files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from typing import Any

from aiozarr.errors import InvalidMetadataError, PermissionDeniedError, StoreError, UnsupportedMetadataError
from aiozarr.model import Entry
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.contract import Store
from aiozarr.stores.reference.json_table import parse
from aiozarr.stores.reference.parquet_table import DOCUMENT_NAME, ParquetTable, read_document
from aiozarr.stores.reference.table import Found, ReferenceTable

_DOCUMENT = ("document",)


class DocumentTable(ReferenceTable):
    """A table that is read when a key is wanted first.

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

    async def load(self, part: Hashable) -> None:
        if part != _DOCUMENT:
            await self._loaded.load(part)
        elif self._table is None:
            try:
                self._table = await self._open()
            except (InvalidMetadataError, UnsupportedMetadataError) as error:
                error.node = self._store.url_of(self._key)
                raise

    async def _open(self) -> ReferenceTable:
        if not self._key.lower().endswith(".json"):
            prefix = f"{self._key}/" if self._key else ""
            try:
                members = await read_document(self._store, prefix + DOCUMENT_NAME)
            except PermissionDeniedError:
                members = None  # what some buckets answer for a key that they do not have
            if members is not None:
                return await in_thread(lambda: ParquetTable(self._store, prefix, members))
        data = None if not self._key else await read_document(self._store, self._key)
        if data is None:
            raise StoreError("there is no document of references", store=self._store.url, key=self._key or None)
        return await in_thread(lambda: parse(data))

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
