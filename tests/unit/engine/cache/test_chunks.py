"""Decoded chunks that are kept: what is served from memory, for how long, how much of it, and what is never kept."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.engine import Engine
from aiozarr.engine.caches import ENTRY_BYTES, MAX_CACHES, ChunkCache, ChunkCaches
from aiozarr.errors import CodecError, MissingChunkError
from aiozarr.model import Supports
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores import LocalStore, MemoryStore, PrefixStore
from aiozarr.stores.contract import Store
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import RAW, SETTINGS, Sample, engine, layout_of, sample

CACHED = replace(SETTINGS, chunk_cache_bytes=1 << 20)
CHECKED = [*RAW, {"name": "crc32c"}]


async def values_of(reader: Engine, array: Sample, *selection: Any, settings: Settings = CACHED) -> Any:
    read = array.read(*selection)
    await reader.read([read], settings=settings)
    return read.out


def kept(reader: Engine, settings: Settings = CACHED) -> ChunkCache:
    cache = reader.state.chunk_caches.of(settings.chunk_cache_bytes)
    assert cache is not None
    return cache


@pytest.mark.parametrize("inner", [None, (2, 2)], ids=["plain", "sharded"])
@in_virtual_time
async def test_a_decoded_chunk_is_not_requested_again(inner: tuple[int, int] | None) -> None:
    array, store, reader = await sample((16, 16), (8, 8), inner=inner)
    assert np.array_equal(await values_of(reader, array), array.values)
    store.reset()
    for selection in [(...,), (3,), (slice(None), 5), (slice(15, 0, -5), slice(1, 9)), (2, 2)]:
        assert np.array_equal(await values_of(reader, array, *selection), array.values[selection])
    assert store.count == 0
    assert (await values_of(reader, array, settings=SETTINGS)).tolist() == array.values.tolist()
    assert store.count > 0  # who does not ask for the cache does not get it


@pytest.mark.parametrize("inner", [None, (1, 2)], ids=["plain", "sharded"])
@in_virtual_time
async def test_chunks_of_blocking_stores_are_cached_too(inner: tuple[int, int] | None) -> None:
    array = Sample(layout_of((8, 2), (2, 2), inner=inner), MemoryStore())
    reader = engine()
    await reader.write(array.write(array.values), settings=SETTINGS)
    reports = Report(), Report()
    for report in reports:
        read = array.read(...)
        await reader.read([read], settings=CACHED, report=report)
        assert np.array_equal(read.out, array.values)
    assert reports[0].requests >= 4
    assert (reports[1].requests, reports[1].chunks) == (0, 4 if inner is None else 8)


@in_virtual_time
async def test_entries_own_their_memory_are_read_only_and_hold_no_readers_array() -> None:
    for codecs in (RAW, CHECKED, [{"name": "transpose", "configuration": {"order": [1, 0]}}, *RAW]):
        array, _, reader = await sample((4, 6), (4, 3), codecs=codecs)
        out = await values_of(reader, array)
        out[...] = 0
        assert np.array_equal(await values_of(reader, array), array.values)
        for entry in kept(reader)._entries.values():
            assert entry.chunk.base is None
            assert entry.chunk.flags.owndata
            assert not entry.chunk.flags.writeable


@in_virtual_time
async def test_the_limit_holds_at_every_moment_and_the_least_recently_used_chunk_goes_first() -> None:
    array, store, reader = await sample((10, 64), (1, 64))
    chunk = 64 * 4 + ENTRY_BYTES
    settings = replace(CACHED, chunk_cache_bytes=4 * chunk)
    cache = kept(reader, settings)
    for row in (0, 1, 2, 3, 0, 4):
        await values_of(reader, array, row, settings=settings)
        assert cache.size <= 4 * chunk
        assert cache.size == len(cache) * chunk
    store.reset()
    for row in (0, 2, 3, 4):
        await values_of(reader, array, row, settings=settings)
    assert store.count == 0
    await values_of(reader, array, 1, settings=settings)
    assert [key for key, _ in store.log()] == ["a/c/1/0"]
    await values_of(reader, array, settings=settings)
    assert cache.size <= 4 * chunk


@in_virtual_time
async def test_a_chunk_larger_than_the_limit_is_not_cached_and_evicts_nothing() -> None:
    small, _, reader = await sample((2,), (2,))
    large, store, _ = await sample((512,), (512,))
    settings = replace(CACHED, chunk_cache_bytes=8 + ENTRY_BYTES)
    await values_of(reader, small, settings=settings)
    for _ in range(2):
        assert np.array_equal(await values_of(reader, large, settings=settings), large.values)
    assert store.count == 2
    assert len(kept(reader, settings)) == 1


@in_virtual_time
async def test_readers_with_the_same_limit_share_a_cache_and_others_have_their_own() -> None:
    array, store, reader = await sample((4,), (4,))
    other = replace(CACHED, chunk_cache_bytes=2 << 20, merge_gap_bytes=7)
    await values_of(reader, array)
    await values_of(reader, array, settings=replace(CACHED, merge_gap_bytes=9))
    assert store.count == 1
    await values_of(reader, array, settings=other)
    assert store.count == 2
    assert len(kept(reader)) == len(kept(reader, other)) == 1


def test_the_least_recently_used_of_many_limits_frees_its_memory() -> None:
    caches = ChunkCaches()
    store = MemoryStore()
    first = caches.of(10_000)
    assert first is not None
    first.add("a", store, "a", np.zeros(4), 0.0)
    for size in range(MAX_CACHES):
        caches.of(20_000 + size)
    assert (len(first), first.size) == (0, 0)
    first.add("a", store, "a", np.zeros(4), 0.0)
    assert len(first) == 0
    assert caches.of(0) is None


@in_virtual_time
async def test_a_change_of_another_process_is_seen_when_the_cached_chunk_has_expired() -> None:
    array, store, reader = await sample((4,), (4,))
    settings = replace(CACHED, chunk_cache_seconds=10)
    await values_of(reader, array, settings=settings)
    store.memory.set_now("a/c/0", np.arange(4, dtype="<i4").tobytes())
    await asyncio.sleep(9)
    assert (await values_of(reader, array, settings=settings)).tolist() == [1, 2, 3, 4]
    # How old a chunk may be is for each reader to say.
    eager = replace(settings, chunk_cache_seconds=5)
    assert (await values_of(reader, array, settings=eager)).tolist() == [0, 1, 2, 3]
    assert (await values_of(reader, array, settings=settings)).tolist() == [0, 1, 2, 3]
    store.reset()
    await asyncio.sleep(11)
    await values_of(reader, array, settings=replace(settings, chunk_cache_seconds=math.inf))
    assert store.count == 0
    await values_of(reader, array, settings=settings)
    assert store.count == 1


@in_virtual_time
async def test_a_shard_that_others_replace_is_read_anew_as_soon_as_anything_is_asked_of_it() -> None:
    array, store, reader = await sample((4, 4), (4, 4), inner=(2, 2))
    other = Sample(array.layout, FakeStore(latency=0))
    await engine().write(other.write(other.values * 10), settings=SETTINGS)
    await values_of(reader, array, 0, slice(0, 2))
    replaced = other.store.memory.fetch_now("a/c/0/0")  # type: ignore[attr-defined]
    store.memory.set_now("a/c/0/0", bytes(replaced.data))
    # One inner chunk is kept and one is not: both come from one version.
    assert np.array_equal(await values_of(reader, array, 0), array.values[0] * 10)
    assert np.array_equal(await values_of(reader, array, 0, 0), array.values[0, 0] * 10)
    await asyncio.sleep(100)
    store.memory.set_now("a/c/0/0", b"")
    with pytest.raises(CodecError):
        await values_of(reader, array, 0)


@pytest.mark.parametrize("inner", [None, (2, 2)], ids=["plain", "sharded"])
@pytest.mark.parametrize("make", [FakeStore, MemoryStore])
@in_virtual_time
async def test_a_write_of_this_process_is_seen_at_once(make: type[Store], inner: tuple[int, int] | None) -> None:
    array = Sample(layout_of((4, 4), (4, 4), inner=inner), make())
    reader = engine()
    await reader.write(array.write(array.values), settings=SETTINGS)
    await values_of(reader, array)
    await reader.write(array.write(7, 0, 0), settings=SETTINGS)
    expected = array.values.copy()
    expected[0, 0] = 7
    assert np.array_equal(await values_of(reader, array), expected)
    await reader.scheduled(array.store, SETTINGS).erase("a/c/0/0")
    assert not (await values_of(reader, array)).any()
    await reader.write(array.write(array.values), settings=SETTINGS)
    assert np.array_equal(await values_of(reader, array), array.values)
    await reader.scheduled(array.store, SETTINGS).erase_prefix("a/")
    assert not (await values_of(reader, array)).any()


@in_virtual_time
async def test_a_write_that_sees_the_store_from_another_root_is_seen_at_once_too() -> None:
    array, store, reader = await sample((4,), (4,))
    await values_of(reader, array)
    other = Sample(array.layout, PrefixStore(store, "a"))
    write = replace(other.write(9), prefix="")
    await reader.write(write, settings=SETTINGS)
    assert (await values_of(reader, array)).tolist() == [9] * 4


@in_virtual_time
async def test_a_chunk_in_flight_during_a_write_is_not_cached_and_not_joined_afterwards() -> None:
    array, store, reader = await sample((4,), (4,), latency=1.0)
    early = asyncio.ensure_future(values_of(reader, array))
    await asyncio.sleep(0.5)
    store.latency = 0.1
    await reader.write(array.write(9), settings=SETTINGS)
    assert (await values_of(reader, array)).tolist() == [9] * 4
    await early
    assert (await values_of(reader, array)).tolist() == [9] * 4
    assert len(kept(reader)) == 1


@in_virtual_time
async def test_a_missing_chunk_is_not_cached_and_each_reader_decides_about_it() -> None:
    array, store, reader = await sample((4, 2), (1, 2), fill_value=7)
    stored = store.memory.fetch_now("a/c/2/0")
    assert stored is not None
    store.memory.erase_now("a/c/2/0")
    assert (await values_of(reader, array, 2)).tolist() == [7, 7]
    with pytest.raises(MissingChunkError):
        await values_of(reader, array, settings=replace(CACHED, missing_chunks="raise"))
    store.memory.set_now("a/c/2/0", bytes(stored.data))
    assert np.array_equal(await values_of(reader, array, 2), array.values[2])


@in_virtual_time
async def test_inner_chunks_of_a_shard_without_a_version_are_not_cached() -> None:
    array, store, reader = await sample((4, 4), (4, 4), inner=(2, 2))
    store._versions = False
    store.supports = replace(store.supports, conditional_reads=False)
    assert isinstance(store.supports, Supports)
    for _ in range(2):
        assert np.array_equal(await values_of(reader, array), array.values)
    assert len(kept(reader)) == 0


@in_virtual_time
async def test_strings_are_not_cached_because_their_size_is_unknown() -> None:
    store = FakeStore(latency=0)
    array = Sample.__new__(Sample)
    array.layout = layout_of((4,), (2,), dtype="string", codecs=[{"name": "vlen-utf8"}], fill_value="")
    array.store = store
    reader = engine()
    words = np.array(["a", "bc", "", "d"], array.layout.spec.dtype)
    await reader.write(array.write(words), settings=SETTINGS)
    store.reset()
    for _ in range(2):
        transform = array.read(...)
        out = np.empty((4,), array.layout.spec.dtype)
        await reader.read([replace(transform, out=out)], settings=CACHED)
        assert out.tolist() == words.tolist()
    assert store.count == 4
    assert len(kept(reader)) == 0


@in_virtual_time
async def test_chunks_stored_without_padding_are_read_and_not_cached() -> None:
    array, store, reader = await sample((5,), (4,))
    store.memory.set_now("a/c/1", np.array([50], "<i4").tobytes())
    for _ in range(2):
        assert (await values_of(reader, array)).tolist() == [1, 2, 3, 4, 50]
    assert [key for key, _ in store.log()] == ["a/c/0", "a/c/1", "a/c/1"]


@in_virtual_time
async def test_damaged_chunks_are_not_cached() -> None:
    array, store, reader = await sample((4,), (4,), codecs=CHECKED)
    store.memory.set_now("a/c/0", bytes(20))
    with pytest.raises(CodecError):
        await values_of(reader, array)
    assert len(kept(reader)) == 0


def test_a_store_identified_by_its_address_lives_as_long_as_its_cached_chunks() -> None:
    store = FakeStore()
    cache = ChunkCache(2 * (ENTRY_BYTES + 32))
    cache.add("a", store, "a", np.zeros(4), 0.0)
    cache.add("b", store, "b", np.zeros(4), 0.0)
    assert [held for held, _ in cache._stores.values()] == [store]
    other = FakeStore()
    cache.add("c", other, "c", np.zeros(4), 0.0)
    cache.add("d", other, "d", np.zeros(4), 0.0)
    assert [held for held, _ in cache._stores.values()] == [other]
    cache.drop_object(other.object_identity("c"))
    cache.drop_object(other.object_identity("d"))
    assert (cache.size, len(cache), cache._stores, cache._by_object) == (0, 0, {}, {})


@in_virtual_time
async def test_a_stream_is_served_from_the_cache() -> None:
    array, store, reader = await sample((8, 2), (2, 2))
    await values_of(reader, array)
    store.reset()
    blocks = reader.stream(array.read(...), settings=CACHED, prefetch=1)
    seen = np.zeros_like(array.values)
    while (landed := await blocks.next()) is not None:
        region, block = landed
        seen[region] = block
    assert np.array_equal(seen, array.values)
    assert store.count == 0


@in_virtual_time
async def test_a_read_of_thousands_of_cached_chunks_submits_a_few_at_a_time_to_the_workers() -> None:
    array, store, reader = await sample((2000, 1), (1, 1), latency=0)
    settings = replace(CACHED, chunk_cache_bytes=1 << 26)
    await values_of(reader, array, settings=settings)
    store.reset()
    assert np.array_equal(await values_of(reader, array, settings=settings), array.values)
    assert store.count == 0


@pytest.mark.parametrize("kind", ["local", "memory"])
async def test_a_part_of_a_blocking_store_is_the_same_place(kind: str, sending: str, tmp_path: Path) -> None:
    if kind == "local":
        (tmp_path / "a").mkdir()
        whole, part = LocalStore(tmp_path), LocalStore(tmp_path / "a")
    else:
        whole, part = MemoryStore.named(f"places {sending}"), MemoryStore.named(f"places {sending}", "a/")
    settings = Settings(chunk_cache_bytes=1 << 20)
    written = await aiozarr.create_array(whole, "a", shape=(4,), dtype="int8", chunks=(2,), fill_value=1)
    read = await aiozarr.open_array(part, settings=settings)
    assert (await read[...]).tolist() == [1, 1, 1, 1]
    await written[...].write(2)
    with aiozarr.record() as report:
        for _ in range(2):
            assert (await read[...]).tolist() == [2, 2, 2, 2]
    assert (report.chunks, report.cached) == (4, 2)
    await written[2:].write(3)
    assert (await read[...]).tolist() == [2, 2, 3, 3]
    source = await aiozarr.create_array(MemoryStore(), "a", shape=(4,), dtype="int8", chunks=(2,), overwrite=True)
    await source[...].write(4)
    await aiozarr.copy(source.store, whole, overwrite=True)
    assert (await read[...]).tolist() == [4, 4, 4, 4]
    await written.refresh()  # the copy has another fill value
    await written.resize((2,))
    await written.resize((4,))
    again = await aiozarr.open_array(part, settings=settings)
    assert (await again[...]).tolist() == [4, 4, 0, 0]
