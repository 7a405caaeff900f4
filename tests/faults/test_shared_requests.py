"""Many readers of one array on a web server, by the public names: what they share, and what stays each one's own."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.engine import Engine, run
from aiozarr.engine.in_flight import ChunkDelivery, DecodeChunks
from tests.support.leaks import assert_no_leaks, wait_for
from tests.support.remote_arrays import QUICK, RemoteArray, serve_array
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

PATIENT = replace(QUICK, idle_timeout=60, retry_seconds=60)
CACHED = replace(PATIENT, chunk_cache_bytes=1 << 20)


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


class Gate:
    """A script that holds back all answers until it is opened."""

    def __init__(self) -> None:
        self._open = threading.Event()

    def __call__(self, request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        assert self._open.wait(60)
        return reply

    def open(self) -> None:
        self._open.set()


async def waiting() -> int:
    """How many chunks are waited for, counted once for each reader."""

    async def count(engine: Engine) -> int:
        chunk_sets = list(engine.state.in_flight.chunk_sets())
        first = sum(0 if chunk_set.subscription is None else chunk_set.subscription.left for chunk_set in chunk_sets)
        return first + sum(len(joined) for chunk_set in chunk_sets for joined in chunk_set.joined.values())

    return await run(count)


async def until_waiting(count: int) -> None:
    for _ in range(3000):
        if await waiting() >= count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{await waiting()} wait where {count} should")


async def reopened(remote: RemoteArray, settings: aiozarr.Settings) -> Any:
    """The same array for a reader with other settings."""
    return await aiozarr.open_array(remote.server.url, zarr_format=3, settings=settings)


@pytest.mark.parametrize("settings", [PATIENT, CACHED], ids=["kept-nowhere", "cached"])
async def test_a_thousand_awaits_of_overlapping_windows_fetch_and_decode_each_chunk_once(
    server: FaultServer, settings: aiozarr.Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = await serve_array(server, shape=(64, 64), chunks=(16, 16), settings=settings)
    decoded: list[None] = []
    decode = ChunkDelivery.decoded

    def counted(self: ChunkDelivery, work: DecodeChunks) -> None:
        decoded.extend([None] * len(work.numbers))
        decode(self, work)

    monkeypatch.setattr(ChunkDelivery, "decoded", counted)
    corners = [(number * 7 % 56, number * 13 % 56) for number in range(1000)]
    regions = [(slice(top, top + 8), slice(left, left + 8)) for top, left in corners]
    touched = sum(len({top // 16, (top + 7) // 16}) * len({left // 16, (left + 7) // 16}) for top, left in corners)
    server.script = gate = Gate()
    async with assert_no_leaks(server):
        reading = [asyncio.ensure_future(remote.array[region].read()) for region in regions]
        try:
            await until_waiting(touched)
        finally:
            gate.open()
        for region, block in zip(regions, await asyncio.gather(*reading), strict=True):
            assert np.array_equal(block, remote.values[region])
    assert set(Counter(remote.keys).values()) == {1}
    assert len(remote.keys) == len(decoded) == 16
    for region in regions[:100]:
        await remote.array[region]
    assert (len(remote.keys) == 16) == (settings is CACHED)


async def test_neighbours_in_a_shard_that_many_ask_for_at_once_are_few_requests(server: FaultServer) -> None:
    settings = replace(PATIENT, max_request_bytes=1 << 20)
    remote = await serve_array(server, shape=(256, 16), chunks=(256, 16), inner=(1, 16), settings=settings)
    server.script = gate = Gate()
    reading = [asyncio.ensure_future(remote.array[row].read()) for row in range(64)]

    async def expecting(engine: Engine) -> int:
        return sum(len(fetch.readers) for fetch in engine.state.indexes.in_flight.values())

    while await run(expecting) < 64:
        await asyncio.sleep(0.01)
    gate.open()
    assert np.array_equal(np.stack(await asyncio.gather(*reading)), remote.values[:64])
    assert len(remote.keys) == 2  # the index, and all that was wanted when it had come
    blocks = await aiozarr.read_many([remote.array[row] for row in range(100, 164)])
    assert np.array_equal(np.stack(blocks), remote.values[100:164])
    assert len(remote.keys) == 3


@pytest.mark.parametrize("inner", [None, (1,)], ids=["plain", "sharded"])
@pytest.mark.parametrize("first", [True, False], ids=["who-sent-it", "who-joined"])
async def test_a_reader_that_times_out_leaves_the_request_to_the_others(
    server: FaultServer, inner: tuple[int] | None, first: bool
) -> None:
    remote = await serve_array(server, shape=(2,), chunks=(2,), inner=inner, settings=CACHED)
    hasty = await reopened(remote, replace(CACHED, timeout=0.2))
    remote.begun = len(server.requests)
    server.script = gate = Gate()
    async with assert_no_leaks(server):
        order = [hasty, remote.array] if first else [remote.array, hasty]
        tasks = [asyncio.ensure_future(array[...].read()) for array in order]
        own = asyncio.ensure_future(asyncio.wait_for(remote.array[...].read(), 0.2))
        await asyncio.wait([tasks[0 if first else 1], own])
        gate.open()
        results = await asyncio.gather(*tasks, own, return_exceptions=True)
    kinds = [type(result) for result in results]
    assert kinds[2] is TimeoutError
    assert sorted(kinds[:2], key=lambda kind: kind.__name__) == [aiozarr.StoreTimeoutError, np.ndarray]
    assert (results[1] if first else results[0]).tolist() == [1, 2]
    assert set(Counter(zip(remote.keys, remote.ranges, strict=True)).values()) == {1}


async def test_cached_chunks_are_served_within_any_timeout_and_counted(server: FaultServer) -> None:
    remote = await serve_array(server, settings=replace(CACHED, timeout=30.0))
    await remote.array[...]
    server.script = spoil.always(spoil.no_answer)
    with aiozarr.record() as report:
        assert np.array_equal(await remote.array[1:7], remote.values[1:7])
    assert (report.requests, report.chunks, report.cached, report.shared) == (0, 4, 4, 0)


async def test_an_error_of_the_server_is_everybodys_and_an_error_of_one_reader_is_his_own(server: FaultServer) -> None:
    remote = await serve_array(server, shape=(2,), chunks=(2,), settings=PATIENT)

    def refuse(_: object) -> None:
        raise RuntimeError("no")

    server.script = gate = Gate()
    tasks = [
        asyncio.ensure_future(remote.array[...].read(progress=refuse)),
        asyncio.ensure_future(remote.array[...].read()),
        asyncio.ensure_future(remote.array[...].read(out=np.zeros(2, "int32"))),
    ]
    await until_waiting(3)
    gate.open()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results[0], RuntimeError)
    assert all(np.array_equal(result, remote.values) for result in results[1:])
    assert len(remote.keys) == 1
    server.script = spoil.always(spoil.status(403))
    results = await asyncio.gather(*(remote.array[...].read() for _ in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [aiozarr.PermissionDeniedError] * 3


@pytest.mark.parametrize("inner", [None, (1,)], ids=["plain", "sharded"])
async def test_readers_that_join_and_leave_leave_nothing_unfinished(
    server: FaultServer, inner: tuple[int] | None
) -> None:
    remote = await serve_array(server, shape=(32,), chunks=(4,), inner=inner, settings=replace(CACHED, timeout=60))
    server.latency = 0.005
    async with assert_no_leaks(server):
        for turn in range(4):
            tasks = [asyncio.ensure_future(remote.array[turn + at : 20 + at].read()) for at in range(12)]
            for at, task in enumerate(tasks):
                for _ in range(turn * at):
                    await asyncio.sleep(0)
                if at % 2:
                    task.cancel()
            for at, result in enumerate(await asyncio.gather(*tasks, return_exceptions=True)):
                if not isinstance(result, asyncio.CancelledError):
                    assert np.array_equal(result, remote.values[turn + at : 20 + at])
    assert await wait_for(lambda: server.in_flight == 0)


@pytest.mark.parametrize(
    ("inner", "answered_first"),
    [(None, 0), ((1,), 0), ((1,), 1)],
    ids=["chunk", "index of a shard", "chunk of a shard"],
)
async def test_who_joins_a_request_late_does_not_fail_because_its_time_is_over(
    server: FaultServer, inner: tuple[int] | None, answered_first: int
) -> None:
    settings = replace(PATIENT, retries=2)
    remote = await serve_array(server, shape=(64,), chunks=(64,), inner=inner, settings=settings)
    begun = len(server.requests)

    def fail(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        number = len(server.requests) - begun - answered_first
        return spoil.status(503)(reply) if 0 < number <= 1 + settings.retries else reply

    server.script = fail
    async with assert_no_leaks(server):
        first = asyncio.ensure_future(remote.array[:2].read())
        while len(server.requests) <= begun + answered_first:
            await asyncio.sleep(0.005)
        late = asyncio.ensure_future(remote.array[:2].read())
        with pytest.raises(aiozarr.ThrottledError):
            await first
        assert np.array_equal(await late, remote.values[:2])
    assert len(server.requests) <= begun + answered_first + 1 + settings.retries + 2
