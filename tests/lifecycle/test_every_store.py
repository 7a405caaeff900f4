"""16 tasks on each of 3 loops in 3 threads, and another `asyncio.run` after them, on every store: nothing is left."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import Store, from_url
from tests.support.leaks import unfinished_on_io_thread, wait_for
from tests.support.locations import Location, all_locations, array_at, sample_values, stored_objects

LOOPS = 3
TASKS = 16
VALUES = sample_values()
STORED = stored_objects()
BAND = VALUES.shape[0] // LOOPS


@pytest.fixture(params=all_locations())
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    with array_at(request.param, STORED, tmp_path, request) as found:
        yield found


def test_tasks_on_several_loops_share_an_array_and_leave_nothing_behind(location: Location) -> None:
    """Every loop reads all of it, and writes whole shards of its own with the values that they have."""
    mode: Any = "r+" if location.writable else "r"

    async def opened() -> aiozarr.Array:
        return await aiozarr.open_array(location.url, mode=mode, storage_options=location.storage_options)

    async def work(array: aiozarr.Array, loop: int) -> None:
        async def task(number: int) -> None:
            rows = slice(number * 3, number * 3 + 3)
            assert np.array_equal(await array[rows], VALUES[rows])
            if location.writable and number == 0:
                band = slice(loop * BAND, loop * BAND + BAND)
                await array[band].write(VALUES[band])

        await asyncio.gather(*(task(number) for number in range(TASKS)))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def close(array: aiozarr.Array) -> None:
        assert np.array_equal(await array[...], VALUES)
        await array.aclose()

    def job() -> None:
        array = asyncio.run(opened())
        _on_all_loops(lambda loop: asyncio.run(work(array, loop)))
        asyncio.run(close(array))

    _leaves_nothing(location, job)


def test_tasks_on_several_loops_share_a_store_and_leave_nothing_behind(location: Location) -> None:
    """Connections are the loop's own: each loop closes what it opened, and the store goes on in others."""

    async def work(store: Store) -> None:
        async def task(number: int) -> None:
            key = list(STORED)[number % len(STORED)]
            assert bytes(memoryview(await store.get(key) or b"")) == STORED[key]

        await asyncio.gather(*(task(number) for number in range(TASKS)))
        if store.supports.listable:
            assert sorted(await store.list()) == sorted(STORED)
        await store.aclose()

    async def last(store: Store) -> None:
        await work(store)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    def job() -> None:
        store = from_url(location.url, **location.storage_options)
        _on_all_loops(lambda loop: asyncio.run(work(store)))
        asyncio.run(last(store))

    _leaves_nothing(location, job)


def test_a_loop_that_ends_without_closing_the_store_leaves_no_connection(location: Location) -> None:
    async def work(store: Store) -> None:
        assert bytes(memoryview(await store.get("zarr.json") or b"")) == STORED["zarr.json"]

    def job() -> None:
        store = from_url(location.url, **location.storage_options)
        for _ in range(2):
            asyncio.run(work(store))

    _leaves_nothing(location, job)


def _on_all_loops(work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(LOOPS) as threads:
        for done in [threads.submit(work, loop) for loop in range(LOOPS)]:
            done.result()


def _leaves_nothing(location: Location, job: Callable[[], None]) -> None:
    """Do the job twice: the second time leaves no more open than the first, which has started the I/O thread."""

    async def look(most: int | None) -> int:
        gc.collect()
        assert await unfinished_on_io_thread() == []
        # The other ends, which are in this process too, need a moment to see that nobody is there any more.
        if location.link is not None and not location.keeps_connections:
            link = location.link
            assert await wait_for(lambda: link.open_connections == 0), link
        if most is not None:
            assert await wait_for(lambda: len(_open_files(location)) <= most), _open_files(location)
        return len(_open_files(location))

    job()
    before = asyncio.run(look(None))
    job()
    asyncio.run(look(before))


def _open_files(location: Location) -> list[str]:
    """What this process has open: files, sockets, loops; without the sockets that fsspec keeps for good."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # the listing's own
            continue
    return sorted(name for name in found if not (location.keeps_connections and name.startswith("socket:")))
