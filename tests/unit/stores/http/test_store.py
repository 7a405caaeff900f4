"""The HTTP store in front of a server that misbehaves."""

from __future__ import annotations

import asyncio
import base64
import pickle
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import aiozarr
from aiozarr.errors import (
    ChangedError,
    InvalidKeyError,
    PermissionDeniedError,
    StoreError,
    ThrottledError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from aiozarr.model import ByteRange, Range, Suffix, Version
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
        assert (store.supports.writable, store.supports.listable) == (False, False)
        with pytest.raises(UnsupportedOperationError):
            await store.set("a/b", b"")
        for listing in (store.list, lambda: store.list_dir(""), lambda: store.list_prefix("a/")):
            with pytest.raises(UnsupportedOperationError, match="consolidate the metadata"):
                await listing()
        with pytest.raises(UnsupportedOperationError, match="open nodes by their paths, or consolidate the metadata"):
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
        with pytest.raises(UnsupportedOperationError, match=r"cannot list keys.*by their paths.*consolidate"):
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
    with pytest.raises(
        UnsupportedOperationError, match="a store with an ssl_context cannot be pickled; use root_certificate,"
    ):
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


def whole_always(server: FaultServer) -> spoil.Script:
    """Answer like a server without ranges."""
    return lambda request, reply: (
        reply
        if reply.status in (404, 412) or request.method == "HEAD"
        else spoil.whole(server.get(request.key) or b"")(reply)
    )


async def test_a_whole_object_that_came_for_a_range_serves_all_ranges_of_its_version(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script = whole_always(server)
    async with HTTPStore(server.url) as store:
        tail = await store.fetch("a/b", Suffix(7))
        assert tail is not None
        for part, expected in ((Range(5, 10), DATA[5:15]), (Suffix(3), DATA[-3:]), (Range(1 << 40, 1), b"")):
            value = await store.fetch("a/b", part, if_match=tail.version)
            assert value is not None
            assert (bytes(value.data), value.size, value.version) == (expected, len(DATA), tail.version)
        assert [request.method for request in server.requests] == ["GET", "HEAD", "HEAD", "HEAD"]
        assert pickle.loads(pickle.dumps(store)) == store
        # Who asks for what is stored now is never answered from what was kept.
        server.put("a/b", DATA[::-1])
        value = await store.fetch("a/b", Range(5, 10))
        assert value is not None
        assert bytes(value.data) == DATA[::-1][5:15]
        with pytest.raises(ChangedError):
            await store.fetch("a/b", Range(5, 10), if_match=tail.version)
        # What is kept is bounded.
        monkeypatch.setattr("aiozarr.stores.http.store.MAX_CUT_BYTES", len(DATA))
        server.put("c", DATA)
        versions = [value.version for key in ("a/b", "c") if (value := await store.fetch(key, Range(0, 1)))]
        server.requests.clear()
        for key, version in zip(("c", "a/b"), reversed(versions), strict=True):
            await store.fetch(key, Range(1, 1), if_match=version)
        asked = [(request.method, request.key) for request in server.requests]
        assert asked == [("HEAD", "c"), ("GET", "a/b")]
        server.remove("a/b")
        assert await store.fetch("a/b", Range(1, 1), if_match=versions[0]) is None
        server.put("a/b", DATA, etag='"1"')
        version = Version('"1"')
        script, refused = server.script, spoil.status(405)
        server.script = lambda request, reply: (
            refused(reply) if request.method == "HEAD" else script(request, reply) if script else reply
        )
        for _ in range(2):
            value = await store.fetch("a/b", Range(5, 10), if_match=version)
            assert value is not None
            assert bytes(value.data) == DATA[5:15]


async def test_a_shard_is_sent_once_by_a_server_without_ranges(server: FaultServer) -> None:
    source = aiozarr.stores.MemoryStore()
    array = await aiozarr.create_array(source, shape=(4096,), dtype="int32", chunks=(64,), shards=(2048,))
    await array[...].write(range(4096))
    for entry in [entry async for entry in source.scan("")]:
        server.put(entry.key, bytes(memoryview(await source.get(entry.key) or b"")))
    server.script = whole_always(server)
    async with await aiozarr.open_array(server.url, zarr_format=3) as found:
        server.requests.clear()
        assert list(await found[::700]) == list(range(0, 4096, 700))
    assert sorted(request.key for request in server.requests if request.method == "GET") == ["c/0", "c/1"]


def basic(text: str, encoding: str = "utf-8") -> str:
    return "Basic " + base64.b64encode(text.encode(encoding)).decode()


def old_style(user: str, password: str, encoding: str) -> aiohttp.BasicAuth:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return aiohttp.BasicAuth(user, password, encoding)


async def sent(store: HTTPStore, server: FaultServer) -> Mapping[str, str]:
    async with store:
        await store.exists("a")
    return server.requests[-1].headers


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"auth": ("us", "p:ß")}, basic("us:p:ß")),
        ({"auth": old_style("us", "ß", "latin1")}, basic("us:ß", "latin1")),
        ({"client_kwargs": {"auth": old_style("us", "pw", "utf-8")}}, basic("us:pw")),
        ({"token": "abc.def"}, "Bearer abc.def"),
        ({"headers": {"authorization": "Custom x"}}, "Custom x"),
        ({"client_kwargs": {"headers": {"Authorization": "Bearer y"}}}, "Bearer y"),
        ({"headers": {"Authorization": b"Bearer z"}}, "Bearer z"),
        ({"auth": ("us", "pw"), "headers": {"Authorization": basic("us:pw")}}, basic("us:pw")),
    ],
)
async def test_credentials_are_sent_however_they_are_spelled(options: dict[str, Any], expected: str) -> None:
    with FaultServer() as server:
        store = HTTPStore(server.url, **options)
        assert (await sent(store, server))["authorization"] == expected
        assert (await sent(pickle.loads(pickle.dumps(store)), server))["authorization"] == expected
    assert not any(word in repr(store) for word in ("pw", "abc", "Custom", "Bearer", "ß"))


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://u:hidden@h/", {"auth": ("u", "other-hidden")}),
        ("http://u:hidden@h/", {"token": "hidden"}),
        ("http://h/", {"auth": ("u", "hidden"), "token": "hidden"}),
        ("http://h/", {"headers": {"authorization": "hidden"}, "token": "hidden"}),
        ("http://h/", {"headers": {"X-A": "hidden", "x-a": "hidden-too"}}),
        ("http://h/", {"headers": {"user-agent": "hidden"}, "user_agent": "me"}),
        ("http://h/", {"headers": {"X-A": "hidden\r\nX-B: 1"}}),
        ("http://h/", {"headers": {"Range": "bytes=0-hidden"}}),
        ("http://h/", {"headers": {"accept-encoding": "hidden"}}),
        ("http://h/", {"auth": ("a:b", "hidden")}),
        ("http://h/", {"auth": old_style("a", "hidden日", "latin1")}),
        ("http://h/", {"allow_http": False}),
    ],
)
def test_what_contradicts_itself_or_cannot_be_sent_is_refused_without_showing_it(
    url: str, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"different|store itself|cannot|contradict|colon|does not use TLS") as caught:
        HTTPStore(url, **options)
    assert "hidden" not in str(caught.value)


