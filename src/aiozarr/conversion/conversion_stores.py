"""The stores of a conversion, and the nodes of its source."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from aiozarr.engine import Target, close_own_store, opened_store
from aiozarr.hierarchy import Array, Group
from aiozarr.hierarchy.internal import open_node
from aiozarr.settings import Settings
from aiozarr.stores import Store


async def open_stores(
    stack: AsyncExitStack,
    targets: tuple[tuple[Target, Mapping[str, Any] | None], ...],
    settings: Settings,
    *,
    closes: bool,
) -> list[Store]:
    """Return the stores of targets with their options. With `closes`, the stack closes those that were made here.

    Raises:
        TypeError, ValueError, UnknownSchemeError: as `open`.
    """
    stores: list[Store] = []
    for target, options in targets:
        store, is_made_here = await stack.enter_async_context(opened_store(target, options, settings))
        stores.append(store)
        if is_made_here and closes:
            stack.push_async_callback(close_own_store, store)
    return stores


async def source_nodes(store: Store, settings: Settings, zarr_format: int | None = None) -> dict[str, Array | Group]:
    """Return the node at the root of a store, and all nodes below, by path.

    Raises:
        NodeNotFoundError: there is no node.
        UnsupportedOperationError: the store cannot list, and the group is not consolidated.
        MetadataError: a document cannot be read.
    """
    return await nodes_from(await open_node(store, zarr_format=zarr_format, settings=settings))


async def nodes_from(root: Array | Group) -> dict[str, Array | Group]:
    """Return a node, and all nodes below, by path relative to it; errors are those of `source_nodes`."""
    nodes: dict[str, Array | Group] = {"": root}
    if isinstance(root, Group):
        nodes.update([member async for member in root.members(max_depth=None)])
    return nodes


def check_executor(executor: object) -> None:
    """Check that an `executor` argument has the method `submit`.

    Raises:
        TypeError: it has not.
    """
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise TypeError(f"executor is a concurrent.futures.Executor or None, not {type(executor).__name__}")
