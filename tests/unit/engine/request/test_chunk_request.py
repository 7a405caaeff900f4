"""Requests for chunks: the bytes that each chunk is given, cancellation by their readers, and caching."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from aiozarr.engine import Engine, InlinePool
from aiozarr.engine.worker_pool import WorkItem, complete_all, run_captured
from aiozarr.model import Range
from aiozarr.schedule.events import Event, RequestEvent
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import SETTINGS, pass_turns, read_window, sample

CACHED = replace(SETTINGS, chunk_cache_bytes=1 << 24)


@in_virtual_time
async def test_chunks_of_one_range_get_their_own_bytes_and_the_gap_is_not_counted_as_wanted() -> None:
    array, store, reader = await sample((16, 4), (16, 4), inner=(1, 4))
    await read_window(reader, array, 0)
    store.reset()
    events: list[Event] = []
    settings = replace(SETTINGS, merge_gap_bytes=64, max_over_read=8.0, on_event=events.append)
    await read_window(reader, array, slice(1, 8, 3), settings=settings)
    (event,) = events
    assert isinstance(event, RequestEvent)
    assert (event.bytes_wanted, event.bytes_fetched) == (3 * 16, 7 * 16)
    assert store.log() == [("a/c/0/0", Range(1 * 16, 7 * 16))]


@pytest.mark.parametrize("steps", [*range(8), 100])
@pytest.mark.parametrize("leaver", range(3))
@in_virtual_time
async def test_a_request_of_several_callers_survives_any_one_of_them(steps: int, leaver: int) -> None:
    array, store, reader = await sample((256, 4), (256, 4), inner=(1, 4), latency=1.0)
    await read_window(reader, array, 255)
    store.reset()
    tasks = [asyncio.ensure_future(read_window(reader, array, row)) for row in range(3)]
    await pass_turns(steps)
    tasks[leaver].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in results] == [number == leaver for number in range(3)]
    # What is left when the one between them goes early are no neighbours.
    assert store.count <= (2 if leaver == 1 and steps < 2 else 1)
    assert reader.idle()


@pytest.mark.parametrize("steps", [*range(8), 100])
@in_virtual_time
async def test_a_request_of_several_callers_ends_with_the_last_of_them(steps: int) -> None:
    array, store, reader = await sample((256, 4), (256, 4), inner=(1, 4), latency=1.0)
    await read_window(reader, array, 255)
    store.reset()
    tasks = [asyncio.ensure_future(read_window(reader, array, row)) for row in range(3)]
    await pass_turns(steps)
    begun = asyncio.get_running_loop().time()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert asyncio.get_running_loop().time() == begun
    assert store.in_flight == 0
    assert reader.idle()
    assert store.count == 0 if steps < 1 else store.count <= 1
    await read_window(reader, array, 0)


class SlowToTell(InlinePool):
    """Workers that do everything at once, and say so when they are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[WorkItem] = []

    def submit_batch(self, batch: Sequence[WorkItem]) -> None:
        for work in batch:
            run_captured(work)
        self.done += batch

    def tell(self) -> None:
        done, self.done = self.done, []
        complete_all(done)


@in_virtual_time
async def test_a_chunk_that_this_process_changed_during_decoding_is_not_cached() -> None:
    array, store, _ = await sample((4, 4), (4, 4))
    pool = SlowToTell()
    reader = Engine(asyncio.get_running_loop(), pool)
    first = asyncio.ensure_future(read_window(reader, array, 0))
    while not pool.done:
        await asyncio.sleep(0.001)
    late = asyncio.ensure_future(read_window(reader, array, 1, settings=CACHED))
    await asyncio.sleep(0.001)
    pool.tell()  # the late one has its chunk decoded now
    await first
    store.memory.set_now("a/c/0/0", bytes(64))
    reader.invalidate(store, "a/c/0/0")
    pool.tell()
    await late
    assert not reader.state.chunk_caches
    array.values[:] = 0
    again = asyncio.ensure_future(read_window(reader, array, 2, settings=CACHED))
    while not pool.done:
        await asyncio.sleep(0.001)
    pool.tell()
    await again
    assert (store.count, len(reader.state.chunk_caches)) == (2, 1)
