"""Redirects: never from https to http, never in a loop, and no credentials for another origin."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from aiozarr.errors import StoreError
from aiozarr.http1 import aiohttp_fallback as fallback
from aiozarr.http1.url import RedirectChain, WebAddress, is_forbidden
from aiozarr.model import Range
from aiozarr.stores.http.store import HTTPStore, basic_credentials
from tests.support.certificates import authority
from tests.support.fake_resolver import FakeResolver
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

DATA = bytes(range(256)) * 100


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """The server that is asked."""
    with FaultServer({"a/b": DATA}) as running:
        yield running


@pytest.fixture
def other() -> Iterator[FaultServer]:
    """The server that it sends to."""
    with FaultServer({"moved/a/b": DATA}) as running:
        yield running


def sends_to(url: str) -> spoil.Script:
    """Redirect every request to the same key below `url`."""
    return lambda request, reply: spoil.redirect(f"{url}/{request.key}")(reply)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed_for_reads(server: FaultServer, other: FaultServer, code: int) -> None:
    server.script = lambda request, reply: spoil.redirect(f"{other.url}/moved/{request.key}", code)(reply)
    async with HTTPStore(server.url) as store:
        value = await store.fetch("a/b", Range(5, 10))
        assert value is not None
        assert (bytes(value.data), value.size) == (DATA[5:15], len(DATA))
        whole = await store.fetch("a/b", if_match=value.version)
        assert whole is not None
        assert bytes(whole.data) == DATA
        entry = await store.stat("a/b")
        assert entry is not None
        assert (entry.size, entry.version) == (len(DATA), value.version)


async def test_a_404_behind_a_redirect_is_never_a_missing_value(server: FaultServer, other: FaultServer) -> None:
    server.script = sends_to(other.url)
    async with HTTPStore(server.url) as store:
        for operation in (store.fetch, store.stat):
            with pytest.raises(StoreError, match="after a redirect") as caught:
                await operation("gone")
            assert (caught.value.status, caught.value.retryable, caught.value.key) == (404, False, "gone")


async def test_credentials_do_not_go_to_another_origin(server: FaultServer, other: FaultServer) -> None:
    server.script = sends_to(f"{other.url}/moved")
    url = server.url.replace("http://", "http://user:secret@") + "?token=hidden"
    async with HTTPStore(url, headers={"X-Api-Key": "hidden", "Cookie": "hidden"}) as store:
        assert await store.exists("a/b")
        assert await store.get("a/b") is not None
    assert server.requests[0].headers["x-api-key"] == "hidden"
    for request in other.requests:
        assert "hidden" not in str(request)
        assert "secret" not in str(request)
        assert not {"authorization", "cookie", "x-api-key"} & request.headers.keys()


async def test_credentials_stay_with_the_origin_that_they_are_for(server: FaultServer) -> None:
    server.put("moved/a/b", DATA)
    server.script = spoil.when(
        lambda request: not request.key.startswith("moved/"), spoil.redirect("/moved/a/b?part=1")
    )
    async with HTTPStore(server.url, headers={"X-Api-Key": "k"}) as store:
        assert await store.exists("a/b")
    assert [request.headers.get("x-api-key") for request in server.requests] == ["k"] * len(server.requests)
    assert server.requests[-1].target == "/moved/a/b?part=1"


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "ftp://example.org/x",
        "gopher://x",
        "data:text/plain,x",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/latest/meta-data/",
        "http:///x",
        "http://example.org:port/",
        "a b",
        "/a/b/",
    ],
)
async def test_redirects_that_lead_astray_are_not_followed(server: FaultServer, location: str) -> None:
    server.script = spoil.always(spoil.redirect(location))
    async with HTTPStore(server.url) as store:
        with pytest.raises(StoreError) as caught:
            await store.fetch("a/b")
    assert not caught.value.retryable


async def test_a_public_server_cannot_send_to_an_address_that_is_not_public(
    server: FaultServer, other: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo

    async def names(host: Any, port: Any, **options: Any) -> Any:
        known = {"data.example": "93.184.216.34", "inside.example": "127.0.0.1", "cloud.example": "10.0.0.1"}
        if host in known:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (known[host], port or 0))]
        return await resolve(host, port, **options)

    connect = loop.create_connection

    async def reach(factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        return await connect(factory, "127.0.0.1" if host == "93.184.216.34" else host, port, **options)

    monkeypatch.setattr(loop, "getaddrinfo", names)
    monkeypatch.setattr(loop, "create_connection", reach)

    async def here(self: Any, host: str, port: int = 0, family: Any = socket.AF_INET) -> Any:
        return [{"hostname": host, "host": "127.0.0.1", "port": port, "family": family, "proto": 0, "flags": 0}]

    async with HTTPStore(f"http://data.example:{server.port}") as store:
        # The fallback begins with a request to the public server.
        monkeypatch.setattr(fallback._GuardedResolver, "resolve", here)
        for target in (f"127.0.0.1:{other.port}", f"inside.example:{other.port}", "cloud.example", "[::1]"):
            server.script = spoil.always(spoil.redirect(f"http://{target}/moved/a/b"))
            with pytest.raises(StoreError, match="not public"):
                await store.fetch("a/b")
    assert not other.requests


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "100.100.100.200",
        "192.0.0.192",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "[::ffff:100.100.100.200]",
        "[2001:0:0:0:0:0:5601:5601]",
        "[::a9fe:a9fe]",
        "[64:ff9b:1:a9fe:a9:fe00:808:808]",
        "[64:ff9b:1:0:a9:fea9:fe00:0]",
        "[::ffff:0:a9fe:a9fe]",
        "[fd00:ec2::23]",
        "168.63.129.16",
        "0xa83f8110",
        "[64:ff9b::a83f:8110]",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.254.43518",
        "169.254.169.254.",
    ],
)
async def test_no_server_can_send_to_a_metadata_service(server: FaultServer, address: str) -> None:
    server.script = spoil.always(spoil.redirect(f"http://{address}/latest/meta-data"))
    async with HTTPStore(server.url) as store:
        with pytest.raises(StoreError, match="not public"):
            await store.fetch("a/b")


@pytest.mark.parametrize(
    ("address", "is_public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("64:ff9b::808:808", True),
        ("192.0.0.8", False),
        ("224.0.0.1", False),
        ("100.64.0.1", False),
        ("fec0::1", False),
        ("ff02::1", False),
        ("::ffff:0:7f00:1", False),
        ("2002:7f00:1::1", False),
    ],
)
def test_an_address_of_the_own_network_is_not_public_in_any_form(address: str, is_public: bool) -> None:
    assert is_forbidden(address, public_only=True) is not is_public


async def test_a_name_that_leads_elsewhere_by_the_next_hop_is_checked_again(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolver = fallback._GuardedResolver()
    first = WebAddress.parse("http://moving.example/a")
    for address in ("127.0.0.1", "10.0.0.1", "169.254.169.254"):
        names = FakeResolver(address)
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", names.resolve)
        with pytest.raises(StoreError, match="not public"):
            await resolver.permit(first, first, proxied=False, known=["93.184.216.34"])
    await resolver.close()
    server.script = spoil.when(lambda request: request.key == "a/b", spoil.redirect("/moved"))
    server.put("moved", DATA)
    monkeypatch.undo()
    async with HTTPStore(server.url) as store:  # on the own machine, and redirected there
        assert await store.get("a/b") == DATA


async def test_the_address_of_the_connection_is_checked_too(
    server: FaultServer, other: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    resolve = loop.getaddrinfo
    asked: list[Any] = []

    async def names(host: Any, port: Any, **options: Any) -> Any:
        if host != "moving.example":
            return await resolve(host, port, **options)
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "169.254.169.254"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0))]

    monkeypatch.setattr(loop, "getaddrinfo", names)
    server.script = spoil.always(spoil.redirect(f"http://moving.example:{other.port}/moved/a/b"))
    async with HTTPStore(server.url) as store:
        with pytest.raises(StoreError, match="not public"):
            await store.fetch("a/b")
    assert len(asked) > 1
    assert not other.requests


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/with blank?name=two words", "/with%20blank?name=two%20words"),
        ("/caf\u00e9", "/caf%E9"),  # the server sends Latin-1
        ("/100%25?x=%2F%2f&y=a+b", "/100%25?x=%2F%2f&y=a+b"),
    ],
)
async def test_a_location_is_requested_as_it_is_written(server: FaultServer, location: str, target: str) -> None:
    server.script = spoil.when(lambda request: request.key == "a/b", spoil.redirect(location))
    async with HTTPStore(server.url) as store:
        with pytest.raises(StoreError, match="not found after a redirect"):
            await store.get("a/b")
    assert server.requests[-1].target == target


def test_bytes_of_a_location_beyond_utf8_are_percent_encoded_but_not_in_its_host() -> None:
    chain = RedirectChain(WebAddress.parse("http://a.example"), "http://a.example/x")
    assert chain.followed("/caf\udce9").url == "http://a.example/caf%E9"
    assert chain.followed("http://b\u00fccher.example/ x").url == "http://xn--bcher-kva.example/%20x"


@pytest.mark.parametrize("trust_env", [True, None])
async def test_a_login_server_gets_its_own_entry_of_netrc(
    server: FaultServer, other: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trust_env: bool | None
) -> None:
    (tmp_path / "netrc").write_text("machine localhost login me password pw\ndefault login other password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    login = other.url.replace("127.0.0.1", "localhost")
    server.script = spoil.when(lambda request: request.key == "a/b", spoil.redirect(f"{login}/login"))
    server.put("back", DATA)

    def check(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        if request.headers.get("authorization") == basic_credentials("me", "pw"):
            return spoil.redirect(f"{server.url}/back")(reply)
        return spoil.status(401)(reply)

    other.script = check
    async with HTTPStore(server.url, trust_env=trust_env, token="of-the-data") as store:
        if trust_env:
            assert await store.get("a/b") == DATA
        else:
            with pytest.raises(StoreError, match=re.escape(f"from {login}, after a redirect")):
                await store.get("a/b")
    sent = [request.headers.get("authorization") for request in server.requests]
    assert sent == (["Bearer of-the-data", None] if trust_env else ["Bearer of-the-data"])


async def test_the_default_entry_of_netrc_is_not_for_servers_that_a_redirect_names(
    server: FaultServer, other: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login other password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server.script = sends_to(f"{other.url}/moved".replace("127.0.0.1", "localhost"))
    async with HTTPStore(server.url, trust_env=True) as store:
        assert await store.get("a/b") == DATA
    assert "authorization" in server.requests[0].headers
    assert "authorization" not in other.requests[0].headers


async def test_a_redirect_from_https_to_http_is_not_followed(other: FaultServer) -> None:
    with FaultServer({}, tls=authority().server()) as secure:
        secure.script = sends_to(f"{other.url}/moved")
        async with HTTPStore(secure.url, ssl_context=authority().trust()) as store:
            with pytest.raises(StoreError, match="https to http"):
                await store.fetch("a/b")
    assert not other.requests


async def test_redirects_end_after_a_few(server: FaultServer) -> None:
    server.script = lambda request, reply: spoil.redirect(f"/x{request.number}")(reply)
    async with HTTPStore(server.url) as store:
        with pytest.raises(StoreError, match="more than 5 redirects"):
            await store.fetch("a/b")
    assert len(server.requests) == 6


async def test_redirects_in_a_circle_are_noticed(server: FaultServer) -> None:
    server.script = lambda request, reply: spoil.redirect("/b" if request.key == "a" else "/a")(reply)
    async with HTTPStore(server.url) as store:
        with pytest.raises(StoreError, match="loop"):
            await store.fetch("a")
    assert [request.key for request in server.requests] == ["a", "b"]


async def test_credentials_are_not_sent_again_where_another_server_sends_a_request_back(
    server: FaultServer, other: FaultServer
) -> None:
    server.put("back", DATA)
    server.script = spoil.when(lambda request: request.key == "a/b", spoil.redirect(f"{other.url}/moved"))
    other.script = spoil.always(spoil.redirect(f"{server.url}/back"))
    async with HTTPStore(server.url, headers={"X-Api-Key": "k"}) as store:
        assert await store.get("a/b") == DATA
    assert [request.headers.get("x-api-key") for request in server.requests] == ["k", None]


async def test_credentials_in_the_place_of_a_redirect_are_not_sent(server: FaultServer, other: FaultServer) -> None:
    server.script = sends_to(f"{other.url}/moved".replace("http://", "http://someone:secret@"))
    async with HTTPStore(server.url) as store:
        assert await store.get("a/b") == DATA
    assert "authorization" not in other.requests[0].headers


async def test_a_404_after_a_redirect_names_the_server_and_no_secret(server: FaultServer, other: FaultServer) -> None:
    server.script = spoil.always(spoil.redirect(f"{other.url}/gone?signature=secret"))
    async with HTTPStore(server.url) as store:
        with pytest.raises(StoreError, match=re.escape(other.url)) as caught:
            await store.get("a/b")
    assert "secret" not in str(caught.value)


async def test_a_redirect_without_a_place_is_an_error(server: FaultServer) -> None:
    server.script = spoil.always(spoil.status(302))
    async with HTTPStore(server.url) as store:
        with pytest.raises(StoreError, match="without a Location"):
            await store.fetch("a/b")


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("169.254.169.254", False),
        ("0xa9fea9fe", False),
        ("10.0.0.1", False),
        ("8.8.8.8", True),
        ("other.example", True),
    ],
)
async def test_behind_a_proxy_addresses_are_checked_and_names_are_left_to_it(
    monkeypatch: pytest.MonkeyPatch, host: str, allowed: bool
) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", None)  # no name is resolved here
    resolver = fallback._GuardedResolver()
    first, target = (WebAddress.parse(f"http://{each}/a") for each in ("data.example", host))
    with nullcontext() if allowed else pytest.raises(StoreError, match="not public"):
        await resolver.permit(first, target, proxied=True)
    await resolver.close()
