"""What lies below a group: names from listings, documents many at a time, and the drawing of a tree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aiozarr.errors import InvalidKeyError, LimitError, MetadataError
from aiozarr.hierarchy.documents import NodeMetadata, Place, implicit_group, read_explicit, refuse_other_formats
from aiozarr.hierarchy.location import join_path
from aiozarr.metadata import ArrayMetadata, check_node_name
from aiozarr.stores.tasks import map_bounded

BATCH = 512
"""Nodes whose documents are fetched for one step of a listing: many round trips' worth, and little to hold."""


@dataclass(frozen=True)
class Found:
    """A node below a group: its name relative to the group, and its metadata or why they could not be read."""

    name: str
    metadata: NodeMetadata | MetadataError | LimitError


async def find_names(place: Place, groups: Sequence[str]) -> list[str]:
    """Return the names of all possible nodes directly below `groups`; names are relative to the group at `place`."""

    async def below(group: str) -> list[str]:
        parent = place.at(join_path(place.path, group))
        _, prefixes = await parent.session.list_dir(parent.prefix)
        names = [prefix[len(parent.prefix) :].removesuffix("/") for prefix in prefixes]
        return [f"{group}/{name}" if group else name for name in sorted(names) if _may_be_node(name)]

    return [name for names in await map_bounded(below, groups) for name in names]


async def load_nodes(place: Place, names: Sequence[str]) -> list[Found]:
    """Return the nodes of these names; a directory without documents is an implicit group."""

    async def load(name: str) -> Found:
        try:
            at = place.at(join_path(place.path, name))
            metadata = await read_explicit(at)
            if metadata is None:
                await refuse_other_formats(at)
        except (MetadataError, LimitError) as error:
            return Found(name, error)
        return Found(name, implicit_group() if metadata is None else metadata)

    return await map_bounded(load, names)


def render_tree(root: str, found: Iterable[Found]) -> str:
    """Draw nodes as a tree below `root`, siblings in the order of their names."""
    children: dict[str, list[Found]] = {}
    for each in sorted(found, key=lambda each: each.name.split("/")):
        children.setdefault(each.name.rpartition("/")[0], []).append(each)
    lines = [root]
    # Drawn from a stack: how deep a hierarchy is must not depend on how deep Python may recurse.
    open_nodes = [(each, "", not i) for i, each in enumerate(reversed(children.get("", [])))]
    while open_nodes:
        each, indent, last = open_nodes.pop()
        lines.append(f"{indent}{'└── ' if last else '├── '}{_label(each)}")
        inner = indent + ("    " if last else "│   ")
        open_nodes += [(child, inner, not i) for i, child in enumerate(reversed(children.get(each.name, [])))]
    return "\n".join(lines)


def _label(found: Found) -> str:
    name = found.name.rpartition("/")[2]
    if isinstance(found.metadata, Exception):
        return f"{name} (cannot be read: {found.metadata.message})"
    if isinstance(found.metadata, ArrayMetadata):
        return f"{name} {found.metadata.shape} {found.metadata.data_type.name}"
    return name


def _may_be_node(name: str) -> bool:
    try:
        check_node_name(name)
    except InvalidKeyError:
        return False
    return True
