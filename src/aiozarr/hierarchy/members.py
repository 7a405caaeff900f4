"""Walks the nodes below a group: names from listings, documents in batches, and the text of a tree.

Consolidated metadata give one node by its name, or all of them, without a request.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import index as as_index
from typing import Any, Protocol, TypeAlias, TypeVar

from aiozarr.common.concurrency import cancel_and_wait, map_concurrently
from aiozarr.common.formatting import preformatted, printable
from aiozarr.engine.layout import respelled_metadata
from aiozarr.errors import (
    InvalidKeyError,
    LimitError,
    MetadataError,
    NodeTypeError,
    PermissionDeniedError,
    StoreError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from aiozarr.hierarchy.node_access import (
    NodeAccess,
    NodeMetadata,
    find_format_below,
    parse_documents,
    read_as_group,
    read_documents,
    read_rest,
    unfinished_work,
)
from aiozarr.metadata.format_rules import check_node_name, document_write_order, join_path, rules_of
from aiozarr.metadata.formats import consolidated_node
from aiozarr.metadata.records import ArrayMetadata, Consolidated, GroupMetadata
from aiozarr.model import JOURNAL_PREFIX
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.stores.blocking import BlockingStore

T = TypeVar("T")

NodeError: TypeAlias = MetadataError | LimitError | StoreError
"""Why one node cannot be read, while others can."""

BATCH_NODES = 512
"""Nodes per batch of a listing: enough to amortise round trips, and few enough to need little memory."""


@dataclass(frozen=True)
class NodeName:
    """A possible node: its name relative to the listed group, and the format of its parent group."""

    name: str
    zarr_format: int


@dataclass(frozen=True)
class ListedNode:
    """A node below a group: its name relative to the group, and its metadata or the error of reading them.

    `is_implicit`: it is a group without a document.
    """

    name: str
    metadata: NodeMetadata | NodeError
    is_implicit: bool = False


def check_listable(store: Store, purpose: str) -> None:
    """Check that the store can list, before anything is done.

    Raises:
        UnsupportedOperationError: it cannot.
    """
    if not store.supports.listable:
        raise UnsupportedOperationError(
            f"{type(store).__name__} cannot list keys and therefore cannot {purpose}; open nodes by their paths, "
            "or consolidate the metadata of the group where the store can be listed",
            store=store.url,
        )


def check_depth(max_depth: int | None) -> int | None:
    """Check a `max_depth` argument.

    Returns: the levels of groups to descend into, or None for all of them.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is negative.
    """
    if max_depth is None:
        return None
    if isinstance(max_depth, bool):
        raise TypeError("max_depth must be an integer or None, not a bool")
    depth = as_index(max_depth)
    if depth < 0:
        raise ValueError(f"max_depth must be at least 0, or None for everything, not {depth}")
    return depth


async def list_names(access: NodeAccess, group: NodeName) -> list[NodeName]:
    """Return the possible nodes directly below `group`. Names are relative to the node of `access`."""
    return node_names(group, await list_folders(access.sibling(join_path(access.path, group.name, group.zarr_format))))


async def list_folders(parent: NodeAccess) -> list[str]:
    """Return the names of the folders directly below a node, whatever its format."""
    _, prefixes = await parent.scheduled.list_dir(parent.prefix)
    return sorted([prefix[len(parent.prefix) :].removesuffix("/") for prefix in prefixes])


async def list_others(parent: NodeAccess, paths: Container[str]) -> list[str]:
    """Return the names directly below a group of what is neither its document nor a node; folders end with `/`.

    `paths` has those of all nodes.

    The list is empty if the store cannot list, or refuses to.
    """
    with suppress(PermissionDeniedError, UnauthenticatedError, UnsupportedOperationError):
        keys, folders = await parent.scheduled.list_dir(parent.prefix)
        found = [key for key in (*keys, *folders) if key.removesuffix("/") not in paths]
        names = [key[len(parent.prefix) :] for key in found if document_write_order(key) is None]
        return sorted([name for name in names if name != JOURNAL_PREFIX])
    return []


def node_names(group: NodeName, folders: Sequence[str]) -> list[NodeName]:
    """Return the possible nodes of these folders directly below `group`."""
    return [
        NodeName(f"{group.name}/{name}" if group.name else name, group.zarr_format)
        for name in folders
        if _is_node_name(name, group.zarr_format)
    ]


async def load_nodes(
    access: NodeAccess, names: Sequence[NodeName], *, deeper: bool
) -> tuple[list[ListedNode], list[NodeName]]:
    """Return the nodes of these names and, if `deeper` is true, the names below the groups among them.

    If requests cost a round trip, a node is listed while its documents are read, so a level costs one round trip and
    not two. If the documents turn out to be those of an array, the listing is cancelled.
    """
    lists_early = deeper and not isinstance(access.store, BlockingStore)

    async def load(name: NodeName) -> tuple[ListedNode | None, list[NodeName]]:
        listing = asyncio.ensure_future(list_names(access, name)) if lists_early else None
        try:
            found = await _load(access, name)
            if found is None or not deeper or not isinstance(found.metadata, GroupMetadata):
                return found, []
            group = NodeName(name.name, found.metadata.zarr_format)
            if listing is None or group != name:
                return found, await list_names(access, group)
            return found, await listing
        finally:
            if listing is not None:
                await cancel_and_wait(listing)

    results = await map_concurrently(load, names, concurrency=BATCH_NODES)
    return [found for found, _ in results if found is not None], [each for _, below in results for each in below]


class RunAtNode(Protocol):
    """Awaits a function with the access to a group, on the I/O thread."""

    def __call__(self, function: Callable[[NodeAccess], Coroutine[Any, Any, T]], /) -> Awaitable[T]: ...


async def walk_levels(
    run_at_node: RunAtNode, zarr_format: int, max_depth: int | None = None, *, folders: Sequence[str] | None = None
) -> AsyncGenerator[list[ListedNode], None]:
    """Yield the nodes below a group of this format in batches, level by level.

    Args:
        run_at_node: awaits a function with the access to the group.
        zarr_format: the format of the group.
        max_depth: the levels of groups to descend into, or None for all of them.
        folders: the folders of the group, if it was listed while its document was read.
    """
    root = NodeName("", zarr_format)
    level = await run_at_node(partial(list_names, group=root)) if folders is None else node_names(root, folders)
    depth = 0
    while level:
        deeper = max_depth is None or depth < max_depth
        below: list[NodeName] = []
        for start in range(0, len(level), BATCH_NODES):
            batch = level[start : start + BATCH_NODES]
            found, more = await run_at_node(partial(load_nodes, names=batch, deeper=deeper))
            below += more
            yield found
        level = below
        depth += 1


class Tree(str):
    """The text of a tree of nodes. Prompts and notebooks show its lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": preformatted(self)}


