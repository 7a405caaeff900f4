"""Keeps consolidated metadata above the destination of a copy current.

They are invalidated before its first object, and rewritten after the last one with the nodes that are stored then. A
copy that stops in between leaves none. It has recorded which groups had some, so that a resumed copy completes them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TypeAlias

from aiozarr.common.concurrency import gather_all, map_concurrently
from aiozarr.engine.group_commit import compare_and_swap
from aiozarr.hierarchy.consolidate import find_format_below
from aiozarr.hierarchy.members import check_listable, read_nodes_below
from aiozarr.hierarchy.mutations.consolidated_update import (
    MAX_INVALIDATIONS,
    UNREADABLE,
    NodeChanges,
    complete,
    invalidate,
    invalidate_all,
    rewrite_all,
)
from aiozarr.hierarchy.mutations.context import (
    ConsolidatedGroup,
    group_keys,
    load_consolidated_groups,
    resolve_outermost,
)
from aiozarr.hierarchy.mutations.locks import changes_of
from aiozarr.hierarchy.mutations.store_documents import MAX_SWAP_DELAY
from aiozarr.hierarchy.node_access import NodeAccess, has_node_below, parse_documents, read_documents, read_explicit
from aiozarr.metadata.formats import DOCUMENT_KEYS, probe_keys
from aiozarr.metadata.names import ancestors, join_path
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata

GroupPlace: TypeAlias = tuple[int, int]
"""A group above a node: the number of levels from the node up to it, and its format."""


class ConsolidatedAncestors:
    """The consolidated groups above a node that a copy replaces. Lives on the I/O thread.

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
            record: stores the places of the groups that have consolidated metadata, before these are invalidated.

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
            self._groups = await invalidate_all([group for group in groups if self._place(group) not in left_places])
            self._interrupted = await gather_all(invalidate(group, sentinel=True) for group in left)

        # Open groups of this process see at once that theirs are invalid.
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
        """Let other changes go on."""
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
        if root is None and not await has_node_below(access):
            return [(access.path, None)]
        changes: NodeChanges = [(access.path, None), *([] if root is None else [(access.path, root)])]
        if isinstance(root, ArrayMetadata):
            return changes
        check_listable(access.store, "find the nodes of a copy")
        zarr_format = await find_format_below(access) if root is None else root.zarr_format
        below = await read_nodes_below(access, zarr_format)
        return [*changes, *((join_path(access.path, name, None), metadata) for name, metadata in below.items())]
