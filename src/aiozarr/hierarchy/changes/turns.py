"""Who may change a store's hierarchy when: many at once, or one alone while consolidated metadata are out of date."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from aiozarr.engine.desk import Desk


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
    """What this process has changed below consolidated metadata: a count per store, and the locks of those at work."""

    def __init__(self) -> None:
        self._turns: dict[Hashable, tuple[Turns, list[None]]] = {}
        self._changes: dict[Hashable, int] = {}

    def changes(self, store: Hashable) -> int:
        """Return how often this process has changed the hierarchy of the store: copies are as old as that number."""
        return self._changes.get(store, 0)

    def note_change(self, store: Hashable) -> None:
        """Count a change."""
        self._changes[store] = self.changes(store) + 1

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


_ledgers: WeakKeyDictionary[Desk, Ledger] = WeakKeyDictionary()


def ledger_of(desk: Desk) -> Ledger:
    """Return the locks that go with this I/O thread."""
    return _ledgers.setdefault(desk, Ledger())
