"""Erases chosen objects below a node: documents first, and consolidated metadata follow if these make nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from aiozarr.common.concurrency import for_each
from aiozarr.hierarchy.mutations.change_log import erasures
from aiozarr.hierarchy.mutations.consolidated_update import NodeChanges, update_nodes
from aiozarr.hierarchy.mutations.context import ConsolidatedGroup, group_keys, load_consolidated_groups
from aiozarr.hierarchy.node_access import NodeAccess, NodeMetadata, implicit_group
from aiozarr.metadata.format_rules import FORMATS, document_write_order, rules_of
from aiozarr.metadata.names import ancestors, join_path

MAX_ERASED_KEYS = 1000
"""Keys that are erased together: a bulk delete of S3."""


async def erase_objects(access: NodeAccess, keys: Collection[str], kept: Iterable[str]) -> None:
    """Erase objects below a node. Consolidated metadata above lose the nodes that lose their documents.

    Args:
        access: the access to the node, or to a prefix without one.
        keys: the keys that are erased, relative to the node.
        kept: the keys of the documents below the node that stay.

    Raises:
        StoreError: an object could not be erased.
    """
    documents = {key for key in keys if document_write_order(key) is not None}
    kept = [key for key in kept if document_write_order(key) == 1]
    for zarr_format, rules in FORMATS.items():
        chosen = {key for key in documents if _name(key) in rules.keys}
        changes = erased_nodes(zarr_format, chosen, [key for key in kept if _name(key) in rules.keys])
        if changes:
            await _erase_nodes(access, zarr_format, chosen, changes)
        else:
            await _erase(access, chosen)
    await _erase(access, [key for key in keys if key not in documents])


def erased_nodes(zarr_format: int, erased: Iterable[str], kept: Iterable[str]) -> NodeChanges:
    """Return how nodes change when documents are erased. A group is implicit from then on if a node below it stays.

    Args:
        zarr_format: the format of the documents.
        erased: the keys of erased documents.
        kept: the keys of the documents of nodes that stay.
    """
    above = {path for key in kept for path in ancestors(_path(key))}
    changes: list[tuple[str, NodeMetadata | None]] = []
    gone: set[str] = set()
    for path in sorted({_path(key) for key in erased if document_write_order(key) == 1}):
        if path in above:
            changes.append((path, implicit_group(zarr_format)))
        elif gone.isdisjoint(ancestors(path)):
            gone.add(path)
            changes.append((path, None))
    return changes


async def _erase_nodes(access: NodeAccess, zarr_format: int, documents: Collection[str], changes: NodeChanges) -> None:
    """Erase documents of one format, and keep the consolidated metadata above their nodes current."""
    consolidated_key = rules_of(zarr_format).consolidated_key

    async def load(access: NodeAccess) -> tuple[None, Sequence[ConsolidatedGroup]]:
        paths = {path for changed, _ in changes for path in ancestors(join_path(access.path, changed, None))}
        groups = await load_consolidated_groups(access, sorted(paths), zarr_format)
        erased = {access.prefix + key for key in documents}
        return None, [group for group in groups if f"{group.access.prefix}{consolidated_key}" not in erased]

    async def apply(_: None, access: NodeAccess) -> tuple[None, NodeChanges]:
        await _erase(access, documents)
        for path, _metadata in changes:
            erasures.record(access.store, join_path(access.path, path, None))
        return None, [(join_path(access.path, path, None), metadata) for path, metadata in changes]

    await update_nodes([access], group_keys(), load, apply)


async def _erase(access: NodeAccess, keys: Iterable[str]) -> None:
    """Erase objects, documents in the reverse order of storing."""
    turns: dict[int | None, list[str]] = {}
    for key in keys:
        turns.setdefault(document_write_order(key), []).append(access.prefix + key)
    for turn in (2, 1, 0, None):
        chosen = turns.get(turn, [])
        parts = [chosen[at : at + MAX_ERASED_KEYS] for at in range(0, len(chosen), MAX_ERASED_KEYS)]
        await for_each(access.scheduled.erase_values, parts)


def _path(key: str) -> str:
    return key.rpartition("/")[0]


def _name(key: str) -> str:
    return key.rpartition("/")[2]
