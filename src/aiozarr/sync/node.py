"""The common base of the blocking array and group: properties, attributes and closing."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from aiozarr import hierarchy
from aiozarr.hierarchy.node import Node as AsyncNode
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.sync.wait import blocking_method, unchanged

N = TypeVar("N", hierarchy.Array, hierarchy.Group)


class Node(Generic[N]):
    """A blocking handle of one node. It may be used from any number of threads, and be pickled."""

    def __init__(self, node: N) -> None:
        self._async: N = node

    @property
    def store(self) -> Store:
        """The store of the node."""
        return self._async.store

    @property
    def path(self) -> str:
        """The node's path in the store, such as `a/b`. The root's path is empty."""
        return self._async.path

    @property
    def name(self) -> str:
        """The path with a leading `/`, as in h5py: `/a/b`; `/` is the root."""
        return self._async.name

    @property
    def url(self) -> str:
        """The canonical URL of the node, without secrets."""
        return self._async.url

    @property
    def settings(self) -> Settings:
        """The settings of the node's reads and writes."""
        return self._async.settings

    @property
    def zarr_format(self) -> int:
        """Version of the Zarr format of the stored node."""
        return self._async.zarr_format

    @property
    def read_only(self) -> bool:
        """True if writes raise."""
        return self._async.read_only

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes, as a read-only copy. `update_attributes` and `replace_attributes` change the stored ones."""
        return self._async.attrs

    update_attributes = blocking_method(AsyncNode.update_attributes, unchanged)
    replace_attributes = blocking_method(AsyncNode.replace_attributes, unchanged)
    refresh = blocking_method(AsyncNode.refresh, unchanged)
    close = blocking_method(AsyncNode.aclose, unchanged)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
