"""Who may change a store's hierarchy when: many at once, or one alone while consolidated metadata are out of date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from weakref import WeakKeyDictionary

from aiozarr.engine.desk import Desk
from aiozarr.hierarchy.documents import Place
from aiozarr.stores import Store


class Turns:
    """A lock of one store: shared by any number of tasks, or held by one alone. Lives on one loop.

    Whoever waits to be alone goes before those who come later, so that a stream of others does not starve it.
    """

    def __init__(self) -> None:
        self._shared = 0
        self._alone = asyncio.Lock()
        self._nobody = asyncio.Event()
        self._nobody.set()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Hold the lock together with others."""
        async with self._alone:
            self._shared += 1
            self._nobody.clear()
        try:
            yield
        finally:
            self._shared -= 1
            if not self._shared:
                self._nobody.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Hold the lock when nobody else does."""
        async with self._alone:
            await self._nobody.wait()
            yield


class Ledger:
    """What this process has changed below consolidated metadata: counts per store, and the locks of those at work.

    Stores whose roots lie inside of each other hold the same nodes: a change through one counts for the others too.
    """

    def __init__(self) -> None:
        self._turns: dict[Hashable, tuple[Turns, list[None]]] = {}
        self._changes: dict[Hashable, int] = {}
        self._changes_below: dict[Hashable, int] = {}
        self._roots: WeakKeyDictionary[Store, tuple[Hashable, ...]] = WeakKeyDictionary()

    def changes(self, store: Store) -> int:
        """Return how often this process has changed the hierarchy of the store: copies are as old as that number."""
        own, *above = self._roots_of(store)
        return self._changes_below.get(own, 0) + sum([self._changes.get(each, 0) for each in (own, *above)])

    def note_change(self, store: Store) -> None:
        """Count a change."""
        own, *above = self._roots_of(store)
        self._changes[own] = self._changes.get(own, 0) + 1
        for each in above:
            self._changes_below[each] = self._changes_below.get(each, 0) + 1

    @asynccontextmanager
    async def hold(self, store: Hashable, *, alone: bool) -> AsyncIterator[None]:
        """Hold the store's lock; it exists only while somebody holds it or waits for it."""
        turns, users = self._turns.setdefault(store, (Turns(), []))
        users.append(None)
        try:
            async with turns.alone() if alone else turns.shared():
                yield
        finally:
            users.pop()
            if not users:
                del self._turns[store]

    def _roots_of(self, store: Store) -> tuple[Hashable, ...]:
        """Return the identities of the store and of those whose roots lie above its own, the nearest first."""
        known = self._roots.get(store)
        if known is None:
            roots, at = [store.identity], store.rooted_above()
            while at is not None:
                roots.append(at[0].identity)
                at = at[0].rooted_above()
            known = self._roots[store] = tuple(roots)
        return known


_ledgers: WeakKeyDictionary[Desk, Ledger] = WeakKeyDictionary()


def ledger_of(desk: Desk) -> Ledger:
    """Return the locks that go with this I/O thread."""
    return _ledgers.setdefault(desk, Ledger())


def exclusively(place: Place) -> AbstractAsyncContextManager[None]:
    """Hold the lock of one node's documents: with it, tasks of this process do not collide, they queue."""
    return place.engine.desk.locks.hold(place.store.place_of(place.prefix))
