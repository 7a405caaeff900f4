"""Creates, updates and erases single nodes. Concurrent writers do not lose each other's changes."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import compress, groupby, islice
from typing import Any

from aiozarr.common.concurrency import for_each, gather_all
from aiozarr.engine.group_commit import compare_and_swap
from aiozarr.errors import LimitError, MetadataError, NodeExistsError, PreconditionFailedError, StoreError
from aiozarr.hierarchy.change_context import (
    MAX_SWAP_DELAY,
    ConsolidatedGroup,
    NodeContext,
    are_equal,
    as_consolidated,
    below_array_error,
    check_ancestor_formats,
    create_group_document,
    group_keys,
    lacks_own_document,
    load_consolidated_ancestors,
    load_contexts,
    replace_documents,
    resolve_outermost,
    store_documents,
    unchanged_condition,
)
from aiozarr.hierarchy.consolidated_update import NodeChanges, removals_above, update_nodes, was_interrupted
from aiozarr.hierarchy.erase import check_erasable, erase_node, is_occupied, node_exists_error
from aiozarr.hierarchy.node_access import (
    Documents,
    NodeAccess,
    NodeMetadata,
    formats_of,
    has_keys_below,
    implicit_group,
    node_not_found_error,
    parse_documents,
    read_documents,
    read_node,
)
from aiozarr.metadata.format_rules import ARRAY_KEY, CONSOLIDATED_MEMBER, ancestors, check_new_path, rules_of
from aiozarr.metadata.formats import DOCUMENT_KEYS, node_keys, render_node
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata
from aiozarr.model import Value
from aiozarr.stores import BlockingStore, Store
from aiozarr.stores.blocking import in_thread_uncancelled

MAX_UPDATES = 100
"""Attempts to update a node against other writers. Each failed attempt is another writer's success."""
CREATED_NODES = 64
"""Nodes that are created together."""
CHECKED_NODES = 16
"""Nodes whose checks, which seldom need a request, run concurrently."""


async def create_all(accesses: Sequence[NodeAccess], nodes: Sequence[NodeMetadata], *, overwrite: bool) -> None:
    """Store the documents of new nodes, and of the groups above them that have none. A node's own document comes last.

    All nodes are checked before anything is stored. A group without a document becomes explicit, and the nodes below it
    stay. Other files do not hinder an array.

    Args:
        accesses: the accesses to the nodes of one store. None is above another one.
        nodes: their metadata, of one format.
        overwrite: first erase the nodes that are stored there.

    Raises:
        InvalidKeyError: a name in a path is reserved.
        NodeExistsError: a node or chunks are stored there, and `overwrite` is false. Of two creators one gets it.
        NodeTypeError: a node above is an array, also one above the root of the store, or of another format.
        UnsupportedOperationError: the store cannot list the keys that `overwrite` would have to erase.
    """
    zarr_format = nodes[0].zarr_format
    for access in accesses:
        check_new_path(access.path, zarr_format)
    all_documents = [render_node(metadata) for metadata in nodes]

    async def load(*accesses: NodeAccess) -> tuple[list[NodeContext], Sequence[ConsolidatedGroup]]:
        contexts = await load_contexts(accesses, zarr_format)

        async def check(number: int) -> None:
            access, context, documents = accesses[number], contexts[number], all_documents[number]

            async def occupied() -> NodeExistsError | None:
                # What an interrupted creation of the same node has stored does not hinder its repetition.
                is_ours = lacks_own_document(context.documents, documents) or (
                    was_interrupted(*accesses) and are_equal(context.documents, documents)
                )
                unfinished = documents if is_ours else {}
                exists = context.exists and not unfinished
                if overwrite or not (
                    exists or (context.has_keys_below and await is_occupied(access, nodes[number], unfinished))
                ):
                    return None
                return await node_exists_error(access)

            await check_creatable(access, context, zarr_format, occupied)
            if context.exists:
                await check_erasable(access)

        await for_each(check, range(len(nodes)), concurrency=CHECKED_NODES)
        return contexts, [*{id(group): group for each in contexts for group in each.consolidated}.values()]

    async def apply(contexts: list[NodeContext], *accesses: NodeAccess) -> tuple[None, NodeChanges]:
        async def store(number: int) -> None:
            try:
                documents = all_documents[number]
                # Only an interrupted creation of the same node can have stored its own document.
                is_repeated = contexts[number].documents.get([*documents][-1]) is not None
                await store_documents(accesses[number], documents, replace=overwrite or is_repeated)
            except PreconditionFailedError as error:
                raise await node_exists_error(accesses[number]) from error

        occupied = [overwrite and (each.exists or each.has_keys_below) for each in contexts]
        await for_each(erase_node, [*compress(accesses, occupied)])
        parents = await create_parents(accesses[0], contexts, zarr_format)
        await for_each(store, range(len(nodes)))
        # The previous nodes are erased before the new ones are stored.
        erased = [(access.path, None) for access in compress(accesses, occupied)]
        return None, [*erased, *parents, *zip([access.path for access in accesses], nodes, strict=True)]

    await update_nodes(accesses, (*group_keys(), ARRAY_KEY), load, apply, is_creation=True)
    for access in accesses:
        formats_of(access.engine).record(access.store, access.path, zarr_format)


