"""Creates many nodes: level by level, so that each finds its group, and all of a level at once."""

from __future__ import annotations

from collections.abc import Mapping

from aiozarr.hierarchy.changes.above import group_keys, seen_from_above
from aiozarr.hierarchy.changes.nodes import create_node
from aiozarr.hierarchy.documents import NodeMetadata, Place
from aiozarr.hierarchy.location import ancestors
from aiozarr.metadata import ArrayMetadata
from aiozarr.stores.tasks import each_bounded


async def create_nodes(place: Place, nodes: Mapping[str, NodeMetadata], *, overwrite: bool) -> None:
    """Create nodes, which are given by path in the store; groups in between that are not named are made too.

    Raises:
        ValueError: a node lies below an array of the mapping.
        NodeExistsError, NodeTypeError: as `create_node`; the nodes that were stored by then stay.
    """
    for path in nodes:
        for above in ancestors(path):
            if isinstance(nodes.get(above), ArrayMetadata):
                raise ValueError(f"{path!r} lies below {above!r}, which is an array")
    if nodes:
        seen = await seen_from_above([place.at(path) for path in nodes], group_keys())
        nodes = {at.path: metadata for at, metadata in zip(seen, nodes.values(), strict=True)}
        place = seen[0]
    levels: dict[int, list[str]] = {}
    for path in nodes:
        levels.setdefault(path.count("/"), []).append(path)
    for _, paths in sorted(levels.items()):
        await each_bounded(lambda path: create_node(place.at(path), nodes[path], overwrite=overwrite), paths)
