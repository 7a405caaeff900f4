"""A group: attributes, and the arrays and groups below it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import Any, Literal, SupportsIndex, TypeAlias

from numpy.typing import ArrayLike

from aiozarr.errors import NodeExistsError, NodeTypeError
from aiozarr.hierarchy.array import Array
from aiozarr.hierarchy.changes.building import create_nodes
from aiozarr.hierarchy.changes.moving import move_node
from aiozarr.hierarchy.changes.nodes import create_node, delete_node
from aiozarr.hierarchy.changes.turns import ledger_of
from aiozarr.hierarchy.copies import copied_nodes, find_copy
from aiozarr.hierarchy.describe.chunking import ChunksLike, ShardsLike
from aiozarr.hierarchy.describe.node import describe_array, describe_group, describe_node
from aiozarr.hierarchy.describe.v2 import CompressorLike, FiltersLike
from aiozarr.hierarchy.describe.v3 import CodecsLike, DataTypeLike, KeyEncodingLike, TransformerLike
from aiozarr.hierarchy.documents import NodeMetadata, Place, node_not_found_at, read_child, read_explicit
from aiozarr.hierarchy.info import GroupInfo, count_objects
from aiozarr.hierarchy.listing import BATCH, Found, check_depth, check_listable, render_tree, walk_levels
from aiozarr.hierarchy.location import child_path, join_path
from aiozarr.hierarchy.node import Mode, Node
from aiozarr.hierarchy.picture import table
from aiozarr.hierarchy.requiring import fitting_array
from aiozarr.metadata import ArrayMetadata, GroupMetadata
from aiozarr.settings import Settings
from aiozarr.stores import Store

AnyNode: TypeAlias = "Array | Group"


class Group(Node[GroupMetadata]):
    """A group in a store. Made by `open`, `open_group`, `create_group` and the methods of `Group`, not by hand.

    What is opened or created through a group shares its store, settings and mode. A group that holds consolidated
    metadata answers from them, without a request, until this process changes something in the store: then it looks
    again. Any other one lists, for which the store must be able to list.
    """

    # How often this process had changed the store when the group was read; no such number: it has to be read again.
    _seen = -1

    async def open(self, name: str) -> AnyNode:
        """Open the node `name`, such as `"a"` or `"a/b"`, below this group.

        Raises:
            NodeNotFoundError: there is none.
            InvalidKeyError: no node can have this name.
            InvalidMetadataError, UnsupportedMetadataError: its document cannot be read.
        """
        path = join_path(self._path, name, self.zarr_format)
        found = await self._at_place(self._find, path)
        if found is None:
            raise node_not_found_at(self._store, path)
        return self._child(path, found)

    async def contains(self, name: str) -> bool:
        """Return whether there is a node `name` below this group."""
        return await self._at_place(self._find, join_path(self._path, name, self.zarr_format)) is not None

    async def members(self, max_depth: int | None = 0) -> AsyncGenerator[tuple[str, AnyNode], None]:
        """Iterate over the nodes below, level by level: `(name relative to this group, node)`.

        Their documents are fetched many at a time. Directories whose names no node can have are passed over.

        Args:
            max_depth: how many levels of groups to go down into; 0: children only; None: everything.

        Raises:
            UnsupportedOperationError: the store cannot list, and the group is not consolidated.
            InvalidMetadataError, UnsupportedMetadataError: a document cannot be read; `tree` goes on there.
        """
        async for batch in self._levels(max_depth):
            for found in batch:
                if isinstance(found.metadata, Exception):
                    raise found.metadata
                yield found.name, self._child(join_path(self._path, found.name, None), found.metadata)

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
            UnsupportedOperationError: the store cannot list, and the group is not consolidated.
        """
        found = [each async for batch in self._levels(max_depth) for each in batch]
        return render_tree(f"/{self._path}", found)

    async def create_array(
        self,
        name: str,
        *,
        shape: SupportsIndex | Iterable[SupportsIndex],
        dtype: DataTypeLike,
        chunks: ChunksLike = "auto",
        shards: ShardsLike = None,
        codecs: CodecsLike = "auto",
        fill_value: ArrayLike | None = None,
        order: Literal["C", "F"] = "C",
        dimension_names: Iterable[str | None] | None = None,
        attributes: Mapping[str, Any] | None = None,
        chunk_key_encoding: KeyEncodingLike = None,
        storage_transformers: Iterable[TransformerLike] = (),
        filters: FiltersLike = "auto",
        compressor: CompressorLike = "auto",
        dimension_separator: Literal[".", "/"] | None = None,
        overwrite: bool = False,
    ) -> Array:
        """Create the array `name` below this group, of the group's format.

        Arguments and errors are those of `aiozarr.create_array`.
        """
        options = {
            "shape": shape,
            "dtype": dtype,
            "chunks": chunks,
            "shards": shards,
            "codecs": codecs,
            "fill_value": fill_value,
            "order": order,
            "dimension_names": dimension_names,
            "attributes": attributes,
            "chunk_key_encoding": chunk_key_encoding,
            "storage_transformers": storage_transformers,
            "filters": filters,
            "compressor": compressor,
            "dimension_separator": dimension_separator,
        }
        node = await self._create(name, describe_array(self.zarr_format, options), overwrite)
        assert isinstance(node, Array)
        return node

    async def create_group(
        self, name: str, *, attributes: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> Group:
        """Create the group `name` below this group; arguments and errors are those of `aiozarr.create_group`."""
        node = await self._create(name, describe_group(self.zarr_format, attributes), overwrite)
        assert isinstance(node, Group)
        return node

    async def create_hierarchy(
        self, nodes: Mapping[str, ArrayMetadata | GroupMetadata | Mapping[str, Any]], *, overwrite: bool = False
    ) -> dict[str, AnyNode]:
        """Create many nodes below this group, all of a level at once, and return them by their names.

        Everything is checked before anything is stored. If one cannot be stored, those that were stay.

        Args:
            nodes: by name relative to this group: the keywords of `create_array` (with `shape` and `dtype`), those of
                `create_group` (`{}` or `attributes`), or the `metadata` of another node of this format. Groups in
                between that are not named are made.
            overwrite: erase first what is stored at each name, with everything below it.

        Raises:
            NodeExistsError: something is stored at one of the names.
            ValueError: a name lies below an array of the mapping, or is there twice, or is empty.
            TypeError, InvalidMetadataError, UnsupportedMetadataError: as `create_array`.
        """
        self._check_writeable()
        if not isinstance(nodes, Mapping):
            raise TypeError(f"nodes are a mapping of names to what each is, not {type(nodes).__name__}")
        metadata = {
            child_path(self._path, name, self.zarr_format): describe_node(each, self.zarr_format)
            for name, each in nodes.items()
        }
        if len(metadata) != len(nodes):
            raise ValueError("two of the names are one path")
        handles = {path: self._child(path, each) for path, each in metadata.items()}
        await self._at_place(partial(create_nodes, nodes=metadata, overwrite=overwrite))
        return {path[len(self._path) + 1 if self._path else 0 :]: node for path, node in handles.items()}

    async def require_array(
        self,
        name: str,
        *,
        shape: SupportsIndex | Iterable[SupportsIndex],
        dtype: DataTypeLike,
        exact: bool = False,
        chunks: ChunksLike = "auto",
        shards: ShardsLike = None,
        codecs: CodecsLike = "auto",
        fill_value: ArrayLike | None = None,
        order: Literal["C", "F"] = "C",
        dimension_names: Iterable[str | None] | None = None,
        attributes: Mapping[str, Any] | None = None,
        chunk_key_encoding: KeyEncodingLike = None,
        storage_transformers: Iterable[TransformerLike] = (),
        filters: FiltersLike = "auto",
        compressor: CompressorLike = "auto",
        dimension_separator: Literal[".", "/"] | None = None,
    ) -> Array:
        """Open the array `name` below this group, or create it where nothing is.

        An array that is there must have this shape, and a type whose values `dtype` can hold, or with `exact` this very
        type; the other options are not looked at then. Of two that require it at once, one creates it.

        Raises:
            TypeError: the array that is there differs in shape or type.
            NodeTypeError: there is a group.
            NodeExistsError: keys are stored there that are no node's.
        """
        try:
            return fitting_array(await self._open_if_there(name), shape, dtype, exact) or await self.create_array(
                name,
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
                storage_transformers=storage_transformers,
                filters=filters,
                compressor=compressor,
                dimension_separator=dimension_separator,
            )
        except NodeExistsError:
            found = fitting_array(await self._open_if_there(name), shape, dtype, exact)
            if found is None:
                raise
            return found

    async def require_group(self, name: str) -> Group:
        """Open the group `name` below this group, or create it where nothing is.

        Raises:
            NodeTypeError: there is an array.
        """
        found = await self._open_if_there(name)
        if found is None:
            try:
                return await self.create_group(name)
            except NodeExistsError:
                found = await self.open(name)
        if isinstance(found, Array):
            raise NodeTypeError(f"{found.url} is an array, not a group", url=found.url, path=found.path)
        return found

    async def move(self, source: str, dest: str) -> None:
        """Move the node `source` below this group, with all below it, to the name `dest` below this group.

        Its keys are copied and then erased: stores cannot rename. The node appears at `dest` when everything of it is
        there, and only then goes away at `source`; a move that is interrupted leaves the source whole.

        Raises:
            NodeNotFoundError: there is nothing at `source`.
            NodeExistsError: something is stored at `dest`.
            NodeTypeError: a node above `dest` is an array.
            ValueError: one of the names is empty or lies inside the other.
            UnsupportedOperationError: the group is read-only, or the store cannot list.
        """
        self._check_writeable()
        old, new = (child_path(self._path, name, self.zarr_format) for name in (source, dest))
        await self._at_place(lambda place: move_node(place.at(old), place.at(new), self.zarr_format))

    async def delete(self, name: str) -> None:
        """Erase the node `name` below this group, and all that lies below it.

        The documents of all nodes are erased first: an erasure that is interrupted leaves no array that reads as fill
        values. Where the store cannot list, arrays of up to 100 000 chunks can be erased, and nothing else.

        Raises:
            NodeNotFoundError: there is none.
            UnsupportedOperationError: the group is read-only, or the store cannot list; nothing was erased.
        """
        self._check_writeable()
        path = child_path(self._path, name, self.zarr_format)
        await self._at_place(lambda place: delete_node(place, self.zarr_format), path)

    async def info(self) -> GroupInfo:
        """Return the facts of this group: how many nodes lie below it, and what is stored for all of them.

        Raises:
            StoreError: the listing failed.
        """
        arrays = groups = None
        if self._metadata.consolidated is not None or self._store.supports.listable:
            kinds = [type(each.metadata) async for batch in self._levels(None) for each in batch]
            arrays, groups = kinds.count(ArrayMetadata), kinds.count(GroupMetadata)
        count, total = await self._at_place(count_objects)
        return GroupInfo(
            url=self.url,
            zarr_format=self.zarr_format,
            store=type(self._store).__name__,
            read_only=self.read_only,
            consolidated=self._metadata.consolidated is not None,
            attributes=len(self._metadata.attributes),
            arrays=arrays,
            groups=groups,
            objects_stored=count,
            bytes_stored=total,
        )

    def __repr__(self) -> str:
        return f"<aiozarr.Group {self.url}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what is known already, without a request."""
        copies = self._metadata.consolidated
        facts = [
            ("url", self.url),
            ("zarr format", self.zarr_format),
            ("read only", self.read_only),
            ("consolidated", None if copies is None else f"{len(copies.nodes)} nodes"),
        ]
        return table("aiozarr.Group", facts, self._metadata.attributes)

    # --- for this package ----------------------------------------------------------------------------------------

    async def _create(self, name: str, metadata: NodeMetadata, overwrite: bool) -> AnyNode:
        self._check_writeable()
        # The handle first: making it checks the metadata as a reader will.
        node = self._child(child_path(self._path, name, self.zarr_format), metadata)
        await self._at_place(lambda place: create_node(place, metadata, overwrite=overwrite), node.path)
        return node

    async def _open_if_there(self, name: str) -> AnyNode | None:
        path = child_path(self._path, name, self.zarr_format)
        found = await self._at_place(self._find, path)
        return None if found is None else self._child(path, found)

    async def _find(self, place: Place) -> NodeMetadata | None:
        """Return the metadata of the node at `place`, from the copies where there are any that can be trusted."""
        group = await self._trusted(place.at(self._path))
        if group is None or place.path == self._path:
            return await read_child(place, self.zarr_format)
        return find_copy(place, group, place.path[len(self._path) + 1 if self._path else 0 :])

    async def _trusted(self, place: Place) -> GroupMetadata | None:
        """Return this group with its copies; read again where this process has changed the store since."""
        now = ledger_of(place.engine.desk).changes(place.store)
        if self._metadata.consolidated is not None and now != self._seen:
            found = await read_explicit(place, self.zarr_format)
            if not isinstance(found, GroupMetadata):
                return None
            self._metadata, self._seen = found, now
        return None if self._metadata.consolidated is None else self._metadata

    async def _levels(self, max_depth: int | None) -> AsyncGenerator[list[Found], None]:
        """Yield what lies below in batches, level by level."""
        max_depth = check_depth(max_depth)
        trusted = await self._at_place(self._trusted)
        if trusted is not None:
            copies = copied_nodes(self._store, self._path, trusted, self._settings, max_depth)
            while batch := list(islice(copies, BATCH)):
                yield batch
            return
        check_listable(self._store, "show what lies below a group that is not consolidated")
        levels = walk_levels(self._at_place, self.zarr_format, max_depth)
        async with aclosing(levels):
            async for batch in levels:
                yield batch

    def _child(self, path: str, metadata: NodeMetadata) -> AnyNode:
        node = make_node(self._store, path, metadata, settings=self._settings, mode=self._mode)
        if isinstance(node, Group):
            node._seen = self._seen
        return node

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
