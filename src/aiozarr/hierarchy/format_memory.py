"""Remembers which formats nodes have had, so that opening a node nearby asks for the documents of one format first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from weakref import WeakKeyDictionary

from aiozarr.engine import Engine
from aiozarr.hierarchy.location import ancestors, key_prefix
from aiozarr.metadata import PROBE_KEYS
from aiozarr.stores import Store

MAX_PLACES = 4096
"""Places that are remembered, the last used ones. One takes about 300 bytes."""


class FormatMemory:
    """The formats of nodes that this process has opened or created. Lives on the I/O thread.

    A format is a hint: it decides which documents are requested first, and never which node is found.
    """

    def __init__(self) -> None:
        self._formats: OrderedDict[Hashable, int] = OrderedDict()

    def find(self, store: Store, path: str) -> int | None:
        """Return the format that was last seen at a node, at the nearest node above it, or in its store."""
        found = self._find_in_store(store, (path, *reversed(ancestors(path))))
        parent = store.parent_store()
        while found is None and parent is not None:
            found = self._find_in_store(parent[0], ("",))
            parent = parent[0].parent_store()
        return found

    def record(self, store: Store, path: str, zarr_format: int) -> None:
        """Remember the format of a node, for itself, for all nodes below it and for its store."""
        for place in {_identity(store, path), _identity(store, "")}:
            self._formats[place] = zarr_format
            self._formats.move_to_end(place)
        while len(self._formats) > MAX_PLACES:
            self._formats.popitem(last=False)

    def _find_in_store(self, store: Store, paths: Iterable[str]) -> int | None:
        for path in paths:
            place = _identity(store, path)
            if place in self._formats:
                self._formats.move_to_end(place)
                return self._formats[place]
        return None


def _identity(store: Store, path: str) -> Hashable:
    # The identity of a document is equal for all stores that reach it, by whatever URL they were opened.
    return store.object_identity(key_prefix(path) + PROBE_KEYS[0])


_memories: WeakKeyDictionary[Engine, FormatMemory] = WeakKeyDictionary()


def formats_of(engine: Engine) -> FormatMemory:
    """Return the format memory of an engine."""
    return _memories.setdefault(engine, FormatMemory())
