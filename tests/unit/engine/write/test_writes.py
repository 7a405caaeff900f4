"""What writes ask of their store, and what they leave in it; in virtual time."""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from arrays import RAW, SETTINGS, Sample, engine, layout_of, sample
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.engine import Engine, Progress, Write
from aiozarr.errors import CodecError, PreconditionFailedError, StoreError, ThrottledError, UnsafeWriteWarning
from aiozarr.grid import IndexTransform, select_pointwise
from aiozarr.schedule import Report
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import run_virtual


async def contents(reader: Engine, array: Sample) -> Any:
    read = array.read(...)
    await reader.read([read], settings=SETTINGS)
    return read.out


@pytest.mark.parametrize("inner", [None, (2, 2)])
def test_whole_chunks_are_written_without_reading_and_overlap(inner: tuple[int, int] | None) -> None:
    async def scenario() -> None:
        array, store, writer = await sample((16, 16), (4, 4), inner=inner, latency=1.0)
        await writer.write([array.write(-array.values)], settings=SETTINGS)
        assert {call.operation for call in store.calls} == {"set"}
        assert (store.count, store.rounds) == (16, 1)
        assert np.array_equal(await contents(writer, array), -array.values)

    run_virtual(scenario())


def test_edge_chunks_count_as_whole_and_are_stored_in_full_with_the_fill_value_outside() -> None:
    async def scenario() -> None:
        array, store, writer = await sample((5, 5), (4, 4), fill_value=-7)
        assert {call.operation for call in store.calls} <= {"set"}
        data = store.memory.fetch_now("a/c/1/1").data  # type: ignore[union-attr]  # it is stored
        block = np.frombuffer(data, "<i4").reshape(4, 4)
        assert block[0, 0] == 25
        assert set(block.ravel()[1:].tolist()) == {-7}
        store.reset()
        await writer.write([array.write(1, slice(4, 5), slice(4, 5))], settings=SETTINGS)
        assert [call.operation for call in store.calls] == ["set"]

    run_virtual(scenario())


@pytest.mark.parametrize("inner", [None, (2, 2)])
def test_a_part_of_a_chunk_is_written_by_compare_and_swap(inner: tuple[int, int] | None) -> None:
    async def scenario() -> None:
        array, store, writer = await sample((8, 8), (4, 4), inner=inner)
        await writer.write([array.write(0, slice(1, 3), 2)], settings=SETTINGS)
        expected = array.values.copy()
        expected[1:3, 2] = 0
        assert [call.operation for call in store.calls] == ["fetch", "set"]
        assert np.array_equal(await contents(writer, array), expected)

    run_virtual(scenario())


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("swap", [True, False])
def test_concurrent_partial_writes_of_one_chunk_are_all_kept(inner: tuple[int, int] | None, swap: bool) -> None:
    async def scenario() -> None:
        array, store, writer = await sample((4, 4), (4, 4), inner=inner)
        other = writer if not swap else engine()
        store.supports = replace(store.supports, conditional_writes=swap)
        # Two engines are two processes: they share nothing but the store.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsafeWriteWarning)
            await asyncio.gather(
                *(
                    each.write([array.write(100 + 4 * row + column, row, column)], settings=SETTINGS)
                    for row in range(4)
                    for column, each in enumerate([writer, other, writer, other])
                )
            )
        assert np.array_equal(await contents(writer, array), 100 + np.arange(16).reshape(4, 4))

    run_virtual(scenario())


def test_a_store_without_conditions_is_warned_of_once() -> None:
    async def scenario() -> None:
        array, store, writer = await sample((4, 4), (4, 4))
        store.supports = replace(store.supports, conditional_writes=False)
        with pytest.warns(UnsafeWriteWarning, match=r"may lose updates") as caught:
            for row in range(4):
                await writer.write([array.write(1, row)], settings=SETTINGS)
        assert len(caught) == 1

    run_virtual(scenario())


@pytest.mark.parametrize("inner", [None, (2, 2)])
def test_chunks_of_nothing_but_the_fill_value_are_erased_and_not_stored(inner: tuple[int, int] | None) -> None:
    async def scenario() -> None:
        array, store, writer = await sample((8, 8), (4, 4), inner=inner, fill_value=3)
        await writer.write([array.write(3, slice(0, 4))], settings=SETTINGS)
        assert sorted(await store.memory.list()) == ["a/c/1/0", "a/c/1/1"]
        await writer.write([array.write(3, 0, 0)], settings=SETTINGS)
        assert sorted(await store.memory.list()) == ["a/c/1/0", "a/c/1/1"]
        expected = array.values.copy()
        expected[:4] = 3
        assert np.array_equal(await contents(writer, array), expected)

    run_virtual(scenario())


