"""What other packages of aiozarr use of nodes besides their public names. Nothing else of a node is used elsewhere."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from aiozarr.grid.transform import IndexTransform
from aiozarr.hierarchy.array import Array
from aiozarr.hierarchy.group import AnyNode, Group, make_node
from aiozarr.hierarchy.members import ListedNode
from aiozarr.hierarchy.node import HandleOptions
from aiozarr.hierarchy.node_access import NodeAccess, NodeMetadata
from aiozarr.hierarchy.view import AnyArray, View
from aiozarr.metadata.names import join_path
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.settings import Settings

T = TypeVar("T")


async def run_on_io_thread(node: AnyNode, function: Callable[[NodeAccess], Coroutine[Any, Any, T]]) -> T:
    """Await `function` on the I/O thread, with access to the node."""
    return await node._run_on_io_thread(function)


def listed_levels(
    group: Group, max_depth: int | None, *, folders: Sequence[str] | None = None
) -> AsyncGenerator[list[ListedNode], None]:
    """Yield the nodes below a group in batches, level by level; `folders` are those of the group if they are known."""
    return group._levels(max_depth, folders=folders)


def child_of(group: Group, name: str, metadata: NodeMetadata) -> AnyNode:
    """Return the handle of a node below a group, of which `name` is the path relative to it."""
    return group._child(make_node, join_path(group.path, name, None), metadata)


def reopened(group: Group, settings: Settings, *, owns_store: bool = False) -> Group:
    """Return another handle of a group, for reading, with these settings."""
    options = HandleOptions(settings, "r", owns_store, seen_changes=group._seen_changes)
    return Group(group.store, group.path, group.metadata, options)


def with_metadata(array: Array, metadata: ArrayMetadata) -> Array:
    """Return another handle of an array with these metadata."""
    return array._with_metadata(metadata)


def transformed_view(array: Array, transform: IndexTransform) -> View:
    """Return the view of the elements that a transform selects."""
    return View(array, array._layout, transform)


async def converted(view: View, values: ArrayLike) -> AnyArray:
    """Return `values` cast to the type of a view."""
    return await view._converted(values)
