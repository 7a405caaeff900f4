"""Callers on trio: they open, read, write, stream, are cancelled, and get errors as callers on asyncio do."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import trio

import aiozarr
from aiozarr.engine import io_thread
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore
from tests.support.leaks import wait_for

DATA = np.arange(64.0).reshape(8, 8)


def on_trio(function: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine function on trio, in at most 30 seconds."""

    async def limited() -> None:
        with trio.fail_after(30):
            await function()

    trio.run(limited)


def test_arrays_and_groups_are_created_read_written_and_streamed() -> None:
    async def main() -> None:
        group = await aiozarr.create_group(MemoryStore())
        array = await group.create_array("a", data=DATA, chunks=(2, 4), shards=(4, 8))
        async with aiozarr.open_array(group.store, "a", mode="r+") as opened:
            assert np.array_equal(await opened[...], DATA)
            await opened[0].write(-1)
            assert await opened[0, 3] == -1
        assert [name async for name, _ in group.members()] == ["a"]
        assert sum([block.size async for _, block in array[...].stream()]) == 64
        assert (await array[1:].probe()).exact
        assert [each.shape for each in await aiozarr.read_many([array[0], array[:, :2]])] == [(8,), (8, 2)]

    on_trio(main)


def test_many_tasks_share_one_schedule() -> None:
    async def main() -> None:
        store = FakeStore(latency=0)
        await aiozarr.create_array(store, data=DATA, chunks=(8, 8))
        array = await aiozarr.open_array(store)
        store.reset()
        found: list[Any] = []

        async def read() -> None:
            found.append(await array[...])

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(read)
        assert len(found) == 20
        assert all(np.array_equal(each, DATA) for each in found)
        assert store.count < 20

    on_trio(main)


def test_errors_arrive_with_their_types() -> None:
    async def main() -> None:
        with pytest.raises(aiozarr.NodeNotFoundError):
            await aiozarr.open_array(MemoryStore())

    on_trio(main)


@pytest.mark.parametrize("settings", [None, aiozarr.Settings(timeout=0.05)], ids=["cancelled", "timeout"])
def test_a_stalled_read_ends_by_cancellation_and_by_timeout(settings: aiozarr.Settings | None) -> None:
    async def main() -> None:
        store = FakeStore(latency=0)
        await aiozarr.create_array(store, data=DATA)
        array = await aiozarr.open_array(store, settings=settings)
        store.latency = 3600
        if settings is None:
            with trio.move_on_after(0.05) as scope:
                await array[...]
            assert scope.cancelled_caught
        else:
            with pytest.raises(aiozarr.StoreTimeoutError):
                await array[...]

    on_trio(main)
    engine = io_thread().engine
    assert engine is not None
    assert asyncio.run(wait_for(engine.idle))


def test_progress_is_called_in_trio_and_its_exception_ends_the_read() -> None:
    async def main() -> None:
        array = await aiozarr.create_array(FakeStore(latency=0), data=DATA, chunks=(2, 2))
        seen: list[int] = []

        def note(progress: aiozarr.Progress) -> None:
            assert trio.lowlevel.in_trio_run()
            seen.append(progress.done)

        await array[...].read(progress=note)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == sorted(seen)

        def refuse(progress: aiozarr.Progress) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await array[...].read(progress=refuse)

    on_trio(main)


def test_small_reads_from_memory_let_other_tasks_run() -> None:
    async def main() -> None:
        array = await aiozarr.create_array(MemoryStore(), data=DATA)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            for _ in range(50):
                assert await array[1, 2] == 10
            nursery.cancel_scope.cancel()
        assert turns > 10

    on_trio(main)


def test_blocking_names_work_inside_of_trio() -> None:
    async def main() -> None:
        array = aiozarr.sync.create_array(MemoryStore(), data=DATA)
        assert array[2, 2] == 18

    on_trio(main)


def test_asyncio_and_trio_take_turns_in_one_process() -> None:
    store = MemoryStore()

    async def write() -> None:
        await aiozarr.create_array(store, data=DATA)

    async def read() -> None:
        array = await aiozarr.open_array(store)
        assert np.array_equal(await array[:], DATA)

    asyncio.run(write())
    on_trio(read)
    asyncio.run(read())


async def test_a_half_imported_trio_is_not_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trio.lowlevel", ModuleType("trio.lowlevel"))
    array = await aiozarr.create_array(FakeStore(latency=0), data=DATA)
    assert np.array_equal(await array[...], DATA)