async def test_headers_replace_those_of_the_store_in_any_case() -> None:
    with FaultServer() as server:
        store = HTTPStore(server.url, headers={"user-agent": "me", "ACCEPT": "x/y", "Cookie": "a=b"})
        headers = await sent(store, server)
        assert (headers["user-agent"], headers["accept"], headers["cookie"]) == ("me", "x/y", "a=b")
        assert (await sent(HTTPStore(server.url, user_agent="you"), server))["user-agent"] == "you"


@pytest.fixture
def netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "netrc"
    path.write_text("machine 127.0.0.1 login me password of-the-file\nmachine data.example login a password b\n")
    monkeypatch.setenv("NETRC", str(path))
    return path


async def test_netrc_is_read_where_the_environment_is_trusted_by_word(netrc: Path) -> None:
    with FaultServer() as server:
        assert "authorization" not in await sent(HTTPStore(server.url), server)
        assert "authorization" not in await sent(HTTPStore(server.url, trust_env=False), server)
        for options in ({"trust_env": True}, {"client_kwargs": {"trust_env": True}}):
            store = HTTPStore(server.url, **options)
            assert b"of-the-file" not in pickle.dumps(store)
            for each in (store, pickle.loads(pickle.dumps(store))):
                assert (await sent(each, server))["authorization"] == basic("me:of-the-file")
        store = HTTPStore(server.url, trust_env=True, token="t")
        assert (await sent(store, server))["authorization"] == "Bearer t"
        netrc.unlink()  # noqa: ASYNC240  # no loop waits for it
        assert "authorization" not in await sent(HTTPStore(server.url, trust_env=True), server)


def test_without_a_home_directory_there_is_no_netrc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as it returns it where there is none
    assert "Authorization" not in HTTPStore("http://data.example", trust_env=True)._client.template.headers


def test_netrc_that_goes_out_without_tls_or_cannot_be_read_is_warned_of(netrc: Path) -> None:
    HTTPStore("https://data.example/", trust_env=True)
    with pytest.warns(UserWarning, match="without TLS"):
        HTTPStore("http://data.example/", trust_env=True)
    netrc.write_text("machine data.example password 'hidden\nnonsense")
    with pytest.warns(UserWarning, match="cannot be read") as caught:
        HTTPStore("https://data.example/", trust_env=True)
    assert "hidden" not in str(caught[0].message)
