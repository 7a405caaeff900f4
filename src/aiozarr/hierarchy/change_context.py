"""Loads the context of a node that is about to change, in one round trip: its documents, its ancestors, keys below.

A change begins at the outermost group of a hierarchy, which may be above the root of the store. For example,
`memory://q` may have consolidated metadata that contain the array of `open_array("memory://q/g", "a")`. The levels
above the root are therefore read concurrently with the other documents.

Documents are stored together: all of a node's or none, and only over the version that was read.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from aiozarr.common.concurrency import gather_all
from aiozarr.errors import (
    InvalidKeyError,
    LimitError,
    MetadataError,
    NodeTypeError,
    PermissionDeniedError,
    PreconditionFailedError,
    UnauthenticatedError,
)
from aiozarr.hierarchy.node_access import (
    Documents,
    NodeAccess,
    NodeMetadata,
    has_keys_below,
    have_keys_below,
    parse_documents,
    read_each,
    read_explicit,
    read_kind,
    read_now,
)
from aiozarr.metadata.format_rules import ancestors, check_path, join_path, rules_of
from aiozarr.metadata.formats import DOCUMENT_KEYS, node_keys, probe_keys, render_node
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata
from aiozarr.model import IfAbsent, IfMatch, Precondition, Value
from aiozarr.stores import Store

_UNREADABLE = (LimitError, PermissionDeniedError, UnauthenticatedError)
"""Errors of documents that count as missing."""


@dataclass(frozen=True)
class ConsolidatedGroup:
    """A group with consolidated metadata, or with the sentinel of a consolidation that is under way.

    Attributes:
        access: the access to the group.
        metadata: its metadata.
        documents: its documents, with their versions.
        other_format: whether its format differs from that of the nodes that are about to change.
    """

    access: NodeAccess
    metadata: GroupMetadata
    documents: Documents
    other_format: bool = False


@dataclass(frozen=True)
class NodeContext:
    """A node and its surroundings before a change.

    Attributes:
        documents: its own documents in the format of the change; not parsed.
        ancestors: the metadata of the groups above it by path, the root first; None: the group has no documents.
        has_keys_below: whether any key is stored below it.
        consolidated: the consolidated groups above it, in any format.
    """

    documents: Documents
    ancestors: dict[str, NodeMetadata | None]
    has_keys_below: bool
    consolidated: tuple[ConsolidatedGroup, ...]

    @property
    def exists(self) -> bool:
        """Whether the node itself has documents."""
        return any(value is not None for value in self.documents.values())


async def load_contexts(accesses: Sequence[NodeAccess], zarr_format: int) -> list[NodeContext]:
    """Load the contexts of nodes of one store in one round trip.

    Raises:
        MetadataError, LimitError: a document of an ancestor cannot be read.
    """
    rules = rules_of(zarr_format)
    paths = dict.fromkeys(path for access in accesses for path in ancestors(access.path))
    above = [accesses[0].sibling(path) for path in paths]
    # Not parsed: a damaged document occupies the path too.
    own = [(access, rules.keys) for access in accesses]
    requests: list[Coroutine[Any, Any, Any]] = [
        read_each([*own, *((ancestor, rules.ancestor_keys) for ancestor in above if rules.ancestor_keys)]),
        have_keys_below(accesses),
        *(
            load_consolidated_groups(accesses[0], [*paths], number, other_format=True)
            for number in DOCUMENT_KEYS
            if number != zarr_format and rules_of(number).consolidated_keys
        ),
    ]
    documents, have_keys, *other_formats = await gather_all(requests)
    nodes: dict[str, NodeMetadata | None] = {}
    groups: list[ConsolidatedGroup | None] = []
    for ancestor, found in zip(above, documents[len(own) :], strict=False):
        nodes[ancestor.path], consolidated = _parse_ancestor(ancestor, found, zarr_format)
        groups.append(as_consolidated(ancestor, consolidated, found))
    groups += chain(*other_formats)
    return [
        NodeContext(
            stored,
            {path: nodes[path] for path in ancestors(access.path) if path in nodes},
            bool(has_keys),
            tuple([each for each in groups if each is not None and f"{access.path}/".startswith(each.access.prefix)]),
        )
        for access, stored, has_keys in zip(accesses, documents[: len(own)], have_keys, strict=True)
    ]


def _parse_ancestor(access: NodeAccess, documents: Documents, zarr_format: int) -> tuple[NodeMetadata | None, ...]:
    """Return the metadata of a node above a change, and those that may be consolidated."""
    rules = rules_of(zarr_format)
    key = rules.consolidated_key
    if key is None or not rules.consolidated_in_own_document or documents[key] is None:
        metadata = parse_documents(access, documents, zarr_format)
        return metadata, metadata
    # Its attributes are only there, because their own document is not fetched.
    consolidated = parse_documents(access, {key: documents[key]}, zarr_format)
    others = {name: value for name, value in documents.items() if name != key}
    return parse_documents(access, others, zarr_format) or consolidated, consolidated


async def load_consolidated_ancestors(access: NodeAccess, zarr_format: int) -> list[ConsolidatedGroup]:
    """Return the consolidated groups of this format above the node. Unreadable documents count as missing."""
    return await load_consolidated_groups(access, ancestors(access.path), zarr_format)


async def load_consolidated_groups(
    access: NodeAccess, paths: Sequence[str], zarr_format: int, *, other_format: bool = False
) -> list[ConsolidatedGroup]:
    """Return the consolidated groups of this format at `paths`. Unreadable documents count as missing.

    `other_format`: the nodes that are about to change have another format.
    """
    rules = rules_of(zarr_format)
    groups: list[ConsolidatedGroup | None] = []
    above = [access.sibling(path) for path in paths] if rules.consolidated_keys else []
    read = await read_each([(each, rules.consolidated_keys) for each in above], ignored=_UNREADABLE)
    for ancestor, documents in zip(above, read, strict=True):
        if other_format and rules.consolidated_in_own_document:
            # A document of its own holds consolidated metadata whatever its content is.
            if any(value is not None for value in documents.values()):
                groups.append(ConsolidatedGroup(ancestor, GroupMetadata(zarr_format), documents, other_format))
            continue
        with suppress(MetadataError, LimitError):
            group = as_consolidated(ancestor, parse_documents(ancestor, documents, zarr_format), documents)
            groups.append(group and replace(group, other_format=other_format))
    return [group for group in groups if group is not None]


def as_consolidated(
    access: NodeAccess, metadata: NodeMetadata | None, documents: Documents
) -> ConsolidatedGroup | None:
    """Return the node as a consolidated group, or None if it is not one."""
    if not isinstance(metadata, GroupMetadata):
        return None
    if metadata.consolidated is None and not _has_sentinel(metadata, documents):
        return None
    return ConsolidatedGroup(access, metadata, documents)


async def check_ancestor_formats(access: NodeAccess, paths: Iterable[str], zarr_format: int) -> None:
    """Check that new groups at `paths` would not hide nodes of another format.

    Raises:
        NodeTypeError: one would.
    """
    paths = list(paths)
    # The first one contains the others. Nothing is stored below it in a new store.
    if not paths or await has_keys_below(access.sibling(paths[0])) is False:
        return
    own = probe_keys(zarr_format)
    keys = [key for key in node_keys() if key not in own]

    async def check(path: str) -> None:
        try:
            found = await read_kind(access.sibling(path), keys)
        except (PermissionDeniedError, UnauthenticatedError):
            return
        if isinstance(found, ArrayMetadata):
            raise below_array_error(access, path)
        if found is not None:
            raise NodeTypeError(
                f"{access.sibling(path).url} is a group of Zarr format {found.zarr_format}, which cannot hold nodes of "
                f"format {zarr_format}",
                url=access.url,
                path=access.path,
            )

    await gather_all(check(path) for path in paths)


def below_array_error(access: NodeAccess, path: str) -> NodeTypeError:
    """Return the error of a node below the array at `path`."""
    return NodeTypeError(
        f"{access.sibling(path).url} is an array; no node can be below it", url=access.url, path=access.path
    )


def _has_sentinel(metadata: GroupMetadata, documents: Documents) -> bool:
    rules = rules_of(metadata.zarr_format)
    if rules.consolidated_key is None or rules.consolidated_member is None:
        return False
    value = documents.get(rules.consolidated_key)
    return value is not None and f'"{rules.consolidated_member}"'.encode() in bytes(value.data)


def group_keys(formats: Iterable[int] = tuple(DOCUMENT_KEYS)) -> tuple[str, ...]:
    """Return the keys of the documents of groups in these formats."""
    return tuple(key for number in formats if (key := rules_of(number).group_key) is not None)


async def find_outermost(access: NodeAccess, keys: Sequence[str], *, is_creation: bool = False) -> NodeAccess | None:
    """Return the access to the root of the store through the store of the outermost group above it.

    All levels above the root are read concurrently, because a group may be above levels without documents. Documents
    that cannot be read count as missing.

    Args:
        access: the access to a node of the store.
        keys: the keys of the documents that make a group.
        is_creation: refuse nodes below an array, whose documents are among `keys`.

    Returns: the access, or None if no group is above the root, or the store has no parent store.

    Raises:
        NodeTypeError: `is_creation`, and the nearest node above is an array.
    """
    levels = levels_above(access) if access.target_path is None and keys else []
    requests = [(level.sibling(""), keys) for level in levels]
    outermost = None
    read = await read_now(requests, in_one_call=True)
    read = await read_each(requests, ignored=_UNREADABLE) if read is None else read
    for number, ((level, _), documents) in enumerate(zip(requests, read, strict=True)):
        if _is_kind(level, documents, ArrayMetadata):
            if is_creation and outermost is None:
                raise below_array_error(level, "")
            break
        if _is_kind(level, documents, GroupMetadata):
            outermost = number
    if outermost is None:
        return None
    # A parent store that is made after the probe shares its result.
    await has_conditional_writes(access.store)
    return levels_above(access)[outermost]


def levels_above(access: NodeAccess) -> list[NodeAccess]:
    """Return the accesses to the root of the store through the stores above it, the nearest first."""
    levels: list[NodeAccess] = []
    above, path = access.store.parent_store(), ""
    with suppress(InvalidKeyError):
        while above is not None:
            path = f"{check_path(above[1], None)}/{path}" if path else check_path(above[1], None)
            levels.append(access._replace(store=above[0], path=path))
            above = above[0].parent_store()
    return levels


def link_target(access: NodeAccess) -> NodeAccess | None:
    """Return the access to a node of the local disk through its real path, or None if no link is on the way to it."""
    from aiozarr.stores.local.store import LocalStore

    if not isinstance(store := access.store, LocalStore):
        return None
    below = [f"{store.root}/{path}" for path in (*ancestors(access.path), access.path)]
    if store.identity == (LocalStore, os.fsencode(store.root)) and not any(map(os.path.islink, below[1:])):
        return None
    return access._replace(store=LocalStore("/", fsync=store.fsync), path=os.path.realpath(below[-1]).strip("/"))


def accesses_through(root: NodeAccess, accesses: Iterable[NodeAccess]) -> list[NodeAccess]:
    """Return the accesses to nodes of a store through an access to the root of that store."""
    root = root._replace(target_path=root.path)
    return [root.sibling(join_path(root.path, access.path, None)) for access in accesses]


async def resolve_outermost(accesses: Sequence[NodeAccess], keys: Sequence[str]) -> list[NodeAccess]:
    """Return the accesses, all of one store, through the store of the outermost group above the root."""
    root = accesses[0].sibling("")
    return accesses_through(await find_outermost(root, keys) or root, accesses)


async def create_group_document(access: NodeAccess, group: GroupMetadata) -> None:
    """Store the document of an implicit group, unless another writer has created the group meanwhile."""
    *_, (key, data) = render_node(group).items()
    try:
        await access.scheduled.set_if_absent(access.prefix + key, data)
    except PreconditionFailedError:
        if isinstance(await read_explicit(access, group.zarr_format), ArrayMetadata):
            raise below_array_error(access, access.path) from None


def _is_kind(root: NodeAccess, documents: Documents, kind: type[ArrayMetadata | GroupMetadata]) -> bool:
    """Return whether the documents of any format are those of an array, or of a group."""
    if all(value is None for value in documents.values()):
        return False
    for number in DOCUMENT_KEYS:
        with suppress(MetadataError, LimitError):
            if isinstance(parse_documents(root, documents, number), kind):
                return True
    return False


MAX_SWAP_DELAY = 1.0
"""The longest delay, in seconds, between attempts of a compare-and-swap of documents: one may take many requests."""


async def store_documents(access: NodeAccess, documents: Mapping[str, bytes], *, replace: bool) -> None:
    """Store the documents of a new node. The last one, which makes it a node, is stored after the others.

    Raises:
        PreconditionFailedError: a document is stored already, and `replace` is false.
    """
    scheduled = access.scheduled

    async def store(key: str) -> None:
        if replace:
            await scheduled.set(access.prefix + key, documents[key])
        else:
            await scheduled.set_if_absent(access.prefix + key, documents[key])

    async def store_or_keep(key: str) -> None:
        try:
            await store(key)
        except PreconditionFailedError:
            # An interrupted creation of the same node may have stored it.
            stored = await scheduled.fetch(access.prefix + key)
            if stored is None or bytes(stored.data) != documents[key]:
                raise

    *others, last = documents
    await gather_all(store_or_keep(key) for key in others)
    try:
        await store(last)
    except PreconditionFailedError:
        # Another writer has created the node, so these documents do not belong to it.
        await gather_all(scheduled.erase(access.prefix + key) for key in others)
        raise


def lacks_own_document(stored: Documents, documents: Mapping[str, bytes]) -> bool:
    """Return whether `stored` is left by an interrupted creation with `documents`: all but the node's own."""
    return stored.get([*documents][-1]) is None and are_equal(stored, documents)


