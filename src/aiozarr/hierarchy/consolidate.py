"""Consolidates metadata: writes those of all nodes below a group into the group's own documents."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from aiozarr.engine.group_commit import compare_and_swap
from aiozarr.engine.open_store import Target
from aiozarr.hierarchy.group import Group, make_group
from aiozarr.hierarchy.members import check_listable, read_nodes_below, walk_levels
from aiozarr.hierarchy.mutations.consolidated_update import MAX_INVALIDATIONS, invalidate, write_consolidated
from aiozarr.hierarchy.mutations.context import ConsolidatedGroup, group_keys, resolve_outermost
from aiozarr.hierarchy.mutations.locks import changes_of
from aiozarr.hierarchy.mutations.nodes import create_group_document
from aiozarr.hierarchy.mutations.store_documents import MAX_SWAP_DELAY
from aiozarr.hierarchy.node import HandleOptions, check_store_writeable
from aiozarr.hierarchy.node_access import (
    NodeAccess,
    NodeMetadata,
    check_format,
    implicit_group,
    node_not_found_error,
    parse_documents,
    read_documents,
    read_explicit,
    run_at_target,
    search_node,
)
from aiozarr.metadata.formats import probe_keys
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata
from aiozarr.settings import Settings

NEWEST_FORMAT = 3


async def consolidate_metadata(
    target: Target,
    path: str = "",
    *,
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> Group:
    """Store the metadata of all nodes below the group at `path` in the group, and return the group, opened for writing.

    Opening the group then reads the whole tree with one request. Format 2 stores consolidated metadata in
    `.zmetadata`, format 3 in the group's own `zarr.json`, as zarr-python does.

    Later changes by aiozarr anywhere in the tree also update the consolidated metadata. That holds for targets further
    down as long as the groups between have documents. Other programs may not update them; consolidate again then.

    Args:
        target: a URL, a local path, or a `Store`.
        path: the group's path below that.
        zarr_format: the format of the group; None: found from the stored documents, those of the arrays below if the
            group itself has none. It gets its document then.
        storage_options: options of the store, for a URL.
        settings: limits and policies of reads and writes.

    Raises:
        NodeNotFoundError: there is no node.
        NodeTypeError: there is an array, or a node below is of another format than the group.
        InvalidMetadataError, UnsupportedMetadataError: a document below cannot be read.
        UnsupportedOperationError: the store cannot list or cannot write.
        PreconditionFailedError: another program changed the group meanwhile, again and again.
        UnknownSchemeError, InvalidKeyError, StoreError, TypeError, ValueError: as `open`.
    """
    check_format(zarr_format)

    async def update(access: NodeAccess, owns_store: bool) -> Group:
        check_listable(access.store, "consolidate: the nodes below have to be found")

        def make(metadata: NodeMetadata, seen_changes: int | None = None) -> Group:
            options = HandleOptions(access.settings, "r+", owns_store, seen_changes=seen_changes)
            return make_group(access.store, access.path, metadata, options)

        # Made before anything is stored: it checks that there is a group.
        found, other = await search_node(access, zarr_format, may_be_implicit=True)
        if found is None:
            raise node_not_found_error(access.store, access.path, zarr_format, other)
        make(found)
        check_store_writeable(access.store)
        tracker = changes_of(access.engine)
        # Changes of nodes below run from the outermost group too: the locks must be the same.
        [outermost] = await resolve_outermost([access], group_keys())
        async with outermost.lock(), tracker.exclusive(outermost.store):
            with tracker.recording(outermost.store):
                if await read_explicit(outermost, found.zarr_format) is None:
                    found = await _store_implicit(outermost, zarr_format)
                metadata = await _consolidate(outermost, found.zarr_format)
            return make(metadata, tracker.count(access.store))

    return await run_at_target(
        update, target, path, zarr_format=zarr_format, storage_options=storage_options, settings=settings
    )


async def _store_implicit(access: NodeAccess, zarr_format: int | None) -> GroupMetadata:
    """Store the document of an implicit group, whose format is that of the arrays below unless it is given.

    Readers of `.zmetadata` need a `.zgroup` beside it.

    Raises:
        MetadataError, LimitError, NodeTypeError: as `read_nodes_below`. Nothing is stored.
    """
    group = implicit_group(zarr_format or await find_format_below(access))
    await read_nodes_below(access, group.zarr_format)
    await create_group_document(access, group)
    return group


async def find_format_below(access: NodeAccess) -> int:
    """Return the format of a group above the nodes that are stored below a path."""
    levels = walk_levels(lambda function: function(access), NEWEST_FORMAT)
    async with aclosing(levels):
        async for batch in levels:
            for node in batch:
                if isinstance(node.metadata, ArrayMetadata) or (
                    isinstance(node.metadata, GroupMetadata) and node.metadata.zarr_format != NEWEST_FORMAT
                ):
                    # Format 1 has no groups.
                    return max(2, node.metadata.zarr_format)
    return NEWEST_FORMAT


async def _consolidate(access: NodeAccess, zarr_format: int) -> GroupMetadata:
    async def swap() -> GroupMetadata:
        documents = await read_documents(access, probe_keys(zarr_format))
        group = parse_documents(access, documents, zarr_format)
        if not isinstance(group, GroupMetadata):  # another writer has erased it meanwhile
            raise node_not_found_error(access.store, access.path, zarr_format)
        stored = ConsolidatedGroup(access, group, documents)
        # The sentinel comes before the nodes are read: a concurrent change of a node removes it.
        invalidated = await invalidate(stored, sentinel=True)
        return await write_consolidated(invalidated, await read_nodes_below(access, zarr_format))

    return await compare_and_swap(swap, max_swaps=MAX_INVALIDATIONS, max_delay=MAX_SWAP_DELAY)
