"""A cache store requests data once, never returns outdated values, and drops values that are written through it."""

from __future__ import annotations

import asyncio
import itertools
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiozarr.errors import ChangedError, StoreError, ThrottledError
from aiozarr.model import ByteRange, Entry, Range, Suffix, Value, Version
from aiozarr.stores import CacheStore, HTTPStore, MemoryStore, Store
from aiozarr.testing import LatencyStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import first, on_operation
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.servers.http_server import FaultServer

Make = Callable[..., CacheStore]
_numbers = itertools.count()


@pytest.fixture(params=["memory", "disk"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """A cache of either kind."""

    def cache(store: Store, max_bytes: int = 1 << 20, **options: Any) -> CacheStore:
        directory = tmp_path / f"cache-{next(_numbers)}" if request.param == "disk" else None
        return CacheStore(store, max_bytes, directory, **options)

    return cache


def asked(store: FakeStore) -> list[str]:
    """The operations that reached the store since the last look."""
    operations = [call.operation for call in store.calls]
    store.reset()
    return operations


async def read(store: Store, key: str, part: ByteRange | None = None) -> bytes | None:
    value = await store.fetch(key, part)
    return None if value is None else bytes(value.data)


async def test_a_value_is_fetched_once_and_validated_by_a_stat(make: Make) -> None:
    inner = FakeStore({"k": b"0123456789"}, latency=0)
    store = make(inner)
    first_value = await store.fetch("k")
    assert asked(inner) == ["fetch"]
    assert await store.fetch("k") == first_value
    assert bytes(await store.get("k") or b"") == b"0123456789"
    assert asked(inner) == ["stat", "stat"]


async def test_a_cached_whole_value_serves_its_ranges(make: Make) -> None:
    inner = FakeStore({"k": b"0123456789"}, latency=0)
    for whole in (None, Range(0), Range(0, 100), Suffix(10)):
        store = make(inner)
        await store.fetch("k", whole)
        asked(inner)
        assert await read(store, "k", Range(2, 3)) == b"234"
        assert await read(store, "k", Range(8, 10)) == b"89"
        assert await read(store, "k", Range(20, 1)) == b""
        assert await read(store, "k", Suffix(2)) == b"89"
        assert await read(store, "k") == b"0123456789"
        value = await store.fetch("k", Range(2, 3))
        assert value is not None
        assert value.size == 10
        assert asked(inner) == ["stat"] * 6


async def test_ranges_are_cached_separately(make: Make) -> None:
    inner = FakeStore({"k": b"0123456789"}, latency=0)
    store = make(inner)
    parts: list[ByteRange] = [Range(0, 2), Range(5), Suffix(3), Range(0, 0)]
    before = [await read(store, "k", part) for part in parts]
    assert asked(inner) == ["fetch"] * 4
    assert [await read(store, "k", part) for part in parts] == before
    assert await store.get_partial_values([("k", (0, 2)), ("k", (5, None))]) == [b"01", b"56789"]
    assert set(asked(inner)) == {"stat"}
    await store.fetch("k", Range(1, 1))
    assert asked(inner) == ["fetch"]


async def test_values_that_others_replace_or_erase_are_seen_at_once(make: Make) -> None:
    inner = FakeStore({"k": b"old"}, latency=0)
    store = make(inner)
    await store.fetch("k")
    await store.fetch("k", Range(0, 1))
    inner.memory.set_now("k", b"new")
    assert await read(store, "k") == b"new"
    assert await read(store, "k", Range(0, 1)) == b"n"
    inner.memory.erase_now("k")
    assert await store.fetch("k") is None
    assert store.nbytes == 0


async def test_missing_keys_are_not_kept(make: Make) -> None:
    inner = FakeStore(latency=0)
    store = make(inner)
    assert await store.fetch("k") is None
    inner.memory.set_now("k", b"1")
    assert await read(store, "k") == b"1"
    assert asked(inner) == ["fetch", "fetch"]


async def test_a_definite_version_is_validated_too(make: Make) -> None:
    """A reader of a shard whose index it knows learns by this error that the shard was replaced."""
    inner = FakeStore({"k": b"old"}, latency=0)
    store = make(inner)
    value = await store.fetch("k")
    assert value is not None
    assert await store.fetch("k", if_match=value.version) == value
    assert asked(inner) == ["fetch", "stat"]
    inner.memory.set_now("k", b"new")
    with pytest.raises(ChangedError):
        await store.fetch("k", if_match=value.version)
    now = await store.fetch("k")
    assert now is not None
    assert await store.fetch("k", if_match=now.version) == now
    with pytest.raises(ChangedError):
        await store.fetch("k", Range(0, 1), if_match=value.version)


async def test_writes_through_the_cache_invalidate_values(make: Make) -> None:
    inner = FakeStore(dict.fromkeys(("a", "b", "c/1", "c/2", "d"), b"old"), latency=0)
    store = make(inner, max_age=math.inf)

    async def look() -> list[bytes | None]:
        return [await read(store, key, part) for key in ("a", "b", "c/1", "c/2", "d") for part in (None, Range(0, 2))]

    assert await look() == [b"old", b"ol"] * 5
    await store.set("a", b"new")
    await store.set_partial_values([("b", 0, b"n")])
    await store.erase_prefix("c/")
    await store.erase_values(["d"])
    assert await look() == [b"new", b"ne", b"nld", b"nl", None, None, None, None, None, None]
    await store.erase("a")
    assert await read(store, "a") is None


async def test_a_write_with_a_lost_response_invalidates_the_value(make: Make) -> None:
    class Lossy(FakeStore):
        async def set(self, key: str, value: Any, *, precondition: Any = None) -> Version | None:
            await super().set(key, value, precondition=precondition)
            raise StoreError("lost")

    inner = Lossy({"k": b"old"}, latency=0)
    store = make(inner, max_age=math.inf)
    await store.fetch("k")
    with pytest.raises(StoreError, match="lost"):
        await store.set("k", b"new")
    assert await read(store, "k") == b"new"


@in_virtual_time
async def test_a_fetch_begun_before_a_write_does_not_bring_the_old_value_back(make: Make) -> None:
    inner = FakeStore({"k": b"old", "p/k": b"old"}, latency=0)
    slow = _SlowAnswers(inner, 10)
    store = make(slow, max_age=math.inf)
    for key, write in (
        ("k", lambda: store.set("k", b"new")),
        ("p/k", lambda: store.erase_prefix("p/")),
    ):
        reading = asyncio.create_task(store.fetch(key))
        await asyncio.sleep(1)
        await write()
        during = asyncio.create_task(store.fetch(key))
        value = await reading
        assert value is not None
        assert bytes(value.data) == b"old"
        expected = {"k": b"new", "p/k": None}[key]
        now = await during
        assert (None if now is None else bytes(now.data)) == expected
        assert await read(store, key) == expected


@in_virtual_time
async def test_a_fetch_begun_during_a_write_is_not_kept(make: Make) -> None:
    inner = FakeStore({"k": b"old"}, latency=10)
    store = make(inner, max_age=math.inf)
    writing = asyncio.create_task(store.set("k", b"new"))
    await asyncio.sleep(1)
    inner.latency = 0
    assert await read(store, "k") == b"old"
    await writing
    assert await read(store, "k") == b"new"


@in_virtual_time
async def test_concurrent_requests_for_one_value_are_shared(make: Make) -> None:
    inner = FakeStore({"k": b"0123456789"}, latency=1)
    store = make(inner)
    values = await asyncio.gather(*(store.fetch("k") for _ in range(10)), store.fetch("k", Range(0, 3)))
    assert {bytes(value.data) for value in values if value is not None} == {b"0123456789", b"012"}
    assert asked(inner) == ["fetch", "fetch"]
    await asyncio.gather(*(store.fetch("k", Range(number, 2)) for number in range(5)))
    assert asked(inner) == ["stat"]


@in_virtual_time
async def test_an_error_reaches_all_waiting_readers_and_is_not_cached(make: Make) -> None:
    inner = FakeStore({"k": b"1"}, latency=1, faults=first(1, ThrottledError("slow down")))
    store = make(inner)
    ended = await asyncio.gather(*(store.fetch("k") for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in ended] == [ThrottledError] * 3
    assert len({id(one) for one in ended}) == 3
    assert await read(store, "k") == b"1"
    assert asked(inner) == ["fetch", "fetch"]


@in_virtual_time
async def test_a_cancelled_reader_does_not_cancel_a_shared_request(make: Make) -> None:
    inner = FakeStore({"k": b"1"}, latency=10)
    store = make(inner)
    tasks = [asyncio.create_task(store.fetch("k")) for _ in range(3)]
    await asyncio.sleep(1)
    tasks[0].cancel()
    await asyncio.sleep(1)
    tasks[1].cancel()
    value = await tasks[2]
    assert value is not None
    assert bytes(value.data) == b"1"
    assert asyncio.get_running_loop().time() == 10
    assert asked(inner) == ["fetch"]


@in_virtual_time
async def test_the_last_cancelled_reader_cancels_the_request(make: Make) -> None:
    inner = FakeStore({"k": b"1"}, latency=10)
    store = make(inner)
    tasks = [asyncio.create_task(store.fetch("k")) for _ in range(2)]
    await asyncio.sleep(1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)
    assert inner.in_flight == 0
    assert len(asyncio.all_tasks()) == 1
    assert await read(store, "k") == b"1"


async def test_an_error_of_the_validation_is_an_error_of_the_read(make: Make) -> None:
    inner = FakeStore({"k": b"1"}, latency=0, faults=on_operation("stat", StoreError("gone away")))
    store = make(inner)
    await store.fetch("k")
    with pytest.raises(StoreError, match="gone away"):
        await store.fetch("k")


async def test_values_without_a_version_are_kept_for_an_age_alone(make: Make) -> None:
    inner = FakeStore({"k": b"old"}, latency=0, versions=False)
    store = make(inner)
    await store.fetch("k")
    inner.memory.set_now("k", b"new")
    assert await read(store, "k") == b"new"
    assert asked(inner) == ["fetch", "fetch"]
    assert store.nbytes == 0
    for_ever = make(inner, max_age=math.inf)
    await for_ever.fetch("k")
    inner.memory.set_now("k", b"newer")
    assert await read(for_ever, "k") == b"new"
    assert asked(inner) == ["fetch"]


async def test_weak_versions_prove_nothing(make: Make) -> None:
    """A server that tells no more than a time in seconds gives two values of one second the same version."""

    class Coarse(FakeStore):
        async def fetch(self, *args: Any, **kwargs: Any) -> Value | None:
            value = await super().fetch(*args, **kwargs)
            return value and Value(value.data, Version('W/"today"'), value.size)

        async def stat(self, key: str) -> Entry | None:
            entry = await super().stat(key)
            return entry and Entry(key, entry.size, Version('W/"today"'))

    inner = Coarse({"k": b"old"}, latency=0)
    store = make(inner)
    assert await read(store, "k") == b"old"
    inner.memory.set_now("k", b"new")
    assert await read(store, "k") == b"new"
    assert store.nbytes == 0


async def test_values_in_memory_are_bounded_in_number_however_small() -> None:
    store = CacheStore(FakeStore({f"k{number}": b"1" for number in range(50)}, latency=0), 640)
    for number in range(50):
        await store.fetch(f"k{number}")
    assert store.nbytes == 10


async def test_an_age_saves_the_question_until_it_is_over(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    monkeypatch.setattr("aiozarr.stores.cache_store.time", SimpleNamespace(time=lambda: now))
    inner = FakeStore({"k": b"old"}, latency=0)
    store = make(inner, max_age=60)
    await store.fetch("k")
    now += 59
    await store.fetch("k")
    assert asked(inner) == ["fetch"]
    now += 2
    await store.fetch("k")
    assert asked(inner) == ["stat"]
    now += 59
    await store.fetch("k")
    inner.memory.set_now("k", b"new")
    assert await read(store, "k") == b"old"
    assert asked(inner) == []
    now += 2
    assert await read(store, "k") == b"new"
    assert asked(inner) == ["stat", "fetch"]
    now -= 1000  # a clock that was put back says nothing
    await store.fetch("k")
    assert asked(inner) == ["stat"]


async def test_the_bytes_are_bounded_and_evicted_by_least_recent_use(make: Make) -> None:
    inner = FakeStore({key: bytes(10_000) for key in "abcd"} | {"large": bytes(40_000)}, latency=0)
    store = make(inner, 35_000)
    for key in ("a", "b", "c", "a", "d"):
        await store.fetch(key)
        assert store.nbytes <= 35_000
    asked(inner)
    await store.fetch("a")
    await store.fetch("d")
    assert asked(inner) == ["stat", "stat"]
    await store.fetch("b")
    assert asked(inner) == ["fetch"]
    await store.fetch("large")
    await store.fetch("large")
    assert asked(inner) == ["fetch", "fetch"]


async def test_ranges_of_one_value_make_room_one_by_one(make: Make) -> None:
    inner = FakeStore({"k": bytes(100_000)}, latency=0)
    store = make(inner, 35_000)
    for number in range(5):
        await store.fetch("k", Range(number * 10_000, 10_000))
    asked(inner)
    await store.fetch("k", Range(40_000, 10_000))
    assert asked(inner) == ["stat"]


async def test_callers_cannot_change_cached_values(make: Make) -> None:
    class Lending(FakeStore):
        async def fetch(self, *args: Any, **kwargs: Any) -> Value | None:
            value = await super().fetch(*args, **kwargs)
            return value and Value(bytearray(value.data), value.version, value.size)

    store = make(Lending({"k": b"123"}, latency=0))
    value = await store.fetch("k")
    assert value is not None
    memoryview(value.data)[:] = b"xyz"
    assert await read(store, "k") == b"123"
    again = await store.fetch("k")
    assert again is not None
    assert memoryview(again.data).readonly


async def test_a_server_is_asked_for_the_data_once(make: Make) -> None:
    with FaultServer() as server:
        server.put("k", b"0123456789")
        store = make(HTTPStore(server.url))
        for _ in range(3):
            assert await read(store, "k") == b"0123456789"
        assert [request.method for request in server.requests] == ["GET", "HEAD", "HEAD"]
        await store.aclose()


def test_a_pickled_cache_in_memory_begins_empty_and_one_in_a_directory_does_not(tmp_path: Path) -> None:
    async def main() -> None:
        inner = MemoryStore()
        await inner.set("k", b"123")
        for directory, full in ((None, False), (tmp_path / "cache", True)):
            store = CacheStore(inner, 1000, directory, max_age=5)
            await store.fetch("k")
            clone = pickle.loads(pickle.dumps(store))
            assert clone == store
            assert (clone.nbytes > 0) is full

    asyncio.run(main())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"max_bytes": 0}, ValueError),
        ({"max_bytes": 1.5}, TypeError),
        ({"max_bytes": True}, TypeError),
        ({"max_bytes": 1, "max_age": -1}, ValueError),
        ({"max_bytes": 1, "max_age": math.nan}, ValueError),
        ({"max_bytes": 1, "directory": ""}, ValueError),
    ],
)
def test_invalid_sizes_ages_and_directories_are_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        CacheStore(MemoryStore(), **arguments)


def test_repr_shows_the_arguments(tmp_path: Path) -> None:
    inner = MemoryStore.named("shown")
    assert repr(CacheStore(inner, 5)) == "CacheStore(MemoryStore('memory://shown'), 5)"
    assert repr(CacheStore(inner, 5, tmp_path, max_age=2)).endswith(f", 5, {str(tmp_path)!r}, max_age=2)")


class _SlowAnswers(LatencyStore):
    """A store that reads at once, and whose answers take long."""

    def __init__(self, store: Store, seconds: float) -> None:
        super().__init__(store, 0)
        self._answer_seconds = seconds

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        value = await self.store.fetch(key, range, if_match=if_match)
        await asyncio.sleep(self._answer_seconds)
        return value
