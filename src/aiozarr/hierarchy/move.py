"""Moves a node with everything below it: copies all keys, documents last, then erases the source, documents first.

Repeating an interrupted move completes it, because the stored keys show how far it came: while keys are copied, the
destination lacks only the last ones; while the source is erased, it lacks only the first ones. Objects that both have
must be equal; otherwise the destination is another node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aiozarr.common.concurrency import for_each, gather_all, map_concurrently
from aiozarr.engine.copy.copy_route import CopyPolicy
from aiozarr.engine.copy.object_copier import ObjectCopier
from aiozarr.errors import NodeExistsError, PreconditionFailedError, UnsupportedOperationError
from aiozarr.hierarchy.change_context import ConsolidatedGroup, NodeContext, group_keys, load_contexts
from aiozarr.hierarchy.consolidated_update import NodeChanges, update_nodes, was_interrupted
from aiozarr.hierarchy.erase import erase_node, node_exists_error
from aiozarr.hierarchy.node_access import NodeAccess, NodeMetadata, node_not_found_error, parse_documents
from aiozarr.hierarchy.node_changes import check_creatable, create_parents
from aiozarr.metadata.format_rules import check_new_path, document_write_order
from aiozarr.model import MAX_KEY_BYTES, Entry, Value
from aiozarr.stores.contract import byte_view

COPY_CONCURRENCY = 16
"""Objects that are copied, or compared, concurrently."""


@dataclass(frozen=True)
class _Move:
    """A move that may begin, or continue an interrupted one.

    Attributes:
        context: the context of the destination.
        copied: keys that an interrupted move has copied, relative to the node.
        documents: the documents among them.
    """

    context: NodeContext
    copied: frozenset[str] = frozenset()
    documents: Mapping[str, Value] = field(default_factory=dict)


async def move_node(source: NodeAccess, destination: NodeAccess, zarr_format: int) -> None:
    """Move the node of this format at `source` to `destination`.

    The destination has no document of its own until everything below it is stored. Until then an array is no node, and
    a group is one without a document. The source is erased only after that. A move that fails or is interrupted has
    moved nothing, or leaves both; repeating it completes it.

    Raises:
        NodeNotFoundError: nothing is stored at `source`.
        NodeExistsError: something is stored at `destination`, and no interrupted move from `source` has stored it.
        NodeTypeError: a node above `destination` is an array, or of another format.
        ValueError: one path is inside the other.
        UnsupportedOperationError: the store cannot list.
    """
    if not source.store.supports.listable:
        raise UnsupportedOperationError("a store that cannot list cannot move nodes", store=source.store.url)
    if source.prefix.startswith(destination.prefix) or destination.prefix.startswith(source.prefix):
        raise ValueError(f"{source.path!r} cannot be moved to {destination.path!r}: one is inside the other")

    check_new_path(destination.path, zarr_format)

    async def load(source: NodeAccess, destination: NodeAccess) -> tuple[_Move, Sequence[ConsolidatedGroup]]:
        old, new = await load_contexts([source, destination], zarr_format)
        if not old.exists and not old.has_keys_below and not was_interrupted(source, destination):
            raise node_not_found_error(source.store, source.path)
        move = _Move(new)

        async def occupied() -> NodeExistsError | None:
            nonlocal move
            if not new.exists and not new.has_keys_below:
                return None
            interrupted = await _load_interrupted(source, destination, new)
            if interrupted is None:
                return await node_exists_error(destination, may_overwrite=False)
            move = interrupted
            return None

        await check_creatable(destination, new, zarr_format, occupied)
        groups = {
            (group.access.path, group.metadata.zarr_format): group for group in (*old.consolidated, *new.consolidated)
        }
        return move, list(groups.values())

    async def apply(move: _Move, source: NodeAccess, destination: NodeAccess) -> tuple[None, NodeChanges]:
        parents = await create_parents(destination, [move.context], zarr_format)
        moved = await _copy(source, destination, zarr_format, move)
        await erase_node(source)
        return None, [(source.path, None), *parents, *moved]

    await update_nodes([source, destination], group_keys(), load, apply)


async def _load_interrupted(source: NodeAccess, destination: NodeAccess, context: NodeContext) -> _Move | None:
    """Return the move that was interrupted, or None if the objects at the destination are of another origin."""
    old, new = [entries.keys() for entries in await gather_all(_list(access) for access in (source, destination))]
    if old - new:
        is_ours = new < old and max(map(_copy_order, new), default=(-MAX_KEY_BYTES, 0)) <= min(
            map(_copy_order, old - new)
        )
    else:
        first, last = (0, -9), (9, 0)  # below and above every order
        is_ours = max([first, *map(_erase_order, new - old)]) <= min([last, *map(_erase_order, old)])
    if not is_ours:
        return None
    documents: dict[str, Value] = {}

    async def is_equal(key: str) -> bool:
        requests = [destination.scheduled.fetch(destination.prefix + key)]
        requests += [source.scheduled.fetch(source.prefix + key)] if key in old else []
        copied, *originals = await gather_all(requests)
        if copied is not None and document_write_order(key) is not None:
            documents[key] = copied
        return all(
            each is not None and copied is not None and byte_view(each.data) == byte_view(copied.data)
            for each in originals
        )

    # The documents first, because other nodes mostly differ in them.
    for keys in ([key for key in new if _is_document(key)], [key for key in new & old if not _is_document(key)]):
        if not all(await map_concurrently(is_equal, keys, concurrency=COPY_CONCURRENCY)):
            return None
    return _Move(context, frozenset(new), documents)


async def _list(access: NodeAccess) -> dict[str, Entry]:
    """Return the objects of the node by their keys relative to it."""
    return {entry.key[len(access.prefix) :]: entry async for entry in access.scheduled.scan(access.prefix)}


def _is_document(key: str) -> bool:
    return document_write_order(key) is not None


def _copy_order(key: str) -> tuple[int, int]:
    """Return a number that is larger for keys that are copied later."""
    turn = document_write_order(key)
    return (-key.count("/"), turn) if turn is not None else (-MAX_KEY_BYTES, 0)


def _erase_order(key: str) -> tuple[int, int]:
    """Return a number that is larger for keys that are erased later."""
    turn = document_write_order(key)
    return (2, 0) if turn is None else (int("/" in key), -turn)


async def _copy(
    source: NodeAccess, destination: NodeAccess, zarr_format: int, move: _Move
) -> list[tuple[str, NodeMetadata]]:
    """Copy all keys, documents of the deepest nodes first and the node's own last. Return the moved nodes by path."""
    entries = {key: entry for key, entry in (await _list(source)).items() if key not in move.copied}
    policy = CopyPolicy(if_absent=True, may_be_missing=True)
    copier = ObjectCopier(
        source.engine, source.store, destination.store, policy, settings=source.settings, report=source.report
    )
    documents: dict[str, dict[str, Value]] = {}

    def add_document(key: str, value: Value) -> None:
        path, _, name = key.rpartition("/")
        documents.setdefault(path, {})[name] = value

    for key, value in move.documents.items():
        add_document(key, value)

    async def copy_key(key: str) -> None:
        try:
            if not _is_document(key):
                await copier.copy(entries[key], destination.prefix + key)
            elif (value := await source.scheduled.fetch(source.prefix + key)) is not None:
                add_document(key, value)
                await destination.scheduled.set_if_absent(destination.prefix + key, value.data)
        except PreconditionFailedError as error:
            raise await node_exists_error(destination, may_overwrite=False) from error

    levels: dict[tuple[int, int], list[str]] = {}
    for key in sorted(entries):
        levels.setdefault(_copy_order(key), []).append(key)
    for level in sorted(levels):
        await for_each(copy_key, levels[level], concurrency=COPY_CONCURRENCY)
    nodes: list[tuple[str, NodeMetadata]] = []
    for path, values in sorted(documents.items()):
        access = destination.sibling(f"{destination.prefix}{path}" if path else destination.path)
        metadata = parse_documents(access, values, zarr_format)
        if metadata is not None:
            nodes.append((access.path, metadata))
    return nodes
