"""Changes of one stored object: whole, by compare-and-swap, together with others, or erased."""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import replace

import numpy as np
import pytest

from aiozarr.errors import CodecError, PreconditionFailedError, StoreError, ThrottledError, UnsafeWriteWarning
from aiozarr.schedule.events import Report
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import RAW, SETTINGS, engine, read_all, sample


@pytest.mark.parametrize("inner", [None, (2, 2)])
@in_virtual_time
async def test_a_part_of_a_chunk_is_written_by_compare_and_swap(inner: tuple[int, int] | None) -> None:
    array, store, writer = await sample((8, 8), (4, 4), inner=inner)
    await writer.write(array.write(0, slice(1, 3), 2), settings=SETTINGS)
    expected = array.values.copy()
    expected[1:3, 2] = 0
    assert [call.operation for call in store.calls] == ["fetch", "set"]
    assert np.array_equal(await read_all(writer, array), expected)


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("swap", [True, False])
@in_virtual_time
async def test_concurrent_partial_writes_of_one_chunk_all_survive(inner: tuple[int, int] | None, swap: bool) -> None:
    array, store, writer = await sample((4, 4), (4, 4), inner=inner)
    other = writer if not swap else engine()
    store.supports = replace(store.supports, conditional_writes=swap)
    # Two engines are two processes: they share nothing but the store.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsafeWriteWarning)
        await asyncio.gather(
            *(
                each.write(array.write(100 + 4 * row + column, row, column), settings=SETTINGS)
                for row in range(4)
                for column, each in enumerate([writer, other, writer, other])
            )
        )
    assert np.array_equal(await read_all(writer, array), 100 + np.arange(16).reshape(4, 4))


@in_virtual_time
async def test_a_store_without_conditions_is_warned_of_once() -> None:
    array, store, writer = await sample((4, 4), (4, 4))
    store.supports = replace(store.supports, conditional_writes=False)
    with pytest.warns(UnsafeWriteWarning, match=r"updates are lost") as caught:
        for row in range(4):
            await writer.write(array.write(1, row), settings=SETTINGS)
    assert len(caught) == 1


@pytest.mark.parametrize("inner", [None, (2, 2)])
@in_virtual_time
async def test_chunks_of_nothing_but_the_fill_value_are_erased_and_not_stored(inner: tuple[int, int] | None) -> None:
    array, store, writer = await sample((8, 8), (4, 4), inner=inner, fill_value=3)
    await writer.write(array.write(3, slice(0, 4)), settings=SETTINGS)
    assert sorted(await store.memory.list()) == ["a/c/1/0", "a/c/1/1"]
    await writer.write(array.write(3, 0, 0), settings=SETTINGS)
    assert sorted(await store.memory.list()) == ["a/c/1/0", "a/c/1/1"]
    expected = array.values.copy()
    expected[:4] = 3
    assert np.array_equal(await read_all(writer, array), expected)


@pytest.mark.parametrize("inner", [None, (2, 2)])
@in_virtual_time
async def test_a_partial_write_that_leaves_only_fill_values_erases_what_it_has_read(
    inner: tuple[int, int] | None,
) -> None:
    array, store, writer = await sample((8, 8), (4, 4), inner=inner, fill_value=3)
    await writer.write(array.write(3, slice(0, 4), slice(0, 3)), settings=SETTINGS)
    store.calls.clear()
    await writer.write(array.write(3, slice(0, 4), 3), settings=SETTINGS)
    assert [call.operation for call in store.calls] == ["fetch", "erase"]
    assert "a/c/0/0" not in await store.memory.list()
    store.supports = replace(store.supports, conditional_erases=False)
    await writer.write(array.write(3, slice(4, 8), slice(0, 3)), settings=SETTINGS)
    await writer.write(array.write(3, slice(4, 8), 3), settings=SETTINGS)
    assert "a/c/1/0" in await store.memory.list()
    expected = array.values.copy()
    expected[:, :4] = 3
    assert np.array_equal(await read_all(writer, array), expected)


@in_virtual_time
async def test_what_another_process_writes_before_the_erase_is_not_lost() -> None:
    array, _, writer = await sample((4, 4), (4, 4))
    await writer.write(array.write(0, slice(1, 4)), settings=SETTINGS)
    other = engine()
    await asyncio.gather(
        writer.write(array.write(0, 0), settings=SETTINGS), other.write(array.write(7, 2, 2), settings=SETTINGS)
    )
    expected = np.zeros((4, 4), int)
    expected[2, 2] = 7
    assert np.array_equal(await read_all(engine(), array), expected)


@in_virtual_time
async def test_a_partial_write_to_a_missing_chunk_fills_the_rest() -> None:
    array, store, writer = await sample((4, 4), (4, 4), fill_value=5)
    store.memory.erase_now("a/c/0/0")
    await writer.write(array.write(1, 0, 0), settings=SETTINGS)
    expected = np.full((4, 4), 5)
    expected[0, 0] = 1
    assert np.array_equal(await read_all(writer, array), expected)


