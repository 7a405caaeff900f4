"""Moves a node with all below it: its keys are copied, its documents last, and then erased, its documents first."""

from __future__ import annotations

from dataclasses import dataclass

from aiozarr.errors import PreconditionFailedError, UnsupportedOperationError
from aiozarr.hierarchy.changes.above import group_keys
from aiozarr.hierarchy.changes.copies_kept import Edits, change_below
from aiozarr.hierarchy.changes.erasing import erase_node
from aiozarr.hierarchy.changes.nodes import check_place, create_parents, node_exists
from aiozarr.hierarchy.changes.surroundings import Around, Root, all_of, look_around
from aiozarr.hierarchy.changes.writing import set_if_absent
from aiozarr.hierarchy.documents import NodeMetadata, Place, node_not_found, parse_documents
from aiozarr.metadata import document_turn
from aiozarr.model import Value
from aiozarr.stores.tasks import each_bounded

WIDTH = 16
"""Objects that are under way at a time: each is held in memory whole."""


async def move_node(source: Place, destination: Place, zarr_format: int) -> None:
    """Move the node, of this format, at `source` to `destination`, where nothing is.

    Until its own document is there the destination is no node; only then the source is erased. A move that fails or is
    interrupted has moved nothing, or leaves both.

    Raises:
        NodeNotFoundError: there is nothing at `source`.
        NodeExistsError: something is stored at `destination`.
        NodeTypeError: a node above `destination` is an array, or of another format.
        ValueError: the one place lies inside the other.
        UnsupportedOperationError: the store cannot list.
    """
    if not source.store.supports.listable:
        raise UnsupportedOperationError("a store that cannot list cannot move nodes", store=source.store.url)
    if source.prefix.startswith(destination.prefix) or destination.prefix.startswith(source.prefix):
        raise ValueError(f"{source.path!r} cannot be moved to {destination.path!r}: one lies inside the other")

    async def look(source: Place, destination: Place) -> _Both:
        old, new = await all_of(look_around(source, zarr_format), look_around(destination, zarr_format))
        if not old.exists and not old.below:
            raise node_not_found(source)
        await check_place(destination, new, zarr_format, overwrite=False)
        roots = {(root.place.path, root.metadata.zarr_format): root for root in (*old.roots, *new.roots)}
        return _Both(new, tuple(roots.values()))

    async def move(both: _Both, source: Place, destination: Place) -> tuple[None, Edits]:
        parents = await create_parents(destination, both.around, zarr_format)
        moved = await _copy(source, destination, zarr_format)
        await erase_node(source)
        return None, [(source.path, None), *parents, *moved]

    await change_below([source, destination], group_keys(), look, move)


@dataclass(frozen=True)
class _Both:
    """What lies around the destination, and the consolidated groups above either place."""

    around: Around
    roots: tuple[Root, ...]


async def _copy(source: Place, destination: Place, zarr_format: int) -> list[tuple[str, NodeMetadata]]:
    """Copy all keys, documents of the deepest nodes first and the node's own at the very end; return the nodes."""
    keys = [entry.key[len(source.prefix) :] async for entry in source.session.scan(source.prefix)]
    turns = {key: turn for key in keys if (turn := document_turn(key)) is not None}
    found: dict[str, dict[str, Value]] = {}

    async def carry(key: str) -> None:
        value = await source.session.fetch(source.prefix + key)
        if value is None:
            return
        if key in turns:
            path, _, name = key.rpartition("/")
            found.setdefault(path, {})[name] = value
        try:
            await set_if_absent(destination, destination.prefix + key, bytes(value.data))
        except PreconditionFailedError as error:
            raise node_exists(destination, explicit=False) from error

    await each_bounded(carry, [key for key in keys if key not in turns], width=WIDTH)
    levels: dict[tuple[int, int], list[str]] = {}
    for key, turn in turns.items():
        levels.setdefault((-key.count("/"), turn), []).append(key)
    for level in sorted(levels):
        await each_bounded(carry, levels[level], width=WIDTH)
    nodes: list[tuple[str, NodeMetadata]] = []
    for path, values in sorted(found.items()):
        place = destination.at(f"{destination.prefix}{path}" if path else destination.path)
        metadata = parse_documents(place, values, zarr_format)
        if metadata is not None:
            nodes.append((place.path, metadata))
    return nodes
