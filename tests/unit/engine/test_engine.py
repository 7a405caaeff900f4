"""The face of the engine: its idleness, limits that hold meanwhile, and the beginning of many operations."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aiozarr.codecs.chunk_layouts import ShardLayout
from aiozarr.engine import Engine
from aiozarr.engine.decoder import MIN_INDEX_BYTES
from aiozarr.engine.engine import MAX_STARTS_PER_TURN
from aiozarr.engine.read_operation import ReadOperation
from aiozarr.testing.virtual_time import in_virtual_time, run_virtual
from tests.support.engine_samples import SETTINGS, sample


@in_virtual_time
async def test_the_engine_is_idle_before_and_after_a_read_and_not_meanwhile() -> None:
    array, _, reader = await sample((8, 8), (4, 4), inner=(2, 2), latency=1.0)
    assert reader.idle()
    reading = asyncio.ensure_future(reader.read([array.read(...)], settings=SETTINGS))
    await asyncio.sleep(0.5)
    assert not reader.idle()
    await reading
    assert reader.idle()


@in_virtual_time
async def test_the_engine_is_not_idle_while_a_key_is_locked_or_a_limit_holds() -> None:
    _, store, reader = await sample((4,), (4,))
    async with reader.key_lock(store, "a/c/0"):
        assert not reader.idle()
    with reader.request_limit(replace(SETTINGS, max_requests=3), store):
        assert not reader.idle()
        assert reader.state.queue_for(store).budget.limit == 3
    assert reader.idle()


def test_no_more_operations_begin_in_one_turn_of_the_loop_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    init = ReadOperation.__init__

    def counted(self: ReadOperation, *args: Any, **more: Any) -> None:
        begun[-1] += 1
        init(self, *args, **more)

    async def scenario() -> None:
        array, _, reader = await sample((500, 1), (1, 1), latency=1.0)
        monkeypatch.setattr(ReadOperation, "__init__", counted)
        reads = [array.read(row) for row in range(500)]
        begun.append(0)
        tasks = [asyncio.ensure_future(reader.read([read], settings=SETTINGS)) for read in reads]
        while sum(begun) < 500:
            await asyncio.sleep(0)
            begun.append(0)
        await asyncio.gather(*tasks)
        assert all(read.out == array.values[row] for row, read in enumerate(reads))
        assert reader.idle()

    run_virtual(scenario())
    assert max(begun) <= MAX_STARTS_PER_TURN
    assert len(begun) < 30


@in_virtual_time
async def test_operations_that_are_cancelled_before_they_begin_leave_room_for_the_others() -> None:
    array, store, reader = await sample((300, 1), (1, 1), latency=1.0)
    reads = [array.read(row) for row in range(300)]
    tasks = [asyncio.ensure_future(reader.read([read], settings=SETTINGS)) for read in reads]
    await asyncio.sleep(0)
    for task in tasks[:-1]:
        task.cancel()
    await asyncio.wait(tasks)
    assert reads[-1].out == array.values[-1]
    assert store.count <= MAX_STARTS_PER_TURN + 1
    assert reader.idle()


@pytest.mark.parametrize("inner", [1, 2])
async def test_a_large_index_is_decoded_by_a_worker(inner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    side = MIN_INDEX_BYTES // 16  # entries of 16 bytes, one for each two elements or for each
    array, _, _ = await sample((side,), (side,), inner=(inner,), dtype="int16", latency=0)
    threads: list[bool] = []
    parse_index = ShardLayout.parse_index

    def watched(*args: Any, **more: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return parse_index(*args, **more)

    monkeypatch.setattr(ShardLayout, "parse_index", watched)
    reader = Engine(asyncio.get_running_loop())
    read = array.read(slice(3, 9))
    await reader.read([read], settings=replace(SETTINGS, max_request_bytes=4096))
    assert np.array_equal(read.out, array.values[3:9])
    assert threads == [inner == 2]
    assert reader.idle()
    await reader.close()
