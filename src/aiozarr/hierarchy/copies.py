"""Consolidated metadata answer for the nodes below their group: one by its name, or all, without a request."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from aiozarr.errors import InvalidKeyError, LimitError, MetadataError
from aiozarr.hierarchy.documents import NodeMetadata, Place, implicit_group
from aiozarr.hierarchy.listing import Found
from aiozarr.hierarchy.location import join_path, node_url
from aiozarr.metadata import Consolidated, GroupMetadata, consolidated_node, rules_of
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.stores.transformer import ANY_NAME


def find_copy(place: Place, group: GroupMetadata, name: str) -> NodeMetadata | None:
    """Return the node `name` below `group`, which is consolidated; `place` is the node's. None: there is none.

    A group's copies of what lies below it come along. In format 3, what lies above a node is a group without saying so.
    """
    assert group.consolidated is not None
    found = _parse(group.consolidated, name, place.url, place.settings)
    if found is None and rules_of(group.zarr_format).has_implicit_groups:
        nodes = group.consolidated.nodes
        below = {each[len(name) + 1 :]: nodes[each] for each in nodes if each.startswith(f"{name}/")}
        if below:
            return replace(implicit_group(), consolidated=replace(group.consolidated, nodes=below))
    return found


def copied_nodes(
    store: Store, path: str, group: GroupMetadata, settings: Settings, max_depth: int | None
) -> Iterator[Found]:
    """Yield the nodes that the consolidated group at `path` has copies of, level by level."""
    assert group.consolidated is not None
    copies = group.consolidated
    ordered = sorted(copies.nodes, key=_by_segments)
    keys = [_by_segments(name) for name in ordered]
    for name in sorted(ordered, key=lambda name: (name.count("/"), name)):
        if max_depth is not None and name.count("/") > max_depth:
            break
        # Alone: the copies below a group are cut out of the whole, which is not to be searched for each.
        one = replace(copies, nodes={name: copies.nodes[name]})
        try:
            url = node_url(store, join_path(path, name, group.zarr_format))
            found = _parse(one, name, url, settings)
        except InvalidKeyError:
            continue
        except (MetadataError, LimitError) as error:
            yield Found(name, error)
            continue
        if isinstance(found, GroupMetadata):
            start, stop = bisect_left(keys, (*_by_segments(name), "")), bisect_left(keys, _behind(name))
            below = {each[len(name) + 1 :]: copies.nodes[each] for each in ordered[start:stop]}
            yield Found(name, replace(found, consolidated=replace(copies, nodes=below)))
        elif found is not None:
            yield Found(name, found)


def _parse(copies: Consolidated, name: str, url: str, settings: Settings) -> NodeMetadata | None:
    return consolidated_node(copies, name, node=url, settings=settings, storage_transformers=ANY_NAME)


def _by_segments(name: str) -> tuple[str, ...]:
    return tuple(name.split("/"))


def _behind(name: str) -> tuple[str, ...]:
    """Return what is ordered directly behind all names below `name`."""
    *above, last = name.split("/")
    return (*above, f"{last}\0")
