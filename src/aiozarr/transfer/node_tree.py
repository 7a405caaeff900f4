"""The nodes of a source by their metadata: the keys of a hierarchy whose store cannot list them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, product

from typing_extensions import Buffer

from aiozarr.common.concurrency import gather_all, map_concurrently
from aiozarr.engine import Engine
from aiozarr.errors import (
    InvalidMetadataError,
    LimitError,
    MetadataError,
    NodeNotFoundError,
    StoreError,
    UnsupportedOperationError,
)
from aiozarr.grid.chunk_grid import resolve_grid
from aiozarr.grid.key_encoding import resolve_key_encoding
from aiozarr.hierarchy.internal import NodeAccess, NodeMetadata, read_documents
from aiozarr.metadata.format_rules import document_write_order, key_prefix, rules_of
from aiozarr.metadata.formats import PROBE_KEYS, consolidated_node, parse_node
from aiozarr.metadata.lenient import respelled_array
from aiozarr.metadata.records import ArrayMetadata, Consolidated, GroupMetadata
from aiozarr.model import JOURNAL_PREFIX, Entry
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.transfer.copy_rules import stores_above

MAX_ANCESTORS = 16
"""Groups above a group whose consolidated metadata is read."""


@dataclass
class NodeTree:
    """The nodes at and below the root of a store.

    Attributes:
        nodes: their metadata by path; the root has the path `""`.
        documents: the documents of the nodes by key; None for those known by consolidated metadata only.
    """

    nodes: dict[str, NodeMetadata] = field(default_factory=dict)
    documents: dict[str, Buffer | None] = field(default_factory=dict)

    def is_current(self, key: str, document: Buffer) -> bool:
        """Return whether a document describes the objects of its node. If not, the node gets it."""
        path, _, name = key.rpartition("/")
        known, found = self.nodes.get(path), None
        with suppress(MetadataError, LimitError):  # no reader decodes chunks by it
            if document_write_order(name) == 1:
                found = parse_node({**dict.fromkeys(PROBE_KEYS), name: document}, node=path)
        if not isinstance(known, ArrayMetadata) or not isinstance(found, ArrayMetadata):
            return True
        self.nodes[path] = replace(found, attributes=known.attributes, dimension_names=known.dimension_names)
        return self.nodes[path] == known

    async def entries(self) -> AsyncGenerator[Entry, None]:
        """Iterate over all objects that the metadata allow, including missing chunks. None has a size."""
        for path, metadata in self.nodes.items():
            for key in chunk_keys(metadata) if isinstance(metadata, ArrayMetadata) else ():
                yield Entry(key_prefix(path) + key, None)
        for key in self.documents:
            yield Entry(key, None)


def chunk_keys(metadata: ArrayMetadata) -> Iterator[str]:
    """Iterate over the keys of all stored objects of an array, relative to it."""
    try:
        encoding = resolve_key_encoding(metadata.chunk_key_encoding, len(metadata.shape))
        grid = resolve_grid(metadata.chunk_grid, metadata.shape)
    except InvalidMetadataError as error:
        # Not by the array's layout: a copy needs no codecs.
        respelled = respelled_array(metadata, error, lambda name: {})
        if respelled is None:
            raise
        yield from chunk_keys(respelled)
        return
    # Lazily, because `product` holds the numbers of the ranges, not their combinations.
    for coords in product(*[range(count) for count in grid.shape]):
        yield encoding.encode(coords)


async def load_tree(engine: Engine, store: Store, settings: Settings, report: Report | None) -> NodeTree:
    """Return the nodes of `store`, from consolidated metadata at its root or above, else by listing directories.

    Raises:
        NodeNotFoundError: there is no node at the root.
        UnsupportedOperationError: the root is a group without consolidated metadata, and the store cannot be listed.
        StoreError, MetadataError: a document could not be read.
    """
    top, tree = NodeAccess(engine, store, "", settings, report), NodeTree()

    async def load(path: str) -> NodeMetadata | None:
        metadata, documents = await _load_node(top.sibling(path))
        if metadata is not None:
            tree.nodes[path] = metadata
            tree.documents |= documents
        return metadata

    root = await load("")
    if root is None:
        raise NodeNotFoundError(f"there is no array and no group at {store.url}", url=store.url, path="")
    if isinstance(root, ArrayMetadata):
        return tree
    consolidated = root.consolidated
    if not consolidated and not store.supports.listable:
        consolidated = await _consolidated_above(top)
        if consolidated is None:
            raise UnsupportedOperationError(
                "the source cannot be listed, and its group has no consolidated metadata that lists its arrays; "
                "copy one array by its own URL, or consolidate the metadata at the source",
                store=store.url,
            )
    if consolidated is not None:
        for path, documents in consolidated.nodes.items():
            metadata = consolidated_node(consolidated, path, node=store.url_of(path), settings=settings)
            if metadata is not None:
                tree.nodes[path] = metadata
                tree.documents |= {f"{path}/{key}": None for key in documents}
        return tree
    paths = [""]
    while paths:
        listed = await map_concurrently(lambda path: top.scheduled.list_dir(key_prefix(path)), paths)
        children = [prefix.removesuffix("/") for _, prefixes in listed for prefix in prefixes]
        children = [path for path in children if not f"{path}/".endswith(JOURNAL_PREFIX)]
        nodes = await map_concurrently(load, children)
        # A directory without a document is a group of format 3 that other nodes imply.
        paths = [path for path, node in zip(children, nodes, strict=True) if not isinstance(node, ArrayMetadata)]
    return tree


async def load_array_above(
    engine: Engine, store: Store, name: str, length: int, settings: Settings
) -> tuple[Store, str, ArrayMetadata] | None:
    """Return the 1-D array `name` of `length` in the nearest group above the root of `store` that has one.

    Returns: the store of that group, the path of the array in it, and its metadata; None if there is none.

    Raises:
        StoreError, MetadataError: a document could not be read.
    """
    for above, _ in islice(stores_above(store), MAX_ANCESTORS):
        access = NodeAccess(engine, above, "", settings)
        (found, _), (group, _) = await gather_all([_load_node(access.sibling(name)), _load_node(access)])
        if isinstance(found, ArrayMetadata) and found.shape == (length,):
            return above, name, found
        if group is None:
            return None
    return None


async def _consolidated_above(access: NodeAccess) -> Consolidated | None:
    """Return the consolidated metadata of the nearest group above that has this group, or None."""
    for store, path in islice(stores_above(access.store), MAX_ANCESTORS):
        try:
            metadata, _ = await _load_node(access._replace(store=store))
        except StoreError:
            return None
        if metadata is None:
            return None
        if isinstance(metadata, GroupMetadata) and metadata.consolidated is not None:
            return metadata.consolidated.below(path)
    return None


async def _load_node(access: NodeAccess) -> tuple[NodeMetadata | None, dict[str, Buffer]]:
    """Return the metadata of a node, None if there is none, and its documents by key."""
    values = await read_documents(access, PROBE_KEYS)
    data = {key: None if value is None else value.data for key, value in values.items()}
    metadata = parse_node(data, node=access.url, settings=access.settings)
    keys = () if metadata is None else rules_of(metadata.zarr_format).keys
    return metadata, {access.prefix + key: stored for key in keys if (stored := data[key]) is not None}
