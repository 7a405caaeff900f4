"""What writes ask of their store, and what they leave in it; in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.engine import Engine, Progress
from aiozarr.errors import StoreError
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import SETTINGS, Sample, engine, layout_of, sample


async def contents(reader: Engine, array: Sample) -> Any:
    read = array.read(...)
    await reader.read([read], settings=SETTINGS)
    return read.out


@pytest.mark.parametrize("inner", [None, (2, 2)])
@in_virtual_time
async def test_whole_chunks_are_written_without_reading_and_overlap(inner: tuple[int, int] | None) -> None:
    array, store, writer = await sample((16, 16), (4, 4), inner=inner, latency=1.0)
    await writer.write([array.write(-array.values)], settings=SETTINGS)
    assert {call.operation for call in store.calls} == {"set"}
    assert (store.count, store.rounds) == (16, 1)
    assert np.array_equal(await contents(writer, array), -array.values)


@in_virtual_time
async def test_edge_chunks_count_as_whole_and_are_stored_in_full_with_the_fill_value_outside() -> None:
    array, store, writer = await sample((5, 5), (4, 4), fill_value=-7)
    assert {call.operation for call in store.calls} <= {"set"}
    data = store.memory.fetch_now("a/c/1/1").data  # type: ignore[union-attr]  # it is stored
    block = np.frombuffer(data, "<i4").reshape(4, 4)
    assert block[0, 0] == 25
    assert set(block.ravel()[1:].tolist()) == {-7}
    store.reset()
    await writer.write([array.write(1, slice(4, 5), slice(4, 5))], settings=SETTINGS)
    assert [call.operation for call in store.calls] == ["set"]


@in_virtual_time
async def test_values_are_cast_and_broadcast_as_numpy_assigns() -> None:
    array, _, writer = await sample((4, 4), (3, 3))
    await writer.write([array.write(np.array([1.0, 2.0, 3.0, 4.0], ">f8"))], settings=SETTINGS)
    assert np.array_equal(await contents(writer, array), np.broadcast_to([1, 2, 3, 4], (4, 4)))


@in_virtual_time
async def test_the_first_error_stops_a_write_and_nothing_stays_under_way() -> None:
    array, store, writer = await sample((100, 1), (1, 1), latency=1.0)
    store.faults = lambda call: StoreError("disk full", key=call.key) if call.key == "a/c/5/0" else None
    with pytest.raises(StoreError, match="disk full"):
        await writer.write([array.write(0)], settings=SETTINGS)
    assert store.in_flight == 0
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("moment", [0.0, 0.5, 1.5, 2.5])
@in_virtual_time
async def test_a_cancelled_write_leaves_every_chunk_old_or_new(inner: tuple[int, int] | None, moment: float) -> None:
    array, store, writer = await sample((32, 32), (4, 4), inner=inner, latency=1.0)
    task = asyncio.ensure_future(
        writer.write([array.write(-array.values[1:31], slice(1, 31))], settings=replace(SETTINGS, max_requests=16))
    )
    await asyncio.sleep(moment)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.in_flight == 0
    assert len(asyncio.all_tasks()) == 1
    assert writer.idle()
    store.latency = 0
    now = await contents(writer, array)
    assert np.array_equal(np.abs(now), array.values)
    for row in range(8):
        for column in range(8):
            block = now[4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            changed = block[max(0, 1 - 4 * row) : 31 - 4 * row] < 0
            assert changed.all() or not changed.any()


@in_virtual_time
async def test_progress_reaches_the_total() -> None:
    array, _, writer = await sample((8, 8), (3, 3))
    steps: list[Progress] = []
    await writer.write([array.write(array.values)], settings=SETTINGS, progress=steps.append)
    assert steps[-1] == Progress(9, 9, 256, 256)
    reads: list[Progress] = []
    await writer.read([array.read(...)], settings=SETTINGS, progress=reads.append)
    assert reads[-1] == Progress(9, 9, 256, 256)


@given(data=st.data())
@in_virtual_time
async def test_any_sequence_of_writes_leaves_what_numpy_leaves(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=0, max_size=3)))
    per_shard = tuple(data.draw(st.integers(1, 3)) for _ in shape)
    inner = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    sharded = data.draw(st.booleans())
    chunks = tuple(a * b for a, b in zip(inner, per_shard, strict=True))
    layout = layout_of(shape, chunks, inner=inner if sharded else None, fill_value=data.draw(st.sampled_from([0, 5])))

    array = Sample(layout, FakeStore(latency=0.01))
    expected = np.full(shape, layout.spec.fill_value)
    worker = engine()
    for number in range(data.draw(st.integers(1, 4))):
        selection = tuple(data.draw(st.one_of(st.integers(-length, length - 1), st.slices(length))) for length in shape)
        target = expected[selection]
        values = np.asarray(data.draw(st.sampled_from([0, 5, 10 + number])))
        if data.draw(st.booleans()):
            values = np.arange(target.size, dtype="i4").reshape(target.shape)
        await worker.write([array.write(values, *selection)], settings=SETTINGS)
        expected[selection] = values
        read = array.read(*selection)
        await worker.read([read], settings=SETTINGS)
        assert np.array_equal(read.out, expected[selection])
    assert np.array_equal(await contents(worker, array), expected)


@in_virtual_time
async def test_a_cancelled_write_whose_next_request_waits_for_room_ends() -> None:
    array, store, writer = await sample((64, 64), (4, 4), latency=1.0)
    tight = replace(SETTINGS, max_bytes_in_flight=200)
    task = asyncio.ensure_future(writer.write([array.write(-array.values)], settings=tight))
    await asyncio.sleep(1.5)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert store.in_flight == 0
    assert writer.idle()
