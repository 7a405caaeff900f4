"""Chunks that are ranges of larger objects: their requests are merged, and wait in the queue of the right origin."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.engine.operation import OriginRequests
from aiozarr.errors import ChangedError, ChecksumError, DanglingReferenceError, LimitError, StoreError
from aiozarr.stores import MemoryStore, ReadOnlyStore, Store, from_references
from tests.support.servers.http_replies import Reply
from tests.support.servers.http_server import FaultServer

VALUES = np.arange(100_000, dtype="i4").reshape(10, 100, 100)
CHUNKS: dict[str, Any] = {"chunks": (1, 10, 10)}


async def references(*servers: FaultServer, by_step: bool = False, **options: Any) -> dict[str, Any]:
    """Store an array as ranges of one object on each server, or of one for each step, and return its references."""
    source = MemoryStore()
    await aiozarr.create_array(source, "t", data=VALUES, **(options or CHUNKS))
    blobs: dict[tuple[int, str], bytearray] = {}
    table: dict[str, Any] = {}
    for key in sorted(await source.list()):
        data = bytes(memoryview(await source.get(key) or b""))
        if key.endswith("zarr.json"):
            table[key] = data.decode()
            continue
        step = int(key.split("/")[2])
        name = f"{step}.nc" if by_step else "all.nc"
        blob = blobs.setdefault((step % len(servers), name), bytearray(b"head"))
        table[key] = [f"{servers[step % len(servers)].url}/{name}", len(blob), len(data)]
        blob += data
    for (number, name), blob in blobs.items():
        servers[number].put(name, bytes(blob) + b"tail")
    return table


def opened(table: dict[str, Any], *servers: FaultServer) -> Store:
    return from_references(table, resolve={f"{server.url}/": {} for server in servers})


async def counted(array: Any, selection: Any, *servers: FaultServer) -> int:
    """Read a selection, and return how many requests it took."""
    before = sum([len(server.requests) for server in servers])
    with aiozarr.record() as report:
        values = await array[selection]
    assert (values == VALUES[selection]).all()
    count = sum([len(server.requests) for server in servers]) - before
    assert report.requests == count
    return count


async def test_a_thousand_neighbours_come_in_eight_requests() -> None:
    with FaultServer() as server:
        array = await aiozarr.open_array(opened(await references(server), server), "t")
        assert await counted(array, ..., server) <= 8
        assert await counted(array, ..., server) <= 4
        assert await counted(array, (3,), server) == 1
        plan = await array[...].probe()
        assert plan.requests == await counted(array, ..., server)
        assert plan.bytes == plan.bytes_wanted
        assert (await array[3].probe()).requests == 1
        assert array[...].plan().min_requests <= 4
        assert "all.nc" in str(plan)


async def test_a_plane_takes_one_request_of_each_file() -> None:
    with FaultServer() as server:
        array = await aiozarr.open_array(opened(await references(server, by_step=True), server), "t")
        for step in range(10):
            assert await counted(array, step, server) == 1
        assert await counted(array, (slice(None), slice(0, 10)), server) == 10


@pytest.mark.parametrize("codecs", ["auto", []], ids=str)
async def test_inner_chunks_of_many_shards_in_one_file_are_merged(codecs: Any) -> None:
    with FaultServer() as server:
        options = {**CHUNKS, "shards": (5, 50, 50), "codecs": codecs}
        table = await references(server, **options)
        array = await aiozarr.open_array(opened(table, server), "t", settings=aiozarr.Settings(merge_gap_bytes=1 << 12))
        await counted(array, ..., server)
        assert await counted(array, ..., server) <= 8  # the indexes are cached
        for selection in ((2,), (slice(None), 3, slice(5, 95)), (7, 99, 99)):
            await counted(array, selection, server)
        spans = [(each[1], each[1] + each[2]) for each in table.values() if isinstance(each, list)]
        for request in server.requests:
            start, last = map(int, request.headers["range"].removeprefix("bytes=").split("-"))
            assert min(spans)[0] <= start <= last < max(spans)[1]


async def test_readers_of_different_arrays_share_requests() -> None:
    with FaultServer() as server:
        table = await references(server)
        names = {key.replace("t/", f"{name}/", 1): each for name in ("a", "b") for key, each in table.items()}
        group = await aiozarr.open_group(
            opened({**names, "zarr.json": table["zarr.json"].replace("array", "group")}, server)
        )
        first, second = await group.open("a"), await group.open("b")
        assert isinstance(first, aiozarr.Array)
        assert isinstance(second, aiozarr.Array)
        await first[0, 0]  # the store of the server is open
        before = len(server.requests)
        a, b = await asyncio.gather(first[3, :30].read(), second[3, 30:].read())
        assert (np.concatenate([a, b]) == VALUES[3]).all()
        assert len(server.requests) - before <= 2


async def test_each_origin_has_its_own_budget() -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(FaultServer(latency=0.01)) for _ in range(3)]
        table = await references(*servers, by_step=True)
        settings = aiozarr.Settings(max_requests=2, merge_gap_bytes=0, max_request_bytes=2000)
        array = await aiozarr.open_array(opened(table, *servers), "t", settings=settings)
        await counted(array, ..., *servers)
        for server in servers:
            assert server.max_in_flight == 2


def test_requests_to_another_origin_take_all_limits_from_the_settings_of_the_read() -> None:
    registered: list[Any] = []
    operation: Any = SimpleNamespace(settings=aiozarr.Settings(max_requests=3, max_bytes_in_flight=1 << 20))
    queue: Any = SimpleNamespace(register=registered.append)
    source, limited = OriginRequests(operation, queue), OriginRequests.__new__(OriginRequests)
    limited.limit_to(operation.settings)
    assert registered == [source]
    assert vars(limited).items() <= vars(source).items()


async def test_a_stream_gives_all_blocks() -> None:
    with FaultServer() as server:
        array = await aiozarr.open_array(opened(await references(server, by_step=True), server), "t")
        found = np.zeros_like(VALUES)
        async for region, block in array[...].stream():
            found[region] = block
        assert (found == VALUES).all()


@pytest.mark.parametrize("change", ["missing", "shorter", "refused", "replaced"])
async def test_a_dead_or_replaced_target_is_an_error_that_names_it(change: str) -> None:
    with FaultServer() as server:
        table = await references(server, by_step=True)
        settings = aiozarr.Settings(retries=0, missing_status=(403,))
        array = await aiozarr.open_array(opened(table, server), "t", settings=settings)
        assert (await array[7] == VALUES[7]).all()
        assert (await array[6] == VALUES[6]).all()
        if change == "missing":
            server.remove("7.nc")
        elif change == "shorter":
            server.put("8.nc", b"head")
        elif change == "refused":
            server.script = lambda request, reply: Reply(403) if request.key == "7.nc" else reply
        else:
            server.put("7.nc", b"head" + bytes(100_000))
        step = 8 if change == "shorter" else 7
        kinds = {
            "missing": StoreError,
            "shorter": DanglingReferenceError,
            "refused": StoreError,
            "replaced": ChangedError,
        }
        with pytest.raises(kinds[change]) as raised:
            await array[...]
        assert raised.value.target == f"{server.url}/{step}.nc"
        assert raised.value.key is not None
        assert raised.value.key.startswith(f"t/c/{step}/")
        assert raised.value.store == "reference://"
        assert (await array[6] == VALUES[6]).all()


async def test_a_missing_target_never_fills() -> None:
    with FaultServer() as server:
        array = await aiozarr.open_array(opened(await references(server), server), "t")
        server.remove("all.nc")
        with pytest.raises(DanglingReferenceError):
            await array[0, 0, 0]


async def test_damaged_bytes_are_fetched_once_more() -> None:
    with FaultServer() as server:
        codecs = ["bytes", "crc32c"]
        table = await references(server, **CHUNKS, codecs=codecs)
        array = await aiozarr.open_array(opened(table, server), "t")
        await array[0]
        count = 0

        def damage(request: Any, reply: Reply) -> Reply:
            nonlocal count
            count += 1
            return Reply(reply.status, reply.headers, bytes(len(reply.body))) if count == 1 else reply

        server.script = damage
        await counted(array, (5,), server)
        server.script = lambda request, reply: Reply(reply.status, reply.headers, bytes(len(reply.body)))
        with pytest.raises(ChecksumError):
            await array[5]


async def test_a_reference_that_is_too_long_for_its_chunk_meets_a_limit() -> None:
    with FaultServer() as server:
        table = await references(server)
        table["t/c/3/0/0"] = [f"{server.url}/all.nc", 0, 1 << 40]
        array = await aiozarr.open_array(opened(table, server), "t")
        with pytest.raises(LimitError):
            await array[3]
        assert (await array[4] == VALUES[4]).all()


async def test_a_cancelled_read_leaves_nothing_in_flight() -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(FaultServer(latency=0.3)) for _ in range(2)]
        array = await aiozarr.open_array(opened(await references(*servers, by_step=True), *servers), "t")
        for delay in (0.0, 0.01, 0.1):
            task = asyncio.ensure_future(array[...].read())
            await asyncio.sleep(delay)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (await array[...] == VALUES).all()


async def test_wrappers_read_what_the_store_reads() -> None:
    with FaultServer() as server:
        table = await references(server)
        for store in (ReadOnlyStore(opened(table, server)), opened(table, server)):
            array = await aiozarr.open_array(store, "t")
            assert (await array[2] == VALUES[2]).all()


@pytest.mark.parametrize("codecs", [["bytes"], ["bytes", "crc32c"]])
async def test_decoded_chunks_behind_references_are_cached(codecs: list[str]) -> None:
    settings = aiozarr.Settings(chunk_cache_bytes=1 << 20)
    with FaultServer() as server:
        table = await references(server, **CHUNKS, codecs=codecs)
        array = await aiozarr.open_array(opened(table, server), "t", settings=settings)
        assert await counted(array, np.s_[2:4], server) > 0
        assert await counted(array, np.s_[2:4], server) == 0
        assert await counted(array, np.s_[2], server) == 0


@pytest.mark.parametrize("cached", [0, 1 << 20])
async def test_two_readings_of_a_document_share_no_values(tmp_path: Any, cached: int) -> None:
    document, settings = tmp_path / "refs.json", aiozarr.Settings(chunk_cache_bytes=cached)
    with FaultServer(latency=0.05) as server:
        table = await references(server, **CHUNKS)
        document.write_text(json.dumps(table))
        resolve = {f"{server.url}/": {}}
        store = from_references(document, resolve=resolve)
        unread = hash(store)
        old = await aiozarr.open_array(store, "t", settings=settings)
        assert (await old[:2] == VALUES[:2]).all()
        assert hash(store) == unread  # it may be the key of a dictionary
        table["t/c/1/0/0"], table["t/c/2/0/0"] = table["t/c/2/0/0"], table["t/c/1/0/0"]
        document.write_text(json.dumps(table))
        new = await aiozarr.open_array(from_references(document, resolve=resolve), "t", settings=settings)
        first, second = await asyncio.gather(old[...].read(), new[...].read())
        assert (first == VALUES).all()
        assert (second[1, :10, :10] == VALUES[2, :10, :10]).all()
        assert (second[2, :10, :10] == VALUES[1, :10, :10]).all()


def test_a_document_is_read_on_every_loop(tmp_path: Any) -> None:
    async def read() -> None:
        with FaultServer() as server:
            (tmp_path / "refs.json").write_text(json.dumps(await references(server)))
            store = from_references(tmp_path / "refs.json", resolve={f"{server.url}/": {}})
            array = await aiozarr.open_array(store, "t")
            assert (await array[2] == VALUES[2]).all()
            assert bytes(memoryview(await store.get("t/c/0/0/0") or b""))

    asyncio.run(read())
    asyncio.run(read())


async def test_ranges_of_uncompressed_neighbours_are_merged_across_chunks() -> None:
    with FaultServer() as server:
        store = opened(await references(server, chunks=(1, 100, 100), codecs=["bytes"]), server)
        array = await aiozarr.open_array(store, "t", settings=aiozarr.Settings(merge_gap_bytes=64))
        # The last row of a chunk and the first one of the next are adjacent, and come in one request.
        for view, expected, requests in (
            (array[2:8, 5], VALUES[2:8, 5], 6),
            (array.oindex[[3, 4], [0, 99]], VALUES[3:5, [0, 99]], 3),
        ):
            with aiozarr.record() as report:
                assert (await view == expected).all()
            assert (report.requests, report.bytes_fetched) == (requests, expected.nbytes)
            plan = await view.probe()
            assert (plan.requests, plan.bytes) == (requests, expected.nbytes)


async def test_a_dead_target_of_a_part_is_an_error_with_its_url_and_key() -> None:
    with FaultServer() as server:
        table = await references(server, chunks=(1, 100, 100), codecs=["bytes"])
        array = await aiozarr.open_array(opened(table, server), "t", settings=aiozarr.Settings(merge_gap_bytes=64))
        server.remove("all.nc")
        with pytest.raises(DanglingReferenceError) as raised:
            await array[3, 5]
    assert raised.value.target == f"{server.url}/all.nc"
    assert raised.value.key == "t/c/3/0/0"
