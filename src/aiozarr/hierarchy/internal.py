"""The internal names of nodes that other packages of aiozarr use. They import them from here and nothing deeper."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from aiozarr.grid.transform import IndexTransform
from aiozarr.hierarchy.array import Array
from aiozarr.hierarchy.attributes import copy_json
from aiozarr.hierarchy.casting import CASTINGS, broadcast_values, convert_values
from aiozarr.hierarchy.change_context import (
    ConsolidatedGroup,
    NodeContext,
    group_keys,
    load_consolidated_ancestors,
    load_contexts,
    store_documents,
)
from aiozarr.hierarchy.changes import erasures
from aiozarr.hierarchy.consolidate import ConsolidatedAncestors
from aiozarr.hierarchy.consolidated_update import NodeChanges, update_nodes
from aiozarr.hierarchy.erase import check_erasable, erase_node, erase_objects, node_exists_error
from aiozarr.hierarchy.group import AnyNode, Group, make_group, make_node
from aiozarr.hierarchy.indexer import Indexer
from aiozarr.hierarchy.members import ListedNode, NodeError, list_folders, list_others
from aiozarr.hierarchy.new_array_layout import ChunksLike, CodecsLike, ShardsLike, as_json, codec_chain, list_codecs
from aiozarr.hierarchy.new_metadata import new_array_metadata, new_group_metadata
from aiozarr.hierarchy.new_metadata_v3 import DataTypeLike, resolve_dtype, storage_order
from aiozarr.hierarchy.node import HandleOptions, Mode, check_store_writable
from aiozarr.hierarchy.node_access import (
    NodeAccess,
    NodeMetadata,
    check_format,
    find_format_below,
    implicit_group,
    node_not_found_error,
    read_documents,
    read_explicit,
    run_at_target,
)
from aiozarr.hierarchy.node_changes import check_creatable, create_parents, delete_node
from aiozarr.hierarchy.number_casts import Casting
from aiozarr.hierarchy.open import open as open_node
from aiozarr.hierarchy.opening import Opening, opens
from aiozarr.hierarchy.validation import SEVERITIES, validate_tree
from aiozarr.hierarchy.verification import Verification
from aiozarr.hierarchy.view import AnyArray, View
from aiozarr.metadata.format_rules import join_path
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


def child_of(group: Group, found: ListedNode) -> AnyNode | NodeError:
    """Return the handle of a node that was listed below a group, or the error that its metadata cannot be read."""
    return group._listed(found)


def current_child(group: Group, name: str) -> AnyNode | None:
    """Return a node below a group from consolidated metadata that are known to be current, else None, in any thread.

    Raises:
        InvalidKeyError: `name` is not a valid name.
        InvalidMetadataError, UnsupportedMetadataError: the node's metadata are invalid.
    """
    path = join_path(group.path, name, group.zarr_format)
    metadata = group._find_consolidated(path)
    return None if metadata is None else group._child(make_node, path, metadata)


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