@pytest.mark.parametrize("inner", [None, (2, 2)])
@in_virtual_time
async def test_a_partial_write_whose_response_is_lost_is_retried(inner: tuple[int, int] | None) -> None:
    array, store, writer = await sample((4, 4), (4, 4), inner=inner)
    store.faults = lambda call: ThrottledError("slow down") if call.number in (1, 3, 4) else None
    report = Report()
    await writer.write(array.write(0, 1, 1), settings=SETTINGS, report=report)
    expected = array.values.copy()
    expected[1, 1] = 0
    assert np.array_equal(await read_all(writer, array), expected)
    assert report.retries == 3


@in_virtual_time
async def test_a_race_that_is_always_lost_ends_in_an_error() -> None:
    array, store, writer = await sample((4, 4), (4, 4))
    data = bytes(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
    store.faults = lambda call: call.operation == "set" and store.memory.set_now("a/c/0/0", data) and None
    with pytest.raises(PreconditionFailedError):
        await writer.write(array.write(0, 1, 1), settings=SETTINGS)


@in_virtual_time
async def test_a_damaged_chunk_stops_a_partial_write_with_its_key() -> None:
    array, store, writer = await sample((4, 4), (4, 4), codecs=[*RAW, {"name": "crc32c"}])
    store.memory.set_now("a/c/0/0", b"x" * 68)
    with pytest.raises(CodecError) as raised:
        await writer.write(array.write(0, 1, 1), settings=SETTINGS)
    assert (raised.value.store, raised.value.key) == (store.url, "a/c/0/0")
    assert bytes(store.memory.fetch_now("a/c/0/0").data) == b"x" * 68  # type: ignore[union-attr]  # it is stored


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("swap", [True, False])
@in_virtual_time
async def test_tasks_that_fill_one_object_piece_by_piece_put_it_twice(
    inner: tuple[int, int] | None, swap: bool
) -> None:
    array, store, writer = await sample((8, 8), (8, 8), inner=inner, latency=1.0)
    store.supports = replace(store.supports, conditional_writes=swap)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsafeWriteWarning)
        await asyncio.gather(
            *(
                writer.write(
                    array.write(100 * row + column, slice(row, row + 2), slice(column, column + 2)),
                    settings=SETTINGS,
                )
                for row in range(0, 8, 2)
                for column in range(0, 8, 2)
            )
        )
    assert [call.operation for call in store.calls] == ["fetch", "set", "fetch", "set"]
    expected = np.repeat(np.repeat(100 * np.arange(0, 8, 2)[:, None] + np.arange(0, 8, 2), 2, 0), 2, 1)
    assert np.array_equal(await read_all(writer, array), expected)


@pytest.mark.parametrize("inner", [None, (2, 2)])
@in_virtual_time
async def test_writes_of_a_group_commit_are_applied_in_the_order_of_their_arrival(
    inner: tuple[int, int] | None,
) -> None:
    array, store, writer = await sample((4, 4), (4, 4), inner=inner, latency=1.0)
    tasks = [
        asyncio.ensure_future(writer.write(array.write(number, 1, 1), settings=SETTINGS)) for number in range(100, 105)
    ]
    await asyncio.gather(*tasks)
    assert store.count == 4
    assert (await read_all(writer, array))[1, 1] == 104


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("who", [0, 1, 2])
@pytest.mark.parametrize("moment", [0.5, 1.5, 2.5, 3.5])
@in_virtual_time
async def test_a_cancelled_write_of_a_group_commit_leaves_the_others_complete(
    inner: tuple[int, int] | None, who: int, moment: float
) -> None:
    array, _, writer = await sample((4, 4), (4, 4), inner=inner, latency=1.0)
    tasks = [asyncio.ensure_future(writer.write(array.write(100, row), settings=SETTINGS)) for row in range(4)]
    await asyncio.sleep(moment)
    tasks[who].cancel()
    await asyncio.wait(tasks)
    assert [task.cancelled() for task in tasks].count(True) <= 1
    now = await read_all(writer, array)
    for row, task in enumerate(tasks):
        if not task.cancelled():
            assert set(now[row].tolist()) == {100}
        assert set(now[row].tolist()) in ({100}, set(array.values[row].tolist()))
    assert writer.idle()
    assert writer.group_commit.is_idle
    assert len(asyncio.all_tasks()) == 1


@in_virtual_time
async def test_an_error_of_a_group_commit_reaches_only_writes_whose_own_request_fails() -> None:
    array, store, writer = await sample((4, 4), (4, 4), latency=1.0)
    store.faults = lambda call: StoreError("no", key=call.key) if call.number == 3 else None
    results = await asyncio.gather(
        *(writer.write(array.write(100, row), settings=SETTINGS) for row in range(4)), return_exceptions=True
    )
    assert [type(result) for result in results] == [type(None), StoreError, type(None), type(None)]
    expected = array.values.copy()
    expected[[0, 2, 3]] = 100
    assert np.array_equal(await read_all(writer, array), expected)
