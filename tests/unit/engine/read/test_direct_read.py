"""Small reads of what is in memory are done in the caller's thread, and read what the ordinary way reads."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import aiozarr
import aiozarr.sync
from aiozarr.engine.read import MAX_DIRECT_CHUNKS
from aiozarr.errors import CodecError, MissingChunkError, ThrottledError
from aiozarr.hierarchy.view import View
from aiozarr.settings import Settings
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore

DATA = np.arange(64 * 48, dtype="f4").reshape(64, 48)
CACHED = Settings(chunk_cache_bytes=1 << 20)
SELECTIONS: list[Any] = [(3, 5), (slice(2, 30), slice(5, 20)), (slice(40, 2, -3), 7), (slice(0, 0),), (..., None, 2)]


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> list[View]:
    """The views that were read on the I/O thread."""
    found: list[View] = []
    run = View._run

    def counted(self: View, *arguments: Any, **keywords: Any) -> Any:
        found.append(self)
        return run(self, *arguments, **keywords)

    monkeypatch.setattr(View, "_run", counted)
    return found


async def stored(store: Any, settings: Settings | None = None, **keywords: Any) -> aiozarr.Array:
    await aiozarr.create_array(store, data=DATA, **{"chunks": (8, 8), **keywords})
    return await aiozarr.open_array(store, mode="r+", settings=settings)


@pytest.mark.parametrize("shards", [None, (32, 16)])
async def test_cached_chunks_are_copied_without_a_request_or_a_thread(shards: Any, ordinary: list[View]) -> None:
    store = FakeStore(latency=0)
    array = await stored(store, CACHED, shards=shards)
    await array[...]
    ordinary.clear()
    store.reset()
    for selection in SELECTIONS:
        assert np.array_equal(await array[selection], DATA[selection])
    out = np.zeros((4, 3), "f4")
    assert await array[1:5, 2:5].read(out) is out
    assert np.array_equal(out, DATA[1:5, 2:5])
    assert np.array_equal(await array.oindex[[5, 1, 5], [2, 2]], DATA[np.ix_([5, 1, 5], [2, 2])])
    assert np.array_equal(await array.vindex[[1, 60, 1], [2, 47, 2]], DATA[[1, 60, 1], [2, 47, 2]])
    assert (store.count, ordinary) == (0, [])


async def test_a_write_of_this_process_is_seen_by_the_next_read() -> None:
    array = await stored(FakeStore(latency=0), CACHED)
    await array[...]
    await array[3, 5].write(-1)
    assert await array[3, 5] == -1
    assert await array[3, 6] == DATA[3, 6]


async def test_expired_chunks_are_fetched(ordinary: list[View]) -> None:
    array = await stored(FakeStore(latency=0), Settings(chunk_cache_bytes=1 << 20, chunk_cache_seconds=1e-9))
    await array[...]
    ordinary.clear()
    # The clock of the I/O loop counts milliseconds.
    await asyncio.sleep(0.002)
    assert await array[3, 5] == DATA[3, 5]
    assert len(ordinary) == 1


async def test_a_window_of_too_many_chunks_or_with_a_chunk_that_is_not_cached_is_read_as_ever(
    ordinary: list[View],
) -> None:
    array = await stored(FakeStore(latency=0), CACHED, chunks=(4, 4))
    await array[:32]
    ordinary.clear()
    assert np.array_equal(await array[28:40, :8], DATA[28:40, :8])
    assert len(ordinary) == 1
    assert MAX_DIRECT_CHUNKS < (48 // 4) * (64 // 4)
    assert np.array_equal(await array[...], DATA)
    assert len(ordinary) == 2


async def test_an_empty_inner_chunk_reads_as_the_fill_value_and_an_empty_window_is_asked_for() -> None:
    store = FakeStore(latency=0)
    array = await aiozarr.create_array(
        store, shape=(8, 8), dtype="i2", chunks=(2, 2), shards=(8, 8), fill_value=7, settings=CACHED
    )
    await array[:2, :2].write(1)
    assert (await array[...]).sum() == 4 + 60 * 7
    store.reset()
    assert (await array[:4, :2]).tolist() == [[1, 1], [1, 1], [7, 7], [7, 7]]
    assert store.count == 0
    assert (await array[4:, 4:]).tolist() == [[7] * 4] * 4
    assert store.count > 0  # nothing cached vouches for the index


async def test_a_recorded_read_counts_its_cached_chunks() -> None:
    array = await stored(FakeStore(latency=0), CACHED)
    await array[...]
    with aiozarr.record() as report:
        await array[3, 5]
    assert (report.chunks, report.cached) == (1, 1)


async def test_one_small_chunk_in_memory_is_decoded_by_the_caller(ordinary: list[View]) -> None:
    array = await stored(MemoryStore())
    assert np.array_equal(await array[...], DATA)  # the first read of a process takes the ordinary way
    ordinary.clear()
    assert await array[3, 5] == DATA[3, 5]
    assert np.array_equal(await array[8:16, 8:16], DATA[8:16, 8:16])
    assert ordinary == []
    assert np.array_equal(await array[7:9], DATA[7:9])
    assert len(ordinary) == 1


def test_the_blocking_twin_reads_it_in_the_calling_thread_too(ordinary: list[View]) -> None:
    array = aiozarr.sync.create_array(MemoryStore(), data=DATA, chunks=(8, 8))
    assert np.array_equal(array[...], DATA)  # the first read of a process takes the ordinary way
    ordinary.clear()
    assert array[3, 5] == DATA[3, 5]
    assert ordinary == []


async def test_missing_and_damaged_chunks_in_memory_read_as_ever() -> None:
    store = MemoryStore()
    array = await stored(store, codecs=["bytes", "crc32c"])
    await store.erase("c/0/0")
    assert await array[3, 5] == 0
    strict = await aiozarr.open_array(store, settings=Settings(missing_chunks="raise"))
    with pytest.raises(MissingChunkError, match="c/0/0"):
        await strict[3, 5]
    await store.set("c/0/1", b"damaged")
    with pytest.raises(CodecError) as caught:
        await array[3, 9]
    assert caught.value.key == "c/0/1"


async def test_limits_hold(ordinary: list[View]) -> None:
    store = MemoryStore()
    await stored(store)
    array = await aiozarr.open_array(store, settings=Settings(max_chunk_bytes=64))
    with pytest.raises(aiozarr.LimitError, match="max_chunk_bytes"):
        await array[3, 5]


async def test_a_loop_of_such_reads_lets_others_run() -> None:
    array = await stored(MemoryStore())
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counter = asyncio.create_task(count())
    for _ in range(20):
        await array[3, 5]
    counter.cancel()
    assert turns >= 19


async def test_a_cancelled_task_reads_no_more() -> None:
    array = await stored(MemoryStore())

    async def read_for_ever() -> None:
        while True:
            await array[3, 5]

    task = asyncio.create_task(read_for_ever())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Noted(MemoryStore):
    """Notes the threads that read chunks. With reads of its own, it is no store in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[str] = []
        self.errors: list[Exception] = []

    def fetch_now(self, key: str, range: Any = None, **keywords: Any) -> Any:
        if not key.endswith(".json"):
            self.threads.append(threading.current_thread().name)
            if self.errors:
                raise self.errors.pop()
        return super().fetch_now(key, range, **keywords)


