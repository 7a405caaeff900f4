"""A group: attributes, and the arrays and groups below it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex, TypeAlias, TypeVar, Unpack

import numpy as np

from aiozarr.common.formatting import printable
from aiozarr.errors import (
    ChildNotFoundError,
    LimitError,
    MetadataError,
    NodeExistsError,
    NodeNotFoundError,
    NodeTypeError,
)
from aiozarr.hierarchy.array import Array, make_array
from aiozarr.hierarchy.changes import ChangeTracker, changes_of
from aiozarr.hierarchy.members import BATCH_NODES, check_depth, check_listable, find_node, iter_nodes, walk_levels
from aiozarr.hierarchy.new_metadata import (
    ArrayOptions,
    new_array_with_data,
    new_group_metadata,
    new_node_metadata,
    with_options,
)
from aiozarr.hierarchy.node import HandleOptions, MakeNode, Node, wrong_kind_error
from aiozarr.hierarchy.node_access import NodeAccess, NodeMetadata, read_child, read_explicit
from aiozarr.hierarchy.opening import missing_node_error, opens
from aiozarr.metadata.format_rules import child_path, join_path, relative_name
from aiozarr.metadata.records import ArrayMetadata, Consolidated, GroupMetadata, ImplicitNode
from aiozarr.schedule.events import observed
from aiozarr.stores import Store

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from aiozarr.hierarchy.info import GroupInfo
    from aiozarr.hierarchy.members import ListedNode, NodeError, Tree
    from aiozarr.hierarchy.new_metadata_v3 import DataTypeLike

AnyNode: TypeAlias = "Array | Group"
N = TypeVar("N", bound=AnyNode)


class Group(Node[GroupMetadata]):
    """A group in a store. Create it with `open`, `open_group`, `create_group` or a method of `Group`.

    Nodes that are opened or created through a group share its store, settings and mode. A group with consolidated
    metadata uses them, without a request, until this process changes something in the store; then it reads them again.
    Other groups list the store, which must support listing.
    """

    def __init__(self, store: Store, path: str, metadata: GroupMetadata, options: HandleOptions) -> None:
        super().__init__(store, path, metadata, options)
        self._seen_changes = options.seen_changes
        # The number of changes of all stores when the consolidated metadata was last known to be current.
        self._current_at: tuple[ChangeTracker, int] | None = None

    # Hidden from type checkers, because the operations of a mapping need I/O here.
    if not TYPE_CHECKING:

        def __getitem__(self, name: object) -> NoReturn:
            raise TypeError(f"a group cannot be indexed here; use `await group.open({name!r})`")

        def __setitem__(self, name: object, values: object) -> NoReturn:
            raise TypeError(f"{name!r} cannot be assigned; use `await group.create_array({name!r}, data=...)`")

        def __delitem__(self, name: object) -> NoReturn:
            raise TypeError(f"del cannot delete {name!r}; use `await group.delete({name!r})`")

        def __contains__(self, name: object) -> NoReturn:
            raise TypeError(f"`in` cannot do I/O; use `await group.contains({name!r})`")

        def __iter__(self) -> NoReturn:
            raise TypeError("a group cannot be iterated here; use `async for name, node in group.members()`")

        def __len__(self) -> NoReturn:
            raise TypeError("the length of a group needs I/O; use `await group.info()`, which counts the nodes below")

        def __bool__(self) -> bool:
            return True

    @opens
    @observed("open", lambda node, *_: None if node is None else node.url)
    async def open(self, name: str) -> AnyNode:
        """Open the node `name`, such as `"a"` or `"a/b"`, below this group.

        Raises:
            NodeNotFoundError: the node does not exist; also a `KeyError`.
            InvalidKeyError: `name` is not a valid name.
            InvalidMetadataError, UnsupportedMetadataError: its document cannot be read.
        """
        path = join_path(self._path, name, self.zarr_format)
        found = self._find_consolidated(path) or await self._run_on_io_thread(self._find, path)
        if found is None:
            raise await self._run_on_io_thread(self._missing_child_error, path)
        return self._child(make_node, path, found)

    async def contains(self, name: str) -> bool:
        """Return whether there is a node `name` below this group. A node whose document cannot be read counts too."""
        path = join_path(self._path, name, self.zarr_format)
        try:
            return (self._find_consolidated(path) or await self._run_on_io_thread(self._find, path)) is not None
        except MetadataError as error:
            if error.node != self._store.url_of(path):
                raise  # it is this group's own document
            return True

    async def members(self, max_depth: int | None = 0) -> AsyncGenerator[tuple[str, AnyNode], None]:
        """Iterate over the nodes below, level by level, as pairs of the name relative to this group and the node.

        Many documents are fetched concurrently. Directories with names that are invalid for nodes are skipped.

        Args:
            max_depth: levels of groups to descend into; 0: children only; None: no limit.

        Raises:
            UnsupportedOperationError: the store cannot list, and the group is not consolidated.
            InvalidMetadataError, UnsupportedMetadataError: a document cannot be read. The error is raised after all
                readable nodes; `tree` shows it instead.
        """
        unreadable: list[NodeError] = []
        async with aclosing(self._levels(max_depth)) as levels:
            async for batch in levels:
                for found in batch:
                    node = self._listed(found)
                    if isinstance(node, Exception):
                        unreadable.append(node)
                    else:
                        yield found.name, node
        if unreadable:
            raise unreadable[0]

    async def arrays(self, max_depth: int | None = 0) -> AsyncGenerator[tuple[str, Array], None]:
        """Iterate over the arrays below, as `members` does."""
        async with aclosing(self.members(max_depth)) as members:
            async for name, node in members:
                if isinstance(node, Array):
                    yield name, node

    async def groups(self, max_depth: int | None = 0) -> AsyncGenerator[tuple[str, Group], None]:
        """Iterate over the groups below, as `members` does."""
        async with aclosing(self.members(max_depth)) as members:
            async for name, node in members:
                if isinstance(node, Group):
                    yield name, node

    async def tree(self, max_depth: int | None = None) -> Tree:
        """Return the nodes below as a text tree: arrays with shape and type, unreadable nodes with the reason.

        Raises:
            UnsupportedOperationError: the store cannot list, and the group is not consolidated.
        """
        from aiozarr.hierarchy.members import render_tree

        found = [each async for batch in self._levels(max_depth) for each in batch]
        return render_tree(f"/{self._path}", found)

    @opens
    @with_options(ArrayOptions)
    async def create_array(
        self,
        name: str,
        *,
        shape: SupportsIndex | Iterable[SupportsIndex] | None = None,
        dtype: DataTypeLike | None = None,
        data: ArrayLike | None = None,
        overwrite: bool = False,
        **options: Unpack[ArrayOptions],
    ) -> Array:
        """Create the array `name` below this group, of the group's format.

        Arguments and errors are the same as for `aiozarr.create_array`.
        """
        metadata, values = await new_array_with_data(
            self.zarr_format, {"shape": shape, "dtype": dtype, **options}, data
        )
        array = await self._create(make_array, name, metadata, overwrite)
        if values is not None:
            await array._write_first(values)
        return array

    @opens
    async def create_group(
        self, name: str, *, attributes: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> Group:
        """Create the group `name` below this group; arguments and errors are the same as for `aiozarr.create_group`."""
        return await self._create(make_group, name, new_group_metadata(self.zarr_format, attributes), overwrite)

    async def create_hierarchy(
        self, nodes: Mapping[str, ArrayMetadata | GroupMetadata | Mapping[str, Any]], *, overwrite: bool = False
    ) -> dict[str, AnyNode]:
        """Create many nodes below this group, level by level, and return them by their names.

        All metadata are checked before anything is stored. Then up to 64 nodes of a level are stored together, unless
        something is stored at one of their names. If a node is refused, those already stored remain.

        Args:
            nodes: descriptions of the nodes by their names relative to this group. A description has the keywords of
                `create_array` (with `shape` and `dtype`) or of `create_group` (`{}` or `attributes`), or is the
                `metadata` of another node of this format. Missing groups between the nodes are created.
            overwrite: first erase the node and everything else stored below each name.

        Raises:
            NodeExistsError: something is stored at one of the names.
            ValueError: a name is empty, occurs twice, or is below an array of the mapping.
            TypeError, InvalidMetadataError, UnsupportedMetadataError: as `create_array`.
        """
        from aiozarr.hierarchy.node_changes import create_nodes

        self._require_writable()
        if not isinstance(nodes, Mapping):
            raise TypeError(f"nodes must be a mapping of names to descriptions of nodes, not {type(nodes).__name__}")
        metadata = {
            child_path(self._path, name, self.zarr_format): new_node_metadata(each, self.zarr_format)
            for name, each in nodes.items()
        }
        if len(metadata) != len(nodes):
            raise ValueError("two of the names are the same path")
        handles = {path: self._child(make_node, path, each) for path, each in metadata.items()}
        await self._run_on_io_thread(partial(create_nodes, nodes=metadata, overwrite=overwrite))
        for handle in handles.values():
            handle._mark_stored()
        return {relative_name(path, self._path): node for path, node in handles.items()}

    @opens
    @with_options(ArrayOptions)
    async def require_array(
        self,
        name: str,
        *,
        shape: SupportsIndex | Iterable[SupportsIndex],
        dtype: DataTypeLike,
        exact: bool = False,
        **options: Unpack[ArrayOptions],
    ) -> Array:
        """Open the array `name` below this group, or create it if nothing is stored there.

        An existing array must have this shape, and a type that casts safely to `dtype` (with `exact`, the same type).
        The other options apply only if it is created. If two tasks require it at the same time, one of them creates it.

        Raises:
            TypeError: the existing array has another shape or type.
            NodeTypeError: the node is a group.
            NodeExistsError: keys that do not belong to a node are stored there.
        """
        found = await self._open_matching_array(name, shape, dtype, exact)
        if found is not None:
            return found
        try:
            return await self.create_array(name, shape=shape, dtype=dtype, **options)
        except NodeExistsError:
            # Another task has created it since.
            found = await self._open_matching_array(name, shape, dtype, exact)
            if found is None:
                raise
            return found

    @opens
    async def require_group(self, name: str) -> Group:
        """Open the group `name` below this group, or create it if nothing is stored there.

        Raises:
            NodeTypeError: the node is an array.
        """
        found = await self._open_existing(name)
        if found is None:
            try:
                return await self.create_group(name)
            except NodeExistsError:
                found = await self.open(name)
        if isinstance(found, Array):
            raise wrong_kind_error(found.url, found.path, found.metadata)
        return found

    async def move(self, source: str, destination: str) -> None:
        """Move the node `source` of this group, with everything below it, to the name `destination` of this group.

        Stores cannot rename, so all keys are copied and then erased. An array appears at `destination` once it is
        copied completely; a group may be visible there earlier, without its attributes and with only some of its
        members. Only when the copy is complete does the node disappear from `source`. An interrupted move leaves the
        source or the copy complete; to finish it, repeat the call.

        Raises:
            NodeNotFoundError: nothing is stored at `source`.
            NodeExistsError: something else is stored at `destination`.
            NodeTypeError: a node above `destination` is an array.
            ValueError: one of the names is empty or is inside the other.
            UnsupportedOperationError: the group is read-only, or the store cannot list.
        """
        from aiozarr.hierarchy.move import move_node

        self._require_writable()
        old, new = (child_path(self._path, name, self.zarr_format) for name in (source, destination))
        await self._run_on_io_thread(
            lambda access: move_node(access.sibling(old), access.sibling(new), self.zarr_format)
        )

    async def delete(self, name: str) -> None:
        """Delete the node `name` below this group, and everything below it.

        The documents of all nodes are erased first, so an interrupted erasure leaves no array that reads as fill
        values. If the store cannot list, only arrays of up to 100 000 chunks can be erased.

        Raises:
            NodeNotFoundError: the node does not exist; also a `KeyError`.
            UnsupportedOperationError: the group is read-only, or the store cannot list. Nothing was erased.
        """
        from aiozarr.hierarchy.node_changes import delete_node

        self._require_writable()
        path = child_path(self._path, name, self.zarr_format)
        try:
            await self._run_on_io_thread(delete_node, path)
        except NodeNotFoundError:
            raise await self._run_on_io_thread(self._missing_child_error, path) from None

    async def info(self) -> GroupInfo:
        """Return information about this group: the number of nodes below it, and of the objects stored for all of them.

        Raises:
            StoreError: the listing failed.
        """
        from aiozarr.hierarchy.info import GroupInfo, count_objects

        is_known = self._metadata.consolidated is not None or self._store.supports.listable
        nodes = [each async for batch in self._levels(None) for each in batch] if is_known else []
        arrays = {each.name: each.metadata for each in nodes if isinstance(each.metadata, ArrayMetadata)}
        groups = [each for each in nodes if isinstance(each.metadata, GroupMetadata)]
        counts = await self._run_on_io_thread(lambda access: count_objects(access, arrays))
        return GroupInfo(
            url=self.url,
            zarr_format=self.zarr_format,
            store=type(self._store).__name__,
            read_only=self.read_only,
            consolidated=self._metadata.consolidated is not None,
            attributes=len(self._metadata.attributes),
            arrays=len(arrays) if is_known else None,
            groups=len(groups) if is_known else None,
            **counts,
        )

    def __repr__(self) -> str:
        return f"<aiozarr.Group {printable(self.url)}>"

    def _repr_html_(self) -> str:
        """Return the HTML that notebooks show. Makes no request."""
        from aiozarr.hierarchy.info import table

        consolidated = self._metadata.consolidated
        facts = [
            ("url", self.url),
            ("zarr format", self.zarr_format),
            ("read only", self.read_only),
            ("consolidated", None if consolidated is None else f"{len(consolidated.nodes)} nodes"),
        ]
        return table("aiozarr.Group", facts, self._metadata.attributes)

    # --- for this package ----------------------------------------------------------------------------------------

    async def _create(self, make: MakeNode[N], name: str, metadata: NodeMetadata, overwrite: bool) -> N:
        from aiozarr.hierarchy.node_changes import create_all

        self._require_writable()
        # The handle is made first, because that checks the metadata as opening does.
        node = self._child(make, child_path(self._path, name, self.zarr_format), metadata)
        await self._run_on_io_thread(lambda access: create_all([access], [metadata], overwrite=overwrite), node.path)
        node._mark_stored()
        return node

    async def _open_existing(self, name: str) -> AnyNode | None:
        path = child_path(self._path, name, self.zarr_format)
        # An implicit group gets a document, which other readers need.
        found = await self._run_on_io_thread(partial(self._find, may_be_implicit=False), path)
        return None if found is None else self._child(make_node, path, found)

    async def _open_matching_array(self, name: str, shape: Any, dtype: DataTypeLike, exact: bool) -> Array | None:
        """Open the array `name` if it exists, and check its shape and type for `require_array`."""
        node = await self._open_existing(name)
        if node is None:
            return None
        if isinstance(node, Group):
            raise wrong_kind_error(node.url, node.path, node.metadata)
        return check_matches(node, shape, dtype, exact=exact)

    async def _find(self, access: NodeAccess, *, may_be_implicit: bool = True) -> NodeMetadata | None:
        """Return the metadata of a node below this group, from current consolidated metadata if there are any."""
        consolidated = await self._current_consolidated(access.sibling(self._path))
        name = relative_name(access.path, self._path)
        if consolidated is None or access.path == self._path:
            return await read_child(access, self.zarr_format, may_be_implicit=may_be_implicit)
        if not may_be_implicit and isinstance(consolidated.nodes.get(name), ImplicitNode):
            return await read_child(access, self.zarr_format, may_be_implicit=False)
        return find_node(consolidated, name, access.url, access.settings)

    def _find_consolidated(self, path: str) -> NodeMetadata | None:
        """Return the metadata of a node as `_find` does, in any thread, or None if `_find` has to be called.

        The consolidated metadata is current if this process has changed nothing since they last were.
        """
        consolidated, seen = self._metadata.consolidated, self._current_at
        if consolidated is None or seen is None or seen[0].last != seen[1] or path == self._path:
            return None
        name = relative_name(path, self._path)
        return find_node(consolidated, name, self._store.url_of(path), self.settings)

    async def _missing_child_error(self, access: NodeAccess) -> ChildNotFoundError:
        """Return the error of a missing node below this group; it names a sibling of nearly the same name."""
        consolidated = await self._current_consolidated(access.sibling(self._path))
        names = None
        if consolidated is not None:
            parent = relative_name(access.path, self._path).rpartition("/")[0]
            names = [name.rpartition("/")[2] for name in consolidated.nodes if name.rpartition("/")[0] == parent]
        found = await missing_node_error(access, self.zarr_format, names)
        return ChildNotFoundError(found.message, url=found.url, path=found.path)

    async def _current_consolidated(self, access: NodeAccess) -> Consolidated | None:
        """Return the consolidated metadata; read them again if this process has changed the store since."""
        tracker = changes_of(access.engine)
        last, changes = tracker.last, tracker.count(access.store)
        if self._metadata.consolidated is not None and changes != self._seen_changes:
            found = await read_explicit(access, self.zarr_format)
            if not isinstance(found, GroupMetadata):
                return None
            self._metadata, self._seen_changes = found, changes
        self._current_at = tracker, last
        return self._metadata.consolidated

    async def _levels(
        self, max_depth: int | None, *, folders: Sequence[str] | None = None
    ) -> AsyncGenerator[list[ListedNode], None]:
        """Yield the nodes below in batches, level by level; `folders` are this group's own if they are known."""
        max_depth = check_depth(max_depth)
        consolidated = await self._run_on_io_thread(self._current_consolidated)
        if consolidated is not None:
            nodes = iter_nodes(
                consolidated, self._store, self._path, self.settings, self.zarr_format, max_depth=max_depth
            )
            while batch := list(islice(nodes, BATCH_NODES)):
                yield batch
            return
        check_listable(self._store, "show what lies below a group that is not consolidated")
        levels = walk_levels(self._run_on_io_thread, self.zarr_format, max_depth, folders=folders)
        async with aclosing(levels):
            async for batch in levels:
                yield batch

    def _listed(self, found: ListedNode) -> AnyNode | NodeError:
        """Return the handle of a listed node, or the error that its metadata cannot be read."""
        if isinstance(found.metadata, Exception):
            return found.metadata
        try:
            return self._child(make_node, join_path(self._path, found.name, None), found.metadata)
        except (MetadataError, LimitError) as error:
            return error

    def _child(self, make: MakeNode[N], path: str, metadata: NodeMetadata) -> N:
        options = HandleOptions(self.settings, self._options.mode, seen_changes=self._seen_changes)
        return make(self._store, path, metadata, options)

    def _require_kind(self, metadata: NodeMetadata) -> GroupMetadata:
        if not isinstance(metadata, GroupMetadata):
            raise NodeTypeError(f"{self.url} is now an array", url=self.url, path=self._path)
        return metadata


