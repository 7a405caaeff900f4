"""What an array and a group have in common: a place in a store, attributes, settings, and a life that ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar

from aiozarr.engine import run
from aiozarr.errors import UnsupportedOperationError
from aiozarr.hierarchy.attributes import checked_attributes, frozen_attributes
from aiozarr.hierarchy.changes.nodes import update_node
from aiozarr.hierarchy.documents import NodeMetadata, Place
from aiozarr.hierarchy.location import node_url
from aiozarr.metadata import ArrayMetadata, GroupMetadata
from aiozarr.schedule import current_recorder
from aiozarr.settings import Settings
from aiozarr.stores import Store

JSON: TypeAlias = Any
Mode: TypeAlias = Literal["r", "r+"]
T = TypeVar("T")
M = TypeVar("M", ArrayMetadata, GroupMetadata)


class Node(ABC, Generic[M]):
    """A handle of one node. Its metadata are those of the last time that this handle read or wrote them.

    A handle may be used from any number of tasks, threads and event loops, and be pickled.
    """

    def __init__(
        self, store: Store, path: str, metadata: M, *, settings: Settings, mode: Mode, owns_store: bool = False
    ) -> None:
        self._store = store
        self._path = path
        self._settings = settings
        self._mode: Mode = mode
        self._owns_store = owns_store
        self._metadata: M = metadata

    @property
    def store(self) -> Store:
        """The store that the node lies in."""
        return self._store

    @property
    def path(self) -> str:
        """The node's path in the store, such as `a/b`; the root's is empty."""
        return self._path

    @property
    def url(self) -> str:
        """The canonical URL of the node, without secrets."""
        return node_url(self._store, self._path)

    @property
    def settings(self) -> Settings:
        """The options that reads and writes of this node go by."""
        return self._settings

    @property
    def metadata(self) -> M:
        """What the node's metadata document says; not to be changed in place."""
        return self._metadata

    @property
    def zarr_format(self) -> int:
        """Version of the Zarr format that the node is stored in."""
        return self._metadata.zarr_format

    @property
    def read_only(self) -> bool:
        """True where writes raise: the node was opened with `mode="r"`, or its store cannot write."""
        return self._mode == "r" or not self._store.supports.writeable

    @property
    def attrs(self) -> Mapping[str, JSON]:
        """The attributes, as a read-only copy; `update_attributes` and `replace_attributes` change what is stored."""
        return frozen_attributes(self._metadata.attributes)

    async def update_attributes(self, attributes: Mapping[str, JSON]) -> None:
        """Set these attributes and leave the others; concurrent updates of other names, by anyone, are kept.

        Raises:
            TypeError, ValueError: `attributes` are no JSON values.
            UnsupportedOperationError: the node is read-only.
            NodeNotFoundError: the node is no longer there.
        """
        given = checked_attributes(attributes)
        await self._change(lambda metadata: metadata.with_attributes({**metadata.attributes, **given}))

    async def replace_attributes(self, attributes: Mapping[str, JSON]) -> None:
        """Store exactly these attributes.

        Raises:
            TypeError, ValueError, UnsupportedOperationError, NodeNotFoundError: as `update_attributes`.
        """
        given = checked_attributes(attributes)
        await self._change(lambda metadata: metadata.with_attributes(given))

    async def aclose(self) -> None:
        """Close the store if opening this node has made it; one that was passed in stays open. Twice is no error."""
        if self._owns_store:
            await run(lambda engine: self._store.aclose())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            _restore,
            (type(self), self._store, self._path, self._metadata, self._settings, self._mode, self._owns_store),
        )

    # --- for the nodes' own modules ------------------------------------------------------------------------------

    async def _at_place(self, function: Callable[[Place], Awaitable[T]], path: str | None = None) -> T:
        """Run `function` on the I/O thread with the place of this node, or of the one at `path`."""
        where = self._path if path is None else path
        recorder = current_recorder()
        return await run(
            lambda engine: function(Place(engine, self._store, where, self._settings, recorder)),
            timeout=self._settings.timeout,
        )

    async def _change(
        self, change: Callable[[M], M], then: Callable[[Place, M, M], Awaitable[None]] | None = None
    ) -> M:
        """Change the stored metadata and this handle's; `then(place, old, new)` follows before any other change."""
        self._check_writeable()

        async def apply(place: Place) -> M:
            old: list[M] = []

            def checked(metadata: NodeMetadata) -> M:
                old[:] = [self._expect(metadata)]
                return change(old[0])

            async def adopt(metadata: NodeMetadata) -> None:
                # Here, and not after the way back: in the order in which changes were stored.
                new = self._expect(metadata)
                self._adopt(new)
                if then is not None:
                    await then(place, old[0], new)

            # Below an array that is gone there may be chunks still: they make no group of it.
            implicit = isinstance(self._metadata, GroupMetadata)
            return self._expect(await update_node(place, self.zarr_format, checked, adopt, implicit=implicit))

        return await self._at_place(apply)

    @abstractmethod
    def _expect(self, metadata: NodeMetadata) -> M:
        """Return `metadata` if they are of this node's kind, else raise `NodeTypeError`."""

    def _adopt(self, metadata: M) -> None:
        self._metadata = metadata

    def _check_writeable(self) -> None:
        if self._mode == "r":
            raise UnsupportedOperationError(
                f"{self.url} was opened with mode='r'; open it with mode='r+' to write", store=self._store.url
            )
        if not self._store.supports.writeable:
            raise UnsupportedOperationError(f"{type(self._store).__name__} cannot write", store=self._store.url)


def _restore(
    kind: Any, store: Store, path: str, metadata: NodeMetadata, settings: Settings, mode: Mode, owns_store: bool
) -> Any:
    return kind(store, path, metadata, settings=settings, mode=mode, owns_store=owns_store)
