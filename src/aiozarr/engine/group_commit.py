"""Group commit: partial writes of one stored object queue up, and the first of them commits those that wait.

So an object that many tasks fill piece by piece is read and written a few times, not once per task. The members take
turns by a lock of the object's key.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Sequence
from contextlib import asynccontextmanager
from typing import Generic, Protocol, Self, TypeVar

from aiozarr.common.concurrency import wait_uncancelled


class KeyLocks:
    """Locks by key. Lives on one loop."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, list[None]]] = {}

    @property
    def is_idle(self) -> bool:
        """True if no lock is held."""
        return not self._locks

    def held(self, key: Hashable) -> bool:
        """Return whether a task holds the lock of `key`, or waits for it."""
        return key in self._locks

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the lock of `key`."""
        lock, users = self._locks.setdefault(key, (asyncio.Lock(), []))
        users.append(None)
        try:
            async with lock:
                yield
        finally:
            users.pop()
            if not users:
                del self._locks[key]


class MergeableChange(Protocol):
    """A change of one object."""

    def can_merge_with(self, other: Self) -> bool:
        """Return whether one write can commit both changes."""
        ...


T = TypeVar("T", bound=MergeableChange)


MAX_GROUP_COMMITS = 5
"""After this many failed commits by other members a change commits only by itself.

Without the limit, N changes against a store that fails would encode each other's values N² times.
"""


class _Member(Generic[T]):
    """A change that waits for its commit.

    Attributes:
        in_progress: present while a commit covers the change; done when that commit has ended.
        is_committed: True after a commit that covered the change.
        attempts: number of commits that have covered it.
    """

    __slots__ = ("attempts", "change", "in_progress", "is_committed")

    def __init__(self, change: T) -> None:
        self.change = change
        self.in_progress: asyncio.Future[None] | None = None
        self.is_committed = False
        self.attempts = 0


class GroupCommit(Generic[T]):
    """The changes that wait, by object. Lives on one loop.

    Args:
        locks: one commit per object at a time holds the lock of the object. Others may hold it, too.
    """

    def __init__(self, locks: KeyLocks) -> None:
        self._locks = locks
        self._waiting: dict[Hashable, list[_Member[T]]] = {}

    @property
    def is_idle(self) -> bool:
        """True if no change waits."""
        return not self._waiting

    async def commit(self, key: Hashable, change: T, write: Callable[[Sequence[T]], Awaitable[Collection[T]]]) -> None:
        """Commit `change` to the object `key`, in the commit of another change or in one of its own.

        A change that the commit of another one leaves out, or whose commit fails, waits on. If this task is cancelled
        while another one's commit covers its change, it waits for the end of that commit.

        Args:
            key: identity of the object.
            change: the change.
            write: commits changes in the order in which they came, this one among them. Returns those that it has
                committed. What it raises is raised here, and leaves the other changes waiting.
        """
        member = _Member(change)
        waiting = self._waiting.setdefault(key, [])
        waiting.append(member)
        try:
            async with self._locks.hold(key):
                if not member.is_committed:
                    await self._lead(member, waiting, write)
        except asyncio.CancelledError:
            if member.in_progress is not None:
                await wait_uncancelled(member.in_progress)
            raise
        finally:
            if member in waiting:
                waiting.remove(member)
            if not waiting and self._waiting.get(key) is waiting:
                del self._waiting[key]

    async def _lead(
        self, leader: _Member[T], waiting: list[_Member[T]], write: Callable[[Sequence[T]], Awaitable[Collection[T]]]
    ) -> None:
        group = [
            member
            for member in waiting
            if member is leader or (member.attempts < MAX_GROUP_COMMITS and leader.change.can_merge_with(member.change))
        ]
        for member in group:
            waiting.remove(member)
            member.attempts += 1
            member.in_progress = asyncio.get_running_loop().create_future()
        committed: Collection[T] = ()
        try:
            committed = await write([member.change for member in group])
        finally:
            for member in group:
                member.is_committed = any(member.change is change for change in committed)
                if not member.is_committed and member is not leader:
                    waiting.append(member)
                assert member.in_progress is not None
                member.in_progress.set_result(None)
                member.in_progress = None