async def noted(settings: Settings | None = None, **keywords: Any) -> tuple[Noted, aiozarr.Array]:
    store = Noted()
    array = await stored(store, settings, **keywords)
    await array[:16]  # the workers have begun
    store.threads.clear()
    return store, array


async def test_a_lone_chunk_of_a_blocking_store_is_read_by_a_worker_without_the_io_thread(ordinary: list[View]) -> None:
    store, array = await noted()
    ordinary.clear()
    for selection in SELECTIONS[:2]:
        assert np.array_equal(await array[selection], DATA[selection])
    out = np.zeros((4, 3), "f4")
    assert await array[1:5, 2:5].read(out) is out
    assert np.array_equal(out, DATA[1:5, 2:5])
    # Of these three, the second has several chunks.
    assert len(ordinary) == 1
    assert {name.rpartition("-")[0] for name in store.threads} == {"aiozarr-worker"}


def hold_reads(store: Noted) -> tuple[threading.Event, threading.Event]:
    """Make reads of chunks wait; return the events that one has begun, and that they may go on."""
    begun, released = threading.Event(), threading.Event()
    fetch_now = store.fetch_now

    def held(key: str, range: Any = None, **keywords: Any) -> Any:
        begun.set()
        assert released.wait(60)
        return fetch_now(key, range, **keywords)

    store.fetch_now = held  # type: ignore[method-assign]
    return begun, released


