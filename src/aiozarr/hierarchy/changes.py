"""Changes of nodes by this process.

Locks and change counters of stores keep consolidated metadata consistent inside this process. A log has the nodes that
were erased or resized recently, so that a handle learns whether its node is among them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from itertools import islice
from typing import NamedTuple
from weakref import WeakKeyDictionary

from aiozarr.common.fork_safe import ForkSafeLock
from aiozarr.engine import Engine
from aiozarr.metadata.format_rules import ancestors
from aiozarr.stores import Store


class SharedExclusiveLock:
    """A lock that any number of tasks share, or one task holds exclusively. Used on one loop.

    A task that waits for the exclusive lock comes before later tasks, so shared holders cannot starve it.
    """

    def __init__(self) -> None:
        self._shared_count = 0
        self._exclusive = asyncio.Lock()
        self._not_shared = asyncio.Event()
        self._not_shared.set()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Hold the lock together with other tasks."""
        async with self._exclusive:
            self._shared_count += 1
            self._not_shared.clear()
        try:
            yield
        finally:
            self._shared_count -= 1
            if not self._shared_count:
                self._not_shared.set()

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Hold the lock alone."""
        async with self._exclusive:
            await self._not_shared.wait()
            yield


MAX_TRACKED_STORES = 4096
"""Stores whose last change is remembered. A service may open a store for each of its users."""
MAX_REMOVALS = 4096
"""The number of recent removals of consolidated metadata that are remembered."""


class Removal(NamedTuple):
    """The removal of consolidated metadata by a change that has not rewritten them.

    Attributes:
        document: the document that replaced the one with consolidated metadata; None: the latter was erased.
        changed: the identities of the nodes that were about to change.
    """

    document: bytes | None
    changed: frozenset[Hashable]


class ChangeTracker:
    """Numbers the changes that this process makes to each store's hierarchy, and has the lock of each store.

    If the root of one store is inside the root of another, a change through one counts for both.

    Attributes:
        last: the number of the last change of any store. Any thread may read it.
        removals: consolidated metadata that this process has removed and not rewritten, by the identity of the
            document. An interrupted change leaves its removals here, and the next successful change restores the
            metadata.
    """

    def __init__(self) -> None:
        self.removals: OrderedDict[Hashable, Removal] = OrderedDict()
        self._locks: dict[Hashable, tuple[SharedExclusiveLock, list[None]]] = {}
        # The numbers of the last changes of each store, and of the stores inside it, the latest at the end.
        self._changes: dict[Hashable, int] = {}
        self._changes_below: dict[Hashable, int] = {}
        self.last = self._forgotten = 0
        self._identities: WeakKeyDictionary[Store, tuple[Hashable, ...]] = WeakKeyDictionary()

    def count(self, store: Store) -> int:
        """Return the number of the last change. Metadata that were read at a lower number may be stale."""
        own, *parents = self._identities_of(store)
        known = [self._changes.get(each, 0) for each in (own, *parents)]
        return max(self._forgotten, self._changes_below.get(own, 0), *known)

    @contextmanager
    def recording(self, store: Store) -> Iterator[None]:
        """Count one change when the context is left, also by an error: something may have been stored."""
        try:
            yield
        finally:
            own, *parents = self._identities_of(store)
            self.last += 1
            self._note(self._changes, own)
            for each in parents:
                self._note(self._changes_below, each)

    def _note(self, table: dict[Hashable, int], identity: Hashable) -> None:
        table.pop(identity, None)
        table[identity] = self.last
        if len(table) > MAX_TRACKED_STORES:
            # A forgotten store counts as changed now, because the number must never fall.
            self._forgotten = max(self._forgotten, table.pop(next(iter(table))))

    def add_removal(self, document: Hashable, removal: Removal) -> None:
        """Remember a removal, before it is made."""
        self.removals[document] = removal
        if len(self.removals) > MAX_REMOVALS:
            self.removals.popitem(last=False)

    def shared(self, store: Store) -> AbstractAsyncContextManager[None]:
        """Hold the lock of the store together with other tasks."""
        return self._hold(store.identity, exclusive=False)

    def exclusive(self, store: Store) -> AbstractAsyncContextManager[None]:
        """Hold the lock of the store alone."""
        return self._hold(store.identity, exclusive=True)

    @asynccontextmanager
    async def _hold(self, identity: Hashable, *, exclusive: bool) -> AsyncIterator[None]:
        # A lock exists only while a task holds it or waits for it.
        lock, users = self._locks.setdefault(identity, (SharedExclusiveLock(), []))
        users.append(None)
        try:
            async with lock.exclusive() if exclusive else lock.shared():
                yield
        finally:
            users.pop()
            if not users:
                del self._locks[identity]

    def _identities_of(self, store: Store) -> tuple[Hashable, ...]:
        """Return the identities of the store and of its parent stores, the nearest first."""
        known = self._identities.get(store)
        if known is None:
            identities, parent = [store.identity], store.parent_store()
            while parent is not None:
                identities.append(parent[0].identity)
                parent = parent[0].parent_store()
            known = self._identities[store] = tuple(identities)
        return known


_trackers: WeakKeyDictionary[Engine, ChangeTracker] = WeakKeyDictionary()


def changes_of(engine: Engine) -> ChangeTracker:
    """Return the change tracker of an engine."""
    found = _trackers.get(engine)
    return _trackers.setdefault(engine, ChangeTracker()) if found is None else found


MAX_LOGGED = 4096
"""Changes that are remembered. A handle that has missed more compares its document once, without a cause."""


class ChangeLog:
    """Records changes of nodes of all stores. Used by all threads.

    Attributes:
        count: the number of changes so far. A handle that has seen this number has nothing to check.
    """

    def __init__(self) -> None:
        self.count = 0
        self._recent: deque[Hashable] = deque(maxlen=MAX_LOGGED)
        self._lock = ForkSafeLock()

    def record(self, store: Store, path: str) -> None:
        """Record a change of the node at `path`, and of the nodes below it."""
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
    # The identity of a key that no object has, which is equal for all stores that reach the documents of the node.
    return store.object_identity(f"{path}/." if path else ".")


erasures = ChangeLog()
"""Nodes that were erased, and those that were replaced."""
resizes = ChangeLog()
"""Arrays whose shape was changed."""
