"""The cache of shard indexes; small shards in one request, and what a shard that lies about itself gets."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aiozarr.codecs import ShardIndex
from aiozarr.engine import Engine
from aiozarr.engine.shard_index import IndexCache, IndexEntry
from aiozarr.errors import ChecksumError, CodecError, MissingChunkError
from aiozarr.model import Range, Suffix, Value, Version
from aiozarr.schedule.events import Report
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Corrupt
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import RAW, SETTINGS, Sample, engine, layout_of, sample

VERSION = Version('"1"')


def entry(chunks: int = 4, version: Version | None = VERSION) -> IndexEntry:
    """An index of `chunks` inner chunks, which takes 16 bytes for each."""
    return IndexEntry(ShardIndex(np.zeros(chunks, "u8"), np.zeros(chunks, "u8")), version)


def cached(cache: IndexCache, tokens: str) -> str:
    return "".join([token for token in tokens if cache.get(token) is not None])


def test_the_least_recently_used_indexes_make_room() -> None:
    cache = IndexCache(0)
    for token in "abc":
        cache.add(token, entry(), max_bytes=3 * 64)
    assert cache.get("a") is not None
    cache.add("d", entry(), max_bytes=3 * 64)
    assert cached(cache, "abcd") == "acd"


def test_the_limit_of_the_last_caller_holds() -> None:
    cache = IndexCache(0)
    for token in "abc":
        cache.add(token, entry(), max_bytes=1 << 20)
    cache.add("d", entry(), max_bytes=2 * 64)
    assert cached(cache, "abcd") == "cd"


def test_an_index_without_a_version_or_above_the_limit_is_not_cached() -> None:
    cache = IndexCache(0)
    cache.add("kept", entry(), max_bytes=128)
    cache.add("unversioned", entry(version=None), max_bytes=128)
    cache.add("missing", IndexEntry(None, None), max_bytes=128)
    cache.add("large", entry(chunks=9), max_bytes=128)
    assert cache.get("kept") is not None
    assert all(cache.get(token) is None for token in ("unversioned", "missing", "large"))


def test_a_replaced_or_dropped_index_frees_its_bytes() -> None:
    cache = IndexCache(0)
    for _ in range(10):
        cache.add("a", entry(), max_bytes=128)
    cache.add("b", entry(), max_bytes=128)
    cache.drop("a")
    cache.drop("unknown")
    cache.add("c", entry(), max_bytes=128)
    assert cached(cache, "abc") == "bc"


INDEX = 16 * 16 + 4
SIZE = 256 * 4 + INDEX
"""Bytes of the shards here: 16 inner chunks of (4, 4)."""
SMALL = replace(SETTINGS, merge_gap_bytes=SIZE)
CHECKED: list[dict[str, Any]] = [*RAW, {"name": "crc32c"}]


async def shards(**more: Any) -> tuple[Sample, FakeStore, Engine]:
    return await sample((32, 16), (16, 16), inner=(4, 4), **more)


def quiet(store: FakeStore, reader: Engine) -> bool:
    """Nothing is under way, and no bytes stay counted."""
    return store.in_flight == 0 and reader.idle()


@in_virtual_time
async def test_shards_that_are_wanted_whole_are_one_request_each() -> None:
    array, store, reader = await shards()
    report = Report()
    read = array.read(...)
    await reader.read([read], settings=SETTINGS, report=report)
    assert np.array_equal(read.out, array.values)
    assert store.log() == [("a/c/0/0", Range(0, SIZE)), ("a/c/1/0", Range(0, SIZE))]
    assert (report.requests, report.bytes_fetched, report.bytes_wanted) == (2, 2 * SIZE, 2 * SIZE)
    assert report.chunks == 32
    assert quiet(store, reader)
    # The indexes are kept: from now on exactly what is wanted is asked for.
    store.reset()
    await reader.read([array.read(...)], settings=SETTINGS)
    assert [asked for _, asked in store.log()] == [Range(0, SIZE - INDEX)] * 2


@in_virtual_time
async def test_nearly_all_inner_chunks_are_enough_and_over_read_is_counted() -> None:
    array, store, reader = await shards()
    for columns, requests in ((12, 1), (8, 5)):
        store.reset()
        read, report = array.read(slice(16), slice(columns)), Report()
        await reader.read([read], settings=replace(SETTINGS, index_cache_bytes=0), report=report)
        assert np.array_equal(read.out, array.values[:16, :columns])
        assert store.count == report.requests == requests
        assert report.bytes_wanted == INDEX + 16 * columns * 4
        assert report.bytes_fetched == (SIZE if requests == 1 else report.bytes_wanted)


@in_virtual_time
async def test_a_shard_smaller_than_the_cost_of_a_round_trip_is_fetched_whole_for_one_element() -> None:
    array, store, reader = await shards()
    for settings, asked in (
        (SMALL, [Range(0, SIZE)]),
        (replace(SETTINGS, merge_gap_bytes=SIZE - 1), [Suffix(INDEX), Range(0, 64)]),
    ):
        store.reset()
        read = array.read(1, 1)
        await reader.read([read], settings=replace(settings, index_cache_bytes=0))
        assert read.out == array.values[1, 1]
        assert [each for _, each in store.log()] == asked


@in_virtual_time
async def test_a_shard_that_is_not_stored_is_one_request() -> None:
    array, store, reader = await shards(fill_value=7)
    store.memory.erase_now("a/c/1/0")
    read = array.read(...)
    plan = await reader.probe(read, settings=SETTINGS)
    reader.state.indexes.cache.drop((store.identity, "a/c/0/0", array.layout.decoding_id))
    store.reset()
    await reader.read([read], settings=SETTINGS)
    assert np.array_equal(read.out[:16], array.values[:16])
    assert (read.out[16:] == 7).all()
    assert store.count == plan.requests == 2
    with pytest.raises(MissingChunkError, match="a/c/1/0"):
        await reader.read([array.read(...)], settings=replace(SETTINGS, missing_chunks="raise"))
    assert quiet(store, reader)


@in_virtual_time
async def test_readers_of_the_same_small_shard_share_the_request() -> None:
    array, store, reader = await shards()
    reads = [array.read(slice(16)), array.read(slice(0, 16, 5), 3), array.read(0, 0), array.read(0, 0)]
    reports = [Report() for _ in reads]
    await asyncio.gather(
        *[reader.read([read], settings=SMALL, report=report) for read, report in zip(reads, reports, strict=True)]
    )
    for read, expected in zip(
        reads, (array.values[:16], array.values[:16:5, 3], *[array.values[0, 0]] * 2), strict=True
    ):
        assert np.array_equal(read.out, expected)
    assert store.count == 1
    assert [report.requests for report in reports] == [1, 0, 0, 0]
    assert reports[0].bytes_wanted == SIZE
    assert quiet(store, reader)


@in_virtual_time
async def test_a_cancelled_reader_leaves_the_request_to_the_other_and_the_last_one_ends_it() -> None:
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


@pytest.mark.parametrize("known", [True, False])
@in_virtual_time
async def test_of_a_shard_larger_than_it_should_be_no_more_than_the_bound_is_received(known: bool) -> None:
    array, store, reader = await shards()
    data = bytes(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
    # What its writer left behind, before the index.
    store.memory.set_now("a/c/0/0", data[:-INDEX] + bytes(10_000) + data[-INDEX:])
    if not known:
        store.faults = lambda call: Corrupt(lambda value: replace(value, size=None))
    reads = [array.read(slice(16)), array.read(1, 1)]
    await asyncio.gather(*[reader.read([read], settings=SMALL) for read in reads])
    assert np.array_equal(reads[0].out, array.values[:16])
    assert reads[1].out == array.values[1, 1]
    assert store.log() == [("a/c/0/0", Range(0, SIZE)), ("a/c/0/0", Suffix(INDEX)), ("a/c/0/0", Range(0, 1024))]
    assert quiet(store, reader)


@pytest.mark.parametrize("start", [0, -INDEX, -2], ids=["data", "index", "checksum of the index"])
@in_virtual_time
async def test_a_damaged_shard_is_fetched_once_more_and_then_an_error(start: int) -> None:
    array, store, reader = await shards(codecs=CHECKED)
    size = SIZE + 16 * 4

    def damaged(value: Value) -> Value:
        data = bytearray(value.data)
        data[start] ^= 1
        return replace(value, data=bytes(data))

    store.faults = lambda call: Corrupt(damaged) if call.number == 1 else None
    read = array.read(slice(16))
    await reader.read([read], settings=SETTINGS)
    assert np.array_equal(read.out, array.values[:16])
    assert [asked for _, asked in store.log()] == [Range(0, size)] * 2
    store.faults = lambda call: Corrupt(damaged)
    with pytest.raises(ChecksumError) as raised:
        await engine().read([array.read(slice(16))], settings=SETTINGS)
    assert (raised.value.store, raised.value.key) == (store.url, "a/c/0/0")
    assert raised.value.range == (Range(0, 68) if start == 0 else Suffix(INDEX))


@pytest.mark.parametrize("size", [0, INDEX - 1])
@in_virtual_time
async def test_a_shard_shorter_than_its_index_is_an_error(size: int) -> None:
    array, store, reader = await shards()
    store.memory.set_now("a/c/0/0", bytes(size))
    with pytest.raises(CodecError, match=f"a shard of {size} bytes is shorter than its index") as raised:
        await reader.read([array.read(slice(16))], settings=SETTINGS)
    assert raised.value.key == "a/c/0/0"
    assert quiet(store, reader)


@in_virtual_time
async def test_a_shard_that_this_process_writes_during_a_fetch_is_not_shared_with_later_readers() -> None:
    array, store, reader = await shards(latency=1.0)
    early = asyncio.ensure_future(reader.read([array.read(slice(16))], settings=SMALL))
    # The bytes that it gets are of this moment.
    data = bytes(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
    store.faults = lambda call: Corrupt(lambda value: replace(value, data=data)) if call.number == 1 else None
    await asyncio.sleep(0.1)
    store.latency = 0.01
    await reader.write(array.write(-array.values[:16], slice(16)), settings=SETTINGS)
    late = array.read(0, 0)
    await reader.read([late], settings=SMALL)
    assert late.out == -array.values[0, 0]
    await early


@in_virtual_time
async def test_a_server_without_ranges_sends_each_shard_once() -> None:
    array, store, reader = await shards()
    store.supports = replace(store.supports, partial_reads=False)
    for _ in range(2):
        store.reset()
        read = array.read(slice(0, 32, 7), 3)
        await reader.read([read], settings=replace(SETTINGS, index_cache_bytes=0))
        assert np.array_equal(read.out, array.values[::7, 3])
        assert store.count == 2


@in_virtual_time
async def test_blocking_stores_read_directly_shards_in_one_go() -> None:
    array = Sample(layout_of((32, 16), (16, 16), inner=(4, 4)), MemoryStore())
    reader = engine()
    await reader.write(array.write(array.values), settings=SETTINGS)
    read, report = array.read(slice(0, 32, 3), slice(2, 9)), Report()
    await reader.read([read], settings=SMALL, report=report)
    assert np.array_equal(read.out, array.values[::3, 2:9])
    assert (report.requests, report.bytes_fetched) == (2, 2 * SIZE)


@in_virtual_time
async def test_a_shard_that_arrives_after_a_write_of_this_process_is_not_used_for_later_readers() -> None:
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
    await worker.write(array.write(-array.values), settings=settings)
    await reading
    assert np.array_equal(early.out, array.values)
    later = array.read(...)
    await worker.read([later], settings=settings)
    assert np.array_equal(later.out, -array.values)
