"""The documents of a result: staged before its chunks are written, and stored at the end, the root's last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aiozarr.common.concurrency import for_each
from aiozarr.errors import NodeExistsError
from aiozarr.hierarchy.internal import (
    ConsolidatedGroup,
    NodeAccess,
    NodeChanges,
    NodeContext,
    NodeMetadata,
    check_creatable,
    create_parents,
    group_keys,
    load_context,
    node_exists_error,
    store_documents,
    update_nodes,
)
from aiozarr.metadata.formats import render_node
from aiozarr.metadata.names import join_path


async def check_free(access: NodeAccess, zarr_format: int) -> None:
    """Check that nothing is stored at the destination, and that nodes above it allow nodes of this format.

    Raises:
        NodeExistsError: something is stored there.
        NodeTypeError: a node above is an array, or a group of another format.
    """
    context = await load_context(access, zarr_format)

    async def occupied() -> NodeExistsError | None:
        return await node_exists_error(access) if context.exists or context.has_keys_below else None

    await check_creatable(access, context, zarr_format, occupied)


async def store_tree(access: NodeAccess, nodes: Mapping[str, NodeMetadata]) -> None:
    """Store the documents of a tree at `access`, whose chunks are stored: the deepest first, the root's last.

    Documents of the same keys are replaced. Consolidated metadata of groups above are updated.

    Args:
        access: the access to the root of the tree.
        nodes: the nodes by path relative to it; the root's path is "".
    """
    levels: dict[int, list[str]] = {}
    for path in nodes:
        if path:
            levels.setdefault(path.count("/"), []).append(path)

    async def store(path: str) -> None:
        at = access.sibling(join_path(access.path, path, None))
        await store_documents(at, render_node(nodes[path]), replace=True)

    for _, paths in sorted(levels.items(), reverse=True):
        await for_each(store, paths)
    if "" not in nodes:
        return
    root = nodes[""]

    async def load(access: NodeAccess) -> tuple[NodeContext, Sequence[ConsolidatedGroup]]:
        context = await load_context(access, root.zarr_format)
        return context, context.consolidated

    async def apply(context: NodeContext, access: NodeAccess) -> tuple[None, NodeChanges]:
        parents = await create_parents(access, context, root.zarr_format)
        await store_documents(access, render_node(root), replace=True)
        below = [(join_path(access.path, path, None), each) for path, each in nodes.items()]
        return None, [*parents, *below]

    await update_nodes([access], group_keys(), load, apply)


def paths_above(path: str) -> list[str]:
    """Return the paths of the nodes above `path` in a tree, the root's "" among them."""
    found = []
    while path:
        path = path.rpartition("/")[0]
        found.append(path)
    return found