def render_tree(root: str, nodes: Iterable[ListedNode]) -> Tree:
    """Return the text of a tree of nodes below `root`, siblings in the order of their names."""
    children: dict[str, list[ListedNode]] = {}
    for each in sorted(nodes, key=lambda each: each.name.split("/")):
        children.setdefault(each.name.rpartition("/")[0], []).append(each)
    lines = [printable(root)]
    # An explicit stack, because Python's recursion limit must not limit the depth of a hierarchy.
    stack = [(each, "", not i) for i, each in enumerate(reversed(children.get("", [])))]
    while stack:
        each, indent, is_last = stack.pop()
        lines.append(f"{indent}{'└── ' if is_last else '├── '}{printable(_label(each))}")
        inner = indent + ("    " if is_last else "│   ")
        stack += [(child, inner, not i) for i, child in enumerate(reversed(children.get(each.name, [])))]
    return Tree("\n".join(lines))


async def _load(access: NodeAccess, name: NodeName) -> ListedNode | None:
    """Read the node of this name.

    A directory without documents is an implicit group if a node is below it. Other readers open only that node.
    """
    at_name = access.sibling(join_path(access.path, name.name, name.zarr_format))
    rules, is_implicit = rules_of(name.zarr_format), False
    try:
        # Only its own documents, because the consolidated metadata of a subgroup are not used here.
        documents = await read_documents(at_name, rules.own_keys)
        metadata = parse_documents(at_name, documents, name.zarr_format)
        if metadata is None:
            metadata = await read_rest(at_name, rules.keys)
        # A directory of a reserved name without documents belongs to another program.
        is_reserved = name.name.rpartition("/")[2].startswith("__")
        if metadata is None and isinstance(at_name.store, BlockingStore):
            # A link that cannot be followed is listed as a folder.
            folders = set(await list_folders(at_name)).intersection(rules.own_keys)
            if folders:
                raise StoreError("the document is a folder, or a link that cannot be followed", key=min(folders))
        if metadata is None and not is_reserved:
            zarr_format = await find_format_below(at_name)
            if zarr_format is not None and not await unfinished_work(at_name):
                metadata, is_implicit = await read_as_group(at_name, zarr_format)
    except (MetadataError, LimitError, StoreError) as error:
        # A disk that cannot read one node, as behind a dangling link, can read others. A server that fails cannot.
        is_local = isinstance(at_name.store, BlockingStore)
        if isinstance(error, StoreError) and not (is_local or isinstance(error, PermissionDeniedError)):
            raise
        return ListedNode(name.name, error)
    return None if metadata is None else ListedNode(name.name, metadata, is_implicit)


