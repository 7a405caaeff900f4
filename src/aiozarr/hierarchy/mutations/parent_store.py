"""Finds groups above the root of a store, so that a change runs from the outermost group of its hierarchy.

`open_array("memory://q/g", "a")` opens an array of the store `memory://q/g`. The group `memory://q` may have
consolidated metadata that contain it. A change of the array therefore looks one level above the root, concurrently with
its other reads, and further up only if a group is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from aiozarr.errors import InvalidKeyError, LimitError, MetadataError, PermissionDeniedError, UnauthenticatedError
from aiozarr.hierarchy.location import join_path
from aiozarr.hierarchy.mutations.context import below_array_error
from aiozarr.hierarchy.mutations.store_documents import has_conditional_writes
from aiozarr.hierarchy.node_access import Documents, NodeAccess, parse_documents, read_documents
from aiozarr.metadata import DOCUMENT_KEYS, ArrayMetadata, GroupMetadata, check_path, rules_of
from aiozarr.stores import BlockingStore


def group_keys(formats: Iterable[int] = tuple(DOCUMENT_KEYS)) -> tuple[str, ...]:
    """Return the keys of the documents of groups in these formats."""
    return tuple(key for number in formats if (key := rules_of(number).group_key) is not None)


async def resolve_parent(access: NodeAccess, keys: Sequence[str], *, is_creation: bool = False) -> NodeAccess | None:
    """Return the access to the node through the parent store, if one of `keys` there is the document of a group.

    Returns: the access, or None if there is no parent store, no group, or its documents cannot be read.

    Raises:
        NodeTypeError: `is_creation`, and the parent is an array, or in a store without round trips any node above.
    """
    parent = None if access.target_path is not None or not keys else access.store.parent_store()
    if parent is None:
        return None
    root = replace(access, store=parent[0], path="")
    try:
        path = join_path(check_path(parent[1], None), access.path, None)
        documents = await read_documents(root, keys)
    except (InvalidKeyError, LimitError, PermissionDeniedError, UnauthenticatedError):
        return None
    if is_creation and _is_kind(root, documents, ArrayMetadata):
        raise below_array_error(root, "")
    if not _is_kind(root, documents, GroupMetadata):
        if is_creation and isinstance(parent[0], BlockingStore):
            await resolve_parent(root, keys, is_creation=True)
        return None
    # A parent store that is made after the probe shares its result.
    await has_conditional_writes(access.store)
    parent = access.store.parent_store()
    return None if parent is None else replace(access, store=parent[0], path=path)


async def resolve_outermost(accesses: Sequence[NodeAccess], keys: Sequence[str]) -> list[NodeAccess]:
    """Return the accesses, all of one store, through the store of the outermost group above the root."""
    root = accesses[0].sibling("")
    while (parent := await resolve_parent(root, keys)) is not None:
        root = parent
    root = replace(root, target_path=root.path)
    return [root.sibling(join_path(root.path, access.path, None)) for access in accesses]


def _is_kind(root: NodeAccess, documents: Documents, kind: type[ArrayMetadata | GroupMetadata]) -> bool:
    """Return whether the documents of any format are those of an array, or of a group."""
    for number in DOCUMENT_KEYS:
        with suppress(MetadataError, LimitError):
            if isinstance(parse_documents(root, documents, number), kind):
                return True
    return False
