"""Indexes at the ends of shards, in stores that refuse suffix ranges: what is asked for, counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aiozarr.engine import Engine, plan_bounds
from aiozarr.errors import ChangedError
from aiozarr.model import Range
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Call
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import SETTINGS, Sample, engine, layout_of, sample

# Too little for a whole shard of (4, 4), enough for all of its inner chunks: index and data are two requests.
PHASES = replace(SETTINGS, max_request_bytes=100)
NO_CACHE = replace(PHASES, index_cache_bytes=0)


async def without_suffixes(shape: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[Sample, FakeStore, Engine]:
    array, store, reader = await sample(shape, chunks, inner=(2, 2))
    store.supports = replace(store.supports, suffix_reads=False)
    return array, store, reader


def operations(store: FakeStore) -> list[str]:
    """What was asked for, in order."""
    return [call.operation for call in store.calls]


@in_virtual_time
async def test_the_first_read_of_a_shard_asks_for_its_size_and_the_next_ones_do_not() -> None:
    array, store, reader = await without_suffixes((4, 4), (4, 4))
    report = Report()
    read = array.read(...)
    await reader.read([read], settings=NO_CACHE, report=report)
    assert np.array_equal(read.out, array.values)
    assert operations(store) == ["stat", "fetch", "fetch"]
    assert (report.requests, report.retries) == (3, 0)
    assert all(isinstance(asked, Range) for _, asked in store.log())
    # The index was not kept, its place was.
    store.reset()
    await reader.read([array.read(...)], settings=NO_CACHE)
    assert operations(store) == ["fetch", "fetch"]
    # And now it is kept, too.
    store.reset()
    await reader.read([array.read(...)], settings=PHASES)
    await reader.read([array.read(...)], settings=PHASES)
    assert operations(store) == ["fetch", "fetch", "fetch"]


@in_virtual_time
async def test_a_shard_that_was_written_here_is_read_without_asking_for_its_size() -> None:
    store = FakeStore()
    store.supports = replace(store.supports, suffix_reads=False)
    array, both = Sample(layout_of((4, 4), (4, 4), inner=(2, 2)), store), engine()
    await both.write(array.write(array.values), settings=SETTINGS)
    await both.write(array.write(-1, 0, 0), settings=SETTINGS)
    store.reset()
    read = array.read(...)
    await both.read([read], settings=PHASES)
    assert read.out[0, 0] == -1
    assert operations(store) == ["fetch", "fetch"]


@in_virtual_time
async def test_a_shard_that_was_listed_is_read_without_asking_for_its_size() -> None:
    array, store, reader = await without_suffixes((4, 4), (4, 4))
    assert [entry.key async for entry in reader.scheduled(store, SETTINGS).scan("a/c/")] == ["a/c/0/0"]
    store.reset()
    read = array.read(...)
    await reader.read([read], settings=NO_CACHE)
    assert np.array_equal(read.out, array.values)
    assert operations(store) == ["fetch", "fetch"]
    # One that is replaced after the listing is noticed.
    store.memory.set_now("a/c/0/0", bytes(store.memory.fetch_now("a/c/0/0").data))  # type: ignore[union-attr]
    store.reset()
    await reader.read([array.read(...)], settings=NO_CACHE)
    assert operations(store)[:3] == ["fetch", "stat", "fetch"]


@pytest.mark.parametrize("grown", [True, False])
@in_virtual_time
async def test_a_shard_that_was_replaced_is_noticed_and_read_anew(grown: bool) -> None:
    array, store, reader = await without_suffixes((4, 4), (4, 4))
    await reader.read([array.read(...)], settings=NO_CACHE)
    other = Sample(layout_of((4, 4), (4, 4), inner=(2, 2)), FakeStore())
    values = -array.values if grown else np.where(array.values > 8, array.values, 0)
    await engine().write(other.write(values), settings=SETTINGS)
    newer = bytes(other.store.memory.fetch_now("a/c/0/0").data)  # type: ignore[attr-defined,union-attr]  # a fake
    store.memory.set_now("a/c/0/0", newer)
    store.reset()
    report = Report()
    read = array.read(...)
    await reader.read([read], settings=NO_CACHE, report=report)
    assert np.array_equal(read.out, values)
    # The range of the version that is gone, and then all as for the first time.
    assert operations(store)[:3] == ["fetch", "stat", "fetch"]
    assert report.requests == store.count


@in_virtual_time
async def test_an_erased_shard_reads_as_missing_although_its_size_is_cached() -> None:
    array, store, reader = await without_suffixes((4, 4), (4, 4))
    await reader.read([array.read(...)], settings=NO_CACHE)
    store.memory.erase_now("a/c/0/0")
    for _ in range(2):
        read = array.read(...)
        await reader.read([read], settings=NO_CACHE)
        assert not read.out.any()


@in_virtual_time
async def test_a_shard_that_is_replaced_between_size_and_index_is_looked_at_again() -> None:
    array, store, reader = await without_suffixes((4, 4), (4, 4))
    data = bytes(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored

    def replace_it(call: Call) -> None:
        if call.number == 2:
            store.memory.set_now("a/c/0/0", data)

    store.faults = replace_it
    read = array.read(...)
    await reader.read([read], settings=PHASES)
    assert np.array_equal(read.out, array.values)
    assert operations(store) == ["stat", "fetch", "stat", "fetch", "fetch"]


@in_virtual_time
async def test_a_shard_that_is_always_replaced_is_an_error() -> None:
    array, store, reader = await without_suffixes((4, 4), (4, 4))
    data = bytes(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
    store.faults = lambda call: store.memory.set_now("a/c/0/0", data) and None
    with pytest.raises(ChangedError):
        await reader.read([array.read(...)], settings=PHASES)


@pytest.mark.parametrize("settings", [PHASES, NO_CACHE])
@in_virtual_time
async def test_a_plan_bounds_the_requests_and_a_probe_counts_them_exactly(settings: Settings) -> None:
    array, store, reader = await without_suffixes((8, 4), (4, 4))
    store.memory.erase_now("a/c/1/0")
    for selection in ((...,), (slice(0, 2), slice(0, 2))):
        reader.state.sizes.drop(store, "a/c/0/0")
        reader.state.indexes.cache.drop((store.identity, "a/c/0/0", array.layout.decoding_id))
        read = array.read(*selection)
        bounds = plan_bounds(read.layout, read.maps, suffix_reads=False)
        store.reset()
        await reader.read([read], settings=settings)
        assert bounds.min_requests <= store.count <= bounds.requests
        exact = await reader.probe(read, settings=settings)
        store.reset()
        await reader.read([array.read(*selection)], settings=settings)
        assert exact.requests == store.count


@in_virtual_time
async def test_without_conditions_no_size_is_relied_on() -> None:
    array, store, reader = await without_suffixes((4, 4), (4, 4))
    store.supports = replace(store.supports, conditional_reads=False)
    for _ in range(2):
        store.reset()
        await reader.read([array.read(...)], settings=NO_CACHE)
        assert operations(store)[0] == "stat"


@in_virtual_time
async def test_a_store_that_answers_no_ranges_is_not_asked_for_sizes() -> None:
    """Whatever is asked for, it sends everything, and the end is cut from that."""
    array, store, reader = await without_suffixes((4, 4), (4, 4))
    store.supports = replace(store.supports, partial_reads=False)
    read = array.read(...)
    await reader.read([read], settings=PHASES)
    assert np.array_equal(read.out, array.values)
    assert "stat" not in operations(store)
