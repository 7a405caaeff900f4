"""A group: attributes, and the arrays and groups below it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from functools import partial
from typing import Any, Literal, SupportsIndex, TypeAlias

from numpy.typing import ArrayLike, DTypeLike

from aiozarr.errors import NodeTypeError
from aiozarr.hierarchy.array import Array
from aiozarr.hierarchy.changes import create_node, delete_node
from aiozarr.hierarchy.chunking import ChunksLike, ShardsLike
from aiozarr.hierarchy.describe import CodecsLike, KeyEncodingLike, new_array_metadata, new_group_metadata
from aiozarr.hierarchy.documents import NodeMetadata, Place, node_not_found, read_node
from aiozarr.hierarchy.listing import BATCH, Found, find_names, load_nodes, render_tree
from aiozarr.hierarchy.location import join_path
from aiozarr.hierarchy.node import Mode, Node
from aiozarr.metadata import ArrayMetadata, GroupMetadata
from aiozarr.settings import Settings
from aiozarr.stores import Store

AnyNode: TypeAlias = "Array | Group"


class Group(Node[GroupMetadata]):
    """A group in a store. Made by `open`, `open_group`, `create_group` and the methods of `Group`, not by hand.

    What is opened or created through a group shares its store, settings and mode. Listing needs a store that can list.
    """

    async def open(self, name: str) -> AnyNode:
        """Open the node `name`, such as `"a"` or `"a/b"`, below this group.

        Raises:
            NodeNotFoundError: there is none.
            InvalidKeyError: no node can have this name.
            InvalidMetadataError, UnsupportedMetadataError: its document cannot be read.
        """
        path = join_path(self._path, name)
        found = await self._at_place(require_node, path)
        return self._child(path, found)

    async def contains(self, name: str) -> bool:
        """Return whether there is a node `name` below this group."""
        return await self._at_place(read_node, join_path(self._path, name)) is not None

    async def members(self, max_depth: int | None = 0) -> AsyncGenerator[tuple[str, AnyNode], None]:
        """Iterate over the nodes below, level by level: `(name relative to this group, node)`.

        Their documents are fetched many at a time. Directories whose names no node can have are passed over.

        Args:
            max_depth: how many levels of groups to go down into; 0: children only; None: everything.

        Raises:
            UnsupportedOperationError: the store cannot list.
            InvalidMetadataError, UnsupportedMetadataError: a document cannot be read; `tree` goes on there.
        """
        async for batch in self._levels(max_depth):
            for found in batch:
                if isinstance(found.metadata, Exception):
                    raise found.metadata
                yield found.name, self._child(join_path(self._path, found.name), found.metadata)

    async def arrays(self, max_depth: int | None = 0) -> AsyncGenerator[tuple[str, Array], None]:
        """Iterate over the arrays below, as `members` does."""
        async for name, node in self.members(max_depth):
            if isinstance(node, Array):
                yield name, node

    async def groups(self, max_depth: int | None = 0) -> AsyncGenerator[tuple[str, Group], None]:
        """Iterate over the groups below, as `members` does."""
        async for name, node in self.members(max_depth):
            if isinstance(node, Group):
                yield name, node

    async def tree(self, max_depth: int | None = None) -> str:
        """Return the nodes below as a drawing: arrays with shape and type, nodes that cannot be read with the reason.

        Raises:
            UnsupportedOperationError: the store cannot list.
        """
        found = [each async for batch in self._levels(max_depth) for each in batch]
        return render_tree(f"/{self._path}", found)

    async def create_array(
        self,
        name: str,
        *,
        shape: SupportsIndex | Iterable[SupportsIndex],
        dtype: DTypeLike,
        chunks: ChunksLike = "auto",
        shards: ShardsLike = None,
        codecs: CodecsLike = "auto",
        fill_value: ArrayLike | None = None,
        order: Literal["C", "F"] = "C",
        dimension_names: Iterable[str | None] | None = None,
        attributes: Mapping[str, Any] | None = None,
        chunk_key_encoding: KeyEncodingLike = None,
        overwrite: bool = False,
    ) -> Array:
        """Create the array `name` below this group; arguments and errors are those of `aiozarr.create_array`."""
        self._check_writeable()
        metadata = new_array_metadata(
            shape=shape,
            dtype=dtype,
            chunks=chunks,
            shards=shards,
            codecs=codecs,
            fill_value=fill_value,
            order=order,
            dimension_names=dimension_names,
            attributes=attributes,
            chunk_key_encoding=chunk_key_encoding,
        )
        array = Array(self._store, _child_path(self._path, name), metadata, settings=self._settings, mode=self._mode)
        await self._at_place(lambda place: create_node(place, metadata, overwrite=overwrite), array.path)
        return array

    async def create_group(
        self, name: str, *, attributes: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> Group:
        """Create the group `name` below this group; arguments and errors are those of `aiozarr.create_group`."""
        self._check_writeable()
        metadata = new_group_metadata(attributes)
        path = _child_path(self._path, name)
        await self._at_place(lambda place: create_node(place, metadata, overwrite=overwrite), path)
        return Group(self._store, path, metadata, settings=self._settings, mode=self._mode)

    async def delete(self, name: str) -> None:
        """Erase the node `name` below this group, and all that lies below it.

        Its documents are erased first: an erasure that is interrupted leaves no array that reads as fill values.

        Raises:
            NodeNotFoundError: there is none.
            UnsupportedOperationError: the group is read-only, or the store cannot list.
        """
        self._check_writeable()
        await self._at_place(delete_node, _child_path(self._path, name))

    def __repr__(self) -> str:
        return f"<aiozarr.Group {self.url}>"

    # --- for this package ----------------------------------------------------------------------------------------

    async def _levels(self, max_depth: int | None) -> AsyncGenerator[list[Found], None]:
        """Yield what lies below in batches, level by level."""
        level = [""]
        depth = 0
        while level and (max_depth is None or depth <= max_depth):
            names = await self._at_place(partial(find_names, groups=level))
            level = []
            for start in range(0, len(names), BATCH):
                batch = names[start : start + BATCH]
                found = await self._at_place(partial(load_nodes, names=batch))
                level += [each.name for each in found if isinstance(each.metadata, GroupMetadata)]
                yield found
            depth += 1

    def _child(self, path: str, metadata: NodeMetadata) -> AnyNode:
        return make_node(self._store, path, metadata, settings=self._settings, mode=self._mode)

    def _expect(self, metadata: NodeMetadata) -> GroupMetadata:
        if not isinstance(metadata, GroupMetadata):
            raise NodeTypeError(f"there is an array at {self.url} now", url=self.url, path=self._path)
        return metadata


def make_node(
    store: Store, path: str, metadata: NodeMetadata, *, settings: Settings, mode: Mode, owns_store: bool = False
) -> AnyNode:
    """Return the handle for what the metadata describe."""
    if isinstance(metadata, ArrayMetadata):
        return Array(store, path, metadata, settings=settings, mode=mode, owns_store=owns_store)
    return Group(store, path, metadata, settings=settings, mode=mode, owns_store=owns_store)


async def require_node(place: Place) -> NodeMetadata:
    """Return the metadata of the node at `place`.

    Raises:
        NodeNotFoundError: there is none.
    """
    found = await read_node(place)
    if found is None:
        raise node_not_found(place)
    return found


def _child_path(path: str, name: str) -> str:
    child = join_path(path, name)
    if child == path:
        raise ValueError("the name of the node is empty")
    return child