def _label(node: ListedNode) -> str:
    name = node.name.rpartition("/")[2]
    if isinstance(node.metadata, Exception):
        return f"{name} (cannot be read: {node.metadata.message})"
    if isinstance(node.metadata, ArrayMetadata):
        return f"{name} {node.metadata.shape} {node.metadata.data_type.name}"
    return name


def _is_node_name(name: str, zarr_format: int) -> bool:
    try:
        check_node_name(name, zarr_format)
    except InvalidKeyError:
        return False
    return f"{name}/" != JOURNAL_PREFIX


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
        # One node at a time, because parsing a whole group would search all nodes for those below it.
        single = Consolidated(consolidated.zarr_format, {name: consolidated.nodes[name]}, consolidated.source)
        try:
            url = store.url_of(join_path(path, name, zarr_format))
            found = find_node(single, name, url, settings)
        except (MetadataError, LimitError) as error:
            yield ListedNode(name, error)
            continue
        if isinstance(found, GroupMetadata):
            start, stop = bisect_left(keys, (*_segments(name), "")), bisect_left(keys, _after_descendants(name))
            below = {each[len(name) + 1 :]: consolidated.nodes[each] for each in ordered[start:stop]}
            yield ListedNode(name, replace(found, consolidated=replace(consolidated, nodes=below)))
        elif found is not None:
            yield ListedNode(name, found)


def find_node(consolidated: Consolidated, name: str, url: str, settings: Settings) -> NodeMetadata | None:
    """Return the node `name`, at `url`, from the consolidated metadata of a group; None: there is no such node.

    A group is returned with the consolidated metadata of the nodes below it.
    """
    return consolidated_node(consolidated, name, node=url, settings=settings, storage_transformers=None)


def _segments(name: str) -> tuple[str, ...]:
    return tuple(name.split("/"))


def _after_descendants(name: str) -> tuple[str, ...]:
    """Return a sort key directly after those of all names below `name`."""
    *parents, last = name.split("/")
    return (*parents, f"{last}\0")


async def read_nodes_below(access: NodeAccess, zarr_format: int) -> dict[str, NodeMetadata]:
    """Return all nodes below the group that have documents, by name relative to it.

    Raises:
        MetadataError, LimitError: a document cannot be read.
        NodeTypeError: a node is of another format.
    """
    nodes: dict[str, NodeMetadata] = {}
    levels = walk_levels(lambda function: function(access), zarr_format)
    async with aclosing(levels):
        async for batch in levels:
            for node in batch:
                if isinstance(node.metadata, Exception):
                    raise node.metadata
                if node.metadata.zarr_format != zarr_format:
                    raise NodeTypeError(
                        f"{node.name!r} has format {node.metadata.zarr_format}, the consolidated group has format "
                        f"{zarr_format}",
                        url=access.url,
                        path=access.path,
                    )
                if not node.is_implicit:
                    nodes[node.name] = respelled_metadata(node.metadata, access.settings)
    return nodes