def are_equal(stored: Documents, documents: Mapping[str, bytes]) -> bool:
    """Return whether no other documents than some of `documents` are stored."""
    return all([value is None or bytes(value.data) == documents.get(key) for key, value in stored.items()])


async def replace_documents(
    access: NodeAccess, stored: Documents, old: Mapping[str, bytes], new: Mapping[str, bytes]
) -> None:
    """Store the documents that differ between `old` and `new`, on condition that the `stored` ones are unchanged.

    `old` is the content of the stored documents as this package renders it, so another spelling is not a difference.
    """
    is_conditional = await has_conditional_writes(access.store)
    for key, data in new.items():
        value = stored.get(key)
        if value is None and data.split() == [b"{}"]:
            # A missing document of attributes means the same as an empty one.
            continue
        if value is None or old.get(key) != data:
            precondition = unchanged_condition(value) if is_conditional else None
            await access.scheduled.set(access.prefix + key, data, precondition=precondition)


async def has_conditional_writes(store: Store) -> bool:
    """Return whether the store checks preconditions of writes. Probes the store if that is unknown."""
    supported = store.supports.conditional_writes
    return await store.probe_conditional_writes() if supported is None else supported


def unchanged_condition(value: Value | None) -> Precondition | None:
    """Return the precondition that `value` is still stored, or None if it has no version that can be sent."""
    if value is None:
        return IfAbsent()
    return None if value.version is None or value.version.weak else IfMatch(value.version)
