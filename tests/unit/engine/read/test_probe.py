"""A probed plan says exactly which requests the read then makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aiozarr.engine import Engine, plan_bounds
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import SETTINGS, Sample, sample

CACHED = replace(SETTINGS, chunk_cache_bytes=1 << 20)


async def values_of(reader: Engine, array: Sample, *selection: Any, settings: Settings = CACHED) -> Any:
    read = array.read(*selection)
    await reader.read([read], settings=settings)
    return read.out


@pytest.mark.parametrize("inner", [None, (2, 2)])
@in_virtual_time
async def test_a_probed_plan_is_what_the_store_then_sees(inner: tuple[int, int] | None) -> None:
    array, store, reader = await sample((16, 16), (8, 8), inner=inner)
    store.memory.erase_now("a/c/0/1")
    for selection in [(...,), (3,), (slice(None), 5), (slice(0, 16, 5), slice(1, 9)), (2, 2), (slice(0, 0),)]:
        read = array.read(*selection)
        plan = await reader.probe(read, settings=SETTINGS)
        bounds = plan_bounds(array.layout, read.maps)
        store.reset()
        await reader.read([read], settings=SETTINGS)
        assert plan.exact
        assert (plan.requests, plan.bytes) == (store.count, store.nbytes)
        assert plan.requests <= bounds.requests
        assert plan.bytes <= bounds.bytes
        assert plan.chunks == bounds.chunks


@in_virtual_time
async def test_a_probe_after_a_write_counts_the_stored_chunks() -> None:
    array, store, reader = await sample((16, 16), (8, 8), inner=(2, 2))
    await reader.read([array.read(...)], settings=SETTINGS)
    await reader.write(array.write(0, slice(0, 8), slice(0, 6)), settings=SETTINGS)
    read = array.read(...)
    plan = await reader.probe(read, settings=SETTINGS)
    store.reset()
    await reader.read([read], settings=SETTINGS)
    assert (plan.requests, plan.bytes) == (store.count, store.nbytes)


@pytest.mark.parametrize("inner", [None, (2, 2)], ids=["plain", "sharded"])
@in_virtual_time
async def test_a_probed_plan_counts_cached_chunks(inner: tuple[int, int] | None) -> None:
    array, store, reader = await sample((16, 16), (8, 8), inner=inner)
    await values_of(reader, array, slice(0, 3), slice(0, 3))
    for selection in [(slice(0, 2), slice(0, 2)), (slice(0, 9), slice(0, 9)), (...,)]:
        read = array.read(*selection)
        plan = await reader.probe(read, settings=CACHED)
        store.reset()
        await reader.read([read], settings=CACHED)
        assert (plan.requests, plan.bytes) == (store.count, store.nbytes)


@in_virtual_time
async def test_a_probed_plan_lists_the_first_requests_even_if_the_first_chunks_are_cached() -> None:
    array, _, reader = await sample((40, 1), (1, 1))
    await values_of(reader, array, slice(0, 20))
    plan = await reader.probe(array.read(...), settings=CACHED)
    assert plan.requests == 20
    assert [row.key for row in plan.rows] == [f"a/c/{number}/0" for number in range(20, 30)]


INDEX = 16 * 16 + 4
SIZE = 256 * 4 + INDEX
"""Bytes of the shards here: 16 inner chunks of (4, 4)."""
SMALL = replace(SETTINGS, merge_gap_bytes=SIZE)


async def shards(**more: Any) -> tuple[Sample, FakeStore, Engine]:
    return await sample((32, 16), (16, 16), inner=(4, 4), **more)


@in_virtual_time
async def test_a_probe_reports_the_cost_of_a_shard_above_the_bound() -> None:
    array, store, reader = await shards()
    data = bytes(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
    store.memory.set_now("a/c/0/0", data[:-INDEX] + bytes(10_000) + data[-INDEX:])
    settings = replace(SMALL, index_cache_bytes=0)
    plan = await reader.probe(array.read(...), settings=settings)
    store.reset()
    report = Report()
    await reader.read([array.read(...)], settings=settings, report=report)
    assert (plan.requests, plan.bytes) == (store.count, store.nbytes) == (4, 2 * SIZE + INDEX + 1024)
    assert plan.bytes_wanted == report.bytes_wanted == 2 * SIZE
