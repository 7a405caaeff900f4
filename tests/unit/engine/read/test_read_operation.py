"""The end of a read: its first error, its cancellation, and the requests that it shares with others."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from aiozarr.errors import (
    PermissionDeniedError,
    StoreError,
    ThrottledError,
)
from aiozarr.schedule.events import Report
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import in_virtual_time, run_virtual
from tests.support.engine_samples import SETTINGS, sample


def quiet(store: FakeStore) -> bool:
    return store.in_flight == 0 and len(asyncio.all_tasks()) == 1


@in_virtual_time
async def test_throttling_is_waited_out_and_the_limit_is_halved() -> None:
    array, store, reader = await sample((8, 2), (1, 2))
    store.faults = lambda call: ThrottledError("slow down", retry_after=3.0) if call.number <= 2 else None
    report = Report()
    read = array.read(...)
    begun = asyncio.get_running_loop().time()
    await reader.read([read], settings=replace(SETTINGS, max_requests="auto"), report=report)
    assert np.array_equal(read.out, array.values)
    assert (report.requests, report.retries) == (10, 2)
    assert asyncio.get_running_loop().time() - begun >= 3.0
    assert reader.state.queue_for(store).budget.limit == 32


@in_virtual_time
async def test_throttling_without_end_is_an_error_with_attempts_and_time_and_nothing_stays_under_way() -> None:
    array, store, reader = await sample((8, 2), (1, 2))
    store.faults = lambda call: ThrottledError("slow down", store=store.url, key=call.key)
    with pytest.raises(ThrottledError) as raised:
        await reader.read([array.read(...)], settings=SETTINGS)
    assert raised.value.attempts == 6
    assert raised.value.elapsed is not None
    assert raised.value.elapsed <= 20
    assert quiet(store)


@in_virtual_time
async def test_the_first_error_cancels_the_other_requests_and_is_raised_alone() -> None:
    array, store, reader = await sample((1000, 2), (1, 2), latency=1.0)
    store.faults = lambda call: PermissionDeniedError("no", key=call.key) if call.key == "a/c/3/0" else None
    with pytest.raises(PermissionDeniedError) as raised:
        await reader.read([array.read(...)], settings=SETTINGS)
    assert raised.value.key == "a/c/3/0"
    assert raised.value.attempts == 1
    assert store.count <= 2 * 64
    assert quiet(store)


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("moment", [0.0, 0.5, 1.0, 1.5, 2.5, 3.5])
@in_virtual_time
async def test_a_read_cancelled_at_any_moment_leaves_nothing_under_way(
    inner: tuple[int, int] | None, moment: float
) -> None:
    array, store, reader = await sample((64, 64), (4, 4), inner=inner, latency=1.0)
    task = asyncio.ensure_future(reader.read([array.read(...)], settings=SETTINGS))
    await asyncio.sleep(moment)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert quiet(store)
    assert reader.idle()
    count = store.count
    await asyncio.sleep(10)
    assert store.count == count


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("moment", [0.0, 0.5, 1.5, 2.5])
@in_virtual_time
async def test_a_cancelled_reader_does_not_take_shared_requests_with_it(
    inner: tuple[int, int] | None, moment: float
) -> None:
    array, store, reader = await sample((64, 64), (4, 4), inner=inner, latency=1.0)
    first = asyncio.ensure_future(reader.read([array.read(...)], settings=SETTINGS))
    await asyncio.sleep(0)
    read = array.read(slice(None, None, 2))
    second = asyncio.ensure_future(reader.read([read], settings=SETTINGS))
    await asyncio.sleep(moment)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    assert np.array_equal(read.out, array.values[::2])
    assert quiet(store)


@in_virtual_time
async def test_a_merged_request_ends_with_its_last_reader() -> None:
    array, store, reader = await sample((4, 4), (4, 4), inner=(2, 2), latency=1.0)
    tasks = [asyncio.ensure_future(reader.read([array.read(row)], settings=SETTINGS)) for row in (0, 0)]
    await asyncio.sleep(1.5)
    assert store.in_flight == 1
    tasks[0].cancel()
    await asyncio.sleep(0.1)
    assert store.in_flight == 1
    tasks[1].cancel()
    await asyncio.sleep(0.1)
    assert store.in_flight == 0
    assert all(task.cancelled() for task in tasks)


@in_virtual_time
async def test_a_reader_waiting_for_its_retry_is_cancelled_at_once() -> None:
    array, store, reader = await sample((1, 1), (1, 1))
    store.faults = lambda call: ThrottledError("slow down", retry_after=15.0)
    task = asyncio.ensure_future(reader.read([array.read(...)], settings=SETTINGS))
    await asyncio.sleep(5)
    begun = asyncio.get_running_loop().time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.get_running_loop().time() == begun


@pytest.mark.parametrize("inner", [None, (2, 2)])
def test_whichever_request_fails_the_read_gives_right_values_or_a_typed_error(inner: tuple[int, int] | None) -> None:
    async def count() -> int:
        array, store, reader = await sample((8, 8), (4, 4), inner=inner)
        await reader.read([array.read(...)], settings=SETTINGS)
        return store.count

    async def scenario(number: int, error: StoreError) -> None:
        array, store, reader = await sample((8, 8), (4, 4), inner=inner)
        store.faults = lambda call: error if call.number == number else None
        read = array.read(...)
        try:
            await reader.read([read], settings=SETTINGS)
        except StoreError:
            assert not error.retryable
        else:
            assert error.retryable
            assert np.array_equal(read.out, array.values)
        assert quiet(store)

    for number in range(1, run_virtual(count()) + 1):
        for error in (StoreError("reset", retryable=True), StoreError("broken"), ThrottledError("slow down")):
            run_virtual(scenario(number, error))


@pytest.mark.parametrize("inner", [None, (2, 2)])
@in_virtual_time
async def test_a_cancelled_read_whose_next_request_waits_for_room_ends(inner: tuple[int, int] | None) -> None:
    array, store, reader = await sample((64, 64), (4, 4), inner=inner, latency=1.0)
    tight = replace(SETTINGS, max_bytes_in_flight=200)
    read = array.read(slice(0, 8))
    tasks = [asyncio.ensure_future(reader.read([each], settings=tight)) for each in (array.read(...), read)]
    await asyncio.sleep(1.5)
    tasks[0].cancel()
    await asyncio.wait(tasks)
    assert tasks[0].cancelled()
    assert np.array_equal(read.out, array.values[:8])
    assert quiet(store)
    assert reader.idle()
