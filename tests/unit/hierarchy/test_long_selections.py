"""Large index arrays are counted and sorted once, in a worker; small ones on the loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.engine.shard_read import ShardRead
from aiozarr.grid import index_groups
from aiozarr.grid.chunk_grid import LARGE_POINT_COUNT
from aiozarr.stores import MemoryStore, Store
from aiozarr.testing.fakes import FakeStore

SIDE = 300
DATA = np.arange(SIDE * SIDE, dtype="i4").reshape(SIDE, SIDE)

Calls = list[tuple[str, str]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What was done to lists of points, and by which kind of thread."""
    seen: Calls = []

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            seen.append((name, threading.current_thread().name.rstrip("0123456789-")))
            return function(*args)

        return call

    monkeypatch.setattr(index_groups, "sort_by_chunk", noted("sort", index_groups.sort_by_chunk))
    monkeypatch.setattr(index_groups, "count_chunks_of_points", noted("count", index_groups.count_chunks_of_points))
    return seen


async def stored(store: Store | None = None, **options: Any) -> aiozarr.Array:
    array = await aiozarr.create_array(store or MemoryStore(), shape=DATA.shape, dtype="i4", chunks=50, **options)
    await array[...].write(DATA)
    return array


def points(number: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    return rng.integers(0, SIDE, number), rng.integers(0, SIDE, number)


@pytest.mark.parametrize("remote", [False, True])
async def test_many_points_are_sorted_once_and_by_a_worker(remote: bool, calls: Calls) -> None:
    array = await stored(FakeStore(latency=0) if remote else None)
    index = points(LARGE_POINT_COUNT)
    view = array.vindex[index]
    assert np.array_equal(await view, DATA[index])
    assert calls == [("sort", "aiozarr-worker")]
    calls.clear()
    await view.write(DATA[index])
    assert calls == [("sort", "aiozarr-worker")]
    calls.clear()
    assert sum([block.size async for _, block in view.stream()]) == LARGE_POINT_COUNT
    assert calls == [("sort", "aiozarr-worker")]
    calls.clear()
    assert np.array_equal((await aiozarr.read_many([view, array]))[0], DATA[index])
    assert calls == [("sort", "aiozarr-worker")]
    calls.clear()
    assert (await view.probe()).chunks == 36
    assert set(calls) == {("sort", "aiozarr-worker"), ("count", "aiozarr-worker")}
    assert np.array_equal(await array[...], DATA)


@pytest.mark.parametrize("remote", [False, True])
async def test_many_points_of_one_shard_are_sorted_by_workers(remote: bool, calls: Calls) -> None:
    array = await stored(FakeStore(latency=0) if remote else None, shards=300)
    index = points(LARGE_POINT_COUNT)
    view = array.vindex[index]
    assert np.array_equal(await view, DATA[index])
    assert calls == [("sort", "aiozarr-worker")] * 2
    await view.write(DATA[index])
    await view.probe()
    assert {thread for _, thread in calls} == {"aiozarr-worker"}
    assert np.array_equal(await array[...], DATA)


async def test_few_points_are_sorted_on_the_loop(calls: Calls) -> None:
    array = await stored()
    index = points(100)
    assert np.array_equal(await array.vindex[index], DATA[index])
    assert calls == [("sort", "aiozarr-io")]


async def test_many_points_that_may_touch_too_many_chunks_are_counted_by_a_worker(calls: Calls) -> None:
    store = MemoryStore()
    await stored(store)
    array = await aiozarr.open_array(store, settings=aiozarr.Settings(max_chunks=30))
    with pytest.raises(aiozarr.LimitError, match="touches 36 chunks"):
        await array.vindex[points(LARGE_POINT_COUNT)].read()
    assert calls == [("count", "aiozarr-worker")]
    calls.clear()
    rows, columns = points(LARGE_POINT_COUNT)
    assert np.array_equal(await array.vindex[rows // 2, columns], DATA[rows // 2, columns])
    assert calls == [("count", "aiozarr-worker"), ("sort", "aiozarr-worker")]


async def test_a_shard_whose_points_cannot_be_sorted_ends_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    array = await stored(shards=300)
    sort = index_groups.sort_by_chunk
    done: list[bool] = []

    def fails(*args: Any) -> Any:
        if done:
            raise MemoryError("no room")
        done.append(True)
        return sort(*args)

    monkeypatch.setattr(index_groups, "sort_by_chunk", fails)
    with pytest.raises(MemoryError, match="no room"):
        await array.vindex[points(LARGE_POINT_COUNT)].read()


async def test_no_more_shards_are_sorted_at_a_time_than_there_are_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    array = await stored(FakeStore(latency=0), shards=50)
    waiting: list[bool] = []
    end = ShardRead._sorted

    def ended(shard: ShardRead, error: BaseException | None) -> None:
        waiting.append(shard.operation.sorting <= shard.operation.pool.threads)
        end(shard, error)

    monkeypatch.setattr(ShardRead, "_sorted", ended)
    index = points(45 * LARGE_POINT_COUNT)
    assert np.array_equal(await array.vindex[index], DATA[index])
    assert waiting == [True] * 36
