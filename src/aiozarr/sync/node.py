"""What the blocking array and group share: facts taken from the asynchronous node, attributes, and a life that ends."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from aiozarr import hierarchy
from aiozarr.hierarchy.node import Node as AsyncNode
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.sync.wait import method, same

N = TypeVar("N", hierarchy.Array, hierarchy.Group)


class Node(Generic[N]):
    """A blocking handle of one node. It may be used from any number of threads, and be pickled."""

    def __init__(self, node: N) -> None:
        self._async: N = node

    @property
    def store(self) -> Store:
        """The store that the node lies in."""
        return self._async.store

    @property
    def path(self) -> str:
        """The node's path in the store, such as `a/b`; the root's is empty."""
        return self._async.path

    @property
    def url(self) -> str:
        """The canonical URL of the node, without secrets."""
        return self._async.url

    @property
    def settings(self) -> Settings:
        """The options that reads and writes of this node go by."""
        return self._async.settings

    @property
    def zarr_format(self) -> int:
        """Version of the Zarr format that the node is stored in."""
        return self._async.zarr_format

    @property
    def read_only(self) -> bool:
        """True where writes raise."""
        return self._async.read_only

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes, as a read-only copy; `update_attributes` and `replace_attributes` change what is stored."""
        return self._async.attrs

    update_attributes = method(AsyncNode.update_attributes, same)
    replace_attributes = method(AsyncNode.replace_attributes, same)
    close = method(AsyncNode.aclose, same)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
