"""The nodes that this process has erased or resized lately, so that a handle learns whether its own is among them."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from itertools import islice

from aiozarr.common.fork_safe import ForkSafeLock
from aiozarr.metadata.names import ancestors
from aiozarr.stores import Store

MAX_LOGGED = 4096
"""Changes that are remembered. A handle that has missed more compares its document once, without a cause."""


class ChangeLog:
    """Records changes of nodes, of any store. Used by all threads.

    Attributes:
        count: the number of changes so far. A handle that has seen this number has nothing to check.
    """

    def __init__(self) -> None:
        self.count = 0
        self._recent: deque[Hashable] = deque(maxlen=MAX_LOGGED)
        self._lock = ForkSafeLock()

    def record(self, store: Store, path: str) -> None:
        """Record a change of the node at `path`, and of what is below it."""
        identity = _identity(store, path)
        with self._lock:
            self._recent.append(identity)
            self.count += 1

    def may_include(self, lineage: frozenset[Hashable], since: int) -> bool:
        """Return whether a change after the first `since` ones was of a node with this lineage."""
        with self._lock:
            missed = self.count - since
            return missed > len(self._recent) or any(
                [identity in lineage for identity in islice(reversed(self._recent), missed)]
            )


def lineage_of(store: Store, path: str) -> frozenset[Hashable]:
    """Return the identities of a node and of the nodes above it, those above the root of the store included."""
    found = {_identity(store, each) for each in (path, *ancestors(path))}
    parent = store.parent_store()
    while parent is not None:
        found.add(_identity(parent[0], ""))
        parent = parent[0].parent_store()
    return frozenset(found)


def _identity(store: Store, path: str) -> Hashable:
    # Of a key that no object has: a node is where its documents are, through whatever store they are reached.
    return store.object_identity(f"{path}/." if path else ".")


erasures = ChangeLog()
"""Nodes that were erased, and those that were replaced."""
resizes = ChangeLog()
"""Arrays whose shape was changed."""
