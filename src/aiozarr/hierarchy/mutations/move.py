"""Moves a node with everything below it: copies all keys, documents last, then erases the source, documents first."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from aiozarr.concurrency import for_each, gather_all
from aiozarr.errors import NodeExistsError, PreconditionFailedError, UnsupportedOperationError
from aiozarr.hierarchy.mutations.consolidated_update import NodeChanges, update_nodes
from aiozarr.hierarchy.mutations.context import ConsolidatedGroup, NodeContext, group_keys, load_context
from aiozarr.hierarchy.mutations.erase import erase_node, node_exists_error
from aiozarr.hierarchy.mutations.nodes import check_creatable, create_parents
from aiozarr.hierarchy.mutations.store_documents import set_if_absent
from aiozarr.hierarchy.node_access import NodeAccess, NodeMetadata, node_not_found_error, parse_documents
from aiozarr.metadata.format_rules import document_write_order
from aiozarr.metadata.names import check_new_path
from aiozarr.model import Value

COPY_CONCURRENCY = 16
"""Objects that are copied concurrently. Each is held in memory whole."""


async def move_node(source: NodeAccess, destination: NodeAccess, zarr_format: int) -> None:
    """Move the node of this format at `source` to `destination`.

    The destination is not a node until its own document is stored; the source is erased only after that. A move that
    fails or is interrupted has moved nothing, or leaves both.

    Raises:
        NodeNotFoundError: there is nothing at `source`.
        NodeExistsError: something is stored at `destination`.
        NodeTypeError: a node above `destination` is an array, or of another format.
        ValueError: one path is inside the other.
        UnsupportedOperationError: the store cannot list.
    """
    if not source.store.supports.listable:
        raise UnsupportedOperationError("a store that cannot list cannot move nodes", store=source.store.url)
    if source.prefix.startswith(destination.prefix) or destination.prefix.startswith(source.prefix):
        raise ValueError(f"{source.path!r} cannot be moved to {destination.path!r}: one lies inside the other")

    check_new_path(destination.path, zarr_format)

    async def load(source: NodeAccess, destination: NodeAccess) -> tuple[NodeContext, Sequence[ConsolidatedGroup]]:
        requests: list[Coroutine[Any, Any, NodeContext]] = [
            load_context(source, zarr_format),
            load_context(destination, zarr_format),
        ]
        old, new = await gather_all(requests)
        if not old.exists and not old.has_keys_below:
            raise node_not_found_error(source.store, source.path)

        async def occupied() -> NodeExistsError | None:
            is_empty = not new.exists and not new.has_keys_below
            return None if is_empty else await node_exists_error(destination, may_overwrite=False)

        await check_creatable(destination, new, zarr_format, occupied)
        groups = {
            (group.access.path, group.metadata.zarr_format): group for group in (*old.consolidated, *new.consolidated)
        }
        return new, list(groups.values())

    async def apply(context: NodeContext, source: NodeAccess, destination: NodeAccess) -> tuple[None, NodeChanges]:
        parents = await create_parents(destination, context, zarr_format)
        moved = await _copy(source, destination, zarr_format)
        await erase_node(source)
        return None, [(source.path, None), *parents, *moved]

    await update_nodes([source, destination], group_keys(), load, apply)


async def _copy(source: NodeAccess, destination: NodeAccess, zarr_format: int) -> list[tuple[str, NodeMetadata]]:
    """Copy all keys, documents of the deepest nodes first and the node's own last. Return the copied nodes by path."""
    keys = [entry.key[len(source.prefix) :] async for entry in source.scheduled.scan(source.prefix)]
    turns = {key: turn for key in keys if (turn := document_write_order(key)) is not None}
    documents: dict[str, dict[str, Value]] = {}

    async def copy_key(key: str) -> None:
        value = await source.scheduled.fetch(source.prefix + key)
        if value is None:
            return
        if key in turns:
            path, _, name = key.rpartition("/")
            documents.setdefault(path, {})[name] = value
        try:
            await set_if_absent(destination.scheduled, destination.prefix + key, bytes(value.data))
        except PreconditionFailedError as error:
            raise await node_exists_error(destination, may_overwrite=False) from error

    await for_each(copy_key, [key for key in keys if key not in turns], concurrency=COPY_CONCURRENCY)
    levels: dict[tuple[int, int], list[str]] = {}
    for key, turn in turns.items():
        levels.setdefault((-key.count("/"), turn), []).append(key)
    for level in sorted(levels):
        await for_each(copy_key, levels[level], concurrency=COPY_CONCURRENCY)
    nodes: list[tuple[str, NodeMetadata]] = []
    for path, values in sorted(documents.items()):
        access = destination.sibling(f"{destination.prefix}{path}" if path else destination.path)
        metadata = parse_documents(access, values, zarr_format)
        if metadata is not None:
            nodes.append((access.path, metadata))
    return nodes
