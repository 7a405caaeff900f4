"""Consolidates metadata: writes the metadata of all nodes below a group into the group's own documents.

Consolidated metadata above the destination of a copy are invalidated before the copy's first object, and rewritten
after the last one with the nodes that are stored then. A copy that stops in between leaves none. It has recorded
which groups had some, so that a resumed copy completes them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

from aiozarr.common.concurrency import gather_all, map_concurrently
from aiozarr.engine.group_commit import compare_and_swap
from aiozarr.engine.open_store import Target
from aiozarr.hierarchy.change_context import (
    MAX_SWAP_DELAY,
    ConsolidatedGroup,
    create_group_document,
    group_keys,
    load_consolidated_groups,
    resolve_outermost,
)
from aiozarr.hierarchy.changes import changes_of
from aiozarr.hierarchy.consolidated_update import (
    MAX_INVALIDATIONS,
    UNREADABLE,
    NodeChanges,
    complete,
    document_id,
    invalidate,
    invalidate_all,
    load_linked,
    rewrite_all,
    write_consolidated,
)
from aiozarr.hierarchy.group import Group, make_group
from aiozarr.hierarchy.members import check_listable, read_nodes_below
from aiozarr.hierarchy.node import HandleOptions, check_store_writable
from aiozarr.hierarchy.node_access import (
    NodeAccess,
    NodeMetadata,
    check_format,
    find_format_below,
    implicit_group,
    node_not_found_error,
    parse_documents,
    read_documents,
    read_explicit,
    run_at_target,
    search_node,
)
from aiozarr.metadata.format_rules import ancestors, join_path
from aiozarr.metadata.formats import DOCUMENT_KEYS, probe_keys
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata
from aiozarr.settings import Settings


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

    Later changes through aiozarr anywhere in the tree, also through targets further down, update the consolidated
    metadata too. Other programs may not update them; in this case consolidate again. Groups below that have no document
    get one, because readers of consolidated metadata need all groups above a node. Invalid consolidated metadata is
    replaced.

    Args:
        target: a URL, a local path, or a `Store`.
        path: the group's path inside `target`.
        zarr_format: the format of the group; None: detected from the stored documents. If the group has none, a node
            below it determines the format, and the group gets a document.
        storage_options: options of the store, for a URL.
        settings: limits and policies of reads and writes.

    Raises:
        NodeNotFoundError: there is no node.
        NodeTypeError: the node is an array, or a node below it has another format than the group.
        InvalidMetadataError, UnsupportedMetadataError: a document below cannot be read.
        UnsupportedOperationError: the store cannot list or cannot write.
        PreconditionFailedError: another program kept changing the group.
        UnknownSchemeError, InvalidKeyError, StoreError, TypeError, ValueError: as `open`.
    """
    check_format(zarr_format)

    async def update(access: NodeAccess, owns_store: bool) -> Group:
        check_listable(access.store, "consolidate: the nodes below have to be found")

        def make(metadata: NodeMetadata, seen_changes: int | None = None) -> Group:
            options = HandleOptions(access.settings, "r+", owns_store, seen_changes=seen_changes)
            return make_group(access.store, access.path, metadata, options)

        # Damaged consolidated metadata is replaced.
        access = access._replace(use_consolidated=False)
        # Made before anything is stored: it checks that there is a group.
        found, other = await search_node(access, zarr_format)
        if found is None:
            raise node_not_found_error(access.store, access.path, zarr_format, other)
        make(found)
        check_store_writable(access.store)
        tracker = changes_of(access.engine)
        # From the outermost group, because changes of nodes below begin there, and must have the same locks.
        [outermost] = await resolve_outermost([access], group_keys())
        async with outermost.lock(), tracker.exclusive(outermost.store):
            with tracker.recording(outermost.store):
                if await read_explicit(outermost, found.zarr_format) is None:
                    await read_nodes_below(outermost, found.zarr_format)  # nothing is stored if one cannot be read
                    # Readers of `.zmetadata` need a `.zgroup` beside it.
                    await create_group_document(outermost, implicit_group(found.zarr_format))
                metadata = await _consolidate(outermost, found.zarr_format)
            return make(metadata, tracker.count(access.store))

    return await run_at_target(
        update, target, path, zarr_format=zarr_format, storage_options=storage_options, settings=settings
    )


async def _consolidate(access: NodeAccess, zarr_format: int) -> GroupMetadata:
    async def swap() -> GroupMetadata:
        documents = await read_documents(access, probe_keys(zarr_format))
        group = parse_documents(access, documents, zarr_format)
        if not isinstance(group, GroupMetadata):  # another writer has erased it meanwhile
            raise node_not_found_error(access.store, access.path, zarr_format)
        stored = ConsolidatedGroup(access, group, documents)
        # The sentinel is stored before the nodes are read, because a concurrent change of a node removes it.
        invalidated = await invalidate(stored, sentinel=True)
        return await write_consolidated(invalidated, await read_nodes_below(access, zarr_format))

    return await compare_and_swap(swap, max_swaps=MAX_INVALIDATIONS, max_delay=MAX_SWAP_DELAY)


