"""Creates, updates and erases single nodes. Concurrent writers do not lose each other's changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from aiozarr.common.concurrency import for_each, gather_all
from aiozarr.engine.group_commit import compare_and_swap
from aiozarr.errors import MetadataError, NodeExistsError, PreconditionFailedError
from aiozarr.hierarchy.change_context import (
    MAX_SWAP_DELAY,
    ConsolidatedGroup,
    NodeContext,
    as_consolidated,
    below_array_error,
    check_ancestor_formats,
    group_keys,
    lacks_own_document,
    load_consolidated_ancestors,
    load_context,
    replace_documents,
    resolve_outermost,
    store_documents,
)
from aiozarr.hierarchy.consolidated_update import NodeChanges, update_nodes, was_interrupted
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
    read_explicit,
    read_node,
)
from aiozarr.metadata.format_rules import ARRAY_KEY, ancestors, check_new_path, rules_of
from aiozarr.metadata.formats import DOCUMENT_KEYS, node_keys, render_node
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata

MAX_UPDATES = 100
"""Attempts to update a node against other writers. Each failed attempt is another writer's success."""


async def create_node(access: NodeAccess, metadata: NodeMetadata, *, overwrite: bool) -> None:
    """Store the documents of a new node, and of the groups above it that have none. The node's own come last.

    A group without a document becomes explicit, and the nodes below it stay. Other files do not hinder an array.

    Raises:
        InvalidKeyError: a name in the path is reserved.
        NodeExistsError: a node or chunks are stored there, and `overwrite` is false. Of two creators one gets it.
        NodeTypeError: a node above is an array, also one above the root of the store, or of another format.
        UnsupportedOperationError: the store cannot list the keys that `overwrite` would have to erase.
    """
    check_new_path(access.path, metadata.zarr_format)
    documents = render_node(metadata)

    async def load(access: NodeAccess) -> tuple[NodeContext, Sequence[ConsolidatedGroup]]:
        context = await load_context(access, metadata.zarr_format)

        async def occupied() -> NodeExistsError | None:
            unfinished = documents if lacks_own_document(context.documents, documents) else {}
            exists = context.exists and not unfinished
            if overwrite or not (
                exists or (context.has_keys_below and await is_occupied(access, metadata, unfinished))
            ):
                return None
            return await node_exists_error(access)

        await check_creatable(access, context, metadata.zarr_format, occupied)
        if context.exists:
            await check_erasable(access)
        return context, context.consolidated

    async def apply(context: NodeContext, access: NodeAccess) -> tuple[None, NodeChanges]:
        erases = overwrite and (context.exists or context.has_keys_below)
        if erases:
            await erase_node(access)
        parents = await create_parents(access, context, metadata.zarr_format)
        try:
            await store_documents(access, documents, replace=overwrite)
        except PreconditionFailedError as error:
            raise await node_exists_error(access) from error
        # The previous node is erased before the new one is stored.
        erased = [(access.path, None)] if erases else []
        return None, [*erased, *parents, (access.path, metadata)]

    await update_nodes([access], (*group_keys(), ARRAY_KEY), load, apply, is_creation=True)
    formats_of(access.engine).record(access.store, access.path, metadata.zarr_format)


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
        change: returns the new metadata. Nothing is stored if it returns its argument.
        then: called with the new metadata before another task of this process may change the node.
        before: called with the present and the new metadata before the new ones are stored.
        may_be_implicit: whether keys below the path make it an implicit group, in formats that have these.
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
                # A single document is stored if it differs; of several, those that differ have to be found.
                is_clear = len(rules.keys) == 1 and changed != current
                old = {} if is_clear else _render_leniently(current)
                new = render_node(_without_separate(changed))
                new[[*new][-1]] += mark
                await replace_documents(access, documents, old, new)
            return changed

        changed = await compare_and_swap(swap, max_swaps=MAX_UPDATES, max_delay=MAX_SWAP_DELAY)
        if then is not None:
            await then(changed)
        return changed, [(access.path, changed)]

    # Only groups of this format, because documents of other formats, and their consolidated metadata, stay as they are.
    return await update_nodes([access], group_keys([zarr_format]), load, apply)


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
    access: NodeAccess, context: NodeContext, zarr_format: int
) -> list[tuple[str, NodeMetadata | None]]:
    """Store the documents of the groups above the node that have none, and return these groups with their paths."""
    group = implicit_group(zarr_format)
    missing = _missing_parents(access, context)
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


async def create_group_document(access: NodeAccess, group: GroupMetadata) -> None:
    """Store the document of an implicit group, unless another writer has created the group meanwhile."""
    *_, (key, data) = render_node(group).items()
    try:
        await access.scheduled.set_if_absent(access.prefix + key, data)
    except PreconditionFailedError:
        if isinstance(await read_explicit(access, group.zarr_format), ArrayMetadata):
            raise below_array_error(access, access.path) from None


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
        NodeExistsError, NodeTypeError: as `create_node`. Nodes that were stored before remain.
    """
    for path in nodes:
        for ancestor in ancestors(path):
            if isinstance(nodes.get(ancestor), ArrayMetadata):
                raise ValueError(f"{path!r} lies below {ancestor!r}, which is an array")
    if nodes:
        accesses = await resolve_outermost([access.sibling(path) for path in nodes], group_keys())
        nodes = {each.path: metadata for each, metadata in zip(accesses, nodes.values(), strict=True)}
        access = accesses[0]
    levels: dict[int, list[str]] = {}
    for path in nodes:
        levels.setdefault(path.count("/"), []).append(path)
    for _, paths in sorted(levels.items()):
        await for_each(lambda path: create_node(access.sibling(path), nodes[path], overwrite=overwrite), paths)
