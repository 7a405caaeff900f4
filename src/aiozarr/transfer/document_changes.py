"""Decides whether the documents that a copy stores fit the chunks that it has copied.

A source may change while it is copied. A document that still has the version of the listing describes the listed
chunks. Otherwise the source is listed again, and the earlier document is stored if the later one only adds to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from aiozarr.common.concurrency import map_concurrently
from aiozarr.engine.copy import CopyRoute, same_version
from aiozarr.errors import ChangedError, StoreError
from aiozarr.metadata.format_rules import V3_KEY, ZMETADATA_KEY, ancestors, document_write_order, key_prefix
from aiozarr.model import Entry, Value
from aiozarr.stores import BlockingStore
from aiozarr.transfer.copy_rules import is_node_document, node_of
from aiozarr.transfer.replaced_nodes import compare_documents, edit_consolidated, is_extended

if TYPE_CHECKING:
    from aiozarr.transfer.copy_destination import CopyDestination

PAGE_ENTRIES = 1000
"""Entries that a server lists at one moment. An array on several pages may have changed between them."""
MAX_COPIED_FOLDERS = 10_000
"""Folders with copied objects that are remembered. With more of them, all documents are checked."""


class DocumentChanges:
    """The documents of the source of one copy. Used on the I/O thread only.

    Args:
        destination: the destination of the copy.

    Attributes:
        kept: documents that are stored as they were before the last listing, by key.
        later: the keys of kept documents that the source has replaced since.
        node_paths: the paths of the nodes of the last listing, and those above them.
        skipped: documents that the destination has already.
        confirmed: keys of kept documents that were read between two equal listings, so they are as listed.
    """

    def __init__(self, destination: CopyDestination) -> None:
        self.kept: dict[str, bytes] = {}
        self.later: set[str] = set()
        self._destination = destination
        self._copier, self._objects = destination.copier, destination.objects
        self._is_paged = self._objects is None and not isinstance(self._copier.source, BlockingStore)
        self._copied_folders: set[str] = set()
        self.begin_pass()

    def begin_pass(self) -> None:
        """Forget the previous listing."""
        self.node_paths: set[str] = set()
        self.skipped: list[Entry] = []
        self.confirmed: set[str] = set()
        self._keys: set[str] = set()
        self._on_pages: set[str] = set()
        self._count = self._sum = 0
        self._page_end = ""

    def add_listed(self, entry: Entry) -> None:
        """Count an entry of the listing."""
        if self._is_paged:
            self._sum += hash(entry)
            self._count += 1
            if self._count % PAGE_ENTRIES == 0:
                self._page_end = entry.key

    def add_document(self, entry: Entry) -> None:
        """Record a document that the copy includes."""
        key, path = entry.key, node_of(entry.key)
        self._keys.add(key)
        if document_write_order(key) == 1:
            self.node_paths.update([*ancestors(path), path])
        if self._objects is not None:
            if (document := self._objects.documents.get(key)) is not None:
                self.kept.setdefault(key, bytes(document))
        elif is_node_document(key) and self._page_end and self._page_end.startswith(key_prefix(path)):
            self._on_pages.add(key)

    def add_copied(self, key: str) -> None:
        """Record that an object was copied."""
        if len(self._copied_folders) <= MAX_COPIED_FOLDERS:
            self._copied_folders.add(node_of(key))

    async def check_listing(self, documents: Iterable[Entry]) -> None:
        """Read documents that may be later than the listed chunks, and list again to find that out.

        Documents without versions, or on several pages, of a listing that has changed remain in `_on_pages`.
        """
        unread = [entry for entry in documents if entry.key not in self.kept and self._objects is None]
        if self._is_paged:  # without a version, nothing shows that a document is later than the listed chunks
            self._on_pages.update(
                [entry.key for entry in unread if entry.version is None and is_node_document(entry.key)]
            )
        early = [entry.key for entry in unread if entry.version is None or entry.key in self._on_pages]
        values = dict(zip(early, await map_concurrently(self._fetch, early), strict=True))
        read = {key: value for key, value in values.items() if value is not None}
        self.kept |= read
        if any(key in self._on_pages and compare_documents(value, value).was_array for key, value in read.items()):
            listed_again = 0
            async with aclosing(self._copier.scheduled_source.scan(faults=True)) as entries:
                async for entry in entries:
                    listed_again += hash(entry)
            if listed_again != self._sum:
                return
            self.confirmed.update([entry.key for entry in unread if entry.key in read and entry.version is not None])
        self._on_pages.clear()

    async def find(self, documents: Sequence[Entry]) -> set[str]:
        """Return the keys of `documents` that do not fit the copied chunks. The copy then lists the source again."""
        copier = self._copier
        known = self.kept.keys() | copier.prefetched.keys()
        await copier.prefetch([entry for entry in documents if entry.key not in known])
        is_unknown = len(self._copied_folders) > MAX_COPIED_FOLDERS
        folders = self._copied_folders if self.skipped and not is_unknown else ()
        paths = {path for folder in folders for path in (*ancestors(folder), folder)}
        checked = [*documents, *[entry for entry in self.skipped if is_unknown or node_of(entry.key) in paths]]
        found = await map_concurrently(self._has_changed, checked)
        return self._on_pages | {entry.key for entry, changed in zip(checked, found, strict=True) if changed}

    async def _has_changed(self, entry: Entry) -> bool:
        key, copier = entry.key, self._copier
        kept = self.kept.get(key)
        if kept is None and self._objects is None:
            if copier.route(entry) is CopyRoute.SERVER:
                return False  # the server copies it as it is listed, or not at all
            present: Value | Entry | None = copier.prefetched.get(key)
            with suppress(StoreError):  # copying it raises the error
                present = present or await copier.scheduled_source.stat(key)
            if present is not None and same_version(present.version, entry.version) is not False:
                return False
        document = await self._fetch(key)
        if document is None or document == kept:
            return document is None and kept is None
        if kept is not None and is_extended(key, kept, document):
            # Some programs store the larger shape before the chunks: these are there once the shape has changed again.
            was_later, self.later = key in self.later, {*self.later, key}
            return not was_later
        self.later.discard(key)
        self.kept[key] = document
        return self._objects is None or kept is not None or not self._objects.is_current(key, document)

    async def edited(self, entry: Entry) -> bytes | None:
        """Return the document to store in place of the one that the source has; None: that one.

        Consolidated metadata name only nodes that are copied, or stored at the destination, as their own documents are.

        Raises:
            ChangedError: the source has replaced the document since it was listed.
            StoreError: a document could not be read.
        """
        key, document = entry.key, self.kept.get(entry.key)
        path, _, name = key.rpartition("/")
        is_consolidated = name in (V3_KEY, ZMETADATA_KEY)
        if not (self.later or (self._destination.rules.keys and is_consolidated)):
            return document
        if document is None:
            value = self._copier.prefetched.get(key) or await self._copier.scheduled_source.fetch(key)
            if value is None or same_version(value.version, entry.version) is False:
                raise ChangedError("the document was replaced", store=self._copier.source.url, key=key)
            document = bytes(value.data)
        if self.later:
            self.kept[key] = document
        if not is_consolidated:
            return document

        async def member_of(copied: str, member: Any) -> Any:
            if copied in self._keys and not self.later:
                return member
            # The documents below were stored before this one, which may be older or newer.
            stored = self.kept.get(copied) if copied in self._keys else None
            if (stored := stored or await self._destination.fetch_stored(copied)) is not None:
                return json.loads(stored)
            if copied in self._keys:
                return member
            return member if node_of(copied) in self.node_paths and document_write_order(copied) in (1, None) else None

        return await edit_consolidated(document, key_prefix(path), member_of) or self.kept.get(key)

    async def _fetch(self, key: str) -> bytes | None:
        try:
            value = self._copier.prefetched.pop(key, None) or await self._copier.scheduled_source.fetch(key)
        except StoreError:
            return None  # copying it raises the error
        return None if value is None else bytes(value.data)
