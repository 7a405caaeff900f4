"""Creates many nodes: level by level, so that each finds its parent group, and each level concurrently."""

from __future__ import annotations

from collections.abc import Mapping

from aiozarr.concurrency import for_each
from aiozarr.hierarchy.location import ancestors
from aiozarr.hierarchy.mutations.nodes import create_node
from aiozarr.hierarchy.mutations.parent_store import group_keys, resolve_outermost
from aiozarr.hierarchy.node_access import NodeAccess, NodeMetadata
from aiozarr.metadata import ArrayMetadata


async def create_nodes(access: NodeAccess, nodes: Mapping[str, NodeMetadata], *, overwrite: bool) -> None:
    """Create nodes, given by path in the store, and the missing groups between them.

    Raises:
        ValueError: a node is below an array of the mapping.
        NodeExistsError, NodeTypeError: as `create_node`. Nodes that were stored before remain.
    """
    for path in nodes:
        for ancestor in ancestors(path):
            if isinstance(nodes.get(ancestor), ArrayMetadata):
                raise ValueError(f"{path!r} lies below {ancestor!r}, which is an array")
    if nodes:
        accesses = await resolve_outermost([access.sibling(path) for path in nodes], group_keys())
        nodes = {each.path: metadata for each, metadata in zip(accesses, nodes.values(), strict=True)}
        access = accesses[0]
    levels: dict[int, list[str]] = {}
    for path in nodes:
        levels.setdefault(path.count("/"), []).append(path)
    for _, paths in sorted(levels.items()):
        await for_each(lambda path: create_node(access.sibling(path), nodes[path], overwrite=overwrite), paths)
