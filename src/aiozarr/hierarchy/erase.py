"""Erases a node and everything below it: all documents before any chunk, and nothing if not all can be erased.

Also decides whether stored keys hinder a new node, describes what an overwrite would delete, and erases chosen objects
below a node, with an update of consolidated metadata if documents are among them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Collection, Container, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import product
from math import prod

from aiozarr.common.concurrency import for_each, gather_all
from aiozarr.common.formatting import argument, format_count
from aiozarr.engine import ArrayLayout
from aiozarr.errors import (
    LimitError,
    MetadataError,
    NodeExistsError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from aiozarr.hierarchy.change_context import ConsolidatedGroup, group_keys, load_consolidated_groups
from aiozarr.hierarchy.changes import erasures
from aiozarr.hierarchy.consolidated_update import NodeChanges, update_nodes
from aiozarr.hierarchy.node_access import (
    NodeAccess,
    NodeMetadata,
    implicit_group,
    parse_documents,
    read_documents,
    read_kind,
)
from aiozarr.metadata.format_rules import FORMATS, ancestors, document_write_order, join_path, relative_name, rules_of
from aiozarr.metadata.formats import PROBE_KEYS
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.model import Entry

MAX_COMPUTED_CHUNKS = 100_000
"""Chunks whose keys are computed if the store cannot list. Each costs a request, whether it is stored or not."""


async def check_erasable(access: NodeAccess) -> None:
    """Check that an erasure can be completed.

    Raises:
        UnsupportedOperationError: the store cannot list, and the node is not an array, or has too many chunks.
    """
    if not access.store.supports.listable:
        await _chunk_keys(access)


async def erase_node(access: NodeAccess) -> None:
    """Erase the node and everything below it. An interrupted erasure leaves each array below complete or not at all.

    If the node is a link to a directory, only the link is erased.

    If the store cannot list, the chunks of the array's grid are erased; those of an earlier, larger shape remain.

    Raises:
        UnsupportedOperationError: as `check_erasable`. Nothing is erased.
    """
    listable = access.store.supports.listable
    chunks = iter(()) if listable else await _chunk_keys(access)
    below: list[str] = []
    is_link = False
    if listable:
        async for entry in access.scheduled.scan(access.prefix):
            name = entry.key[len(access.prefix) :]
            is_link = is_link or entry.below_link > name.count("/")
            if not entry.below_link and document_write_order(entry.key) is not None:
                below.append(name)
    if not is_link:
        await _erase_documents(access, list(PROBE_KEYS))
    erasures.record(access.store, access.path)
    if not listable:
        await for_each(access.scheduled.erase, chunks)
        return
    await _erase_documents(access, below)
    await access.scheduled.erase_prefix(access.prefix)


async def _erase_documents(access: NodeAccess, keys: list[str]) -> None:
    """Erase documents in the reverse order of storing, so that no reader sees a node without its attributes."""
    for turn in (2, 1, 0):
        chosen = [access.prefix + key for key in keys if document_write_order(key) == turn]
        if chosen:
            await access.scheduled.erase_values(chosen)


async def _chunk_keys(access: NodeAccess) -> Iterator[str]:
    """Return the keys of all chunks in the grid of the array.

    Raises:
        UnsupportedOperationError: there is no readable array, or it has too many chunks.
    """
    try:
        metadata = parse_documents(access, await read_documents(access, PROBE_KEYS))
        if not isinstance(metadata, ArrayMetadata) or metadata.storage_transformers:
            raise _needs_listing_error(access)
        layout = ArrayLayout.resolve(metadata, node=access.url, settings=access.settings)
    except (MetadataError, LimitError) as error:
        raise _needs_listing_error(access) from error
    shape = layout.grid.shape
    if prod(shape) > MAX_COMPUTED_CHUNKS:
        raise _needs_listing_error(access)
    coordinates = product(*map(range, shape)) if prod(shape) else iter(())
    return (access.prefix + layout.key_encoding.encode(coords) for coords in coordinates)


def _needs_listing_error(access: NodeAccess) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"erasing {access.url} needs a listing of what lies below it, and {type(access.store).__name__} cannot list; "
        f"only arrays of at most {MAX_COMPUTED_CHUNKS} chunks are erased without",
        store=access.store.url,
    )


MAX_COUNTED_OBJECTS = 10_000
"""Objects that an error message counts: one listing of ten pages."""
MAX_DESCRIBED_NODES = 64
"""Nodes whose kind an error message looks up: one round trip of the initial concurrency."""

# Chunk keys of the encodings `default` and `v2` with either separator, of arrays and of single elements.
_CHUNK_KEY = re.compile(r"c([/.]\d+)*|\d+([/.]\d+)*")
_PLAIN_ENCODINGS = ("default", "v2")


async def is_occupied(access: NodeAccess, metadata: NodeMetadata, unfinished: Container[str] = ()) -> bool:
    """Return whether the keys below a path without documents hinder a new node with these metadata.

    A group is hindered only by documents of another format at its path, because nodes below it become its members. An
    array is hindered by documents at any depth, and by keys that could be its chunks. The documents `unfinished`, which
    an interrupted creation of the node has stored, do not count.
    """
    if not isinstance(metadata, ArrayMetadata):
        documents = await read_documents(access, PROBE_KEYS)
        return any([value is not None for key, value in documents.items() if key not in unfinished])
    is_plain = metadata.chunk_key_encoding.name in _PLAIN_ENCODINGS
    async with aclosing(_scan(access)) as entries:
        async for entry in entries:
            key = entry.key[len(access.prefix) :]
            if key in unfinished:
                continue
            if not is_plain or document_write_order(key) is not None or _CHUNK_KEY.fullmatch(key):
                return True
    return False


async def node_exists_error(access: NodeAccess, *, may_overwrite: bool = True) -> NodeExistsError:
    """Return the error of an occupied path. It says what hinders the node, and what `overwrite=True` would delete.

    Args:
        access: the access to the path.
        may_overwrite: whether the operation takes `overwrite`.
    """
    kinds, objects, is_complete = await _count_stored(access)
    own = kinds.pop("", None)
    found = f"there is {own} at {access.url}" if own else f"objects are stored below {access.url}"
    advice = {"an array": "open_array opens it", "a group": "open_group opens it"}.get(
        own or "", "another path keeps what is stored"
    )
    deleted = [] if own is None else [f"the {own.split()[-1]}"]
    for kind, name in (("an array", "array"), ("a group", "group"), ("a node", "node")):
        count = sum(each == kind for each in kinds.values())
        deleted += [format_count(count, name)] if count else []
    if objects:
        deleted.append(f"{'' if is_complete else 'at least '}{format_count(objects, 'object')}")
    if not access.store.supports.listable:
        deleted.append("everything stored below")
    parts = [found]
    parts.append(advice)
    if may_overwrite:
        parts.append(f"{argument('overwrite', True)} would delete {', '.join(deleted)}")
    return NodeExistsError("; ".join(parts), url=access.url, path=access.path)


async def _count_stored(access: NodeAccess) -> tuple[dict[str, str], int, bool]:
    """Return the kinds of the nodes at and below the path by relative name, the number of other objects below it, and
    whether all of them were counted.
    """
    names: dict[str, list[str]] = {}
    objects, listed = 0, 0
    try:
        async with aclosing(_scan(access)) as entries:
            async for entry in entries:
                listed += 1
                if document_write_order(entry.key) is None:
                    objects += 1
                else:
                    above, _, document = entry.key.rpartition("/")
                    names.setdefault(relative_name(above, access.path), []).append(document)
                if listed == MAX_COUNTED_OBJECTS:
                    break
    except (PermissionDeniedError, UnauthenticatedError):
        pass
    if not access.store.supports.listable:
        names[""] = list(PROBE_KEYS)
    described = sorted(names)[:MAX_DESCRIBED_NODES]
    kinds = dict.fromkeys(names, "a node")
    found = await gather_all(
        _kind(access.sibling(access.prefix + name if name else access.path), names[name]) for name in described
    )
    return kinds | dict(zip(described, found, strict=True)), objects, listed < MAX_COUNTED_OBJECTS


async def _kind(access: NodeAccess, documents: Sequence[str]) -> str:
    try:
        metadata = await read_kind(access, documents)
    except (MetadataError, LimitError, PermissionDeniedError, UnauthenticatedError):
        return "a node"
    if metadata is None:
        return "a node"
    return "an array" if isinstance(metadata, ArrayMetadata) else "a group"


async def _scan(access: NodeAccess) -> AsyncGenerator[Entry, None]:
    """Yield the stored objects below the path; none if the store cannot list."""
    if access.store.supports.listable:
        async with aclosing(access.scheduled.scan(access.prefix)) as entries:
            async for entry in entries:
                yield entry


MAX_ERASED_KEYS = 1000
"""Keys that are erased together: a bulk delete of S3."""


async def erase_objects(access: NodeAccess, keys: Collection[str], kept: Iterable[str]) -> None:
    """Erase objects below a node. Nodes that lose their documents are removed from consolidated metadata above.

    Args:
        access: the access to the node, or to a prefix without one.
        keys: the keys that are erased, relative to the node.
        kept: the keys of the documents below the node that stay.

    Raises:
        StoreError: an object could not be erased.
    """
    documents = {key for key in keys if document_write_order(key) is not None}
    kept = [key for key in kept if document_write_order(key) == 1]
    for zarr_format, rules in FORMATS.items():
        chosen = {key for key in documents if _name(key) in rules.keys}
        changes = erased_nodes(zarr_format, chosen, [key for key in kept if _name(key) in rules.keys])
        if changes:
            await _erase_nodes(access, zarr_format, chosen, changes)
        else:
            await _erase(access, chosen)
    await _erase(access, [key for key in keys if key not in documents])


def erased_nodes(zarr_format: int, erased: Iterable[str], kept: Iterable[str]) -> NodeChanges:
    """Return how nodes change when documents are erased. A group is implicit from then on if a node below it stays.

    Args:
        zarr_format: the format of the documents.
        erased: the keys of erased documents.
        kept: the keys of the documents of nodes that stay.
    """
    above = {path for key in kept for path in ancestors(_path(key))}
    changes: list[tuple[str, NodeMetadata | None]] = []
    gone: set[str] = set()
    for path in sorted({_path(key) for key in erased if document_write_order(key) == 1}):
        if path in above:
            changes.append((path, implicit_group(zarr_format)))
        elif gone.isdisjoint(ancestors(path)):
            gone.add(path)
            changes.append((path, None))
    return changes


async def _erase_nodes(access: NodeAccess, zarr_format: int, documents: Collection[str], changes: NodeChanges) -> None:
    """Erase documents of one format, and keep the consolidated metadata above their nodes current."""
    consolidated_key = rules_of(zarr_format).consolidated_key

    async def load(access: NodeAccess) -> tuple[None, Sequence[ConsolidatedGroup]]:
        paths = {path for changed, _ in changes for path in ancestors(join_path(access.path, changed, None))}
        groups = await load_consolidated_groups(access, sorted(paths), zarr_format)
        erased = {access.prefix + key for key in documents}
        return None, [group for group in groups if f"{group.access.prefix}{consolidated_key}" not in erased]

    async def apply(_: None, access: NodeAccess) -> tuple[None, NodeChanges]:
        await _erase(access, documents)
        for path, _metadata in changes:
            erasures.record(access.store, join_path(access.path, path, None))
        return None, [(join_path(access.path, path, None), metadata) for path, metadata in changes]

    await update_nodes([access], group_keys(), load, apply)


async def _erase(access: NodeAccess, keys: Iterable[str]) -> None:
    """Erase objects, documents in the reverse order of storing."""
    turns: dict[int | None, list[str]] = {}
    for key in keys:
        turns.setdefault(document_write_order(key), []).append(access.prefix + key)
    for turn in (2, 1, 0, None):
        chosen = turns.get(turn, [])
        parts = [chosen[at : at + MAX_ERASED_KEYS] for at in range(0, len(chosen), MAX_ERASED_KEYS)]
        await for_each(access.scheduled.erase_values, parts)


def _path(key: str) -> str:
    return key.rpartition("/")[0]


def _name(key: str) -> str:
    return key.rpartition("/")[2]