async def update_node(
    access: NodeAccess,
    zarr_format: int,
    change: Callable[[NodeMetadata], NodeMetadata],
    then: Callable[[NodeMetadata], Awaitable[None]] | None = None,
    *,
    before: Callable[[NodeMetadata, NodeMetadata], Awaitable[None]] | None = None,
    may_be_implicit: bool = True,
    mark: bytes = b"",
) -> NodeMetadata:
    """Replace the node's metadata by `change(metadata)`; concurrent updates of one node take turns.

    If another writer was first, `change` is called again with that writer's metadata. Stores without conditional writes
    guarantee that inside this process only.

    Args:
        access: the access to the node.
        zarr_format: the format of the node.
        change: returns the new metadata, in any thread. Nothing is stored if it returns its argument.
        then: called with the new metadata before another task of this process may change the node.
        before: called with the present and the new metadata before the new ones are stored.
        may_be_implicit: whether a node below the path makes it an implicit group.
        mark: white space at the end of the node's own document. It tells a document from that of another writer who
            makes the same change. A write that is repeated because its response was lost compares documents by bytes.

    Returns: the new metadata.

    Raises:
        NodeNotFoundError: the node no longer exists.
        PreconditionFailedError: other writers were first a hundred times.
    """
    rules = rules_of(zarr_format)

    async def parse(access: NodeAccess, documents: Documents) -> tuple[Documents, NodeMetadata]:
        current = parse_documents(access, documents, zarr_format)
        if current is None and may_be_implicit:
            current = await read_node(access, zarr_format)
        if current is None:
            raise node_not_found_error(access.store, access.path)
        return documents, current

    async def load(
        access: NodeAccess,
    ) -> tuple[tuple[Documents, NodeMetadata], Sequence[ConsolidatedGroup]]:
        requests: list[Coroutine[Any, Any, Any]] = [
            read_documents(access, rules.keys),
            load_consolidated_ancestors(access, zarr_format),
        ]
        documents, groups = await gather_all(requests)
        documents, current = await parse(access, documents)
        own = as_consolidated(access, current, documents) if rules.consolidated_in_own_document else None
        return (documents, current), (groups if own is None else [*groups, own])

    async def apply(loaded: tuple[Documents, NodeMetadata], access: NodeAccess) -> tuple[NodeMetadata, NodeChanges]:
        state: tuple[Documents, NodeMetadata] | None = loaded

        async def swap() -> NodeMetadata:
            nonlocal state
            documents, current = state or await parse(access, await read_documents(access, rules.keys))
            state = None
            changed = change(current)
            if changed is not current:
                if before is not None:
                    await before(current, changed)
                await replace_documents(access, documents, *_render_change(current, changed, mark))
            return changed

        changed = await compare_and_swap(swap, max_swaps=MAX_UPDATES, max_delay=MAX_SWAP_DELAY)
        if then is not None:
            await then(changed)
        return changed, [(access.path, changed)]

    async def apply_at_once(access: NodeAccess) -> NodeMetadata | None:
        if before is not None or len(rules.keys) > 1 or not access.changes_now:
            return None
        changed = await _update_in_thread(access, zarr_format, change, mark)
        if changed is not None and then is not None:
            await then(changed)
        return changed

    # Only groups of this format, because documents of other formats, and their consolidated metadata, stay as they are.
    return await update_nodes([access], group_keys([zarr_format]), load, apply, apply_at_once=apply_at_once)


