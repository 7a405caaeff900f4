"""Changes of stored objects beside other writers: compare-and-swap, and group commit.

Compare-and-swap reads, changes and writes under a precondition, and again if another writer came first. In a group
commit, partial writes of one stored object queue up, and the first of them commits those that wait. So an object that
many tasks fill piece by piece is read and written a few times, not once per task. The members take turns by a lock of
the object's key.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Generic, TypeAlias, TypeVar

from aiozarr.common.concurrency import random_jitter, wait_uncancelled
from aiozarr.errors import PreconditionFailedError

T = TypeVar("T")
C = TypeVar("C")
WriteGroup: TypeAlias = Callable[[Sequence[C]], Awaitable[Collection[C]]]

MAX_SWAPS = 100
"""A writer gives up after this many attempts in which another writer of the object came first."""

BASE_DELAY = 0.01
MAX_DELAY = 0.1
"""Seconds between attempts; the delay doubles, with full jitter."""


async def compare_and_swap(
    swap: Callable[[], Awaitable[T]], *, max_swaps: int = MAX_SWAPS, max_delay: float = MAX_DELAY
) -> T:
    """Await `swap()` until no other writer comes first.

    Args:
        swap: reads, changes and writes a state, on condition that it is unchanged.
        max_swaps: the number of attempts, at least 1.
        max_delay: the longest delay between two attempts, in seconds.

    Raises:
        PreconditionFailedError: other writers came first `max_swaps` times.
    """
    pauses = delays(max_swaps, max_delay)
    for _ in range(1, max_swaps):
        try:
            return await swap()
        except PreconditionFailedError:
            pass
        await asyncio.sleep(next(pauses))
    return await swap()


def compare_and_swap_blocking(swap: Callable[[], T]) -> T:
    """As `compare_and_swap`, in the calling thread."""
    pauses = delays(MAX_SWAPS, MAX_DELAY)
    for _ in range(1, MAX_SWAPS):
        try:
            return swap()
        except PreconditionFailedError:
            pass
        time.sleep(next(pauses))
    return swap()


def delays(max_swaps: int, max_delay: float, jitter: Callable[[], float] = random_jitter) -> Iterator[float]:
    """Iterate over the seconds to wait after each attempt but the last. `jitter` returns a number in [0, 1)."""
    step = BASE_DELAY
    for _ in range(1, max_swaps):
        yield jitter() * min(step, max_delay)
        step = min(2 * step, max_delay)


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


MAX_GROUP_COMMITS = 5
"""After this many failed commits by other members a change commits only by itself.

Without the limit, N changes against a store that fails would encode each other's values N² times.
"""


class _Member(Generic[C]):
    """A change that waits for its commit.

    Attributes:
        in_progress: present while a commit covers the change; done when that commit has ended.
        is_committed: True after a commit that covered the change.
        attempts: number of commits that have covered it.
    """

    __slots__ = ("attempts", "change", "in_progress", "is_committed")

    def __init__(self, change: C) -> None:
        self.change = change
        self.in_progress: asyncio.Future[None] | None = None
        self.is_committed = False
        self.attempts = 0


class GroupCommit(Generic[C]):
    """The changes of objects in part that wait, by object. Lives on one loop.

    Args:
        locks: one commit per object at a time holds the lock of the object. Others may hold it, too.
    """

    def __init__(self, locks: KeyLocks) -> None:
        self._locks = locks
        self._waiting: dict[Hashable, list[_Member[C]]] = {}

    @property
    def is_idle(self) -> bool:
        """True if no change waits."""
        return not self._waiting

    async def commit(self, key: Hashable, change: C, write: WriteGroup[C], can_merge: Callable[[C], bool]) -> None:
        """Commit `change` to the object `key`, in the commit of another change or in one of its own.

        A change that the commit of another one leaves out, or whose commit fails, waits on. If this task is cancelled
        while another one's commit covers its change, it waits for the end of that commit.

        Args:
            key: identity of the object.
            change: the change.
            write: commits changes in the order in which they came, this one among them. Returns those that it has
                committed. What it raises is raised here, and leaves the other changes waiting.
            can_merge: returns whether one write can commit this change and another one.
        """
        member = _Member(change)
        waiting = self._waiting.setdefault(key, [])
        waiting.append(member)
        try:
            async with self._locks.hold(key):
                if not member.is_committed:
                    await self._lead(member, waiting, write, can_merge)
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
        self,
        leader: _Member[C],
        waiting: list[_Member[C]],
        write: WriteGroup[C],
        can_merge: Callable[[C], bool],
    ) -> None:
        group = [
            member
            for member in waiting
            if member is leader or (member.attempts < MAX_GROUP_COMMITS and can_merge(member.change))
        ]
        for member in group:
            waiting.remove(member)
            member.attempts += 1
            member.in_progress = asyncio.get_running_loop().create_future()
        committed: Collection[C] = ()
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