def test_a_partial_write_to_a_missing_chunk_fills_the_rest() -> None:
    async def scenario() -> None:
        array, store, writer = await sample((4, 4), (4, 4), fill_value=5)
        store.memory.erase_now("a/c/0/0")
        await writer.write([array.write(1, 0, 0)], settings=SETTINGS)
        expected = np.full((4, 4), 5)
        expected[0, 0] = 1
        assert np.array_equal(await contents(writer, array), expected)

    run_virtual(scenario())


def test_values_are_cast_and_broadcast_as_numpy_assigns() -> None:
    async def scenario() -> None:
        array, _, writer = await sample((4, 4), (3, 3))
        await writer.write([array.write(np.array([1.0, 2.0, 3.0, 4.0], ">f8"))], settings=SETTINGS)
        assert np.array_equal(await contents(writer, array), np.broadcast_to([1, 2, 3, 4], (4, 4)))

    run_virtual(scenario())


def test_the_first_error_stops_a_write_and_nothing_stays_under_way() -> None:
    async def scenario() -> None:
        array, store, writer = await sample((100, 1), (1, 1), latency=1.0)
        store.faults = lambda call: StoreError("disk full", key=call.key) if call.key == "a/c/5/0" else None
        with pytest.raises(StoreError, match="disk full"):
            await writer.write([array.write(0)], settings=SETTINGS)
        assert store.in_flight == 0
        assert len(asyncio.all_tasks()) == 1

    run_virtual(scenario())


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("moment", [0.0, 0.5, 1.5, 2.5])
def test_a_cancelled_write_leaves_every_chunk_old_or_new(inner: tuple[int, int] | None, moment: float) -> None:
    async def scenario() -> None:
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
        assert not writer.desk.locks._locks
        store.latency = 0
        now = await contents(writer, array)
        assert np.array_equal(np.abs(now), array.values)
        for row in range(8):
            for column in range(8):
                block = now[4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
                changed = block[max(0, 1 - 4 * row) : 31 - 4 * row] < 0
                assert changed.all() or not changed.any()

    run_virtual(scenario())


@pytest.mark.parametrize("inner", [None, (2, 2)])
def test_a_partial_write_whose_answer_is_lost_is_repeated(inner: tuple[int, int] | None) -> None:
    async def scenario() -> None:
        array, store, writer = await sample((4, 4), (4, 4), inner=inner)
        store.faults = lambda call: ThrottledError("slow down") if call.number in (1, 3, 4) else None
        report = Report()
        await writer.write([array.write(0, 1, 1)], settings=SETTINGS, recorder=report)
        expected = array.values.copy()
        expected[1, 1] = 0
        assert np.array_equal(await contents(writer, array), expected)
        assert report.retries == 3

    run_virtual(scenario())


def test_a_race_that_is_always_lost_ends_in_an_error() -> None:
    async def scenario() -> None:
        array, store, writer = await sample((4, 4), (4, 4))
        data = bytes(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
        store.faults = lambda call: call.operation == "set" and store.memory.set_now("a/c/0/0", data) and None
        with pytest.raises(PreconditionFailedError):
            await writer.write([array.write(0, 1, 1)], settings=SETTINGS)

    run_virtual(scenario())


def test_a_damaged_chunk_stops_a_partial_write_with_its_key() -> None:
    async def scenario() -> None:
        array, store, writer = await sample((4, 4), (4, 4), codecs=[*RAW, {"name": "crc32c"}])
        store.memory.set_now("a/c/0/0", b"x" * 68)
        with pytest.raises(CodecError) as raised:
            await writer.write([array.write(0, 1, 1)], settings=SETTINGS)
        assert (raised.value.store, raised.value.key) == (store.url, "a/c/0/0")
        assert bytes(store.memory.fetch_now("a/c/0/0").data) == b"x" * 68  # type: ignore[union-attr]  # it is stored

    run_virtual(scenario())


def test_progress_reaches_the_total() -> None:
    async def scenario() -> None:
        array, _, writer = await sample((8, 8), (3, 3))
        steps: list[Progress] = []
        await writer.write([array.write(array.values)], settings=SETTINGS, progress=steps.append)
        assert steps[-1] == Progress(9, 9, 256, 256)
        reads: list[Progress] = []
        await writer.read([array.read(...)], settings=SETTINGS, progress=reads.append)
        assert reads[-1] == Progress(9, 9, 256, 256)

    run_virtual(scenario())


@given(data=st.data())
def test_any_sequence_of_writes_leaves_what_numpy_leaves(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=0, max_size=3)))
    per_shard = tuple(data.draw(st.integers(1, 3)) for _ in shape)
    inner = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    sharded = data.draw(st.booleans())
    chunks = tuple(a * b for a, b in zip(inner, per_shard, strict=True))
    layout = layout_of(shape, chunks, inner=inner if sharded else None, fill_value=data.draw(st.sampled_from([0, 5])))

    async def scenario() -> None:
        array = Sample(layout, FakeStore(latency=0.01))
        expected = np.full(shape, layout.spec.fill_value)
        worker = engine()
        for number in range(data.draw(st.integers(1, 4))):
            selection = tuple(
                data.draw(st.one_of(st.integers(-length, length - 1), st.slices(length))) for length in shape
            )
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

    run_virtual(scenario())


