"""Keeps consolidated metadata current: invalidates them before a change of a node below, and rewrites them after it.

A crash in between leaves no consolidated metadata, so every reader reads the nodes' own documents. Tasks of this
process take turns. Several processes exclude each other by a sentinel: while nodes below a group of format 3 change,
the consolidated member of its document is `null`. A process that removes the sentinel keeps the other one from storing
consolidated metadata that lack its change. Format 2 has no place for a sentinel: two processes should not change the
same consolidated tree at the same time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from aiozarr.concurrency import gather_all
from aiozarr.engine.compare_and_swap import compare_and_swap
from aiozarr.errors import PreconditionFailedError
from aiozarr.hierarchy.mutations.context import ConsolidatedGroup, resolve_outermost, resolve_parent
from aiozarr.hierarchy.mutations.locks import changes_of
from aiozarr.hierarchy.mutations.store_documents import (
    MAX_SWAP_DELAY,
    has_conditional_writes,
    unchanged_condition,
)
from aiozarr.hierarchy.node_access import NodeAccess, NodeMetadata
from aiozarr.metadata.format_rules import rules_of
from aiozarr.metadata.formats import consolidate, render_node
from aiozarr.metadata.names import relative_name
from aiozarr.metadata.records import GroupMetadata
from aiozarr.model import Value

C = TypeVar("C")
T = TypeVar("T")
NodeChanges: TypeAlias = Sequence[tuple[str, NodeMetadata | None]]
"""Changed nodes by path in the store, in order. None: the node and everything below it was erased."""

MAX_INVALIDATIONS = 20
"""Attempts to invalidate consolidated metadata against other processes that change the same group."""


async def update_nodes(
    accesses: Sequence[NodeAccess],
    ancestor_keys: Sequence[str],
    load: Callable[..., Coroutine[Any, Any, tuple[C, Sequence[ConsolidatedGroup]]]],
    apply: Callable[..., Awaitable[tuple[T, NodeChanges]]],
    *,
    is_creation: bool = False,
) -> T:
    """Change nodes under their locks, and keep consolidated metadata current.

    Args:
        accesses: the accesses to the nodes, all of one store.
        ancestor_keys: the keys of the documents that show a group above the root of the store. If there is one, `load`
            and `apply` get accesses through the store of the outermost group.
        load: `load(*accesses)` reads the context of the change and the consolidated groups that it concerns, and raises
            if the change is not allowed. It may be called again.
        apply: `apply(context, *accesses)` makes the change, and returns its result and the changed nodes.
        is_creation: refuse the change if an array is above the root of the store.

    Returns: the result of `apply`.
    """
    store, tracker = accesses[0].store, changes_of(accesses[0].engine)

    async def load_and_invalidate() -> tuple[C, list[ConsolidatedGroup]]:
        context, groups = await load(*accesses)
        return context, await invalidate_all(groups)

    async with AsyncExitStack() as locks:
        # In the order of paths: two changes that wait for each other's locks would be a deadlock.
        for access in sorted(accesses, key=lambda access: access.path):
            await locks.enter_async_context(access.lock())
        async with tracker.shared(store):
            requests: list[Coroutine[Any, Any, Any]] = [
                load(*accesses),
                resolve_parent(accesses[0], ancestor_keys, is_creation=is_creation),
            ]
            (context, groups), parent = await gather_all(requests)
            if parent is None and not groups:
                with tracker.recording(store):
                    result, _ = await apply(context, *accesses)
                return result
        if parent is None:
            async with tracker.exclusive(store):
                context, groups = await compare_and_swap(
                    load_and_invalidate, max_swaps=MAX_INVALIDATIONS, max_delay=MAX_SWAP_DELAY
                )
                with tracker.recording(store):
                    result, changes = await apply(context, *accesses)
                    await rewrite_all(groups, changes)
                return result
    return await update_nodes(await resolve_outermost(accesses, ancestor_keys), (), load, apply)


async def invalidate(group: ConsolidatedGroup, *, sentinel: bool) -> ConsolidatedGroup:
    """Remove the consolidated metadata of a group, with `sentinel` leaving the sentinel where the format has one.

    Returns: the group with the document that is stored now.

    Raises:
        PreconditionFailedError: another process has changed the group meanwhile.
    """
    rules, key = rules_of(group.metadata.zarr_format), _consolidated_key(group.metadata)
    if rules.consolidated_member is None:
        await _erase_consolidated(group)
        return replace(group, documents={key: None})
    extra = {**group.metadata.extra, **({rules.consolidated_member: None} if sentinel else {})}
    value = await _store_document(group, replace(group.metadata, consolidated=None, extra=extra))
    return replace(group, documents={key: value})


async def write_consolidated(group: ConsolidatedGroup, nodes: Mapping[str, NodeMetadata]) -> GroupMetadata:
    """Store `nodes`, by path relative to the group, as its consolidated metadata, and return the group's metadata.

    Raises:
        PreconditionFailedError: another process has changed the group, or a node below it, meanwhile.
    """
    metadata = replace(group.metadata, consolidated=consolidate(group.metadata.zarr_format, nodes))
    await _store_document(group, metadata)
    return metadata


def apply_changes(path: str, group: GroupMetadata, changes: NodeChanges) -> GroupMetadata | None:
    """Return the consolidated group at `path` after the changes, or None if no consolidated group is left there."""
    consolidated = group.consolidated
    if consolidated is None:
        return None
    nodes = dict(consolidated.nodes)
    for changed_path, metadata in changes:
        if metadata is None and f"{path}/".startswith(f"{changed_path}/"):
            return None
        if changed_path == path:
            if not isinstance(metadata, GroupMetadata):
                return None
            group = replace(group, attributes=metadata.attributes)
            continue
        if path and not changed_path.startswith(f"{path}/"):
            continue
        name = relative_name(changed_path, path)
        if metadata is None:
            nodes = {key: node for key, node in nodes.items() if key != name and not key.startswith(f"{name}/")}
        elif metadata.zarr_format == group.zarr_format:
            nodes |= consolidate(group.zarr_format, {name: metadata}).nodes
    return replace(group, consolidated=replace(consolidated, nodes=nodes))


async def invalidate_all(groups: Sequence[ConsolidatedGroup]) -> list[ConsolidatedGroup]:
    """Invalidate consolidated metadata, and return the groups to rewrite after the change.

    A group of another format than the change is not rewritten: its consolidated metadata describe other documents. A
    sentinel without consolidated metadata was left by a crash, and is removed.
    """
    rewritten = [group.metadata.consolidated is not None and not group.other_format for group in groups]
    invalidated = await gather_all(
        invalidate(group, sentinel=rewrite) for group, rewrite in zip(groups, rewritten, strict=True)
    )
    return [group for group, rewrite in zip(invalidated, rewritten, strict=True) if rewrite]


async def rewrite_all(groups: Sequence[ConsolidatedGroup], changes: NodeChanges) -> None:
    """Store the consolidated metadata of invalidated groups with the changes. Leave none if another writer came."""

    async def rewrite(group: ConsolidatedGroup) -> None:
        metadata = apply_changes(group.access.path, group.metadata, changes)
        if metadata is None:
            return
        try:
            await _store_document(group, metadata)
        except PreconditionFailedError:
            if rules_of(metadata.zarr_format).consolidated_in_own_document:
                await _erase_consolidated(group)

    await gather_all(rewrite(group) for group in groups)


async def _store_document(group: ConsolidatedGroup, metadata: GroupMetadata) -> Value:
    """Store the document with the consolidated metadata, on condition that no other writer has changed it."""
    access, key = group.access, _consolidated_key(metadata)
    data = render_node(metadata)[key]
    is_conditional = await has_conditional_writes(access.store)
    precondition = unchanged_condition(group.documents.get(key)) if is_conditional else None
    version = await access.scheduled.set(access.prefix + key, data, precondition=precondition)
    return Value(data, version, len(data))


async def _erase_consolidated(group: ConsolidatedGroup) -> None:
    await group.access.scheduled.erase(group.access.prefix + _consolidated_key(group.metadata))


def _consolidated_key(metadata: GroupMetadata) -> str:
    key = rules_of(metadata.zarr_format).consolidated_key
    if key is None:
        raise ValueError(f"Zarr format {metadata.zarr_format} has no consolidated metadata")
    return key
