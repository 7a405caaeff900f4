"""What lies below a group: names from listings, documents many at a time, and the drawing of a tree."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import index as as_index
from typing import Protocol, TypeVar

from aiozarr.errors import InvalidKeyError, LimitError, MetadataError, UnsupportedOperationError
from aiozarr.hierarchy.documents import (
    NodeMetadata,
    Place,
    implicit_group,
    parse_documents,
    read_documents,
    read_other_format,
)
from aiozarr.hierarchy.location import join_path
from aiozarr.metadata import ArrayMetadata, GroupMetadata, check_node_name, rules_of
from aiozarr.stores import Store
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.tasks import map_bounded

T = TypeVar("T")

BATCH = 512
"""Nodes whose documents are fetched for one step of a listing: many round trips' worth, and little to hold."""


@dataclass(frozen=True)
class Name:
    """Where a node may be: its name relative to the group that is listed, and the format of the group it is in."""

    name: str
    zarr_format: int


@dataclass(frozen=True)
class Found:
    """A node below a group: its name relative to the group, and its metadata or why they could not be read."""

    name: str
    metadata: NodeMetadata | MetadataError | LimitError


def check_listable(store: Store, purpose: str) -> None:
    """Refuse what needs listings, before anything is done.

    Raises:
        UnsupportedOperationError: the store cannot list.
    """
    if not store.supports.listable:
        raise UnsupportedOperationError(
            f"{type(store).__name__} cannot list, and cannot {purpose}; nodes can be opened by their paths, and a "
            "group whose metadata are consolidated, where the store can be listed, shows all its nodes",
            store=store.url,
        )


def check_depth(max_depth: int | None) -> int | None:
    """Return how many levels of groups to go down into; None: all.

    Raises:
        TypeError: it is no integer.
        ValueError: it is negative.
    """
    if max_depth is None:
        return None
    if isinstance(max_depth, bool):
        raise TypeError("max_depth is an integer or None, not a bool")
    depth = as_index(max_depth)
    if depth < 0:
        raise ValueError(f"max_depth is at least 0, or None for everything, not {depth}")
    return depth


async def list_names(place: Place, group: Name) -> list[Name]:
    """Return the possible nodes directly below `group`; names are relative to the group at `place`."""
    parent = place.at(join_path(place.path, group.name, group.zarr_format))
    _, prefixes = await parent.session.list_dir(parent.prefix)
    names = sorted([prefix[len(parent.prefix) :].removesuffix("/") for prefix in prefixes])
    return [
        Name(f"{group.name}/{name}" if group.name else name, group.zarr_format)
        for name in names
        if _may_be_node(name, group.zarr_format)
    ]


async def load_nodes(place: Place, names: Sequence[Name], *, deeper: bool) -> tuple[list[Found], list[Name]]:
    """Return the nodes of these names and, with `deeper`, the names below the groups among them.

    Where each request is a round trip, the listing of a node does not wait for its documents, which tell whether it is
    needed: a level costs one round trip and not two. The listing of what turns out to be an array is given up.
    """
    at_once = deeper and not isinstance(place.store, BlockingStore)

    async def load(name: Name) -> tuple[Found | None, list[Name]]:
        listing = asyncio.ensure_future(list_names(place, name)) if at_once else None
        try:
            found = await _load(place, name)
            if found is None or not deeper or not isinstance(found.metadata, GroupMetadata):
                return found, []
            group = Name(name.name, found.metadata.zarr_format)
            if listing is None or group != name:
                return found, await list_names(place, group)
            return found, await listing
        finally:
            await _give_up(listing)

    results = await map_bounded(load, names, width=BATCH)
    return [found for found, _ in results if found is not None], [each for _, below in results for each in below]


class AtPlace(Protocol):
    """Runs work at the place of a group, wherever that is to be done."""

    def __call__(self, work: Callable[[Place], Awaitable[T]], /) -> Awaitable[T]: ...


async def walk_levels(
    at_place: AtPlace, zarr_format: int, max_depth: int | None = None
) -> AsyncGenerator[list[Found], None]:
    """Yield what lies below the group, which is of this format, in batches, level by level."""
    level = await at_place(partial(list_names, group=Name("", zarr_format)))
    depth = 0
    while level:
        deeper = max_depth is None or depth < max_depth
        below: list[Name] = []
        for start in range(0, len(level), BATCH):
            found, more = await at_place(partial(load_nodes, names=level[start : start + BATCH], deeper=deeper))
            below += more
            yield found
        level = below
        depth += 1


def render_tree(root: str, found: Iterable[Found]) -> str:
    """Draw nodes as a tree below `root`, siblings in the order of their names."""
    children: dict[str, list[Found]] = {}
    for each in sorted(found, key=lambda each: each.name.split("/")):
        children.setdefault(each.name.rpartition("/")[0], []).append(each)
    lines = [_printable(root)]
    # Drawn from a stack: how deep a hierarchy is must not depend on how deep Python may recurse.
    open_nodes = [(each, "", not i) for i, each in enumerate(reversed(children.get("", [])))]
    while open_nodes:
        each, indent, last = open_nodes.pop()
        lines.append(f"{indent}{'└── ' if last else '├── '}{_printable(_label(each))}")
        inner = indent + ("    " if last else "│   ")
        open_nodes += [(child, inner, not i) for i, child in enumerate(reversed(children.get(each.name, [])))]
    return "\n".join(lines)


# --- helpers -----------------------------------------------------------------------------------------------------


async def _load(place: Place, name: Name) -> Found | None:
    """Return the node of this name. A directory without documents is an implicit group where the format has them."""
    at = place.at(join_path(place.path, name.name, name.zarr_format))
    rules = rules_of(name.zarr_format)
    try:
        # What a subgroup has copies of is of no use here.
        metadata = parse_documents(at, await read_documents(at, rules.own_keys), name.zarr_format)
        if metadata is None:
            metadata = await read_other_format(at, name.zarr_format)
    except (MetadataError, LimitError) as error:
        return Found(name.name, error)
    if metadata is None and not rules.has_implicit_groups:
        return None
    return Found(name.name, implicit_group() if metadata is None else metadata)


async def _give_up(listing: asyncio.Future[list[Name]] | None) -> None:
    """End a listing that nobody waits for, and wait until it has let go of its request."""
    if listing is None:
        return
    listing.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await listing


def _label(found: Found) -> str:
    name = found.name.rpartition("/")[2]
    if isinstance(found.metadata, Exception):
        return f"{name} (cannot be read: {found.metadata.message})"
    if isinstance(found.metadata, ArrayMetadata):
        return f"{name} {found.metadata.shape} {found.metadata.data_type.name}"
    return name


def _printable(text: str) -> str:
    """Return `text` on one line: what a terminal would obey, and not show, is escaped."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode() for c in text])


def _may_be_node(name: str, zarr_format: int) -> bool:
    try:
        check_node_name(name, zarr_format)
    except InvalidKeyError:
        return False
    return True