def check_matches(array: Array, shape: Any, dtype: DataTypeLike, *, exact: bool) -> Array:
    """Return the array if it has this shape, and a type that casts safely to `dtype`, or with `exact` the same type.

    Raises:
        TypeError: the shape or the type differs.
    """
    from aiozarr.hierarchy.new_metadata_v3 import check_shape, resolve_dtype

    if array.shape != check_shape(shape):
        raise TypeError(f"{array.url} has the shape {array.shape}, not {check_shape(shape)}; change it with resize()")
    required = np.dtype(object) if dtype is object else resolve_dtype(dtype)[0].dtype
    if not (array.dtype == required if exact else np.can_cast(array.dtype, required)):
        raise TypeError(f"{array.url} has the data type {array.metadata.data_type.name}, not {required}")
    return array


def make_group(store: Store, path: str, metadata: NodeMetadata, options: HandleOptions) -> Group:
    """Return the handle of a group.

    Raises:
        NodeTypeError: the metadata describe an array.
    """
    if not isinstance(metadata, GroupMetadata):
        raise wrong_kind_error(store.url_of(path), path, metadata)
    return Group(store, path, metadata, options)


def make_node(store: Store, path: str, metadata: NodeMetadata, options: HandleOptions) -> AnyNode:
    """Return the handle of an array or a group."""
    make: MakeNode[AnyNode] = make_array if isinstance(metadata, ArrayMetadata) else make_group
    return make(store, path, metadata, options)