async def test_while_a_worker_is_busy_the_io_thread_does_a_read(ordinary: list[View]) -> None:
    store, array = await noted()
    begun, released = hold_reads(store)
    ordinary.clear()
    alone = asyncio.create_task(array[3, 5].read())
    await asyncio.to_thread(begun.wait, 60)
    other = asyncio.create_task(array[9, 5].read())
    while not ordinary:
        await asyncio.sleep(0.001)
    released.set()
    assert (await alone, await other) == (DATA[3, 5], DATA[9, 5])
    assert len(ordinary) == 1


@pytest.mark.parametrize("settings", [Settings(timeout=60), Settings(on_event=lambda event: None)])
async def test_a_lone_read_with_a_timeout_or_an_observer_is_done_by_the_io_thread(
    settings: Settings, ordinary: list[View]
) -> None:
    _, array = await noted(settings)
    ordinary.clear()
    assert await array[3, 5] == DATA[3, 5]
    assert len(ordinary) == 1


async def test_a_lone_read_of_a_busy_store_waits_before_the_ordinary_read(
    monkeypatch: pytest.MonkeyPatch, ordinary: list[View]
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted_sleep(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    store, array = await noted()
    monkeypatch.setattr("aiozarr.engine.engine.asyncio.sleep", noted_sleep)
    store.errors = [ThrottledError("busy", retry_after=7.5)]
    ordinary.clear()
    assert await array[3, 5] == DATA[3, 5]
    assert (max(pauses), len(store.threads), len(ordinary)) == (7.5, 2, 1)


async def test_a_cancelled_lone_read_ends_when_its_worker_does() -> None:
    store, array = await noted()
    begun, released = hold_reads(store)
    out = np.zeros((), "f4")
    task = asyncio.create_task(array[3, 5].read(out))
    await asyncio.to_thread(begun.wait, 60)
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=0.05)
    assert not done
    released.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert out == DATA[3, 5]


def test_a_lone_blocking_read_is_done_in_its_own_thread() -> None:
    store = Noted()
    array = aiozarr.sync.create_array(store, data=DATA, chunks=(8, 8))
    assert np.array_equal(array[:16], DATA[:16])
    store.threads.clear()
    store.errors = [ThrottledError("busy")]
    assert array[3, 5] == DATA[3, 5]
    assert array[9, 5] == DATA[9, 5]
    own = threading.current_thread().name
    assert [name == own for name in store.threads] == [True, False, True]


async def test_a_value_longer_than_the_codecs_make_is_refused_by_the_ordinary_read(ordinary: list[View]) -> None:
    store = MemoryStore()
    array = await stored(store, codecs=["bytes", "crc32c"])
    assert np.array_equal(await array[...], DATA)
    await store.set("c/0/0", bytes(1 << 20))
    ordinary.clear()
    with pytest.raises(aiozarr.LimitError):
        await array[3, 5]
    assert len(ordinary) == 1
