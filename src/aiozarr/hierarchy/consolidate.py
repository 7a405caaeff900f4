"""Writes copies of the metadata of all nodes below a group into the group's own documents."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from aiozarr.engine import Engine, run
from aiozarr.engine.target import Target, opened_store
from aiozarr.errors import NodeTypeError, PreconditionFailedError
from aiozarr.hierarchy.changes.above import group_keys, seen_from_above
from aiozarr.hierarchy.changes.copies_kept import begin_copies, end_copies
from aiozarr.hierarchy.changes.surroundings import Root
from aiozarr.hierarchy.changes.turns import exclusively, ledger_of
from aiozarr.hierarchy.documents import NodeMetadata, Place, check_format, parse_documents, read_documents, require_node
from aiozarr.hierarchy.group import Group, make_node
from aiozarr.hierarchy.listing import check_listable, walk_levels
from aiozarr.metadata import GroupMetadata, check_path, probe_keys
from aiozarr.schedule import current_recorder
from aiozarr.settings import Settings, settings_or_default

MAX_CONFLICTS = 20


async def consolidate_metadata(
    target: Target,
    path: str = "",
    *,
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> Group:
    """Store copies of the metadata of all nodes below the group at `path`, and return the group, which can be written.

    Who opens the group then has the whole tree with one request: format 2 keeps the copies in `.zmetadata`, format 3 in
    the group's own `zarr.json`, as zarr-python does. What aiozarr changes below later, anywhere in the tree, it
    changes in the copies too, also through a target further down as long as the groups between have documents; other
    programs may not, and then have to consolidate anew.

    Args:
        target: a URL, a local path, or a `Store`.
        path: the group's path below that.
        zarr_format: the format of the group; None: found from what is stored.
        storage_options: how to reach the store, for a URL.
        settings: limits and policies of reads and writes.

    Raises:
        NodeNotFoundError: there is no node.
        NodeTypeError: there is an array, or a node below is of another format than the group.
        InvalidMetadataError, UnsupportedMetadataError: a document below cannot be read.
        UnsupportedOperationError: the store cannot list or cannot write.
        PreconditionFailedError: another program changed the group meanwhile, again and again.
        UnknownSchemeError, InvalidKeyError, StoreError, TypeError, ValueError: as `open`.
    """
    check_format(zarr_format)
    path = check_path(path, zarr_format)
    settings = settings_or_default(settings)
    recorder = current_recorder()

    async def work(engine: Engine) -> Group:
        async with opened_store(target, storage_options, settings) as (store, owned):
            check_listable(store, "consolidate: the nodes below have to be found")
            place = Place(engine, store, path, settings, recorder)
            found = await require_node(place, zarr_format)
            node = make_node(store, path, found, settings=settings, mode="r+", owns_store=owned)
            if not isinstance(node, Group):
                raise NodeTypeError(f"{place.url} is an array, not a group", url=place.url, path=path)
            node._check_writeable()
            ledger = ledger_of(engine.desk)
            # As who changes nodes below does: under the locks of the highest group.
            [top] = await seen_from_above([place], group_keys())
            async with exclusively(top), ledger.hold(top.store.identity, alone=True):
                try:
                    metadata = await _consolidate(top, found.zarr_format)
                finally:
                    ledger.note_change(top.store)
                node._metadata, node._seen = metadata, ledger.changes(store)
            return node

    return await run(work, timeout=settings.timeout)


async def _consolidate(place: Place, zarr_format: int) -> GroupMetadata:
    for attempt in range(MAX_CONFLICTS):
        documents = await read_documents(place, probe_keys(zarr_format))
        group = parse_documents(place, documents, zarr_format)
        if not isinstance(group, GroupMetadata):
            # Implicit until now.
            group, documents = GroupMetadata(zarr_format), {}
        try:
            # The mark first: who changes a node while they are read takes it away.
            root = await begin_copies(Root(place, group, documents))
            return await end_copies(root, await _read_all(place, zarr_format))
        except PreconditionFailedError:
            if attempt == MAX_CONFLICTS - 1:
                raise
    raise AssertionError("the loop returns or raises")


async def _read_all(place: Place, zarr_format: int) -> dict[str, NodeMetadata]:
    """Return all nodes below the place by name.

    Raises:
        MetadataError, LimitError: a document cannot be read.
        NodeTypeError: a node is of another format.
    """
    nodes: dict[str, NodeMetadata] = {}
    levels = walk_levels(lambda work: work(place), zarr_format)
    async with aclosing(levels):
        async for found in levels:
            for each in found:
                if isinstance(each.metadata, Exception):
                    raise each.metadata
                if each.metadata.zarr_format != zarr_format:
                    raise NodeTypeError(
                        f"{each.name!r} is of Zarr format {each.metadata.zarr_format}, and what is consolidated is of "
                        f"format {zarr_format}",
                        url=place.url,
                        path=place.path,
                    )
                nodes[each.name] = each.metadata
    return nodes