async def _update_in_thread(
    access: NodeAccess, zarr_format: int, change: Callable[[NodeMetadata], NodeMetadata], mark: bytes
) -> NodeMetadata | None:
    """Read, change and store the only document of a node of a local store in one thread, as `update_node`.

    Returns: the new metadata. None: nothing was stored, because consolidated metadata or a group above the root of the
    store may have to change too, another writer was first, or a call of the system has failed and may be repeated.
    """
    store, max_bytes = access.store, access.settings.max_metadata_bytes
    assert isinstance(store, BlockingStore)
    [key] = rules_of(zarr_format).keys
    keys = [each.prefix + key for each in (access, *map(access.sibling, ancestors(access.path)))]

    def update() -> NodeMetadata | None:
        try:
            stored, *above = [store.fetch_now(each, max_bytes=max_bytes) for each in keys]
            # An interrupted change of this process may have removed consolidated metadata before they were read.
            is_alone = not removals_above([access]) and (access.target_path is not None or _is_outermost(store, key))
        except (StoreError, LimitError):
            return None
        if stored is None or not is_alone or any(map(_may_be_consolidated, (stored, *above))):
            return None
        current = parse_documents(access, {key: stored}, zarr_format)
        assert current is not None
        changed = change(current)
        old, new = ({}, {}) if changed is current else _render_change(current, changed, mark)
        if old == new:
            return changed
        with suppress(PreconditionFailedError):
            store.set_now(access.prefix + key, new[key], precondition=unchanged_condition(stored))
            return changed
        return None

    return await access.scheduled.at_once(access.prefix + key, in_thread_uncancelled(update, is_shared=True))


def _is_outermost(store: Store, key: str) -> bool:
    """Return whether no level above the root of the store has this document."""
    from aiozarr.stores.local.store import LocalStore

    while (parent := store.parent_store()) is not None:
        store = parent[0]
        # Looking for a file is faster than reading it, and few levels have one.
        if isinstance(store, LocalStore) and not os.access(f"{store.root}/{key}", os.F_OK):
            continue
        if not isinstance(store, BlockingStore) or store.fetch_now(key) is not None:
            return False
    return True


def _may_be_consolidated(value: Value | None) -> bool:
    """Return whether a document, which is not parsed, may have consolidated metadata or the sentinel."""
    data = b"" if value is None else bytes(value.data)
    return CONSOLIDATED_MEMBER.encode() in data or b"\\u" in data


async def delete_node(access: NodeAccess) -> None:
    """Erase a node and everything below it, in all formats.

    Raises:
        NodeNotFoundError: there is none.
        UnsupportedOperationError: the store cannot list, and the node is not an array of few chunks.
    """

    async def load(access: NodeAccess) -> tuple[None, Sequence[ConsolidatedGroup]]:
        requests: list[Coroutine[Any, Any, Any]] = [
            # Not parsed, so that a damaged node can be erased too.
            read_documents(access, node_keys()),
            has_keys_below(access),
            *(load_consolidated_ancestors(access, zarr_format) for zarr_format in DOCUMENT_KEYS),
        ]
        documents, has_keys, *groups = await gather_all(requests)
        if not has_keys and all(value is None for value in documents.values()) and not was_interrupted(access):
            raise node_not_found_error(access.store, access.path)
        await check_erasable(access)
        return None, [group for of_format in groups for group in of_format]

    async def apply(_: None, access: NodeAccess) -> tuple[None, NodeChanges]:
        await erase_node(access)
        return None, [(access.path, None)]

    await update_nodes([access], group_keys(), load, apply)


