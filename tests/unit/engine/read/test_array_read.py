"""What reads ask of their store: counts of requests, rounds and overlaps, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from aiozarr.errors import LimitError, MissingChunkError
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import SETTINGS, Sample, engine, layout_of, sample


@in_virtual_time
async def test_512_chunks_at_a_limit_of_64_are_512_requests_in_8_rounds() -> None:
    array, store, reader = await sample((512, 4), (1, 4))
    read = array.read(...)
    await reader.read([read], settings=SETTINGS)
    assert np.array_equal(read.out, array.values)
    assert store.count == 512
    assert store.max_in_flight == 64
    assert store.rounds == 8


@in_virtual_time
async def test_without_a_fixed_limit_the_rounds_grow() -> None:
    array, store, reader = await sample((1000, 1), (1, 1))
    read = array.read(...)
    await reader.read([read], settings=Settings())
    assert np.array_equal(read.out, array.values)
    assert store.count == 1000
    # 64, then growing while the round trips come back clean: 1000 / 64 would be 16 rounds.
    assert store.rounds <= 8


@in_virtual_time
async def test_two_concurrent_readers_of_one_chunk_are_one_request() -> None:
    array, store, reader = await sample((4, 4), (4, 4))
    first, second = array.read(0), array.read(slice(1, 3))
    report = Report()
    await asyncio.gather(
        reader.read([first], settings=SETTINGS, report=report),
        reader.read([second], settings=SETTINGS, report=report),
    )
    assert np.array_equal(first.out, array.values[0])
    assert np.array_equal(second.out, array.values[1:3])
    assert store.count == 1
    assert (report.requests, report.shared) == (1, 1)


@in_virtual_time
async def test_a_read_of_10000_chunks_delays_a_read_of_one_by_at_most_two_round_trips() -> None:
    array, store, reader = await sample((10_000, 1), (1, 1), latency=1.0)
    other = Sample(layout_of((4,), (4,)), FakeStore(origin=store.origin))
    other.store = store
    await reader.write(other.write(other.values), settings=SETTINGS)
    loop = asyncio.get_running_loop()
    long = asyncio.ensure_future(reader.read([array.read(...)], settings=SETTINGS))
    await asyncio.sleep(10.5)
    begun = loop.time()
    short = array.read(9_999)
    await reader.read([short], settings=SETTINGS)
    assert short.out == array.values[9_999]
    assert loop.time() - begun <= 2.0
    long.cancel()
    with pytest.raises(asyncio.CancelledError):
        await long
    assert store.in_flight == 0


@in_virtual_time
async def test_callers_are_served_in_turn() -> None:
    array, _, reader = await sample((400, 1), (1, 1), latency=1.0)
    loop = asyncio.get_running_loop()
    ended: dict[int, float] = {}

    async def one(number: int) -> None:
        await reader.read([array.read(slice(100 * number, 100 * number + 100))], settings=SETTINGS)
        ended[number] = loop.time()

    await asyncio.gather(*map(one, range(4)))
    assert max(ended.values()) - min(ended.values()) <= 1.0


@in_virtual_time
async def test_bytes_in_flight_are_bounded_and_a_chunk_larger_than_the_bound_goes_alone() -> None:
    array, store, reader = await sample((64, 256), (1, 256))
    chunk = 4 * 256
    read = array.read(...)
    await reader.read([read], settings=replace(SETTINGS, max_bytes_in_flight=8 * chunk))
    assert np.array_equal(read.out, array.values)
    assert store.max_in_flight == 8
    store.reset()
    read = array.read(...)
    await reader.read([read], settings=replace(SETTINGS, max_bytes_in_flight=chunk // 2))
    assert np.array_equal(read.out, array.values)
    assert store.max_in_flight == 1


@in_virtual_time
async def test_no_bytes_stay_counted_after_reads_that_ended_well_badly_or_were_cancelled() -> None:
    array, store, reader = await sample((100, 4), (1, 4), codecs=[*layout_codecs()])
    await reader.read([array.read(...)], settings=SETTINGS)
    store.memory.set_now("a/c/50/0", b"too short")
    with pytest.raises(Exception, match="a/c/50/0"):
        await reader.read([array.read(...)], settings=SETTINGS)
    task = asyncio.ensure_future(reader.read([array.read(...)], settings=SETTINGS))
    await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.in_flight == 0
    assert reader.idle()
    assert reader.idle()


def layout_codecs() -> list[dict[str, object]]:
    return [{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "crc32c"}]


@in_virtual_time
async def test_missing_chunks_read_as_the_fill_value_or_raise_as_settings_say() -> None:
    array, store, reader = await sample((4, 2), (1, 2), fill_value=7)
    store.memory.erase_now("a/c/2/0")
    read = array.read(...)
    await reader.read([read], settings=SETTINGS)
    expected = array.values.copy()
    expected[2] = 7
    assert np.array_equal(read.out, expected)
    with pytest.raises(MissingChunkError, match="a/c/2/0") as raised:
        await reader.read([array.read(...)], settings=replace(SETTINGS, missing_chunks="raise"))
    assert raised.value.key == "a/c/2/0"


@in_virtual_time
async def test_a_chunk_above_the_limit_is_refused_before_anything_is_fetched() -> None:
    array, store, reader = await sample((4, 256), (4, 256))
    with pytest.raises(LimitError) as raised:
        await reader.read([array.read(0)], settings=replace(SETTINGS, max_chunk_bytes=4095))
    assert (raised.value.limit, raised.value.value, raised.value.allowed) == ("max_chunk_bytes", 4096, 4095)
    assert store.count == 0


@in_virtual_time
async def test_a_report_counts_what_the_store_saw() -> None:
    array, store, reader = await sample((16, 16), (8, 8), inner=(2, 2))
    report = Report()
    await reader.read([array.read(slice(None), 3)], settings=SETTINGS, report=report)
    assert report.requests == store.count
    assert report.bytes_fetched == store.nbytes
    assert report.retries == 0
    assert report.chunks == 8


@in_virtual_time
async def test_a_plan_of_a_million_chunks_is_walked_as_it_is_sent() -> None:
    array = Sample.__new__(Sample)
    array.layout = layout_of((1000, 1000), (1, 1))
    array.store = store = FakeStore(latency=1.0)
    reader = engine()
    read = array.read(...)
    task = asyncio.ensure_future(reader.read([read], settings=SETTINGS))
    await asyncio.sleep(4.5)
    assert store.count == 5 * 64
    assert len(reader.state.in_flight) <= 64
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.in_flight == 0


@pytest.mark.parametrize("inner", [None, (1, 1)])
@in_virtual_time
async def test_thousands_of_stored_objects_of_a_blocking_store_are_read_twice(inner: tuple[int, int] | None) -> None:
    array = Sample(layout_of((2000, 2), (1, 2), inner=inner), MemoryStore())
    worker = engine()
    await worker.write(array.write(array.values), settings=SETTINGS)
    for _ in range(2):
        # The second time every index is at hand when its shard is begun.
        read = array.read(...)
        await worker.read([read], settings=SETTINGS)
        assert np.array_equal(read.out, array.values)


@in_virtual_time
async def test_a_plan_that_fails_ends_its_read_and_no_other() -> None:
    array, store, reader = await sample((64, 2), (1, 2), latency=1.0)
    broken = array.read(...)
    object.__setattr__(broken, "prefix", None)
    fine = array.read(...)
    results = await asyncio.gather(
        *(reader.read([each], settings=SETTINGS) for each in (broken, fine)), return_exceptions=True
    )
    assert isinstance(results[0], TypeError)
    assert np.array_equal(fine.out, array.values)
    assert store.in_flight == 0
