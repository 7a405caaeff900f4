"""Keeps consolidated metadata current: they are invalidated before a change of a node below, and rewritten after it.

A crash in between leaves no consolidated metadata, so every reader reads the nodes' own documents. A change that fails
or is cancelled in between leaves none either, but this process remembers it, and its next change restores them. Another
process could not know that the interrupted change has ended.

Tasks of this process take turns. Several processes cannot be combined by a sentinel: while nodes below a group of
format 3 change, the consolidated member of its document is `null`. A process that removes the sentinel keeps the other
one from storing consolidated metadata that lack its change. White space at the end of the document makes each sentinel
unique, because an ETag may be a digest of the content. Format 2 has no place for a sentinel, so two processes should
not change the same consolidated tree at the same time.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from aiozarr.common.concurrency import for_each, gather_all, map_concurrently
from aiozarr.engine.group_commit import compare_and_swap
from aiozarr.errors import (
    LimitError,
    MetadataError,
    NodeTypeError,
    PermissionDeniedError,
    PreconditionFailedError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from aiozarr.hierarchy.change_context import (
    MAX_SWAP_DELAY,
    ConsolidatedGroup,
    accesses_through,
    check_ancestor_formats,
    create_group_document,
    find_outermost,
    has_conditional_writes,
    link_target,
    load_consolidated_groups,
    unchanged_condition,
)
from aiozarr.hierarchy.changes import Removal, changes_of
from aiozarr.hierarchy.members import read_nodes_below
from aiozarr.hierarchy.node_access import (
    NodeAccess,
    NodeMetadata,
    implicit_group,
    parse_documents,
    read_documents,
    read_explicit,
)
from aiozarr.metadata.consolidated import with_groups_between
from aiozarr.metadata.format_rules import ancestors, join_path, relative_name, rules_of
from aiozarr.metadata.formats import DOCUMENT_KEYS, consolidate, probe_keys, render_node
from aiozarr.metadata.records import GroupMetadata, ImplicitNode
from aiozarr.model import Value

C = TypeVar("C")
T = TypeVar("T")
NodeChanges: TypeAlias = Sequence[tuple[str, NodeMetadata | None]]
"""Changed nodes by path in the store, in order. None: the node and everything below it was erased."""

MAX_INVALIDATIONS = 20
"""Attempts to invalidate consolidated metadata against other processes that change the same group."""

SENTINEL_BITS = 64
"""White space that makes a sentinel unique."""
UNREADABLE = (
    LimitError,
    MetadataError,
    NodeTypeError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
"""Errors of nodes that consolidated metadata cannot contain. Their groups are left without consolidated metadata."""


async def update_nodes(
    accesses: Sequence[NodeAccess],
    ancestor_keys: Sequence[str],
    load: Callable[..., Coroutine[Any, Any, tuple[C, Sequence[ConsolidatedGroup]]]],
    apply: Callable[..., Awaitable[tuple[T, NodeChanges]]],
    *,
    is_creation: bool = False,
    apply_at_once: Callable[..., Awaitable[T | None]] | None = None,
) -> T:
    """Change nodes under their locks, and keep consolidated metadata current.

    Args:
        accesses: the accesses to the nodes, all of one store.
        ancestor_keys: the keys of the documents that make a group above the root of the store. If there is one, `load`
            and `apply` get accesses through the store of the outermost group.
        load: `load(*accesses)` reads the context of the change and the consolidated groups that it concerns, and raises
            if the change is not allowed. It may be called again.
        apply: `apply(context, *accesses)` makes the change, and returns its result and the changed nodes.
        is_creation: refuse the change if an array is above the root of the store.
        apply_at_once: `apply_at_once(*accesses)` makes a change that concerns no other node, without a context, and
            returns its result, or None if it has changed nothing.

    Returns: the result of `apply`.
    """
    store, tracker = accesses[0].store, changes_of(accesses[0].engine)

    def remember(document: Hashable, data: bytes | None) -> None:
        tracker.add_removal(document, Removal(data, _identities(accesses)))

    async def load_and_invalidate() -> tuple[C, list[ConsolidatedGroup], list[ConsolidatedGroup]]:
        context, groups = await load(*accesses)
        removed = [*await _load_removed(accesses), *await load_linked(accesses, groups)]
        documents = {document_id(group) for group in removed}
        kept = await invalidate_all([group for group in groups if document_id(group) not in documents], remember)
        return context, kept, await gather_all(invalidate(group, sentinel=True, remember=remember) for group in removed)

    async with AsyncExitStack() as locks:
        # In the order of paths, because two changes that wait for each other's locks would be a deadlock.
        for access in sorted(accesses, key=lambda access: access.path):
            await locks.enter_async_context(access.lock())
        async with tracker.shared(store):
            if apply_at_once is not None and link_target(accesses[0]) is None:
                with tracker.recording(store):
                    if (completed_now := await apply_at_once(*accesses)) is not None:
                        return completed_now
            requests: list[Coroutine[Any, Any, Any]] = [
                load(*accesses),
                find_outermost(accesses[0], ancestor_keys, is_creation=is_creation),
            ]
            (context, groups), outermost = await gather_all(requests)
            linked = await load_linked(accesses, groups)
            if outermost is None and not groups and not linked and not removals_above(accesses):
                with tracker.recording(store):
                    result, _ = await apply(context, *accesses)
                return result
        if outermost is None:
            async with tracker.exclusive(store):
                context, groups, removed = await compare_and_swap(
                    load_and_invalidate, max_swaps=MAX_INVALIDATIONS, max_delay=MAX_SWAP_DELAY
                )
                with tracker.recording(store):
                    result, changes = await apply(context, *accesses)
                    completed = await map_concurrently(complete, removed)
                    await rewrite_all([*groups, *(group for group in completed if group is not None)], changes)
                for group in (*groups, *removed):
                    tracker.removals.pop(document_id(group), None)
                return result
    return await update_nodes(accesses_through(outermost, accesses), (), load, apply, apply_at_once=apply_at_once)


async def load_linked(accesses: Sequence[NodeAccess], groups: Sequence[ConsolidatedGroup]) -> list[ConsolidatedGroup]:
    """Return the consolidated groups that have nodes, which links lead to, by other names than `groups`."""
    names = {(document_id(each), relative_name(node.path, each.access.path)) for each in groups for node in accesses}
    linked: dict[Hashable, ConsolidatedGroup] = {}
    for target in filter(None, map(link_target, accesses)):
        for zarr_format in DOCUMENT_KEYS:
            for group in await load_consolidated_groups(target, ancestors(target.path), zarr_format):
                if (document_id(group), relative_name(target.path, group.access.path)) not in names:
                    linked[document_id(group)] = group
    return list(linked.values())


def was_interrupted(*accesses: NodeAccess) -> bool:
    """Return whether a change of these nodes was interrupted in this process, and left no consolidated metadata.

    The nodes may have been changed completely.
    """
    changed = _identities(accesses)
    return any(removal.changed == changed for removal in changes_of(accesses[0].engine).removals.values())


async def invalidate(
    group: ConsolidatedGroup, *, sentinel: bool, remember: Callable[[Hashable, bytes | None], None] | None = None
) -> ConsolidatedGroup:
    """Remove the consolidated metadata of a group; with `sentinel`, store the sentinel if the format has one.

    Args:
        group: the group.
        sentinel: whether they are to be rewritten.
        remember: called with the identity of the document and its new content before that is stored.

    Returns: the group with the document that is stored now.

    Raises:
        PreconditionFailedError: another process has changed the group meanwhile.
    """
    rules, key = rules_of(group.metadata.zarr_format), _consolidated_key(group.metadata)
    if rules.consolidated_member is None:
        if remember is not None:
            remember(document_id(group), None)
        await _erase_consolidated(group)
        return replace(group, documents={key: None})
    extra = {**group.metadata.extra, **({rules.consolidated_member: None} if sentinel else {})}
    data = render_node(replace(group.metadata, consolidated=None, extra=extra))[key]
    if sentinel:
        data += bytes(random.choices(b" \n", k=SENTINEL_BITS))
    if remember is not None:
        remember(document_id(group), data)
    return replace(group, documents={key: await _store_document(group, data)})


async def write_consolidated(group: ConsolidatedGroup, nodes: Mapping[str, NodeMetadata]) -> GroupMetadata:
    """Store `nodes`, by path relative to the group, as its consolidated metadata, and return the group's metadata.

    Raises:
        PreconditionFailedError: another process has changed the group, or a node below it, meanwhile.
    """
    metadata = replace(group.metadata, consolidated=consolidate(group.metadata.zarr_format, nodes))
    metadata = await _store_groups_between(group.access, metadata)
    await _store_document(group, render_node(metadata)[_consolidated_key(metadata)])
    return metadata


def apply_changes(path: str, group: GroupMetadata, changes: NodeChanges) -> GroupMetadata | None:
    """Return the consolidated group at `path` after the changes, or None if no consolidated group is left there."""
    consolidated = group.consolidated
    if consolidated is None:
        return None
    nodes = {name: node for name, node in consolidated.nodes.items() if not isinstance(node, ImplicitNode)}
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
            nodes[name] = consolidate(group.zarr_format, {name: metadata}).nodes[name]
    return replace(group, consolidated=replace(consolidated, nodes=with_groups_between(group.zarr_format, nodes)))


async def _store_groups_between(access: NodeAccess, metadata: GroupMetadata) -> GroupMetadata:
    """Store the documents of groups without one, and return the metadata of the group with them.

    Readers of consolidated metadata need the groups above each node, and other readers need their documents.

    Raises:
        AiozarrError: one of `UNREADABLE`.
    """
    zarr_format, consolidated = metadata.zarr_format, metadata.consolidated
    assert consolidated is not None
    names = [name for name, node in consolidated.nodes.items() if isinstance(node, ImplicitNode)]
    groups = [access.sibling(join_path(access.path, name, None)) for name in names]
    await for_each(lambda group: check_ancestor_formats(access, [group.path], zarr_format), groups)
    await for_each(lambda group: create_group_document(group, implicit_group(zarr_format)), groups)
    stored = await map_concurrently(lambda group: read_explicit(group, zarr_format), groups)
    found = {name: node for name, node in zip(names, stored, strict=True) if node is not None}
    others = {name: node for name, node in consolidated.nodes.items() if name not in found}
    nodes = {**consolidate(zarr_format, found).nodes, **others}
    return replace(metadata, consolidated=replace(consolidated, nodes=nodes))


async def complete(group: ConsolidatedGroup) -> ConsolidatedGroup | None:
    """Return a group with the consolidated metadata of all nodes below it; None if one cannot be read."""
    zarr_format = group.metadata.zarr_format
    try:
        # Handles of another store may have the group, if a link leads to it.
        with changes_of(group.access.engine).recording(group.access.store):
            nodes = await read_nodes_below(group.access, zarr_format)
        return replace(group, metadata=replace(group.metadata, consolidated=consolidate(zarr_format, nodes)))
    except UNREADABLE:
        return None


async def invalidate_all(
    groups: Sequence[ConsolidatedGroup], remember: Callable[[Hashable, bytes | None], None] | None = None
) -> list[ConsolidatedGroup]:
    """Invalidate consolidated metadata, and return the groups to rewrite after the change.

    A group of another format than the change is not rewritten: its consolidated metadata describe other documents. A
    sentinel without consolidated metadata is removed, because a crash or another process has left it. `remember` is
    called as by `invalidate`, for groups to rewrite.
    """
    rewritten = [group.metadata.consolidated is not None and not group.other_format for group in groups]
    invalidated = await gather_all(
        invalidate(group, sentinel=rewrite, remember=remember if rewrite else None)
        for group, rewrite in zip(groups, rewritten, strict=True)
    )
    return [group for group, rewrite in zip(invalidated, rewritten, strict=True) if rewrite]


async def rewrite_all(groups: Sequence[ConsolidatedGroup], changes: NodeChanges) -> None:
    """Store the consolidated metadata of invalidated groups with the changes, unless another writer has interfered."""

    async def rewrite(group: ConsolidatedGroup) -> None:
        metadata = apply_changes(group.access.path, group.metadata, changes)
        if metadata is None:
            return
        try:
            metadata = await _store_groups_between(group.access, metadata)
        except UNREADABLE:
            return
        try:
            await _store_document(group, render_node(metadata)[_consolidated_key(metadata)])
        except PreconditionFailedError:
            if rules_of(metadata.zarr_format).consolidated_in_own_document:
                await _erase_consolidated(group)

    await gather_all(rewrite(group) for group in groups)


async def _load_removed(accesses: Sequence[NodeAccess]) -> list[ConsolidatedGroup]:
    """Return the groups above, whose consolidated metadata an interrupted change of this process has removed.

    A group that another writer has changed since is left out, because that writer may still be at work.
    """
    removals = changes_of(accesses[0].engine).removals

    async def load(removed: tuple[NodeAccess, int]) -> ConsolidatedGroup | None:
        access, zarr_format = removed
        try:
            documents = await read_documents(access, probe_keys(zarr_format))
            metadata = parse_documents(access, documents, zarr_format)
        except UNREADABLE:
            return None
        if not isinstance(metadata, GroupMetadata):
            return None
        group = ConsolidatedGroup(access, metadata, documents)
        value, removal = documents[_consolidated_key(metadata)], removals.get(document_id(group))
        stored = None if value is None else bytes(value.data)
        return group if removal is not None and stored == removal.document else None

    return [group for group in await map_concurrently(load, removals_above(accesses)) if group is not None]


def removals_above(accesses: Sequence[NodeAccess]) -> list[tuple[NodeAccess, int]]:
    """Return the groups, with their formats, of removals that concern these nodes."""
    removals = changes_of(accesses[0].engine).removals
    if not removals:
        return []
    paths = {path: access for access in accesses for path in (*ancestors(access.path), access.path)}
    own = {access.path for access in accesses}
    return [
        (access.sibling(path), number)
        for path, access in paths.items()
        for number in DOCUMENT_KEYS
        # Consolidated metadata in a node's own document change together with it.
        if (rules := rules_of(number)).consolidated_in_own_document
        or (rules.consolidated_member is not None and path not in own)
        if access.store.object_identity(f"{access.sibling(path).prefix}{rules.consolidated_key}") in removals
    ]


def _identities(accesses: Sequence[NodeAccess]) -> frozenset[Hashable]:
    return frozenset(access.store.object_identity(access.prefix) for access in accesses)


def document_id(group: ConsolidatedGroup) -> Hashable:
    """Return the identity of the document with the consolidated metadata."""
    access = group.access
    return access.store.object_identity(access.prefix + _consolidated_key(group.metadata))


async def _store_document(group: ConsolidatedGroup, data: bytes) -> Value:
    """Store the document with the consolidated metadata, on condition that no other writer has changed it."""
    access, key = group.access, _consolidated_key(group.metadata)
    is_conditional = await has_conditional_writes(access.store)
    precondition = unchanged_condition(group.documents.get(key)) if is_conditional else None
    version = await access.scheduled.set(access.prefix + key, data, precondition=precondition)
    return Value(data, version, len(data))


async def _erase_consolidated(group: ConsolidatedGroup) -> None:
    await group.access.scheduled.erase(group.access.prefix + _consolidated_key(group.metadata))


def _consolidated_key(metadata: GroupMetadata) -> str:
    key = rules_of(metadata.zarr_format).consolidated_key
    if key is None:
        raise ValueError(f"format {metadata.zarr_format} does not support consolidated metadata")
    return key