def test_a_cancelled_write_whose_next_request_waits_for_room_ends() -> None:
    async def scenario() -> None:
        array, store, writer = await sample((64, 64), (4, 4), latency=1.0)
        tight = replace(SETTINGS, max_bytes_in_flight=200)
        task = asyncio.ensure_future(writer.write([array.write(-array.values)], settings=tight))
        await asyncio.sleep(1.5)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert store.in_flight == 0
        assert writer.desk.queue_of(store).budget.bytes_in_flight == 0

    run_virtual(scenario())


def test_what_an_index_array_leaves_out_is_kept_though_it_names_elements_twice() -> None:
    async def scenario() -> None:
        array, store, writer = await sample((4, 4), (4, 4), fill_value=5)
        await writer.write([array.write(array.values)], settings=SETTINGS)
        store.memory.erase_now("a/c/0/0")
        places = np.zeros(16, np.int64)
        transform = select_pointwise(IndexTransform.identity((4, 4)), (places, places))
        write = Write(array.layout, store, "a/", transform.maps, np.arange(16))
        await writer.write([write], settings=SETTINGS)
        expected = np.full((4, 4), 5)
        expected[0, 0] = 15
        assert np.array_equal(await contents(writer, array), expected)

    run_virtual(scenario())


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("swap", [True, False])
def test_tasks_that_fill_one_object_piece_by_piece_put_it_twice(inner: tuple[int, int] | None, swap: bool) -> None:
    async def scenario() -> None:
        array, store, writer = await sample((8, 8), (8, 8), inner=inner, latency=1.0)
        store.supports = replace(store.supports, conditional_writes=swap)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnsafeWriteWarning)
            await asyncio.gather(
                *(
                    writer.write(
                        [array.write(100 * row + column, slice(row, row + 2), slice(column, column + 2))],
                        settings=SETTINGS,
                    )
                    for row in range(0, 8, 2)
                    for column in range(0, 8, 2)
                )
            )
        assert [call.operation for call in store.calls] == ["fetch", "set", "fetch", "set"]
        expected = np.repeat(np.repeat(100 * np.arange(0, 8, 2)[:, None] + np.arange(0, 8, 2), 2, 0), 2, 1)
        assert np.array_equal(await contents(writer, array), expected)

    run_virtual(scenario())


@pytest.mark.parametrize("inner", [None, (2, 2)])
def test_writes_that_are_put_together_are_made_in_the_order_of_their_coming(inner: tuple[int, int] | None) -> None:
    async def scenario() -> None:
        array, store, writer = await sample((4, 4), (4, 4), inner=inner, latency=1.0)
        tasks = [
            asyncio.ensure_future(writer.write([array.write(number, 1, 1)], settings=SETTINGS))
            for number in range(100, 105)
        ]
        await asyncio.gather(*tasks)
        assert store.count == 4
        assert (await contents(writer, array))[1, 1] == 104

    run_virtual(scenario())


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("who", [0, 1, 2])
@pytest.mark.parametrize("moment", [0.5, 1.5, 2.5, 3.5])
def test_of_writes_that_are_put_together_one_is_cancelled_and_the_others_are_made(
    inner: tuple[int, int] | None, who: int, moment: float
) -> None:
    async def scenario() -> None:
        array, _, writer = await sample((4, 4), (4, 4), inner=inner, latency=1.0)
        tasks = [asyncio.ensure_future(writer.write([array.write(100, row)], settings=SETTINGS)) for row in range(4)]
        await asyncio.sleep(moment)
        tasks[who].cancel()
        await asyncio.wait(tasks)
        assert [task.cancelled() for task in tasks].count(True) <= 1
        now = await contents(writer, array)
        for row, task in enumerate(tasks):
            if not task.cancelled():
                assert set(now[row].tolist()) == {100}
            assert set(now[row].tolist()) in ({100}, set(array.values[row].tolist()))
        assert not writer.desk.locks._locks
        assert not writer.desk.convoys._waiting
        assert len(asyncio.all_tasks()) == 1

    run_virtual(scenario())


def test_an_error_of_a_request_that_is_for_many_reaches_those_alone_whose_own_request_fails() -> None:
    async def scenario() -> None:
        array, store, writer = await sample((4, 4), (4, 4), latency=1.0)
        store.faults = lambda call: StoreError("no", key=call.key) if call.number == 3 else None
        results = await asyncio.gather(
            *(writer.write([array.write(100, row)], settings=SETTINGS) for row in range(4)), return_exceptions=True
        )
        assert [type(result) for result in results] == [type(None), StoreError, type(None), type(None)]
        expected = array.values.copy()
        expected[[0, 2, 3]] = 100
        assert np.array_equal(await contents(writer, array), expected)

    run_virtual(scenario())
