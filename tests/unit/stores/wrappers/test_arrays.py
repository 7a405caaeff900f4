"""Arrays and groups live on wrapped stores as on plain ones."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import (
    CacheStore,
    LocalStore,
    MemoryStore,
    PrefixStore,
    ReadOnlyStore,
    Store,
    StoreEvent,
    TraceStore,
)
from aiozarr.testing import LatencyStore
from aiozarr.testing.fakes import FakeStore

VALUES = np.arange(600, dtype="i4").reshape(20, 30)


@dataclass
class Log:
    events: list[StoreEvent] = field(default_factory=list)

    def __call__(self, event: StoreEvent) -> None:
        self.events.append(event)


def ignore(event: StoreEvent) -> None:
    """Watch nothing."""


WRAPPED: dict[str, Callable[[Store, Path], Store]] = {
    "prefix": lambda store, _: PrefixStore(store, "a/b"),
    "trace": lambda store, _: TraceStore(store, ignore),
    "latency": lambda store, _: LatencyStore(store, 0.0001, bytes_per_second=1e9),
    "cache": lambda store, _: CacheStore(store, 1 << 20),
    "disk": lambda store, path: CacheStore(store, 1 << 20, path / "cache"),
    "stack": lambda store, path: CacheStore(PrefixStore(TraceStore(store, ignore), "a"), 1 << 20, path / "cache"),
}


@pytest.fixture(params=["memory", "local"])
def inner(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "store")


@pytest.mark.parametrize("kind", WRAPPED)
@pytest.mark.parametrize("shards", [None, (10, 10)])
async def test_arrays_are_written_read_and_changed_in_part(
    inner: Store, kind: str, shards: Any, tmp_path: Path
) -> None:
    store = WRAPPED[kind](inner, tmp_path)
    array = await aiozarr.create_array(store, "x", shape=VALUES.shape, dtype="i4", chunks=(5, 5), shards=shards)
    await array[...].write(VALUES)
    expected = VALUES.copy()
    for _ in range(2):
        np.testing.assert_array_equal(await array[...], expected)
        np.testing.assert_array_equal(await array[3:17:2, 7], expected[3:17:2, 7])
        await array[4:9, 11:13].write(-1)
        expected[4:9, 11:13] = -1
    clone = pickle.loads(pickle.dumps(array))
    np.testing.assert_array_equal(await clone[...], expected)
    assert clone.url == array.url == f"{store.url}/x"
    root = await aiozarr.open_group(store)
    assert [name async for name, _ in root.members()] == ["x"]


@pytest.mark.parametrize("kind", WRAPPED)
async def test_racing_partial_writes_lose_nothing(kind: str, inner: Store, tmp_path: Path) -> None:
    store = WRAPPED[kind](inner, tmp_path)
    array = await aiozarr.create_array(store, shape=32, dtype="i4", chunks=32)
    await asyncio.gather(*(array[number].write(number) for number in range(32)))
    np.testing.assert_array_equal(await array[...], np.arange(32))


@pytest.mark.parametrize("max_age", [0, 3600])
@pytest.mark.parametrize("shards", [None, 8])
async def test_chunks_come_from_the_cache_and_are_seen_to_be_current(shards: Any, max_age: float) -> None:
    memory = FakeStore(latency=0)
    plain = await aiozarr.create_array(memory, shape=16, dtype="i4", chunks=4, shards=shards)
    await plain[...].write(np.arange(16))
    cached = await aiozarr.open_array(CacheStore(memory, 1 << 20, max_age=max_age))
    np.testing.assert_array_equal(await cached[...], np.arange(16))
    memory.reset()
    np.testing.assert_array_equal(await cached[...], np.arange(16))
    operations = {call.operation for call in memory.calls}
    assert operations == (set() if max_age else {"stat"})


async def test_a_replaced_shard_is_read_again_despite_its_cached_index() -> None:
    memory = FakeStore(latency=0)
    plain = await aiozarr.create_array(memory, shape=16, dtype="i4", chunks=2, shards=16)
    await plain[...].write(np.arange(16))
    cached = await aiozarr.open_array(CacheStore(memory, 1 << 20))
    for factor in range(1, 4):
        replaced = np.arange(16) * factor
        other = FakeStore(latency=0)
        await (await aiozarr.create_array(other, shape=16, dtype="i4", chunks=2, shards=16))[...].write(replaced)
        memory.memory.set_now("c/0", await other.get("c/0") or b"")
        assert (await cached[3]).tolist() == replaced[3]
        np.testing.assert_array_equal(await cached[4:6], replaced[4:6])


@pytest.mark.parametrize("wrap", [lambda s: s, ReadOnlyStore, lambda s: TraceStore(s, ignore)])
async def test_consolidated_metadata_above_a_prefix_are_kept_true(wrap: Callable[[Store], Store]) -> None:
    inner = MemoryStore()
    root = await aiozarr.create_group(inner)
    await (await root.create_group("a")).create_array("x", shape=4, dtype="i4")
    await aiozarr.consolidate_metadata(inner)
    for path in ("a", "a/x"):
        below = await aiozarr.open(PrefixStore(inner, path), mode="r+")
        await below.update_attributes({"changed": path})
        again = await aiozarr.open_group(wrap(inner))
        assert (await again.open(path)).attrs == {"changed": path}
        assert (await aiozarr.open(wrap(inner), path)).attrs == {"changed": path}
    group = await aiozarr.open_group(TraceStore(PrefixStore(inner, "a"), ignore), mode="r+")
    await group.create_array("y", shape=4, dtype="i4")
    assert sorted([name async for name, _ in (await aiozarr.open_group(inner, "a")).members()]) == ["x", "y"]


async def test_stores_are_copied_from_and_to(tmp_path: Path) -> None:
    inner = MemoryStore()
    array = await aiozarr.create_array(inner, "deep/x", shape=VALUES.shape, dtype="i4", chunks=(5, 5))
    await array[...].write(VALUES)
    log = Log()
    source = TraceStore(ReadOnlyStore(PrefixStore(inner, "deep")), log)
    destination = CacheStore(PrefixStore(LocalStore(tmp_path), "there"), 1 << 20)
    report = await aiozarr.copy(source, destination, verify="checksum")
    assert report.objects == 26
    assert {event.operation for event in log.events} >= {"fetch", "scan"}
    np.testing.assert_array_equal(await (await aiozarr.open_array(tmp_path / "there" / "x"))[...], VALUES)
    back = await aiozarr.copy(destination, PrefixStore(MemoryStore(), "back"))
    assert back.bytes == report.bytes


async def test_a_store_is_not_copied_onto_itself_through_a_wrapper(tmp_path: Path) -> None:
    for inner in (MemoryStore(), LocalStore(tmp_path)):
        await inner.set("k", b"1")
        for destination in (TraceStore(inner, ignore), CacheStore(inner, 100), PrefixStore(inner, "below")):
            with pytest.raises(ValueError, match=r"same|inside"):
                await aiozarr.copy(ReadOnlyStore(inner), destination)


async def test_a_budget_is_that_of_the_inner_store() -> None:
    inner = FakeStore(latency=0.01)
    array = await aiozarr.create_array(inner, shape=64, dtype="i4", chunks=1)
    await array[...].write(np.arange(64))
    inner.reset()
    settings = aiozarr.Settings(max_requests=3)
    views = [
        (await aiozarr.open_array(store, settings=settings))[...]
        for store in (ReadOnlyStore(inner), PrefixStore(inner, ""), TraceStore(inner, ignore))
    ]
    inner.reset()
    for block in await aiozarr.read_many(views):
        np.testing.assert_array_equal(block, np.arange(64))
    assert inner.max_in_flight <= 3
