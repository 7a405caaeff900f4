"""Bounds of bodies: a longer one is refused by its head, or when the bound is passed, and its connection is closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from aiozarr.errors import LimitError
from aiozarr.model import ByteRange, Range, Suffix, Value
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.stores.capabilities import ResponseHead
from aiozarr.stores.http.store import HTTPStore
from aiozarr.stores.http.web_store import WebStore
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

SIZE = 8 << 20
DATA = bytes(SIZE)
KEYS = ("a", "bucket/a", "acct/bucket/a")


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server with one large object, for stores of all kinds."""
    with FaultServer(dict.fromkeys(KEYS, DATA)) as running:
        yield running


def http(server: FaultServer) -> WebStore[Any]:
    return HTTPStore(server.url)


def s3(server: FaultServer) -> WebStore[Any]:
    return ObjectStore("s3://bucket", endpoint_url=server.url, region="us-east-1", anon=True)


def gcs(server: FaultServer) -> WebStore[Any]:
    return ObjectStore("gs://bucket", endpoint_url=server.url, anon=True)


def azure(server: FaultServer) -> WebStore[Any]:
    return ObjectStore("az://bucket", endpoint_url=f"{server.url}/acct", anon=True)


class Outcome:
    """A callback that stores the outcome of a read."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Value | None] = asyncio.get_running_loop().create_future()

    def fetched(self, value: Value | None) -> None:
        self.future.set_result(value)

    def failed(self, error: Exception) -> None:
        self.future.set_exception(error)


Read = Callable[[WebStore[Any], ByteRange | None, int], Awaitable[Value | None]]


async def with_a_task(store: WebStore[Any], range: ByteRange | None, max_bytes: int) -> Value | None:
    return await store.fetch("a", range, max_bytes=max_bytes)


async def without_a_task(store: WebStore[Any], range: ByteRange | None, max_bytes: int) -> Value | None:
    outcome = Outcome()
    assert store._fetch_nowait("a", range, None, outcome, max_bytes=max_bytes) is not None
    return await outcome.future


async def all_connections_are_closed(server: FaultServer) -> None:
    for _ in range(500):
        if not server.in_flight and not server.open_connections:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{server.open_connections} connections are open")


@pytest.mark.parametrize(
    "framing", [lambda reply: reply, spoil.chunked, spoil.until_close], ids=["length", "chunked", "close"]
)
@pytest.mark.parametrize("range", [None, Range(10, SIZE // 2)], ids=str)
@pytest.mark.parametrize("read", [with_a_task, without_a_task])
@pytest.mark.parametrize("make", [http, s3, gcs, azure])
async def test_a_longer_body_is_refused_and_its_connection_closed(
    server: FaultServer,
    make: Callable[[FaultServer], WebStore[Any]],
    read: Read,
    range: ByteRange | None,
    framing: spoil.Spoil,
) -> None:
    async with make(server) as store:
        await store.fetch("a", Range(0, 1))  # opens a connection
        server.script = spoil.always(framing)
        with pytest.raises(LimitError, match="at most 1000 are allowed") as caught:
            await read(store, range, 1000)
        error = caught.value
        assert (error.store, error.key, error.range, error.allowed) == (store.url, "a", range, 1000)
        await all_connections_are_closed(server)
        server.script = spoil.always(lambda reply: reply)
        value = await store.fetch("a", Range(0, 1000), max_bytes=1000)
        assert value is not None
        assert len(memoryview(value.data)) == 1000
        assert server.connections == 2


@pytest.mark.parametrize("framing", [spoil.whole(DATA), lambda reply: spoil.chunked(spoil.whole(DATA)(reply))])
@pytest.mark.parametrize("read", [with_a_task, without_a_task])
async def test_of_a_whole_object_in_place_of_a_range_the_range_is_bounded(
    server: FaultServer, read: Read, framing: spoil.Spoil
) -> None:
    async with HTTPStore(server.url) as store:
        await store.fetch("a", Range(0, 1))
        server.script = spoil.always(framing)
        value = await read(store, Range(5, 1000), 1000)
        assert value is not None
        assert (len(memoryview(value.data)), value.size) == (1000, SIZE)
    async with HTTPStore(server.url) as store:
        server.script = None
        await store.fetch("a", Range(0, 1))
        server.script = spoil.always(framing)
        with pytest.raises(LimitError) as caught:
            await read(store, Range(5), 1000)
        assert (caught.value.key, caught.value.range) == ("a", Range(5))


@pytest.mark.parametrize("read", [with_a_task, without_a_task])
async def test_an_empty_range_is_within_every_bound(server: FaultServer, read: Read) -> None:
    async with HTTPStore(server.url) as store:
        await store.fetch("a", Range(0, 1))
        value = await read(store, Range(0, 0), 0)
        assert value is not None
        assert (bytes(value.data), value.size) == (b"", SIZE)


@pytest.mark.parametrize("read", [with_a_task, without_a_task])
async def test_a_suffix_is_bounded(server: FaultServer, read: Read) -> None:
    async with HTTPStore(server.url) as store:
        await store.fetch("a", Range(0, 1))
        value = await read(store, Suffix(1000), 1000)
        assert value is not None
        with pytest.raises(LimitError):
            await read(store, Suffix(1001), 1000)


async def test_an_encoded_body_is_bounded_by_its_decoded_bytes(server: FaultServer) -> None:
    server.script = spoil.always(spoil.gzipped)
    async with HTTPStore(server.url) as store:
        with pytest.raises(LimitError) as caught:
            await store.fetch("a", max_bytes=SIZE - 1)
        assert (caught.value.store, caught.value.key) == (store.url, "a")
        assert await store.fetch("a", max_bytes=SIZE) is not None


async def test_a_redirected_body_is_bounded(server: FaultServer) -> None:
    server.put("moved", DATA)
    server.script = spoil.when(lambda request: request.key == "a", spoil.redirect("/moved"))
    async with HTTPStore(server.url) as store:
        with pytest.raises(LimitError):
            await store.fetch("a", max_bytes=SIZE - 1)


@pytest.mark.parametrize("accept_full", [False, True])
async def test_memory_for_a_refused_body_is_not_allocated(server: FaultServer, accept_full: bool) -> None:
    heads: list[ResponseHead] = []

    def allocate(head: ResponseHead) -> None:
        heads.append(head)

    async with HTTPStore(server.url) as store:
        with pytest.raises(LimitError) as caught:
            await store._fetch_into("a", Range(7, 2000), allocate, accept_full=accept_full, max_bytes=1000)
        assert (caught.value.store, caught.value.key, caught.value.range) == (store.url, "a", Range(7, 2000))
        assert not heads
        server.script = spoil.always(spoil.whole(DATA))
        if accept_full:
            with pytest.raises(LimitError):
                await store._fetch_into("a", Range(7, 500), allocate, accept_full=True, max_bytes=1000)
        value = await store._fetch_into("a", Range(7, 500), allocate, max_bytes=1000)
        assert value is not None
        assert len(memoryview(value.data)) == 500
