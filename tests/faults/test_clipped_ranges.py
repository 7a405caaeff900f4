"""A server may clip a range to the end of an object without the object's size (`Content-Range: bytes 0-99/*`)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import ChangedError, ShortReadError
from aiozarr.model import ByteRange, Range, Suffix, resolve_range
from aiozarr.settings import Settings
from aiozarr.stores import HTTPStore, MemoryStore, ZipStore
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer
from tests.support.zip_archives import archive_of


def without_size(request: Request, reply: Reply) -> Reply:
    text = dict(reply.headers).get("Content-Range", "")
    return reply if reply.status != 206 else reply.with_headers(Content_Range=f"{text.partition('/')[0]}/*")


def cut_short(request: Request, reply: Reply) -> Reply:
    if reply.status != 206 or len(reply.body) < 8:
        return reply
    start = int(dict(reply.headers)["Content-Range"].split()[1].partition("-")[0])
    body = reply.body[:-4]
    return replace(reply.with_headers(Content_Range=f"bytes {start}-{start + len(body) - 1}/*"), body=body)


async def stored(**options: object) -> tuple[dict[str, bytes], np.ndarray]:
    store = MemoryStore()
    values = 1 + np.arange(40000, dtype="f4").reshape(200, 200)
    await aiozarr.create_array(store, data=values, **options)  # type: ignore[arg-type]
    return {key: bytes(await store.get(key) or b"") for key in await store.list()}, values


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (100, 100)},
        {"chunks": (100, 100), "codecs": []},
        {"chunks": (20, 20), "shards": (100, 100)},
        {"chunks": (20, 20), "shards": (100, 100), "codecs": []},
    ],
    ids=str,
)
async def test_clipped_ranges_without_a_size_give_right_values(options: dict[str, object]) -> None:
    objects, values = await stored(**options)
    with FaultServer(objects, script=without_size) as server:
        async with aiozarr.open_array(server.url) as array:
            assert np.array_equal(await array[...], values)
            assert np.array_equal(await array[3, 150:], values[3, 150:])
        copied = MemoryStore()
        for key in objects:
            await copied.set(key, (await HTTPStore(server.url).get(key)) or b"")
        assert np.array_equal(await (await aiozarr.open_array(copied))[...], values)


async def test_objects_are_copied_by_clipped_ranges_without_a_size() -> None:
    objects, values = await stored(chunks=(20, 20), shards=(100, 100))
    with FaultServer(objects, script=without_size) as server:
        copied = MemoryStore()
        await aiozarr.copy(server.url, copied)
        assert np.array_equal(await (await aiozarr.open_array(copied))[...], values)
        # Of each object: a range that is refused once, and the whole.
        assert len(server.requests) <= 3 * len(objects) + 8


@pytest.mark.parametrize("byte_range", [Range(50), Range(50, 100), Range(90, 50), Suffix(30), Suffix(200)], ids=str)
@pytest.mark.parametrize("nowait", [False, True])
async def test_a_range_beyond_the_end_is_read_by_the_objects_size(byte_range: ByteRange, nowait: bool) -> None:
    data = bytes(range(100))
    with FaultServer({"a": data}, script=without_size) as server:
        async with HTTPStore(server.url) as store:
            if nowait:
                await store.get("a")  # a connection is idle
                future = asyncio.get_running_loop().create_future()
                callback = SimpleNamespace(fetched=future.set_result, failed=future.set_exception)
                assert store._fetch_nowait("a", byte_range, None, callback) is not None
                value = await future
            else:
                value = await store.fetch("a", byte_range)
            assert value is not None
            start, stop = resolve_range(100, byte_range)
            assert value.data == data[start:stop]
            assert value.size == (None if byte_range == Range(50) else 100)
            assert value.version == (await store.stat("a")).version  # type: ignore[union-attr]  # it is stored


async def test_an_object_that_is_replaced_while_its_size_is_requested_is_an_error() -> None:
    with FaultServer({"a": bytes(100)}) as server:

        def replacing(request: Request, reply: Reply) -> Reply:
            if request.method == "HEAD":
                server.put("a", bytes(200))
            return without_size(request, reply)

        server.script = replacing
        async with HTTPStore(server.url) as store:
            with pytest.raises(ChangedError):
                await store.fetch("a", Range(50, 100))


@pytest.mark.parametrize("members", [1, 3000])
async def test_an_archive_is_read(members: int) -> None:
    values = {f"c/{number}": b"%d" % number for number in range(members)}
    with FaultServer({"x.zip": archive_of(values)}, script=without_size) as server:
        store = ZipStore(HTTPStore(server.url), key="x.zip")
        assert {key: bytes(await store.get(key) or b"") for key in await store.list()} == values
        await store.aclose()


async def test_a_chunk_that_is_stored_in_fewer_bytes_than_a_part_is_fetched_whole() -> None:
    store = MemoryStore()
    await aiozarr.create_array(store, data=np.ones((1024, 1024), "f4"), chunks=(1024, 1024))
    objects = {key: bytes(await store.get(key) or b"") for key in await store.list()}
    with FaultServer(objects, script=without_size) as server:
        async with aiozarr.open_array(server.url, settings=Settings(max_request_bytes=1 << 20)) as array:
            assert (await array[...] == 1).all()
        requests = [request.headers.get("range") for request in server.requests if request.key == "c/0/0"]
        assert requests == ["bytes=0-1048575", None]


async def test_a_shard_whose_bytes_are_cut_short_is_an_error_and_not_the_fill_value() -> None:
    objects, _ = await stored(chunks=(20, 20), shards=(100, 100))
    with FaultServer(objects, script=cut_short) as server:
        settings = Settings(retries=0)
        async with aiozarr.open_array(server.url, settings=settings) as array:
            with pytest.raises((ShortReadError, aiozarr.StoreError)):
                await array[...]
