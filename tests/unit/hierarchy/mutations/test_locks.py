"""Locks and change counters of stores: shared or exclusive, and counted for parent stores too."""

from __future__ import annotations

import asyncio

import pytest

from aiozarr.hierarchy import changes as locks
from aiozarr.hierarchy.changes import ChangeTracker, SharedExclusiveLock
from aiozarr.stores import MemoryStore, PrefixStore


async def test_shared_holders_run_together_and_an_exclusive_one_alone() -> None:
    lock, inside = SharedExclusiveLock(), []
    most = {"shared": 0, "exclusive": 0}

    async def hold(kind: str) -> None:
        async with lock.exclusive() if kind == "exclusive" else lock.shared():
            inside.append(kind)
            most[kind] = max(most[kind], len(inside))
            await asyncio.sleep(0.001)
            inside.remove(kind)

    await asyncio.gather(*[hold(kind) for kind in ["shared"] * 4 + ["exclusive"] * 2 + ["shared"] * 4])
    assert most["exclusive"] == 1
    assert most["shared"] == 4


async def test_an_exclusive_holder_that_waits_comes_before_later_shared_ones() -> None:
    lock, order = SharedExclusiveLock(), []

    async def exclusive() -> None:
        async with lock.exclusive():
            order.append("exclusive")

    async def shared() -> None:
        async with lock.shared():
            order.append("shared")

    async with lock.shared():
        tasks = [asyncio.create_task(exclusive())]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(shared()))
        await asyncio.sleep(0)
        assert order == []
    await asyncio.gather(*tasks)
    assert order == ["exclusive", "shared"]


async def test_a_cancelled_exclusive_waiter_lets_others_in() -> None:
    lock = SharedExclusiveLock()

    async def exclusive() -> None:
        async with lock.exclusive():
            pass

    async with lock.shared():
        waiter = asyncio.create_task(exclusive())
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        async with asyncio.timeout(10), lock.shared():
            pass


def test_a_change_counts_for_the_store_its_parents_and_the_stores_inside() -> None:
    tracker, root = ChangeTracker(), MemoryStore()
    inner, sibling, other = PrefixStore(root, "a/"), PrefixStore(root, "b/"), MemoryStore()
    before = [tracker.count(store) for store in (root, inner, sibling, other)]
    with tracker.recording(inner):
        assert tracker.count(inner) == before[1]
    assert [tracker.count(store) for store in (root, inner, sibling, other)] == [1, 1, 0, 0]
    with pytest.raises(RuntimeError), tracker.recording(root):
        raise RuntimeError
    assert [tracker.count(store) for store in (root, inner, sibling, other)] == [2, 2, 2, 0]


def test_the_last_changes_of_a_bounded_number_of_stores_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "MAX_TRACKED_STORES", 3)
    tracker, stores = ChangeTracker(), [MemoryStore() for _ in range(5)]
    seen = []
    for store in stores:
        seen.append(tracker.count(store))
        with tracker.recording(store):
            pass
    # A forgotten store counts as changed; one that has not changed may, which costs one request.
    assert all(tracker.count(store) > before for store, before in zip(stores, seen, strict=True))
    assert len(tracker._changes) == 3
    latest = tracker.count(stores[-1])
    with tracker.recording(stores[0]):
        pass
    assert tracker.count(stores[0]) > latest == tracker.count(stores[-1])


async def test_tasks_of_other_stores_do_not_wait() -> None:
    tracker, one, other = ChangeTracker(), MemoryStore(), MemoryStore()
    async with tracker.exclusive(one), asyncio.timeout(10), tracker.exclusive(other):
        pass