GroupPlace: TypeAlias = tuple[int, int]
"""A group above a node: the number of levels from the node up to it, and its format."""


class ConsolidatedAncestors:
    """The consolidated groups above a node that a copy replaces. Used on the I/O thread only.

    From `invalidate` to `close`, other changes below the outermost group wait in this process.

    Args:
        access: the access to the node.
    """

    def __init__(self, access: NodeAccess) -> None:
        self._access = access
        self._locks = AsyncExitStack()
        self._groups: list[ConsolidatedGroup] = []
        self._interrupted: list[ConsolidatedGroup] = []

    async def invalidate(
        self, interrupted: Sequence[GroupPlace], record: Callable[[list[GroupPlace]], Awaitable[None]]
    ) -> None:
        """Invalidate the consolidated metadata of all groups above the node.

        Args:
            interrupted: the groups whose consolidated metadata an interrupted copy has invalidated.
            record: stores which groups have consolidated metadata, before these are invalidated.

        Raises:
            PreconditionFailedError: another program changed a group meanwhile, again and again.
        """
        [self._access] = await resolve_outermost([self._access], group_keys())
        tracker, store = changes_of(self._access.engine), self._access.store
        await self._locks.enter_async_context(self._access.lock())
        await self._locks.enter_async_context(tracker.exclusive(store))
        self._locks.enter_context(tracker.recording(store))

        async def swap() -> None:
            groups = await self._load()
            consolidated = {self._place(group) for group in groups if group.metadata.consolidated is not None}
            left = await self._load_interrupted([place for place in interrupted if place not in consolidated])
            left_places = {self._place(group) for group in left}
            await record(sorted(consolidated | left_places))
            left += await load_linked([self._access], groups)
            known = {*map(document_id, left)}
            self._groups = await invalidate_all([group for group in groups if document_id(group) not in known])
            self._interrupted = await gather_all(invalidate(group, sentinel=True) for group in left)

        # Open groups of this process notice at once that their metadata are invalid.
        with tracker.recording(store):
            await compare_and_swap(swap, max_swaps=MAX_INVALIDATIONS, max_delay=MAX_SWAP_DELAY)

    async def rewrite(self) -> None:
        """Store the consolidated metadata of the groups, with the nodes that are stored now.

        They stay invalid if a node cannot be read, or if another program has changed them meanwhile.
        """
        try:
            changes = await self._stored_nodes()
        except UNREADABLE:
            return
        completed = await map_concurrently(complete, self._interrupted)
        await rewrite_all([*self._groups, *(group for group in completed if group is not None)], changes)

    async def close(self) -> None:
        """Allow other changes."""
        await self._locks.aclose()

    def _place(self, group: ConsolidatedGroup) -> GroupPlace:
        levels = len(ancestors(self._access.path)) - len(ancestors(group.access.path))
        return levels, group.metadata.zarr_format

    async def _load(self) -> list[ConsolidatedGroup]:
        paths = ancestors(self._access.path)
        found = await gather_all(
            load_consolidated_groups(self._access, paths, zarr_format) for zarr_format in DOCUMENT_KEYS
        )
        return [group for of_format in found for group in of_format]

    async def _load_interrupted(self, places: Sequence[GroupPlace]) -> list[ConsolidatedGroup]:
        paths = ancestors(self._access.path)[::-1]

        async def load(place: GroupPlace) -> ConsolidatedGroup | None:
            levels, zarr_format = place
            if levels > len(paths):
                return None  # the group above has no document any more
            access = self._access.sibling(paths[levels - 1])
            try:
                documents = await read_documents(access, probe_keys(zarr_format))
                metadata = parse_documents(access, documents, zarr_format)
            except UNREADABLE:
                return None
            return ConsolidatedGroup(access, metadata, documents) if isinstance(metadata, GroupMetadata) else None

        return [group for group in await map_concurrently(load, places) if group is not None]

    async def _stored_nodes(self) -> NodeChanges:
        """Return the node and those below it, as they are stored, after the removal of older ones.

        Raises:
            AiozarrError: one of `UNREADABLE`.
        """
        access = self._access
        root = await read_explicit(access)
        zarr_format = await find_format_below(access) if root is None else root.zarr_format
        if zarr_format is None:
            return [(access.path, None)]
        changes: NodeChanges = [(access.path, None), *([] if root is None else [(access.path, root)])]
        if isinstance(root, ArrayMetadata):
            return changes
        check_listable(access.store, "find the nodes of a copy")
        below = await read_nodes_below(access, zarr_format)
        return [*changes, *((join_path(access.path, name, None), metadata) for name, metadata in below.items())]
