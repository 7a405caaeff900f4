"""The HTTP store in front of a server that misbehaves."""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

import aiozarr
from aiozarr.errors import (
    InvalidKeyError,
    PermissionDeniedError,
    StoreError,
    ThrottledError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from aiozarr.model import ByteRange, Range, Suffix
from aiozarr.stores.http.store import HTTPStore
from tests.support.certificates import authority
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

DATA = bytes(range(256)) * 1000


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server with a value."""
    with FaultServer({"a/b": DATA, "empty": b""}) as running:
        yield running


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (401, UnauthenticatedError, False),
        (403, PermissionDeniedError, False),
        (405, UnsupportedOperationError, False),
        (410, StoreError, False),
        (429, ThrottledError, True),
        (500, StoreError, True),
        (503, ThrottledError, True),
    ],
)
@pytest.mark.parametrize("range", [None, Range(5, 10), Suffix(5)], ids=str)
async def test_only_404_is_missing_and_every_other_status_is_an_error_with_its_place(
    server: FaultServer, status: int, kind: type[StoreError], retryable: bool, range: ByteRange | None
) -> None:
    server.script = spoil.always(spoil.status(status, Retry_After="3", X_Request_Id="id-1"))
    async with HTTPStore(server.url) as store:
        with pytest.raises(kind) as caught:
            await store.fetch("a/b", range)
    error = caught.value
    assert type(error) is kind
    assert (error.store, error.key, error.range) == (server.url, "a/b", range)
    assert (error.status, error.request_id, error.retryable, error.retry_after) == (status, "id-1", retryable, 3.0)
    assert len(server.requests) == 1


async def test_the_store_itself_does_not_retry(server: FaultServer) -> None:
    server.script = spoil.always(spoil.status(503))
    async with HTTPStore(server.url) as store:
        for number in range(1, 4):
            with pytest.raises(ThrottledError):
                await store.fetch("a/b")
            assert len(server.requests) == number


async def test_credentials_headers_and_query_are_sent_with_every_request_and_never_shown(server: FaultServer) -> None:
    url = server.url.replace("http://", "http://us%40er:pa%2Fss@") + "/root/?sig=a%2Fb&v=1"
    server.put("root/a b", b"x")
    async with HTTPStore(url, headers={"X-Token": "hidden"}) as store:
        value = await store.fetch("a b", Range(0, 1))
        assert value is not None
        request = server.requests[0]
        assert request.target == "/root/a%20b?sig=a%2Fb&v=1"
        assert request.headers["authorization"] == "Basic dXNAZXI6cGEvc3M="
        assert request.headers["x-token"] == "hidden"
        assert request.headers["accept-encoding"] == "identity"
        server.script = spoil.always(spoil.status(403))
        with pytest.raises(PermissionDeniedError) as caught:
            await store.fetch("a b")
        for text in (repr(store), store.url, str(caught.value), repr(store.origin), repr(store.identity)):
            for secret in ("pa/ss", "pa%2Fss", "sig", "hidden", "dXNAZXI6cGEvc3M="):
                assert secret not in text
        clone = pickle.loads(pickle.dumps(store))
        assert clone == store
        assert clone.origin == store.origin
        server.script = None
        async with clone:
            assert await clone.exists("a b")
        assert server.requests[-1].headers["authorization"] == request.headers["authorization"]


def test_stores_with_other_credentials_are_other_stores() -> None:
    stores = [
        HTTPStore("http://h/x"),
        HTTPStore("http://u:p@h/x"),
        HTTPStore("http://u:q@h/x"),
        HTTPStore("http://h/x", headers={"Authorization": "t"}),
        HTTPStore("http://h/x?token=1"),
    ]
    assert len({store.identity for store in stores}) == len({store.origin for store in stores}) == 5
    assert HTTPStore("http://h/x/") == HTTPStore("http://h/x")
    assert HTTPStore("http://h/x").origin == HTTPStore("http://h/y").origin
    assert HTTPStore("http://h/x", auth=("u", "p")).identity == stores[1].identity


async def test_the_store_neither_lists_nor_writes(server: FaultServer) -> None:
    async with HTTPStore(server.url) as store:
        assert (store.supports.writeable, store.supports.listable) == (False, False)
        with pytest.raises(UnsupportedOperationError):
            await store.set("a/b", b"")
        for listing in (store.list, lambda: store.list_dir(""), lambda: store.list_prefix("a/")):
            with pytest.raises(UnsupportedOperationError, match="consolidate the metadata"):
                await listing()
        with pytest.raises(UnsupportedOperationError, match="by their paths"):
            store.scan()
    assert not server.requests


async def test_a_group_that_is_consolidated_shows_its_nodes_for_one_request(server: FaultServer) -> None:
    source = aiozarr.stores.MemoryStore()
    group = await aiozarr.create_group(source)
    for name in ("x", "y"):
        await group.create_array(f"below/{name}", shape=(4,), dtype="int8")
    await aiozarr.consolidate_metadata(source)
    for entry in [entry async for entry in source.scan("")]:
        server.put(f"data.zarr/{entry.key}", bytes(memoryview(await source.get(entry.key) or b"")))
    async with await aiozarr.open_group(f"{server.url}/data.zarr", zarr_format=3) as found:
        assert [name async for name, _ in found.members(max_depth=1)] == ["below", "below/x", "below/y"]
        assert [name async for name, _ in found.groups()] == ["below"]
        assert "below" in str(await found.tree())
        below = await found.open("below/x")
        assert below.attrs == {}
    assert [request.key for request in server.requests] == ["data.zarr/zarr.json"]
    async with await aiozarr.open_group(f"{server.url}/data.zarr/below", zarr_format=3) as found:
        with pytest.raises(UnsupportedOperationError, match=r"cannot list.*by their paths.*consolidated"):
            [name async for name, _ in found.members()]


async def test_keys_cannot_break_a_request_apart(server: FaultServer) -> None:
    async with HTTPStore(server.url) as store:
        assert await store.fetch("x\r\nHost: evil\r\n\r\n") is None
        assert server.requests[0].target == "/x%0D%0AHost%3A%20evil%0D%0A%0D%0A"
        with pytest.raises(InvalidKeyError):
            await store.fetch("../etc/passwd")


async def test_a_server_of_http_1_0_and_one_that_speaks_before_it_answers_are_understood(server: FaultServer) -> None:
    old = b'HTTP/1.0 200 OK\r\nETag: "1"\r\n\r\n' + DATA
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    async with HTTPStore(server.url) as store:
        for raw, expected in ((old, DATA), (early, b"ok")):
            server.script = spoil.always(spoil.garbage(raw))
            assert await store.get("a/b") == expected


async def test_a_pooled_connection_that_was_closed_is_replaced_without_an_error(server: FaultServer) -> None:
    server.script = spoil.only({1: spoil.dropping})
    async with HTTPStore(server.url) as store:
        assert [await store.get("a/b") for _ in range(3)] == [DATA] * 3
    assert (server.connections, len(server.requests)) == (2, 3)


@pytest.mark.parametrize("base", ["", "/", "/x", "/x/", "/x//", "/x//y", "/%C3%BC%20/", "/ü", "/a+b%2Fc"])
async def test_keys_lie_below_every_base_however_its_slashes_are_set(server: FaultServer, base: str) -> None:
    async with HTTPStore(f"{server.url}{base}?sig=a%2Fb") as store:
        assert await store.fetch("k/ü") is None
        assert await store.stat("k/ü") is None
    path = base.rstrip("/").replace("ü", "%C3%BC")
    assert [request.target for request in server.requests] == [f"{path}/k/%C3%BC?sig=a%2Fb"] * 2


async def test_a_host_of_ipv6_is_reached() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heads.append(head.decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    heads: list[str] = []
    try:
        listening = await asyncio.start_server(answer, "::1", 0)
    except OSError:
        pytest.skip("this machine has no IPv6")
    port = listening.sockets[0].getsockname()[1]
    async with listening, HTTPStore(f"http://[::1]:{port}/x") as store:
        assert await store.get("a") == b"ok"
    assert heads[0].startswith(f"GET /x/a HTTP/1.1\r\nHost: [::1]:{port}\r\n")


def run_on_asyncio(function: Callable[[], Awaitable[None]]) -> None:
    """Run on asyncio's own loop."""

    async def main() -> None:
        await function()

    asyncio.run(main())


def run_on_uvloop(function: Callable[[], Awaitable[None]]) -> None:
    """Run on uvloop."""
    uvloop = pytest.importorskip("uvloop", reason="uvloop does not exist on this platform")

    async def main() -> None:
        await function()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("run", [run_on_asyncio, run_on_uvloop])
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_values_are_read_whole_and_in_parts_on_every_loop(
    run: Callable[[Callable[[], Awaitable[None]]], None], secure: bool
) -> None:
    values = {f"c/{number}": number.to_bytes(2, "big") * number * 997 for number in range(40)}
    with FaultServer(values, tls=authority().server() if secure else None) as server:

        async def main() -> None:
            store = HTTPStore(server.url, ssl_context=authority().trust() if secure else None, max_connections=8)
            found = await asyncio.gather(*(store.fetch(key) for key in values))
            assert [value and bytes(value.data) for value in found] == list(values.values())
            parts = await asyncio.gather(*(store.fetch(key, Suffix(1000)) for key in values))
            assert [value and bytes(value.data) for value in parts] == [data[-1000:] for data in values.values()]
            task = asyncio.create_task(store.fetch("c/39"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await store.fetch("missing") is None
            await store.aclose()

        run(main)
        assert server.connections <= 10


async def test_an_authority_of_ones_own_is_trusted_besides_the_system_and_travels(tmp_path: Path) -> None:
    pem = authority().pem()
    (tmp_path / "ca.pem").write_bytes(pem)
    with FaultServer({"a": b"1"}, tls=authority().server()) as server:
        for given in (pem, pem.decode(), tmp_path / "ca.pem", str(tmp_path / "ca.pem")):
            store = HTTPStore(server.url, root_certificate=given)
            for each in (store, pickle.loads(pickle.dumps(store))):
                async with each:
                    assert await each.get("a") == b"1"
        for unchecked in ({"allow_invalid_certificates": True}, {"ssl": False}, {"verify_ssl": False}):
            async with HTTPStore(server.url, **unchecked) as store:
                assert await store.get("a") == b"1"
    with pytest.raises(ValueError, match="PEM"):
        HTTPStore("https://h/", root_certificate=b"-----BEGIN nothing")
    with pytest.raises(UnsupportedOperationError, match="root_certificate travels"):
        pickle.dumps(HTTPStore("https://h/", ssl_context=authority().trust()))


@pytest.mark.parametrize("fault", ["unknown authority", "expired", "another host"])
async def test_a_certificate_that_is_not_valid_is_an_error_that_is_never_retried(fault: str) -> None:
    address = "127.0.0.2" if fault == "another host" else "127.0.0.1"
    tls = authority().server(address, expired=fault == "expired")
    with FaultServer({"a": b"1"}, tls=tls) as server:
        trust = None if fault == "unknown authority" else authority().trust()
        async with HTTPStore(server.url, ssl_context=trust) as store:
            with pytest.raises(StoreError, match="certificate") as caught:
                await store.fetch("a")
        assert not caught.value.retryable
        assert not server.requests


def test_reading_does_not_import_aiohttp() -> None:
    import subprocess

    code = (
        "import sys, asyncio; from aiozarr.stores.http.store import HTTPStore\n"
        "store = HTTPStore('http://127.0.0.1:1')\n"
        "try: asyncio.run(store.fetch('a'))\nexcept Exception as error: print(type(error).__name__)\n"
        "print('aiohttp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["StoreError", "False"]
