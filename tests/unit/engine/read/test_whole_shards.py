"""Small shards in one request: when, what is right about it, and what a shard that lies about itself gets."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from arrays import RAW, SETTINGS, Sample, engine, layout_of, sample

from aiozarr.codecs import ShardLayout
from aiozarr.engine import Engine
from aiozarr.engine.plan.whole_shard import whole_bound, whole_request
from aiozarr.errors import ChecksumError, CodecError, MissingChunkError
from aiozarr.grid import IndexTransform
from aiozarr.grid.axes import regular_axes
from aiozarr.grid.touched import project
from aiozarr.model import Range, Suffix, Value
from aiozarr.schedule import Report
from aiozarr.schedule.coalesce import Economy
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Spoil
from aiozarr.testing.virtual_time import run_virtual

INDEX = 16 * 16 + 4
SIZE = 256 * 4 + INDEX
"""Bytes of the shards here: 16 inner chunks of (4, 4)."""

SMALL = replace(SETTINGS, gap=SIZE)
CHECKED: list[dict[str, Any]] = [*RAW, {"name": "crc32c"}]


async def shards(**more: Any) -> tuple[Sample, FakeStore, Engine]:
    return await sample((32, 16), (16, 16), inner=(4, 4), **more)


def quiet(store: FakeStore, reader: Engine) -> bool:
    """Nothing is under way, and no bytes stay counted."""
    desk, budget = reader.desk, reader.desk.queue_of(store).budget
    left = len(desk.flights) + len(desk.index_fetches)
    return (store.in_flight, budget.in_flight, budget.bytes_in_flight, left) == (0, 0, 0, 0)


def test_shards_that_are_wanted_whole_are_one_request_each() -> None:
    async def scenario() -> None:
        array, store, reader = await shards()
        report = Report()
        read = array.read(...)
        await reader.read([read], settings=SETTINGS, recorder=report)
        assert np.array_equal(read.out, array.values)
        assert store.log() == [("a/c/0/0", Range(0, SIZE)), ("a/c/1/0", Range(0, SIZE))]
        assert (report.requests, report.bytes_fetched, report.bytes_wanted) == (2, 2 * SIZE, 2 * SIZE)
        assert report.chunks == 32
        assert quiet(store, reader)
        # The indexes are kept: from now on exactly what is wanted is asked for.
        store.reset()
        await reader.read([array.read(...)], settings=SETTINGS)
        assert [asked for _, asked in store.log()] == [Range(0, SIZE - INDEX)] * 2

    run_virtual(scenario())


def test_nearly_all_inner_chunks_are_enough_and_what_is_read_over_is_counted() -> None:
    async def scenario() -> None:
        array, store, reader = await shards()
        for columns, requests in ((12, 1), (8, 5)):
            store.reset()
            read, report = array.read(slice(16), slice(columns)), Report()
            await reader.read([read], settings=replace(SETTINGS, index_cache_bytes=0), recorder=report)
            assert np.array_equal(read.out, array.values[:16, :columns])
            assert store.count == report.requests == requests
            assert report.bytes_wanted == INDEX + 16 * columns * 4
            assert report.bytes_fetched == (SIZE if requests == 1 else report.bytes_wanted)

    run_virtual(scenario())


def test_a_shard_no_larger_than_what_a_round_trip_costs_is_fetched_whole_for_one_element() -> None:
    async def scenario() -> None:
        array, store, reader = await shards()
        for settings, asked in (
            (SMALL, [Range(0, SIZE)]),
            (replace(SETTINGS, gap=SIZE - 1), [Suffix(INDEX), Range(0, 64)]),
        ):
            store.reset()
            read = array.read(1, 1)
            await reader.read([read], settings=replace(settings, index_cache_bytes=0))
            assert read.out == array.values[1, 1]
            assert [each for _, each in store.log()] == asked

    run_virtual(scenario())


def test_a_shard_that_is_not_stored_is_one_request() -> None:
    async def scenario() -> None:
        array, store, reader = await shards(fill_value=7)
        store.memory.erase_now("a/c/1/0")
        read = array.read(...)
        plan = await reader.probe(read, settings=SETTINGS)
        reader.desk.indexes.drop((store.identity, "a/c/0/0", array.layout.token))
        store.reset()
        await reader.read([read], settings=SETTINGS)
        assert np.array_equal(read.out[:16], array.values[:16])
        assert (read.out[16:] == 7).all()
        assert store.count == plan.requests == 2
        with pytest.raises(MissingChunkError, match="a/c/1/0"):
            await reader.read([array.read(...)], settings=replace(SETTINGS, missing="raise"))
        assert quiet(store, reader)

    run_virtual(scenario())


def test_callers_who_want_the_same_small_shard_share_the_request() -> None:
    async def scenario() -> None:
        array, store, reader = await shards()
        reads = [array.read(slice(16)), array.read(slice(0, 16, 5), 3), array.read(0, 0), array.read(0, 0)]
        reports = [Report() for _ in reads]
        await asyncio.gather(
            *[reader.read([read], settings=SMALL, recorder=report) for read, report in zip(reads, reports, strict=True)]
        )
        for read, expected in zip(
            reads, (array.values[:16], array.values[:16:5, 3], *[array.values[0, 0]] * 2), strict=True
        ):
            assert np.array_equal(read.out, expected)
        assert store.count == 1
        assert [report.requests for report in reports] == [1, 0, 0, 0]
        assert reports[0].bytes_wanted == SIZE
        assert quiet(store, reader)

    run_virtual(scenario())


def test_a_cancelled_reader_leaves_the_request_to_the_other_and_the_last_one_ends_it() -> None:
    async def scenario() -> None:
        array, store, reader = await shards(latency=1.0)
        first = asyncio.ensure_future(reader.read([array.read(slice(16))], settings=SMALL))
        other = array.read(3, 3)
        second = asyncio.ensure_future(reader.read([other], settings=SMALL))
        await asyncio.sleep(0.5)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await second
        assert other.out == array.values[3, 3]
        assert store.count == 1
        third = asyncio.ensure_future(reader.read([array.read(20, 3)], settings=SMALL))
        await asyncio.sleep(0.5)
        third.cancel()
        with pytest.raises(asyncio.CancelledError):
            await third
        assert quiet(store, reader)

    run_virtual(scenario())


@pytest.mark.parametrize("known", [True, False])
def test_of_a_shard_larger_than_it_should_be_no_more_than_the_bound_is_received(known: bool) -> None:
    async def scenario() -> None:
        array, store, reader = await shards()
        data = bytes(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
        # What its writer left behind, before the index.
        store.memory.set_now("a/c/0/0", data[:-INDEX] + bytes(10_000) + data[-INDEX:])
        if not known:
            store.faults = lambda call: Spoil(lambda value: replace(value, size=None))
        reads = [array.read(slice(16)), array.read(1, 1)]
        await asyncio.gather(*[reader.read([read], settings=SMALL) for read in reads])
        assert np.array_equal(reads[0].out, array.values[:16])
        assert reads[1].out == array.values[1, 1]
        assert store.log() == [("a/c/0/0", Range(0, SIZE)), ("a/c/0/0", Suffix(INDEX)), ("a/c/0/0", Range(0, 1024))]
        assert quiet(store, reader)

    run_virtual(scenario())


def test_a_probe_says_what_a_shard_that_is_too_large_costs() -> None:
    async def scenario() -> None:
        array, store, reader = await shards()
        data = bytes(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
        store.memory.set_now("a/c/0/0", data[:-INDEX] + bytes(10_000) + data[-INDEX:])
        settings = replace(SMALL, index_cache_bytes=0)
        plan = await reader.probe(array.read(...), settings=settings)
        store.reset()
        report = Report()
        await reader.read([array.read(...)], settings=settings, recorder=report)
        assert (plan.requests, plan.bytes) == (store.count, store.nbytes) == (4, 2 * SIZE + INDEX + 1024)
        assert plan.bytes_wanted == report.bytes_wanted == 2 * SIZE

    run_virtual(scenario())


@pytest.mark.parametrize("start", [0, -INDEX, -2], ids=["data", "index", "checksum of the index"])
def test_what_is_damaged_is_fetched_once_more_and_then_an_error(start: int) -> None:
    async def scenario() -> None:
        array, store, reader = await shards(codecs=CHECKED)
        size = SIZE + 16 * 4

        def damaged(value: Value) -> Value:
            data = bytearray(value.data)
            data[start] ^= 1
            return replace(value, data=bytes(data))

        store.faults = lambda call: Spoil(damaged) if call.number == 1 else None
        read = array.read(slice(16))
        await reader.read([read], settings=SETTINGS)
        assert np.array_equal(read.out, array.values[:16])
        assert [asked for _, asked in store.log()] == [Range(0, size)] * 2
        store.faults = lambda call: Spoil(damaged)
        with pytest.raises(ChecksumError) as raised:
            await engine().read([array.read(slice(16))], settings=SETTINGS)
        assert (raised.value.store, raised.value.key) == (store.url, "a/c/0/0")
        assert raised.value.range == (Range(0, 68) if start == 0 else Suffix(INDEX))

    run_virtual(scenario())


@pytest.mark.parametrize("size", [0, INDEX - 1])
def test_a_shard_shorter_than_its_index_is_an_error(size: int) -> None:
    async def scenario() -> None:
        array, store, reader = await shards()
        store.memory.set_now("a/c/0/0", bytes(size))
        with pytest.raises(CodecError, match=f"a shard of {size} bytes is shorter than its index") as raised:
            await reader.read([array.read(slice(16))], settings=SETTINGS)
        assert raised.value.key == "a/c/0/0"
        assert quiet(store, reader)

    run_virtual(scenario())


def test_a_shard_that_is_written_here_while_it_is_fetched_is_not_shared_with_who_comes_later() -> None:
    async def scenario() -> None:
        array, store, reader = await shards(latency=1.0)
        early = asyncio.ensure_future(reader.read([array.read(slice(16))], settings=SMALL))
        # The bytes that it gets are of this moment.
        data = bytes(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
        store.faults = lambda call: Spoil(lambda value: replace(value, data=data)) if call.number == 1 else None
        await asyncio.sleep(0.1)
        store.latency = 0.01
        await reader.write([array.write(-array.values[:16], slice(16))], settings=SETTINGS)
        late = array.read(0, 0)
        await reader.read([late], settings=SMALL)
        assert late.out == -array.values[0, 0]
        await early

    run_virtual(scenario())


def test_a_server_without_ranges_sends_each_shard_once() -> None:
    async def scenario() -> None:
        array, store, reader = await shards()
        store.supports = replace(store.supports, partial_reads=False)
        for _ in range(2):
            store.reset()
            read = array.read(slice(0, 32, 7), 3)
            await reader.read([read], settings=replace(SETTINGS, index_cache_bytes=0))
            assert np.array_equal(read.out, array.values[::7, 3])
            assert store.count == 2

    run_virtual(scenario())


def test_blocking_stores_read_small_shards_in_one_go() -> None:
    async def scenario() -> None:
        array = Sample(layout_of((32, 16), (16, 16), inner=(4, 4)), MemoryStore())
        reader = engine()
        await reader.write([array.write(array.values)], settings=SETTINGS)
        read, report = array.read(slice(0, 32, 3), slice(2, 9)), Report()
        await reader.read([read], settings=SMALL, recorder=report)
        assert np.array_equal(read.out, array.values[::3, 2:9])
        assert (report.requests, report.bytes_fetched) == (2, 2 * SIZE)

    run_virtual(scenario())


# --- the choice ------------------------------------------------------------------------------------------------------


def layout(inner: tuple[int, ...] = (4, 4), **more: Any) -> ShardLayout:
    found = layout_of((32, 16), (16, 16), inner=inner, **more).shard
    assert found is not None
    return found


def chosen(shard: ShardLayout, economy: Economy, *selection: Any, ranges: bool = True) -> int | None:
    (part,) = project(regular_axes((16, 16), (16, 16)), IndexTransform.identity((16, 16)).select(selection).maps)
    touched = len(part.within(regular_axes(shard.inner_shape, shard.shard_shape)))
    return whole_request(shard, part, lambda: touched, economy, ranges=ranges)


def test_the_bound_is_what_sane_codecs_make_at_most() -> None:
    assert whole_bound(layout()) == SIZE
    zstd = [*RAW, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}]
    bound = whole_bound(layout(codecs=zstd))
    assert bound is not None
    assert SIZE < bound < SIZE + 16 * 300
    assert whole_bound(layout(codecs=[{"name": "vlen-utf8"}], dtype="string", fill_value="")) is None


def test_the_choice_goes_by_size_share_and_price() -> None:
    shard = layout()
    assert chosen(shard, Economy(0), ...) == SIZE
    assert chosen(shard, Economy(0, max_request_bytes=SIZE), ...) == SIZE
    assert chosen(shard, Economy(0, max_request_bytes=SIZE - 1), ...) is None
    assert chosen(shard, Economy(0), slice(12)) == SIZE
    assert chosen(shard, Economy(0), slice(8)) is None
    assert chosen(shard, Economy(0, max_over_read=2.0), slice(8)) == SIZE
    # All inner chunks are touched, and of such small ones all is fetched.
    assert chosen(shard, Economy(0), slice(None, None, 4)) == SIZE
    assert chosen(shard, Economy(SIZE), 3, 3) == SIZE
    assert chosen(shard, Economy(SIZE, max_request_bytes=1), 3, 3) == SIZE
    assert chosen(shard, Economy(SIZE - 1), 3, 3) is None
    assert chosen(shard, Economy(0), 3, 3, ranges=False) == SIZE


@pytest.mark.parametrize(("codecs", "whole"), [(RAW, False), (CHECKED, True)])
def test_where_a_little_of_each_inner_chunk_can_be_had_the_elements_count(
    codecs: list[dict[str, Any]], whole: bool
) -> None:
    shard = layout_of((64, 4096), (64, 4096), inner=(16, 4096), codecs=codecs).shard
    assert shard is not None
    (part,) = project(
        regular_axes((64, 4096), (64, 4096)), IndexTransform.identity((64, 4096)).select((slice(3, 64, 16),)).maps
    )
    assert (whole_request(shard, part, lambda: 4, Economy(0), ranges=True) is not None) == whole


def test_of_a_shard_at_the_end_only_what_is_inside_counts() -> None:
    shard = layout()
    (part,) = project(regular_axes((16, 16), (5, 7)), IndexTransform.identity((5, 7)).select(...).maps)
    assert whole_request(shard, part, lambda: 4, Economy(0), ranges=True) == SIZE
    assert whole_request(shard, part, lambda: 2, Economy(0), ranges=True) is None


def test_a_shard_that_comes_after_this_process_has_written_it_anew_reaches_nobody_who_asks_later() -> None:
    async def scenario() -> None:
        array, store, worker = await shards(latency=1.0)
        settings = replace(SMALL, chunk_cache_bytes=1 << 20)
        fetch = store.fetch

        async def late(*args: Any, **keywords: Any) -> Any:
            value = await fetch(*args, **keywords)
            await asyncio.sleep(10)
            return value

        store.fetch = late  # type: ignore[method-assign]
        early = array.read(...)
        reading = asyncio.ensure_future(worker.read([early], settings=settings))
        await asyncio.sleep(1.5)
        store.fetch = fetch  # type: ignore[method-assign]
        await worker.write([array.write(-array.values)], settings=settings)
        await reading
        assert np.array_equal(early.out, array.values)
        later = array.read(...)
        await worker.read([later], settings=settings)
        assert np.array_equal(later.out, -array.values)

    run_virtual(scenario())
