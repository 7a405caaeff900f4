"""Finds the objects of a destination that belong to copied nodes, and that a copy onto older nodes must not leave.

Consolidated metadata above the destination are found without importing numpy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiozarr.common.concurrency import gather_all, map_concurrently
from aiozarr.engine import Engine, ScheduledStore
from aiozarr.errors import LimitError, MetadataError, PermissionDeniedError, UnauthenticatedError
from aiozarr.metadata.format_rules import (
    CONSOLIDATED_MEMBER,
    V3_KEY,
    ZMETADATA_KEY,
    document_write_order,
    relative_name,
)
from aiozarr.model import Value
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.transfer.copy_rules import is_node_document, stores_above

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from aiozarr.grid import ChunkKeyEncoding

_CHUNK_KEY = re.compile(r"c(?:[/.][0-9]+)*|[0-9]+(?:[/.][0-9]+)*")
"""Chunk keys of the encodings `default` and `v2` with either separator."""
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
    old, new = _members_of(stored), _members_of(copied)
    if not old or not (new or copied is None):
        return DocumentChange()  # no reader decodes chunks by it
    was_array = old.get("node_type", "array") == "array"
    if copied is None:
        return DocumentChange(was_array, was_array, is_removed=True)
    return DocumentChange(_chunk_members(old) != _chunk_members(new), was_array)


def is_extended(key: str, earlier: bytes, later: bytes) -> bool:
    """Return whether chunks of a node that has the document `later` are also right for its document `earlier`.

    That is so after an append, or a change of attributes, and for documents without chunks. Consolidated metadata of
    other nodes are not.
    """
    is_consolidated = key.rpartition("/")[2] == ZMETADATA_KEY
    if not (is_node_document(key) or is_consolidated):
        return True
    old, new = _members_of(earlier), _members_of(later)
    try:
        if _consolidated_keys(old) != _consolidated_keys(new):
            return False
        if is_consolidated:
            return True
        if _chunk_members(old) != _chunk_members(new) or old.get("fill_value") != new.get("fill_value"):
            return False
        shapes = zip(old.get("shape", ()), new.get("shape", ()), strict=True)
        return bool(new) and all([before <= after for before, after in shapes])
    except (ValueError, TypeError, AttributeError):
        return False


async def edit_consolidated(
    document: bytes, prefix: str, member_of: Callable[[str, Any], Awaitable[Any]]
) -> bytes | None:
    """Return a document with other members of its consolidated metadata; None if nothing changes.

    Args:
        document: the document of a group of format 3, or a `.zmetadata`.
        prefix: the prefix of the group.
        member_of: returns the new copy of the document of this key, from the present copy; None: it is removed.
    """
    members = _members_of(document)
    is_inline = CONSOLIDATED_MEMBER in members
    holder = members[CONSOLIDATED_MEMBER] if is_inline else members
    copies = holder.get("metadata") if isinstance(holder, dict) else None
    if not isinstance(copies, dict):
        return None  # it has no consolidated metadata
    names = {key: f"{prefix}{key}/{V3_KEY}" if is_inline else f"{prefix}{key}" for key in copies}
    found = [await member_of(name, copies[key]) for key, name in names.items()]
    edited = {key: member for key, member in zip(names, found, strict=True) if member is not None}
    if edited == copies:
        return None
    holder["metadata"] = edited
    return json.dumps(members, ensure_ascii=False).encode(errors="surrogatepass")


def _members_of(document: Buffer | None) -> dict[str, Any]:
    """Return the members of a document; none if it is missing, or is not a JSON object."""
    try:
        members = {} if document is None else json.loads(bytes(document))
    except (ValueError, RecursionError):
        return {}
    return members if isinstance(members, dict) else {}


def _consolidated_keys(document: dict[str, Any]) -> set[str]:
    return {*((document.get(CONSOLIDATED_MEMBER) or document).get("metadata") or ())}


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
        self._former_arrays: set[str] = set()

    def add_document(self, key: str) -> None:
        """Record a document of the source."""
        path, _, name = key.rpartition("/")
        self._names.setdefault(path, []).append(name)

    def add_former_array(self, path: str) -> None:
        """Record an array of the destination that the copy replaces."""
        self._former_arrays.add(path)

    async def has(self, key: str, *, of_any_layout: bool = False) -> bool:
        """Return whether an object of the destination belongs to a node of the source.

        Args:
            key: its key.
            of_any_layout: whether chunks belong to an array that have the keys of other chunk grids or separators.
        """
        path = key.rpartition("/")[0]
        if document_write_order(key) is not None:
            return path in self._names
        while path not in self._names and path not in self._former_arrays:
            if not path:
                return False
            path = path.rpartition("/")[0]
        name = relative_name(key, path)
        if path not in self._encodings:
            self._encodings[path] = await self._load(path) if path in self._names else None
        found = self._encodings[path]
        if of_any_layout and (found is not None or path in self._former_arrays) and _CHUNK_KEY.fullmatch(name):
            return True
        return found is not None and found[0].decode(name, found[1]) is not None

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
    members = _members_of(None if document is None else document.data)
    return members if members.get("node_type") == "group" else None
