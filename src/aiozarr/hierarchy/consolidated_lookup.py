"""Finds nodes in the consolidated metadata of a group, without a request: one by its name, or all of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from aiozarr.errors import InvalidKeyError, LimitError, MetadataError
from aiozarr.hierarchy.location import join_path
from aiozarr.hierarchy.members import ListedNode
from aiozarr.hierarchy.node_access import NodeAccess, NodeMetadata, implicit_group
from aiozarr.metadata import Consolidated, GroupMetadata, consolidated_node, rules_of
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.stores.transformer import ALL_TRANSFORMER_NAMES


def find_node(access: NodeAccess, consolidated: Consolidated, name: str, zarr_format: int) -> NodeMetadata | None:
    """Find the node `name` in the consolidated metadata of a group of this format.

    A group is returned with the consolidated metadata of the nodes below it. In format 3, a path above a node is an
    implicit group.

    Args:
        access: the access to the node itself.
        consolidated: the consolidated metadata of the group.
        name: the node's name relative to the group.
        zarr_format: the format of the group.

    Returns: the metadata, or None if there is no such node.
    """
    found = _parse(consolidated, name, access.url, access.settings)
    if found is None and rules_of(zarr_format).has_implicit_groups:
        nodes = consolidated.nodes
        below = {each[len(name) + 1 :]: nodes[each] for each in nodes if each.startswith(f"{name}/")}
        if below:
            return replace(implicit_group(), consolidated=replace(consolidated, nodes=below))
    return found


def iter_nodes(
    consolidated: Consolidated,
    store: Store,
    path: str,
    settings: Settings,
    zarr_format: int,
    *,
    max_depth: int | None,
) -> Iterator[ListedNode]:
    """Yield the nodes in the consolidated metadata of the group at `path`, level by level."""
    ordered = sorted(consolidated.nodes, key=_segments)
    keys = [_segments(name) for name in ordered]
    for name in sorted(ordered, key=lambda name: (name.count("/"), name)):
        if max_depth is not None and name.count("/") > max_depth:
            break
        # One node at a time: parsing a group in the whole would search all nodes for those below it.
        single = replace(consolidated, nodes={name: consolidated.nodes[name]})
        try:
            found = _parse(single, name, store.url_of(join_path(path, name, zarr_format)), settings)
        except InvalidKeyError:
            continue
        except (MetadataError, LimitError) as error:
            yield ListedNode(name, error)
            continue
        if isinstance(found, GroupMetadata):
            start, stop = bisect_left(keys, (*_segments(name), "")), bisect_left(keys, _after_descendants(name))
            below = {each[len(name) + 1 :]: consolidated.nodes[each] for each in ordered[start:stop]}
            yield ListedNode(name, replace(found, consolidated=replace(consolidated, nodes=below)))
        elif found is not None:
            yield ListedNode(name, found)


def _parse(consolidated: Consolidated, name: str, url: str, settings: Settings) -> NodeMetadata | None:
    return consolidated_node(
        consolidated, name, node=url, settings=settings, storage_transformers=ALL_TRANSFORMER_NAMES
    )


def _segments(name: str) -> tuple[str, ...]:
    return tuple(name.split("/"))


def _after_descendants(name: str) -> tuple[str, ...]:
    """Return a sort key directly after those of all names below `name`."""
    *parents, last = name.split("/")
    return (*parents, f"{last}\0")
