"""What a read does when its store misbehaves, when it is cancelled, or when objects change under it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from arrays import RAW, SETTINGS, sample

from aiozarr.errors import (
    ChangedError,
    ChecksumError,
    CodecError,
    PermissionDeniedError,
    StoreError,
    ThrottledError,
    UnauthenticatedError,
)
from aiozarr.model import Range, Supports
from aiozarr.schedule import Report
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import run_virtual

CHECKED = [*RAW, {"name": "crc32c"}]


def quiet(store: FakeStore) -> bool:
    return store.in_flight == 0 and len(asyncio.all_tasks()) == 1


def test_throttling_is_waited_out_and_the_limit_is_halved() -> None:
    async def scenario() -> None:
        array, store, reader = await sample((8, 2), (1, 2))
        store.faults = lambda call: ThrottledError("slow down", retry_after=3.0) if call.number <= 2 else None
        report = Report()
        read = array.read(...)
        begun = asyncio.get_running_loop().time()
        await reader.read([read], settings=replace(SETTINGS, max_requests="auto"), recorder=report)
        assert np.array_equal(read.out, array.values)
        assert (report.requests, report.retries) == (10, 2)
        assert asyncio.get_running_loop().time() - begun >= 3.0
        assert reader.desk.queue_of(store).budget.limit == 32

    run_virtual(scenario())


def test_throttling_without_end_is_an_error_with_attempts_and_time_and_nothing_stays_under_way() -> None:
    async def scenario() -> None:
        array, store, reader = await sample((8, 2), (1, 2))
        store.faults = lambda call: ThrottledError("slow down", store=store.url, key=call.key)
        with pytest.raises(ThrottledError) as raised:
            await reader.read([array.read(...)], settings=SETTINGS)
        assert raised.value.attempts == 6
        assert raised.value.elapsed is not None
        assert raised.value.elapsed <= 20
        assert quiet(store)

    run_virtual(scenario())


def test_the_first_error_cancels_the_other_requests_and_is_raised_alone() -> None:
    async def scenario() -> None:
        array, store, reader = await sample((1000, 2), (1, 2), latency=1.0)
        store.faults = lambda call: PermissionDeniedError("no", key=call.key) if call.key == "a/c/3/0" else None
        with pytest.raises(PermissionDeniedError) as raised:
            await reader.read([array.read(...)], settings=SETTINGS)
        assert raised.value.key == "a/c/3/0"
        assert raised.value.attempts == 1
        assert store.count <= 2 * 64
        assert quiet(store)

    run_virtual(scenario())


def test_a_status_that_settings_call_missing_reads_as_the_fill_value() -> None:
    async def scenario() -> None:
        array, store, reader = await sample((4, 2), (1, 2), fill_value=9)
        store.faults = lambda call: PermissionDeniedError("no", status=403) if call.key == "a/c/1/0" else None
        read = array.read(...)
        await reader.read([read], settings=replace(SETTINGS, missing_status=(404, 403)))
        assert read.out.tolist() == [[1, 2], [9, 9], [5, 6], [7, 8]]

    run_virtual(scenario())


def test_credentials_that_are_not_accepted_are_never_taken_for_a_missing_chunk() -> None:
    async def scenario() -> None:
        array, store, reader = await sample((4, 2), (1, 2), fill_value=9)
        store.faults = lambda call: UnauthenticatedError("no such key", status=403)
        with pytest.raises(UnauthenticatedError):
            await reader.read([array.read(...)], settings=replace(SETTINGS, missing_status=(404, 403)))

    run_virtual(scenario())


@pytest.mark.parametrize("inner", [None, (2, 2)])
def test_a_chunk_of_the_wrong_size_is_a_codec_error_with_store_key_and_range(inner: tuple[int, int] | None) -> None:
    async def scenario() -> None:
        array, store, reader = await sample((4, 4), (4, 4), inner=inner)
        if inner is None:
            store.memory.set_now("a/c/0/0", b"123")
        else:
            data = bytearray(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
            # The length of the first inner chunk, then the checksum of the index made to fit.
            import google_crc32c

            start = len(data) - (4 * 16 + 4)
            data[start + 8 : start + 16] = (15).to_bytes(8, "little")
            data[-4:] = google_crc32c.value(bytes(data[start:-4])).to_bytes(4, "little")
            store.memory.set_now("a/c/0/0", data)
        with pytest.raises(CodecError) as raised:
            await reader.read([array.read(...)], settings=SETTINGS)
        assert (raised.value.store, raised.value.key) == (store.url, "a/c/0/0")
        assert raised.value.range == (None if inner is None else Range(0, 15))
        assert quiet(store)

    run_virtual(scenario())


def test_a_damaged_chunk_is_fetched_once_more() -> None:
    async def scenario() -> None:
        array, store, reader = await sample((4, 2), (1, 2), codecs=CHECKED)
        good = bytes(store.memory.fetch_now("a/c/2/0").data)  # type: ignore[union-attr]  # it is stored
        store.memory.set_now("a/c/2/0", bytes([good[0] ^ 1]) + good[1:])
        with pytest.raises(ChecksumError) as raised:
            await reader.read([array.read(...)], settings=SETTINGS)
        assert raised.value.key == "a/c/2/0"
        assert [key for key, _ in store.log()].count("a/c/2/0") == 2
        store.reset()

        def mend(call: object) -> None:
            if store.count >= 4:
                store.memory.set_now("a/c/2/0", good)

        store.faults = mend
        read = array.read(...)
        await reader.read([read], settings=SETTINGS)
        assert np.array_equal(read.out, array.values)

    run_virtual(scenario())


@pytest.mark.parametrize("conditional", [True, False])
def test_a_shard_that_is_replaced_mid_read_is_read_again_and_never_mixed(conditional: bool) -> None:
    async def scenario() -> None:
        array, store, reader = await sample((16, 16), (16, 16), inner=(2, 2))
        # With conditions the store refuses; without, the answers' versions tell.
        store.supports = replace(store.supports, conditional_reads=conditional)
        old = bytes(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
        newer, writer, rewriter = await sample((16, 16), (16, 16), inner=(2, 2), latency=0)
        await rewriter.write([newer.write(-newer.values)], settings=SETTINGS)
        new = bytes(writer.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored

        def replace_it(call: object) -> None:
            if store.count == 3:
                store.memory.set_now("a/c/0/0", new)

        store.faults = replace_it
        read = array.read(slice(None), slice(0, 16, 4))
        await reader.read([read], settings=SETTINGS)
        assert old != new
        assert np.array_equal(read.out, -array.values[:, ::4])

    run_virtual(scenario())


def test_a_shard_that_keeps_changing_is_an_error() -> None:
    async def scenario() -> None:
        array, store, reader = await sample((16, 16), (16, 16), inner=(2, 2))
        data = bytes(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
        store.faults = lambda call: store.memory.set_now("a/c/0/0", data) and None
        with pytest.raises(ChangedError) as raised:
            await reader.read([array.read(slice(None), slice(0, 16, 4))], settings=SETTINGS)
        assert raised.value.key == "a/c/0/0"
        assert quiet(store)

    run_virtual(scenario())


def test_a_store_without_suffix_ranges_is_asked_for_the_size_first() -> None:
    async def scenario() -> None:
        array, store, reader = await sample((4, 4), (4, 4), inner=(2, 2))
        store.supports = replace(store.supports, suffix_reads=False)
        read = array.read(...)
        await reader.read([read], settings=SETTINGS)
        assert np.array_equal(read.out, array.values)
        assert all(isinstance(each, Range) for _, each in store.log())

    run_virtual(scenario())


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("moment", [0.0, 0.5, 1.0, 1.5, 2.5, 3.5])
def test_a_read_cancelled_at_any_moment_leaves_nothing_under_way(inner: tuple[int, int] | None, moment: float) -> None:
    async def scenario() -> None:
        array, store, reader = await sample((64, 64), (4, 4), inner=inner, latency=1.0)
        task = asyncio.ensure_future(reader.read([array.read(...)], settings=SETTINGS))
        await asyncio.sleep(moment)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert quiet(store)
        assert not reader.desk.flights
        assert not reader.desk.index_fetches
        count = store.count
        await asyncio.sleep(10)
        assert store.count == count

    run_virtual(scenario())


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("moment", [0.0, 0.5, 1.5, 2.5])
def test_a_cancelled_reader_does_not_take_shared_requests_with_it(inner: tuple[int, int] | None, moment: float) -> None:
    async def scenario() -> None:
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

    run_virtual(scenario())


def test_a_merged_request_ends_with_its_last_reader() -> None:
    async def scenario() -> None:
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

    run_virtual(scenario())


def test_a_reader_waiting_for_its_retry_is_cancelled_at_once() -> None:
    async def scenario() -> None:
        array, store, reader = await sample((1, 1), (1, 1))
        store.faults = lambda call: ThrottledError("slow down", retry_after=15.0)
        task = asyncio.ensure_future(reader.read([array.read(...)], settings=SETTINGS))
        await asyncio.sleep(5)
        begun = asyncio.get_running_loop().time()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.get_running_loop().time() == begun

    run_virtual(scenario())


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


def test_a_store_that_is_read_only_and_unconditional_is_read() -> None:
    async def scenario() -> None:
        array, store, reader = await sample((8, 8), (4, 4), inner=(2, 2))
        store.supports = Supports(readable=True)
        read = array.read(slice(None), 0)
        await reader.read([read], settings=SETTINGS)
        assert np.array_equal(read.out, array.values[:, 0])

    run_virtual(scenario())


@pytest.mark.parametrize("inner", [None, (2, 2)])
def test_a_cancelled_read_whose_next_request_waits_for_room_ends(inner: tuple[int, int] | None) -> None:
    async def scenario() -> None:
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
        budget = reader.desk.queue_of(store).budget
        assert (budget.in_flight, budget.bytes_in_flight) == (0, 0)

    run_virtual(scenario())
