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
from aftermath import left_on_the_io_thread, wait_for
from places import Place, a_place, all_places, sample, stored

import aiozarr
from aiozarr.stores import Store, from_url

LOOPS = 3
TASKS = 16
VALUES = sample()
STORED = stored()
BAND = VALUES.shape[0] // LOOPS


@pytest.fixture(params=all_places())
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with a_place(request.param, STORED, tmp_path, request) as found:
        yield found


def test_tasks_on_several_loops_share_an_array_and_leave_nothing_behind(place: Place) -> None:
    """Every loop reads all of it, and writes whole shards of its own with the values that they have."""
    mode: Any = "r+" if place.writeable else "r"

    async def opened() -> aiozarr.Array:
        return await aiozarr.open_array(place.url, mode=mode, storage_options=place.storage_options)

    async def work(array: aiozarr.Array, loop: int) -> None:
        async def task(number: int) -> None:
            rows = slice(number * 3, number * 3 + 3)
            assert np.array_equal(await array[rows], VALUES[rows])
            if place.writeable and number == 0:
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

    _leaves_nothing(place, job)


def test_tasks_on_several_loops_share_a_store_and_leave_nothing_behind(place: Place) -> None:
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
        store = from_url(place.url, **place.storage_options)
        _on_all_loops(lambda loop: asyncio.run(work(store)))
        asyncio.run(last(store))

    _leaves_nothing(place, job)


def test_a_loop_that_ends_without_closing_the_store_leaves_no_connection(place: Place) -> None:
    async def work(store: Store) -> None:
        assert bytes(memoryview(await store.get("zarr.json") or b"")) == STORED["zarr.json"]

    def job() -> None:
        store = from_url(place.url, **place.storage_options)
        for _ in range(2):
            asyncio.run(work(store))

    _leaves_nothing(place, job)


def _on_all_loops(work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(LOOPS) as threads:
        for done in [threads.submit(work, loop) for loop in range(LOOPS)]:
            done.result()


def _leaves_nothing(place: Place, job: Callable[[], None]) -> None:
    """Do the job twice: the second time leaves no more open than the first, which has started the I/O thread."""

    async def look(most: int | None) -> int:
        gc.collect()
        assert await left_on_the_io_thread() == []
        # The other ends, which are in this process too, need a moment to see that nobody is there any more.
        if place.line is not None and not place.keeps_connections:
            line = place.line
            assert await wait_for(lambda: line.open_connections == 0), line
        if most is not None:
            assert await wait_for(lambda: len(_open_files(place)) <= most), _open_files(place)
        return len(_open_files(place))

    job()
    before = asyncio.run(look(None))
    job()
    asyncio.run(look(before))


def _open_files(place: Place) -> list[str]:
    """What this process has open: files, sockets, loops; without the sockets that fsspec keeps for good."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # the listing's own
            continue
    return sorted(name for name in found if not (place.keeps_connections and name.startswith("socket:")))
