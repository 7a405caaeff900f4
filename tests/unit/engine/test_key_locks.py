"""Locks by key: tasks of one key take turns, other keys are free, and an unused lock is forgotten."""

from __future__ import annotations

import asyncio

import pytest

from aiozarr.engine.key_locks import KeyLocks


async def test_tasks_of_one_key_take_turns_and_other_keys_are_free() -> None:
    locks, order = KeyLocks(), []

    async def hold(key: str, name: str) -> None:
        async with locks.hold(key):
            order.append(name)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            order.append(name)

    await asyncio.gather(hold("a", "first"), hold("a", "second"), hold("b", "other"))
    assert [name for name in order if name != "other"] == ["first", "first", "second", "second"]
    assert order.index("other") < order.index("second")
    assert locks.is_idle


async def test_a_key_is_held_until_its_last_waiter_has_left() -> None:
    locks = KeyLocks()

    async def wait() -> None:
        async with locks.hold("a"):
            raise AssertionError("the lock was not released")

    async with locks.hold("a"):
        waiter = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert locks.held("a")
        assert not locks.held("b")
    assert not locks.held("a")
    assert locks.is_idle


async def test_an_error_releases_the_lock() -> None:
    locks = KeyLocks()
    with pytest.raises(RuntimeError):
        async with locks.hold("a"):
            raise RuntimeError
    assert locks.is_idle
