"""The nodes of a source by their metadata: the keys of a hierarchy whose store cannot list them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, cast

from typing_extensions import Buffer

from aiozarr.common.concurrency import gather_all, map_concurrently
from aiozarr.engine import Engine
from aiozarr.errors import NodeNotFoundError, StoreError, UnsupportedOperationError
from aiozarr.grid.chunk_grid import resolve_grid
from aiozarr.grid.key_encoding import resolve_key_encoding
from aiozarr.metadata.format_rules import rules_of
from aiozarr.metadata.formats import PROBE_KEYS, consolidated_node, parse_node
from aiozarr.metadata.records import ArrayMetadata, Consolidated, GroupMetadata
from aiozarr.model import JOURNAL_PREFIX, Entry
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores import Store

MAX_ANCESTORS = 16
"""Groups above a group that are asked for consolidated metadata."""


@dataclass
class NodeTree:
    """The nodes at and below the root of a store.

    Attributes:
        nodes: their metadata by path; the root has the path `""`.
        documents: the documents of the nodes by key; None for those that are not fetched yet.
        rewritten: 0: each object is copied as it is stored.
    """

    nodes: dict[str, ArrayMetadata | GroupMetadata] = field(default_factory=dict)
    documents: dict[str, Buffer | None] = field(default_factory=dict)
    rewritten: int = 0

    @property
    def arrays(self) -> dict[str, ArrayMetadata]:
        """The arrays by path."""
        return {path: node for path, node in self.nodes.items() if isinstance(node, ArrayMetadata)}

    async def entries(self) -> AsyncGenerator[Entry, None]:
        """Iterate over all objects that the metadata allow: chunks that are missing, too. None has a size."""
        for path, metadata in self.arrays.items():
            for key in chunk_keys(metadata):
                yield Entry(f"{path}/{key}" if path else key, None)
        for key in self.documents:
            yield Entry(key, None)


def chunk_keys(metadata: ArrayMetadata) -> Iterator[str]:
    """Iterate over the keys of all stored objects of an array, relative to it."""
    encoding = resolve_key_encoding(metadata.chunk_key_encoding, len(metadata.shape))
    grid = resolve_grid(metadata.chunk_grid, metadata.shape)
    # Lazily: `product` holds the ranges' numbers, not their combinations.
    for coords in product(*[range(count) for count in grid.shape]):
        yield encoding.encode(coords)


async def load_tree(engine: Engine, store: Store, settings: Settings, report: Report | None) -> NodeTree:
    """Return the nodes of `store`: by consolidated metadata at its root or above, else by listing directories.

    Raises:
        NodeNotFoundError: there is no node at the root.
        UnsupportedOperationError: the root is a group without consolidated metadata, and the store cannot be listed.
        StoreError, MetadataError: a document could not be read.
    """
    loader = _TreeLoader(engine, store, settings, report)
    await loader.load()
    return loader.tree


async def load_array_above(
    engine: Engine, store: Store, name: str, length: int, settings: Settings
) -> tuple[Store, str, ArrayMetadata] | None:
    """Return the 1-D array `name` of `length` in the nearest group above the root of `store` that has one.

    Returns: the store of that group, the path of the array in it, and its metadata; None if there is none.

    Raises:
        StoreError, MetadataError: a document could not be read.
    """
    for _ in range(MAX_ANCESTORS):
        parent = store.parent_store()
        if parent is None:
            return None
        store = parent[0]
        loader = _TreeLoader(engine, store, settings, None)
        found, group = await gather_all([loader.load_node(name), loader.load_node("")])
        if isinstance(found, ArrayMetadata) and found.shape == (length,):
            return store, name, found
        if group is None:
            return None
    return None


class _TreeLoader:
    def __init__(self, engine: Engine, store: Store, settings: Settings, report: Report | None) -> None:
        self.tree = NodeTree()
        self._store = store
        self._settings = settings
        self._new_scheduled: Callable[[Store], Any] = lambda each: engine.scheduled(each, settings, report)
        self._scheduled = self._new_scheduled(store)

    async def load(self) -> None:
        root = await self.load_node("")
        if root is None:
            url = self._store.url
            raise NodeNotFoundError(f"there is no array and no group at {url}", url=url, path="")
        if isinstance(root, ArrayMetadata):
            return
        consolidated = root.consolidated
        if not consolidated and not self._store.supports.listable:
            consolidated = await self._consolidated_above()
            if consolidated is None:
                raise UnsupportedOperationError(
                    "the source cannot be listed, and its group has no consolidated metadata that name its arrays; "
                    "copy one array by its own URL, or consolidate the metadata at the source",
                    store=self._store.url,
                )
        if consolidated is not None:
            self._add_consolidated(consolidated)
        else:
            await self._walk([""])

    async def load_node(self, path: str) -> ArrayMetadata | GroupMetadata | None:
        """Fetch the documents of a node and add them. Return its metadata, or None if there is no node."""
        prefix = f"{path}/" if path else ""
        values = await map_concurrently(lambda key: self._scheduled.fetch(prefix + key), PROBE_KEYS)
        found = {key: value.data for key, value in zip(PROBE_KEYS, values, strict=True) if value is not None}
        metadata = self._parse(found, self._store.url_of(path))
        if metadata is None:
            return None
        self.tree.nodes[path] = metadata
        for key in rules_of(metadata.zarr_format).keys:
            if key in found:
                self.tree.documents[prefix + key] = found[key]
        return metadata

    def _parse(self, documents: Mapping[str, Buffer], url: str) -> ArrayMetadata | GroupMetadata | None:
        values = {key: documents.get(key) for key in PROBE_KEYS}
        return parse_node(cast("Mapping[str, Buffer | None]", values), node=url, settings=self._settings)

    def _add_consolidated(self, consolidated: Consolidated) -> None:
        for path, documents in consolidated.nodes.items():
            metadata = consolidated_node(consolidated, path, node=self._store.url_of(path), settings=self._settings)
            if metadata is not None:
                self.tree.nodes[path] = metadata
                self.tree.documents.update({f"{path}/{key}": None for key in documents})

    async def _consolidated_above(self) -> Consolidated | None:
        """Return the consolidated metadata of the nearest group above that has this group, or None."""
        store, path = self._store, ""
        for _ in range(MAX_ANCESTORS):
            parent = store.parent_store()
            if parent is None:
                return None
            store, name = parent
            path = f"{name}/{path}" if path else name
            try:
                values = await map_concurrently(self._new_scheduled(store).fetch, PROBE_KEYS)
            except StoreError:
                return None
            found = {key: value.data for key, value in zip(PROBE_KEYS, values, strict=True) if value is not None}
            metadata = self._parse(found, store.url)
            if metadata is None:
                return None
            if isinstance(metadata, GroupMetadata) and metadata.consolidated is not None:
                return metadata.consolidated.below(path)
        return None

    async def _walk(self, paths: list[str]) -> None:
        """Add all nodes below the groups `paths`, level by level."""
        while paths:
            listed = await map_concurrently(lambda path: self._scheduled.list_dir(f"{path}/" if path else ""), paths)
            children = [prefix.removesuffix("/") for _, prefixes in listed for prefix in prefixes]
            children = [path for path in children if not f"{path}/".endswith(JOURNAL_PREFIX)]
            nodes = await map_concurrently(self.load_node, children)
            # A directory without a document is a group of format 3 that other nodes imply.
            paths = [path for path, node in zip(children, nodes, strict=True) if not isinstance(node, ArrayMetadata)]
