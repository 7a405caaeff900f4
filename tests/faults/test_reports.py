"""What `aiozarr.record` adds up for users: by origin, by context, through wrappers, and in the blocking names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import aiozarr
from aiozarr import sync
from aiozarr.stores import CacheStore, HTTPStore, LocalStore, MemoryStore, StoreEvent, TraceStore
from tests.support.remote_arrays import QUICK, serve_array
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
def other() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


async def test_a_read_of_arrays_in_two_stores_has_totals_of_each(server: FaultServer, other: FaultServer) -> None:
    mine = await serve_array(server)
    yours = await serve_array(other, shape=(6,))
    local = await aiozarr.create_array("memory://reports", "local", shape=4, dtype="i4", chunks=4, overwrite=True)
    await local[...].write(7)
    with aiozarr.record() as report:
        blocks = await aiozarr.read_many([mine.array, yours.array[:4], local])
    assert [block.tolist() for block in blocks] == [mine.values.tolist(), [1, 2, 3, 4], [7] * 4]
    assert set(report.origins) == {server.url, other.url, "memory://reports"}
    assert report.origins[server.url].requests == len(mine.keys) == 4
    assert report.origins[other.url].requests == len(yours.keys) == 2
    assert report.origins["memory://reports"].requests == 1
    for name in ("requests", "bytes_wanted", "bytes_fetched"):
        assert getattr(report, name) == sum(getattr(each, name) for each in report.origins.values())
    assert report.decode_seconds == pytest.approx(sum(each.decode_seconds for each in report.origins.values()))
    assert all(each.decode_seconds > 0 < each.request_seconds for each in report.origins.values())


async def test_records_nest_and_concurrent_tasks_do_not_mix(server: FaultServer) -> None:
    remote = await serve_array(server, settings=replace(QUICK, merge_gap_bytes=0))

    async def count(chunks: int) -> aiozarr.Report:
        with aiozarr.record() as inner:
            await remote.array[8 - 2 * chunks :]
        return inner

    with aiozarr.record() as outer:
        first = await count(1)
        second, third = await asyncio.gather(count(2), count(3))
    assert (first.requests, first.chunks) == (1, 1)
    # Chunks that two of them want at a time come once, for one of them.
    assert second.requests + second.shared == 2
    assert third.requests + third.shared == 3
    assert outer.requests == first.requests + second.requests + third.requests == len(remote.keys)
    assert outer.origins[server.url].requests == outer.requests


@pytest.mark.parametrize("inner", [None, (1,)])
async def test_repetitions_are_counted_with_their_origin(server: FaultServer, inner: tuple[int] | None) -> None:
    remote = await serve_array(server, inner=inner)
    server.script = spoil.first(remote.begun + 2, spoil.status(503, Retry_After="0"))
    with aiozarr.record() as report:
        await remote.array[:2]
    assert report.retries == report.origins[server.url].retries == 2
    assert report.requests == len(remote.keys)


async def test_gaps_that_are_read_over_are_over_read(server: FaultServer) -> None:
    settings = replace(QUICK, merge_gap_bytes=1 << 20, max_over_read=100.0)
    remote = await serve_array(server, shape=(64,), chunks=(64,), inner=(1,), settings=settings)
    await remote.array[:1]
    with aiozarr.record() as report:
        assert (await remote.array[::2]).tolist() == remote.values[::2].tolist()
    assert report.over_read == report.bytes_fetched - report.bytes_wanted > 0
    assert report.origins[server.url].over_read == report.over_read


async def test_a_cancelled_and_a_failed_read_have_cost_something_too(server: FaultServer) -> None:
    remote = await serve_array(server, shape=(64,), settings=replace(QUICK, retries=0))
    while server.in_flight:  # of opening; the answers are here before the server is through with them
        await asyncio.sleep(0.001)
    with aiozarr.record() as cancelled:
        server.latency = 0.2
        task = asyncio.ensure_future(remote.array[...].read())
        while not server.in_flight:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert cancelled.requests >= 1
    assert cancelled.request_seconds > 0
    server.latency = 0
    server.script = spoil.always(spoil.status(500))
    with aiozarr.record() as failed, pytest.raises(aiozarr.StoreError):
        await remote.array[:2]
    assert (failed.requests, failed.bytes_fetched, failed.request_seconds > 0) == (1, 0, True)


@pytest.mark.parametrize("traced", [False, True])
async def test_writes_report_their_bytes_and_encoding_seconds(traced: bool) -> None:
    memory = MemoryStore()
    store = TraceStore(memory, lambda _: None) if traced else memory
    array = await aiozarr.create_array(store, shape=8, dtype="i4", chunks=2)
    with aiozarr.record() as report:
        await array[...].write(np.arange(1, 9))
    sizes = [len(bytes(await memory.get(f"c/{number}") or b"")) for number in range(4)]
    assert (report.requests, report.bytes_written, report.chunks) == (4, sum(sizes), 4)
    assert 0 < report.encode_seconds <= report.request_seconds
    assert report.decode_seconds == 0


async def test_wrapped_stores_are_counted_by_the_requests_to_the_wrapper(server: FaultServer) -> None:
    remote = await serve_array(server)
    seen: list[StoreEvent] = []
    events: list[aiozarr.RequestEvent] = []
    store = CacheStore(TraceStore(HTTPStore(server.url), seen.append), max_bytes=1 << 20)
    array = await aiozarr.open_array(store, zarr_format=3, settings=replace(QUICK, on_event=events.append))
    for _ in range(2):
        seen.clear()
        events.clear()
        with aiozarr.record() as report:
            assert (await array[...]).tolist() == remote.values.tolist()
        assert report.requests == len(events) == 4
        assert report.bytes_fetched == sum(event.bytes_fetched for event in events) > 0
        assert list(report.origins) == [server.url]
    assert {event.store for event in events} == {store.url}


def test_blocking_names_are_counted_alike(tmp_path_factory: pytest.TempPathFactory) -> None:
    stores = [MemoryStore(), LocalStore(tmp_path_factory.mktemp("reports"))]
    for store in stores:
        array = sync.create_array(store, shape=(8,), dtype="i4", chunks=(2,))
        with aiozarr.record() as outer:
            with aiozarr.record() as written:
                array[...] = np.arange(1, 9)
            with aiozarr.record() as read:
                assert array[2:6].tolist() == [3, 4, 5, 6]
        assert (written.requests, read.requests, read.chunks) == (4, 2, 2)
        assert outer.requests == 6
        assert read.decode_seconds > 0 < written.encode_seconds
        assert [each.requests for each in outer.origins.values()] == [6]


async def test_seconds_of_an_observed_read_lie_within_it(server: FaultServer) -> None:
    events: list[aiozarr.RequestEvent] = []
    remote = await serve_array(server, settings=replace(QUICK, on_event=events.append))
    events.clear()
    with aiozarr.record() as report:
        await remote.array[...]
    begun = min(event.started - event.queue_seconds for event in events)
    ended = max(event.decode_ended for event in events)
    assert 0 < ended - begun <= report.seconds
    for event in events:
        assert event.started + event.seconds <= event.decode_started
        assert event.chunks == 1
