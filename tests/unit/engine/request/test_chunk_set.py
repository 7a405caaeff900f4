"""Batches of inner chunks of a shard, and other readers that join some of them at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aiozarr.engine import Engine
from aiozarr.engine.decoder import MAX_BATCH_CHUNKS, BatchOutput, ChunkDecoder
from aiozarr.engine.in_flight import ChunkDelivery, ChunkSet, DecodeChunks
from aiozarr.errors import ChecksumError, CodecError, MissingChunkError, ThrottledError
from aiozarr.grid.projection import ChunkProjection
from aiozarr.model import Range
from aiozarr.schedule.events import Event, Report
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import in_virtual_time, run_virtual
from tests.support.engine_samples import RAW, SETTINGS, Sample, pass_turns, read_window, sample
from tests.support.worker_pools import HeldPool

CHECKED = [*RAW, {"name": "crc32c"}]
INNER = 64
MOMENTS = [*range(10), 100]


async def shard(**more: Any) -> tuple[Sample, FakeStore, Engine]:
    """An array that is one shard of 64 inner chunks, with its index at hand."""
    array, store, reader = await sample((16, 16), (16, 16), inner=(2, 2), codecs=CHECKED, latency=1.0, **more)
    await read_window(reader, array, 0, 0)
    store.reset()
    return array, store, reader


def idle(store: FakeStore, reader: Engine) -> bool:
    return store.in_flight == 0 and reader.idle()


@in_virtual_time
async def test_all_of_a_shard_is_one_request_whose_event_counts_every_chunk() -> None:
    array, store, reader = await shard()
    report = Report()
    events: list[Event] = []
    await read_window(reader, array, ..., report=report, settings=replace(SETTINGS, on_event=events.append))
    assert store.count == report.requests == 1
    assert (report.chunks, report.shared) == (INNER, 0)
    (event,) = events
    assert (event.chunks, event.bytes_wanted) == (INNER, event.bytes_fetched)
    assert event.decode_ended >= event.decode_started > 0
    assert idle(store, reader)


@pytest.mark.parametrize(("gap", "requests"), [(0, 32), (1 << 16, 1)])
@in_virtual_time
async def test_a_batch_takes_as_many_requests_as_the_gap_says(gap: int, requests: int) -> None:
    array, store, reader = await shard()
    every_second = (slice(None), slice(None, None, 4))
    await read_window(reader, array, *every_second, settings=replace(SETTINGS, merge_gap_bytes=gap, max_over_read=4.0))
    assert store.count == requests
    assert idle(store, reader)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("selection", [(...,), (3,), (slice(2, 9), slice(None, None, 3))], ids=["all", "row", "steps"])
@in_virtual_time
async def test_readers_that_join_while_a_shard_is_in_flight_send_no_request(
    moment: int, selection: tuple[Any, ...]
) -> None:
    array, store, reader = await shard()
    report = Report()
    first = asyncio.ensure_future(read_window(reader, array, ...))
    await pass_turns(moment)
    second = read_window(reader, array, *selection, report=report)
    await asyncio.gather(first, second, read_window(reader, array, 5))
    assert store.count == 1
    assert report.shared == report.chunks or moment == 0
    assert idle(store, reader)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("leaver", range(3))
@in_virtual_time
async def test_a_cancelled_reader_does_not_disturb_the_others(moment: int, leaver: int) -> None:
    array, store, reader = await shard()
    reads: list[Awaitable[None]] = [
        read_window(reader, array, ...),
        read_window(reader, array, 3),
        read_window(reader, array, ...),
    ]
    tasks = [asyncio.ensure_future(reads[0])]
    await pass_turns(3)
    tasks += [asyncio.ensure_future(each) for each in reads[1:]]
    await pass_turns(moment)
    tasks[leaver].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in results] == [number == leaver for number in range(3)]
    # What the leaver alone had sent for is sent for once more where it goes before the others have joined.
    assert store.count <= 2
    assert idle(store, reader)


@pytest.mark.parametrize("moment", MOMENTS)
@in_virtual_time
async def test_a_request_without_subscribers_ends_at_once(moment: int) -> None:
    array, store, reader = await shard()
    tasks = [asyncio.ensure_future(read_window(reader, array, ...))]
    await pass_turns(moment)
    tasks.append(asyncio.ensure_future(read_window(reader, array, slice(4, 8))))
    await pass_turns(moment)
    begun = asyncio.get_running_loop().time()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert asyncio.get_running_loop().time() == begun
    assert store.count <= 1
    assert idle(store, reader)
    await read_window(reader, array, ...)


@pytest.mark.parametrize("joins", [None, *range(6)])
@pytest.mark.parametrize("moment", range(8))
@in_virtual_time
async def test_a_reader_ends_in_whatever_turn_it_is_cancelled_and_so_does_one_that_joins(
    moment: int, joins: int | None
) -> None:
    array, store, reader = await shard()
    first = asyncio.ensure_future(read_window(reader, array, ...))
    tasks = [first]
    for turn in range(8):
        if turn == joins:
            tasks.append(asyncio.ensure_future(read_window(reader, array, slice(4, 8))))
        if turn == moment:
            first.cancel()
        await asyncio.sleep(0)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    assert results[1:] == [] or isinstance(results[1], np.ndarray)
    assert idle(store, reader)


@pytest.mark.parametrize("stays", [True, False])
@in_virtual_time
async def test_readers_that_join_while_the_bytes_wait_for_a_worker_send_no_request(stays: bool) -> None:
    array, store, _ = await shard()
    pool = HeldPool()
    reader = Engine(asyncio.get_running_loop(), pool)
    index = asyncio.ensure_future(read_window(reader, array, 0, 0))
    while not index.done():
        pool.go_on()
        await asyncio.sleep(0.001)
    store.reset()
    first = asyncio.ensure_future(read_window(reader, array, ...))
    while not pool.held:
        await asyncio.sleep(0.001)
    others = [asyncio.ensure_future(read_window(reader, array, row)) for row in (1, 6, 6)]
    await asyncio.sleep(0.001)
    if not stays:
        first.cancel()
        others[1].cancel()
        await asyncio.sleep(0.001)
    while not all(task.done() for task in (first, *others)):
        pool.go_on()
        await asyncio.sleep(0.001)
    results = await asyncio.gather(first, *others, return_exceptions=True)
    gone = [isinstance(each, asyncio.CancelledError) for each in results]
    assert gone == [not stays, False, not stays, False]
    assert store.count == 1
    assert idle(store, reader)


@in_virtual_time
async def test_a_late_subscription_survives_a_later_one() -> None:
    array, store, _ = await shard()
    pool = HeldPool()
    reader = Engine(asyncio.get_running_loop(), pool)
    small = replace(SETTINGS, max_request_bytes=600)
    index = asyncio.ensure_future(read_window(reader, array, 0, 0, settings=small))
    while not index.done():
        pool.go_on()
        await asyncio.sleep(0.001)
    store.reset()
    readers = [asyncio.ensure_future(read_window(reader, array, ..., settings=small))]
    while store.in_flight or len({id(work.delivery) for work in pool.held if isinstance(work, DecodeChunks)}) < 2:
        await asyncio.sleep(0.001)
    count = store.count
    first = next(work.delivery for work in pool.held if isinstance(work, DecodeChunks))
    readers.append(asyncio.ensure_future(read_window(reader, array, 0, 0, settings=small)))
    await asyncio.sleep(0.001)
    pool.go_on(lambda work: not (isinstance(work, DecodeChunks) and work.delivery is first))
    await asyncio.sleep(0.001)
    readers.append(asyncio.ensure_future(read_window(reader, array, 0, 0, settings=small)))
    for _ in range(10):
        await asyncio.sleep(0.001)
        pool.go_on()
    await asyncio.gather(*readers)
    assert store.count == count
    assert idle(store, reader)


@in_virtual_time
async def test_readers_that_joined_before_the_request_was_made_are_served_if_the_first_reader_fails_in_that_turn() -> (
    None
):
    array, store, reader = await sample((32, 16), (16, 16), inner=(2, 2), codecs=CHECKED, latency=1.0)
    store.memory.erase_now("a/c/1/0")
    strict = replace(SETTINGS, missing_chunks="raise")
    first = asyncio.ensure_future(read_window(reader, array, slice(10, 22), settings=strict))
    await asyncio.gather(read_window(reader, array, slice(10, 16)), read_window(reader, array, slice(9, 16)))
    with pytest.raises(MissingChunkError):
        await first
    assert idle(store, reader)


@in_virtual_time
async def test_a_chunk_that_does_not_decode_is_named_with_its_range_after_the_shard_was_read_once_more() -> None:
    array, store, reader = await shard()
    data = bytearray(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
    data[5] ^= 1
    store.memory.set_now("a/c/0/0", bytes(data))
    await read_window(reader, array, 15, 15)
    store.reset()
    with pytest.raises(ChecksumError) as raised:
        await read_window(reader, array, ...)
    assert raised.value.key == "a/c/0/0"
    assert isinstance(raised.value.range, Range)
    assert raised.value.range.start <= 5 < raised.value.range.start + (raised.value.range.length or 0)
    assert store.count == 2
    assert idle(store, reader)
    with pytest.raises(CodecError):
        await asyncio.gather(read_window(reader, array, ...), read_window(reader, array, 0))
    assert idle(store, reader)


@in_virtual_time
async def test_a_lasting_refusal_fails_all_readers_and_leaves_nothing() -> None:
    array, store, reader = await shard()

    def refuse(call: object) -> None:
        raise ThrottledError("slow down", status=503, retryable=True)

    store.faults = refuse
    once = replace(SETTINGS, retries=0)
    tasks = [asyncio.ensure_future(read_window(reader, array, ..., settings=once))]
    await pass_turns(5)
    tasks.append(asyncio.ensure_future(read_window(reader, array, 3, settings=once)))
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in results] == [ThrottledError, ThrottledError]
    assert idle(store, reader)


@pytest.mark.parametrize("moment", MOMENTS)
@in_virtual_time
async def test_a_change_of_this_process_is_seen_by_later_readers(moment: int) -> None:
    array, store, reader = await shard()
    old = array.values.copy()
    first = array.read(...)
    reading = asyncio.ensure_future(reader.read([first], settings=SETTINGS))
    await pass_turns(moment)
    await reader.write(array.write(-old), settings=SETTINGS)
    second = array.read(...)
    await reader.read([second], settings=SETTINGS)
    await reading
    assert np.array_equal(second.out, -old)
    assert np.array_equal(first.out, old) or np.array_equal(first.out, -old)
    assert idle(store, reader)


@in_virtual_time
async def test_a_shard_that_goes_while_it_is_read_is_missing_and_inner_chunks_that_are_not_stored_are_filled() -> None:
    array, store, reader = await shard()
    values = array.values.copy()
    values[4:8] = 0
    await reader.write(array.write(values), settings=SETTINGS)
    array.values = values
    store.reset()
    report = Report()
    await read_window(reader, array, ..., report=report)
    assert report.chunks == INNER
    store.memory.erase_now("a/c/0/0")
    read = array.read(...)
    await reader.read([read], settings=SETTINGS)
    assert not read.out.any()
    with pytest.raises(MissingChunkError):
        await reader.read([array.read(...)], settings=replace(SETTINGS, missing_chunks="raise"))
    assert idle(store, reader)


@pytest.mark.parametrize("damaged", [None, 0, 500, 1199])
def test_the_work_for_many_small_chunks_grows_with_their_number(
    damaged: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is looked at again and again, be its neighbours as they may, and one that is damaged is named at once."""
    looked = [0]
    decoded: list[int] = []
    bounds = ChunkDelivery.bounds

    class Watched(list[int]):
        def __getitem__(self, index: Any) -> Any:
            looked[0] += 1
            return super().__getitem__(index)

    def watched(self: ChunkDelivery, chunk_set: ChunkSet, numbers: Sequence[int]) -> tuple[list[int], list[int]]:
        starts, stops = bounds(self, chunk_set, numbers)
        return Watched(starts), Watched(stops)

    window_of_chunk = ChunkProjection.whole_window
    decode = ChunkDecoder.decode_batch

    def looked_at(self: ChunkProjection, out: Any, shape: tuple[int, ...]) -> Any:
        looked[0] += 1
        return window_of_chunk(self, out, shape)

    def counted(self: ChunkDecoder, data: memoryview, starts: Sequence[int], chunk_set: BatchOutput) -> bool:
        decoded.append(len(starts))
        return decode(self, data, starts, chunk_set)

    async def scenario() -> None:
        # Three chunks side by side, each contiguous in the array by itself.
        array, store, reader = await sample((400, 12), (400, 12), inner=(1, 4), codecs=CHECKED, latency=1.0)
        if damaged is not None:
            stored = store.memory.fetch_now("a/c/0/0")
            assert stored is not None
            data = bytearray(stored.data)
            data[20 * damaged + 3] ^= 1
            store.memory.set_now("a/c/0/0", data)
        await read_window(reader, array, 3, 3)  # the index is cached from now on
        monkeypatch.setattr(ChunkProjection, "whole_window", looked_at)
        monkeypatch.setattr(ChunkDecoder, "decode_batch", counted)
        monkeypatch.setattr(ChunkDelivery, "bounds", watched)
        if damaged is None:
            await read_window(reader, array, ...)
        else:
            with pytest.raises(ChecksumError) as error:
                await read_window(reader, array, ...)
            assert error.value.range == Range(20 * damaged, 20)

    run_virtual(scenario())
    assert looked[0] <= 2 * 6 * 1200  # those that are damaged are fetched and decoded twice
    assert MAX_BATCH_CHUNKS <= sum(decoded) <= 2 * 1200
    assert len(decoded) <= 2 * -(-1200 // MAX_BATCH_CHUNKS)
