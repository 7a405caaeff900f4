"""The common base of arrays and groups: location, attributes, settings, closing, and changes of the metadata."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Generic, Literal, NamedTuple, Self, TypeAlias, TypeVar

from aiozarr.engine import run
from aiozarr.errors import NodeTypeError, UnsupportedOperationError
from aiozarr.hierarchy.attributes import checked_attributes, frozen_attributes
from aiozarr.hierarchy.node_access import (
    NodeAccess,
    NodeMetadata,
    node_not_found_error,
    read_explicit,
    require_node,
    timeouts_located,
)
from aiozarr.metadata.format_rules import rules_of
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata
from aiozarr.schedule.events import current_recorder
from aiozarr.settings import Settings
from aiozarr.stores import Store

JSON: TypeAlias = Any
Mode: TypeAlias = Literal["r", "r+"]
T = TypeVar("T")
N = TypeVar("N", bound="Node[Any]")
M = TypeVar("M", ArrayMetadata, GroupMetadata)


class HandleOptions(NamedTuple):
    """The options of a handle, without its location and metadata.

    Attributes:
        settings: settings of its reads and writes.
        mode: `"r"` refuses writes.
        owns_store: whether closing the handle closes the store.
        checks_document: whether the stored document of an array is compared with its metadata before the first write.
        seen_changes: the number of changes of the store by this process when the metadata of a group were read
            (`ChangeTracker.count`). None: unknown, so consolidated metadata is read again before they are used.
    """

    settings: Settings
    mode: Mode
    owns_store: bool = False
    checks_document: bool = True
    seen_changes: int | None = None


class Node(ABC, Generic[M]):
    """A handle of one node. Its metadata are those that this handle last read or wrote.

    A handle may be used from any number of tasks, threads and event loops, and be pickled.
    """

    def __init__(self, store: Store, path: str, metadata: M, options: HandleOptions) -> None:
        self._store = store
        self._path = path
        self._options = options
        self._metadata: M = metadata
        # The metadata, and the copy that `metadata` returns.
        self._shown: tuple[M, M] | None = None

    @property
    def store(self) -> Store:
        """The store of the node."""
        return self._store

    @property
    def path(self) -> str:
        """The node's path in the store, such as `a/b`. The root's path is empty."""
        return self._path

    @property
    def name(self) -> str:
        """The path with a leading `/`, as in h5py: `/a/b`; `/` is the root."""
        return f"/{self._path}"

    @property
    def url(self) -> str:
        """The canonical URL of the node, without secrets. Opening it opens the same node."""
        return self._store.url_of(self._path)

    @property
    def settings(self) -> Settings:
        """The settings of the node's reads and writes."""
        return self._options.settings

    @property
    def metadata(self) -> M:
        """The content of the node's metadata document. Its attributes are a read-only copy, as `attrs`."""
        shown = self._shown
        if shown is None or shown[0] is not self._metadata:
            metadata = self._metadata
            shown = self._shown = (
                metadata,
                replace(metadata.copied(), attributes=frozen_attributes(metadata.attributes)),
            )
        return shown[1]

    @property
    def zarr_format(self) -> int:
        """Version of the Zarr format of the stored node."""
        return self._metadata.zarr_format

    @property
    def read_only(self) -> bool:
        """True if writes raise: the node was opened with `mode="r"`, or its store cannot write."""
        return self._options.mode == "r" or not self._store.supports.writable

    @property
    def attrs(self) -> Mapping[str, JSON]:
        """The attributes, as a read-only copy. `update_attributes` and `replace_attributes` change the stored ones."""
        return frozen_attributes(self._metadata.attributes)

    async def update_attributes(self, attributes: Mapping[str, JSON]) -> None:
        """Set these attributes and keep the others. Concurrent updates of other names are not lost.

        Raises:
            TypeError, ValueError: `attributes` are not JSON values.
            UnsupportedOperationError: the node is read-only.
            NodeNotFoundError: the node no longer exists.
        """
        checked = checked_attributes(attributes, finite=rules_of(self.zarr_format).has_finite_attributes)
        await self._change(lambda metadata: metadata.with_attributes({**metadata.attributes, **checked}))

    async def replace_attributes(self, attributes: Mapping[str, JSON]) -> None:
        """Store exactly these attributes.

        Raises:
            TypeError, ValueError, UnsupportedOperationError, NodeNotFoundError: as `update_attributes`.
        """
        checked = checked_attributes(attributes, finite=rules_of(self.zarr_format).has_finite_attributes)
        await self._change(lambda metadata: metadata.with_attributes(checked))

    async def refresh(self) -> bool:
        """Read the metadata again, which other processes may have changed, and use them from now on.

        Existing views keep their shape.

        Returns: True if the metadata differ from those that this handle had.

        Raises:
            NodeNotFoundError: the node no longer exists.
            NodeTypeError: it was replaced by a node of another kind.
            InvalidMetadataError, UnsupportedMetadataError, StoreError: its document cannot be read.
        """

        async def read(access: NodeAccess) -> bool:
            # Under the node's lock, so that metadata read before a change by this process do not undo it.
            async with access.lock():
                known: NodeMetadata = self._metadata
                if isinstance(known, GroupMetadata):
                    metadata: NodeMetadata | None = await require_node(access, self.zarr_format)
                else:
                    # Chunks may be left below the path of a deleted array; they do not make it an implicit group.
                    metadata = await read_explicit(access, self.zarr_format)
                if metadata is None:
                    raise node_not_found_error(access.store, access.path)
                found = self._require_kind(metadata)
                if found == self._metadata:
                    return False
                self._set_metadata(found)
                return True

        return await self._run_on_io_thread(read)

    async def aclose(self) -> None:
        """Close the store if opening this node made it. A store that was passed in stays open. May be called twice."""
        if self._options.owns_store:
            await run(lambda engine: self._store.aclose())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __reduce__(self) -> tuple[Any, ...]:
        options = self._options._replace(checks_document=True, seen_changes=None)
        return (type(self), (self._store, self._path, self._metadata, options))

    # --- for this package ----------------------------------------------------------------------------------------

    async def _run_on_io_thread(
        self, function: Callable[[NodeAccess], Coroutine[Any, Any, T]], path: str | None = None
    ) -> T:
        """Await `function` on the I/O thread, with access to this node or to the one at `path`."""
        path = self._path if path is None else path
        report = current_recorder()
        with timeouts_located([self._store], path):
            return await run(
                lambda engine: function(NodeAccess(engine, self._store, path, self.settings, report)),
                timeout=self.settings.timeout,
            )

    async def _change(
        self,
        change: Callable[[M], M],
        then: Callable[[NodeAccess, M, M], Awaitable[None]] | None = None,
        *,
        before: Callable[[NodeAccess, M, M], Awaitable[None]] | None = None,
        mark: bytes = b"",
    ) -> M:
        """Replace the stored metadata, and this handle's, by `change(metadata)`.

        `before(access, old, new)` runs before the new metadata are stored, and `then(access, old, new)` after that,
        before any other change of the node by this process. `mark` is white space at the end of the document.
        """
        from aiozarr.hierarchy.node_changes import update_node

        self._require_writable()

        async def apply(access: NodeAccess) -> M:
            old: list[M] = []

            def checked_change(metadata: NodeMetadata) -> M:
                old[:] = [self._require_kind(metadata)]
                return change(old[0])

            async def finish(metadata: NodeMetadata) -> None:
                # The handle is updated under the lock of the node, so in the order of the stored changes.
                new = self._require_kind(metadata)
                self._set_metadata(new)
                if then is not None:
                    await then(access, old[0], new)

            async def prepare(current: NodeMetadata, changed: NodeMetadata) -> None:
                assert before is not None
                await before(access, self._require_kind(current), self._require_kind(changed))

            # Chunks may be left below the path of a deleted array; they do not make it an implicit group.
            may_be_implicit = isinstance(self._metadata, GroupMetadata)
            return self._require_kind(
                await update_node(
                    access,
                    self.zarr_format,
                    checked_change,
                    finish,
                    before=None if before is None else prepare,
                    may_be_implicit=may_be_implicit,
                    mark=mark,
                )
            )

        return await self._run_on_io_thread(apply)

    @abstractmethod
    def _require_kind(self, metadata: NodeMetadata) -> M:
        """Return `metadata` if they are of this node's kind, else raise `NodeTypeError`."""

    def _mark_stored(self) -> None:
        """Record that the stored document is equal to this handle's."""

    def _set_metadata(self, metadata: M) -> None:
        self._metadata = metadata

    def _require_writable(self) -> None:
        if self._options.mode == "r":
            raise UnsupportedOperationError(
                f"{self.url} was opened with mode='r'; open it with mode='r+' to write", store=self._store.url
            )
        check_store_writable(self._store)


MakeNode: TypeAlias = Callable[[Store, str, NodeMetadata, HandleOptions], N]
"""Makes the handle of a node: `make_array`, `make_group`, or `make_node` for either."""


def check_store_writable(store: Store) -> None:
    """Check that the store can write.

    Raises:
        UnsupportedOperationError: it cannot.
    """
    if not store.supports.writable:
        raise UnsupportedOperationError(f"{type(store).__name__} cannot write", store=store.url)


def wrong_kind_error(url: str, path: str, metadata: NodeMetadata) -> NodeTypeError:
    """Return the error of a node that is an array instead of a group, or a group instead of an array."""
    found, expected = ("an array", "a group") if isinstance(metadata, ArrayMetadata) else ("a group", "an array")
    return NodeTypeError(f"{url} is {found}, not {expected}", url=url, path=path)