async def check_creatable(
    access: NodeAccess,
    context: NodeContext,
    zarr_format: int,
    occupied: Callable[[], Awaitable[NodeExistsError | None]],
) -> None:
    """Check that a node of this format can be created.

    Args:
        access: the access to the node.
        context: the node's context.
        zarr_format: the format of the new node.
        occupied: returns the error of a path that is occupied, or None.

    Raises:
        InvalidKeyError: the name of a group above, which would be created too, is reserved.
        NodeTypeError: a node above is an array, or of another format.
        NodeExistsError: the path is occupied.
    """
    for path, node in context.ancestors.items():
        if isinstance(node, ArrayMetadata):
            raise below_array_error(access, path)
    error = await occupied()
    if error is not None:
        raise error
    missing = _missing_parents(access, context)
    for path in missing:
        check_new_path(path, zarr_format)
    await check_ancestor_formats(access, missing, zarr_format)


async def create_parents(
    access: NodeAccess, contexts: Iterable[NodeContext], zarr_format: int
) -> list[tuple[str, NodeMetadata | None]]:
    """Store the documents of the groups above new nodes that have none, and return these groups with their paths.

    Args:
        access: the access to one of the nodes.
        contexts: their contexts.
        zarr_format: their format.
    """
    group = implicit_group(zarr_format)
    missing = dict.fromkeys(path for context in contexts for path in _missing_parents(access, context))
    await gather_all(create_group_document(access.sibling(path), group) for path in missing)
    return [(path, group) for path in missing]


def _missing_parents(access: NodeAccess, context: NodeContext) -> list[str]:
    """Return the paths of the groups above the node without documents. Those above the caller's target do not count."""
    target = access.target_path or ""
    return [
        path
        for path, node in context.ancestors.items()
        if node is None and (not target or f"{path}/".startswith(f"{target}/"))
    ]


def _render_change(
    current: NodeMetadata, changed: NodeMetadata, mark: bytes
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return the documents before a change, if they may be equal, and after it, with `mark` as in `update_node`."""
    # A single document is stored if it differs; of several, those that differ have to be found.
    is_clear = len(rules_of(changed.zarr_format).keys) == 1 and changed != current
    new = render_node(_without_separate(changed))
    new[[*new][-1]] += mark
    return {} if is_clear else _render_leniently(current), new


def _without_separate(metadata: NodeMetadata) -> NodeMetadata:
    """Return the metadata without consolidated metadata that have a document of their own."""
    if isinstance(metadata, GroupMetadata) and rules_of(metadata.zarr_format).consolidated_in_own_document:
        return replace(metadata, consolidated=None)
    return metadata


def _render_leniently(metadata: NodeMetadata) -> dict[str, bytes]:
    """Return the documents of stored metadata, or none if leniently parsed metadata cannot be rendered."""
    try:
        return render_node(_without_separate(metadata))
    except (MetadataError, TypeError):
        return {}


async def create_nodes(access: NodeAccess, nodes: Mapping[str, NodeMetadata], *, overwrite: bool) -> None:
    """Create nodes, given by path in the store, and the missing groups between them.

    Raises:
        ValueError: a node is below an array of the mapping.
        NodeExistsError, NodeTypeError: as `create_all`. Nodes that were stored before remain.
    """
    for path in nodes:
        for ancestor in ancestors(path):
            if isinstance(nodes.get(ancestor), ArrayMetadata):
                raise ValueError(f"{path!r} is below {ancestor!r}, which is an array")
    if nodes:
        accesses = await resolve_outermost([access.sibling(path) for path in nodes], group_keys())
        nodes = {each.path: metadata for each, metadata in zip(accesses, nodes.values(), strict=True)}
        access = accesses[0]
    paths = sorted(nodes, key=lambda path: path.count("/"))
    for _, level in groupby(paths, key=lambda path: path.count("/")):
        while batch := [*islice(level, CREATED_NODES)]:
            accesses = [access.sibling(path) for path in batch]
            await create_all(accesses, [nodes[path] for path in batch], overwrite=overwrite)
