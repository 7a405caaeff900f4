"""Finds the objects of a destination that belong to copied nodes, and that a copy onto older nodes must not leave.

Consolidated metadata above the destination are found without importing numpy.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiozarr.common.concurrency import gather_all, map_concurrently
from aiozarr.engine import Engine, ScheduledStore
from aiozarr.errors import LimitError, MetadataError, PermissionDeniedError, UnauthenticatedError
from aiozarr.metadata.format_rules import CONSOLIDATED_MEMBER, V3_KEY, ZMETADATA_KEY, document_write_order
from aiozarr.model import Value
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.transfer.copy_rules import stores_above

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from aiozarr.grid import ChunkKeyEncoding

_INDEPENDENT_MEMBERS = frozenset({"shape", "attributes", "dimension_names", "fill_value", "consolidated_metadata"})
"""Members of array documents that may change while stored chunks keep their keys and their bytes."""


@dataclass(frozen=True)
class DocumentChange:
    """The changes by a new document of a node for readers of the stored one.

    Attributes:
        misreads_chunks: whether the nodes differ in kind, or the arrays in data type, chunks, codecs or keys.
        was_array: whether the stored document is that of an array.
        is_removed: whether the new document has another key, so that the stored one is removed.
    """

    misreads_chunks: bool = False
    was_array: bool = False
    is_removed: bool = False


def compare_documents(stored: Buffer, copied: Buffer | None) -> DocumentChange:
    """Return the changes by the document `copied` for a reader of the document `stored`.

    Args:
        stored: the document of the destination.
        copied: the document of the same key; None: the node gets a document of another format, whose chunks may have
            the same keys.
    """
    try:
        old, new = (json.loads(bytes(each)) if each is not None else {} for each in (stored, copied))
    except (ValueError, RecursionError):
        return DocumentChange()  # no reader decodes chunks by it
    if not isinstance(old, dict) or not isinstance(new, dict):
        return DocumentChange()
    was_array = old.get("node_type", "array") == "array"
    if copied is None:
        return DocumentChange(was_array, was_array, is_removed=True)
    return DocumentChange(_chunk_members(old) != _chunk_members(new), was_array)


def _chunk_members(document: dict[str, Any]) -> dict[str, Any]:
    return {name: member for name, member in document.items() if name not in _INDEPENDENT_MEMBERS}


class ReplacedNodes:
    """Decides which objects belong to the nodes that a copy replaces. Used on the I/O thread only.

    An array has its documents, and objects with its chunk keys. A group has only its documents; other nodes and files
    below it are separate. A document of an array is fetched when the first key below the array is checked.

    Args:
        source: the source of the copy.
    """

    def __init__(self, source: ScheduledStore) -> None:
        self._source = source
        self._names: dict[str, list[str]] = {}
        self._encodings: dict[str, tuple[ChunkKeyEncoding, int] | None] = {}

    def add_document(self, key: str) -> None:
        """Record a document of the source."""
        path, _, name = key.rpartition("/")
        self._names.setdefault(path, []).append(name)

    async def has(self, key: str) -> bool:
        """Return whether an object of the destination belongs to a node of the source."""
        path = key.rpartition("/")[0]
        if document_write_order(key) is not None:
            return path in self._names
        while path not in self._names:
            if not path:
                return False
            path = path.rpartition("/")[0]
        if path not in self._encodings:
            self._encodings[path] = await self._load(path)
        found = self._encodings[path]
        return found is not None and found[0].decode(key[len(path) + 1 :] if path else key, found[1]) is not None

    async def _load(self, path: str) -> tuple[ChunkKeyEncoding, int] | None:
        """Return the chunk keys of the array at a path and its number of dimensions; None: not a readable array."""
        # Imported here because a copy of bytes needs no numpy.
        from aiozarr.grid.key_encoding import resolve_key_encoding
        from aiozarr.metadata.formats import PROBE_KEYS, parse_node
        from aiozarr.metadata.records import ArrayMetadata

        prefix, settings = f"{path}/" if path else "", self._source.settings
        documents = dict.fromkeys(PROBE_KEYS)
        try:
            for name in self._names[path]:
                value = await self._source.fetch(prefix + name, max_bytes=settings.max_metadata_bytes)
                documents[name] = None if value is None else value.data
            metadata = parse_node(documents, node=self._source.store.url_of(path), settings=settings)
            if not isinstance(metadata, ArrayMetadata):
                return None
            return resolve_key_encoding(metadata.chunk_key_encoding, len(metadata.shape)), len(metadata.shape)
        except (MetadataError, LimitError):
            return None  # no reader decodes its chunks


async def has_consolidated_above(engine: Engine, store: Store, settings: Settings, report: Report | None) -> bool:
    """Return whether a group above the root of `store` has consolidated metadata, or the sentinel of their change.

    Looks at all levels above the root in one round trip, because a group may be above levels without documents. A
    document that the credentials may not read counts as missing.

    Raises:
        StoreError: a document could not be read.
    """

    async def is_consolidated(parent: Store) -> bool:
        above = engine.scheduled(parent, settings, report)
        requests: list[Coroutine[Any, Any, Any]] = [_fetch(above, V3_KEY, settings), _is_stored(above, ZMETADATA_KEY)]
        newest, is_older = await gather_all(requests)
        return is_older or CONSOLIDATED_MEMBER in (_group_members(newest) or {})

    levels = [parent for parent, _ in stores_above(store) if parent.supports.readable]
    return any(await map_concurrently(is_consolidated, levels))


async def _fetch(store: ScheduledStore, key: str, settings: Settings) -> Value | None:
    try:
        return await store.fetch(key, max_bytes=settings.max_metadata_bytes)
    except (PermissionDeniedError, UnauthenticatedError, LimitError):
        return None


async def _is_stored(store: ScheduledStore, key: str) -> bool:
    try:
        return await store.stat(key) is not None
    except (PermissionDeniedError, UnauthenticatedError):
        return False


def _group_members(document: Value | None) -> dict[str, object] | None:
    """Return the members of the document of a group of format 3; None for other documents."""
    try:
        members = None if document is None else json.loads(bytes(document.data))
    except (ValueError, RecursionError):
        return None
    return members if isinstance(members, dict) and members.get("node_type") == "group" else None
