"""Proxies: which one is asked, what it is told, and what it never hears."""

from __future__ import annotations

import asyncio
import pickle
import traceback
from collections.abc import Iterator

import pytest

from aiozarr.errors import StoreError, UnauthenticatedError, UnsupportedOperationError
from aiozarr.model import Range
from aiozarr.stores.http.store import HTTPStore
from tests.support.certificates import authority
from tests.support.http_proxy import proxy
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

DATA = bytes(range(256)) * 100
BASIC = "Basic bWU6cEBzcw=="  # me:p@ss


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer({"a/b": DATA}) as running:
        yield running


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
async def test_requests_go_through_the_proxy_that_the_environment_names(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with proxy() as between:
        monkeypatch.setenv(name, between.url)
        async with HTTPStore(server.url) as store:
            value = await store.fetch("a/b", Range(5, 10))
            assert value is not None
            assert (bytes(value.data), value.size) == (DATA[5:15], len(DATA))
            assert await store.fetch("missing") is None
        assert [head.split(" ")[:2] for head in between.heads] == [
            ["GET", f"{server.url}/a/b"],
            ["GET", f"{server.url}/missing"],
        ]
        async with HTTPStore(server.url, trust_env=False) as store:
            assert await store.exists("a/b")
        assert len(between.heads) == 2


async def test_https_goes_through_a_tunnel_whose_inside_the_proxy_does_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer({"a/b": DATA}, tls=authority().server()) as secure, proxy(BASIC) as between:
        monkeypatch.setenv("HTTPS_PROXY", between.url.replace("http://", "http://me:p%40ss@"))
        async with HTTPStore(
            secure.url, headers={"X-Token": "of-the-origin"}, ssl_context=authority().trust()
        ) as store:
            assert await store.get("a/b") == DATA
        (head,) = between.heads
        assert head.startswith(f"CONNECT 127.0.0.1:{secure.port} ")
        assert "of-the-origin" not in head
        assert secure.requests[0].headers["x-token"] == "of-the-origin"
        assert "proxy-authorization" not in secure.requests[0].headers
        assert "authorization" not in secure.requests[0].headers


async def test_the_credentials_of_a_proxy_go_to_it_alone_and_are_never_shown(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy(BASIC) as between:
        monkeypatch.setenv("http_proxy", between.url.replace("http://", "http://me:p%40ss@"))
        async with HTTPStore(server.url) as store:
            assert await store.get("a/b") == DATA
            assert "p%40ss" not in repr(store)
        assert "authorization" not in server.requests[0].headers
        monkeypatch.setenv("http_proxy", between.url.replace("http://", "http://me:wrong@"))
        async with HTTPStore(server.url) as store:
            with pytest.raises(UnauthenticatedError, match="proxy") as caught:
                await store.get("a/b")
        assert (caught.value.status, caught.value.retryable, "wrong" in str(caught.value)) == (407, False, False)


async def test_a_tunnel_that_the_proxy_refuses_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer({}, tls=authority().server()) as secure, proxy(BASIC) as between:
        monkeypatch.setenv("https_proxy", between.url)
        async with HTTPStore(secure.url, ssl_context=authority().trust()) as store:
            with pytest.raises(UnauthenticatedError, match="proxy"):
                await store.get("a/b")
    async with HTTPStore(secure.url, ssl_context=authority().trust()) as store:
        with pytest.raises(StoreError, match="no connection to the proxy") as caught:
            await store.get("a/b")
    assert caught.value.retryable


@pytest.mark.parametrize("hosts", ["127.0.0.1", "*", "example.org, 127.0.0.1"])
async def test_no_proxy_excepts_hosts(server: FaultServer, monkeypatch: pytest.MonkeyPatch, hosts: str) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", hosts)
    async with HTTPStore(server.url) as store:
        assert await store.exists("a/b")


async def test_a_proxy_that_cannot_be_spoken_to_is_not_gone_around(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1")
    async with HTTPStore(server.url) as store:
        with pytest.raises(UnsupportedOperationError, match="socks5"):
            await store.get("a/b")
    assert not server.requests


async def test_redirects_are_followed_without_a_proxy_where_the_environment_is_not_trusted(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server.put("moved", DATA)
    server.script = spoil.when(lambda request: request.key == "a/b", spoil.redirect("/moved"))
    async with HTTPStore(server.url, trust_env=False) as store:
        assert await store.get("a/b") == DATA


async def test_a_proxy_that_is_given_is_used_for_all_requests_and_travels(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with proxy(BASIC) as between:
        store = HTTPStore(server.url, proxy=between.url.replace("http://", "http://me:p%40ss@"))
        assert "ss" not in repr(store)
        for each in (store, pickle.loads(pickle.dumps(store))):
            async with each:
                assert await each.get("a/b") == DATA
        assert len(between.heads) == 2


async def test_a_request_that_is_cancelled_in_a_tunnel_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultServer({"a/b": DATA}, tls=authority().server()) as secure, proxy() as between:
        monkeypatch.setenv("https_proxy", between.url)
        secure.script = spoil.always(spoil.stalled(5))
        store = HTTPStore(secure.url, ssl_context=authority().trust())
        task = asyncio.create_task(store.fetch("a/b"))
        while not secure.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.aclose()
        for _ in range(500):
            if not secure.open_connections:
                break
            await asyncio.sleep(0.01)
        assert secure.open_connections == 0


@pytest.mark.parametrize("url", ["http://me:p4ss@proxy:port", "http://me:p4ss@a..b:80", "http://"])
async def test_a_proxy_whose_url_cannot_be_read_is_not_gone_around_and_not_shown(server: FaultServer, url: str) -> None:
    async with HTTPStore(server.url, proxy=url) as store:
        with pytest.raises(StoreError, match="URL of the proxy") as caught:
            await store.get("a/b")
    assert "p4ss" not in "".join(traceback.format_exception(caught.value))
    assert not server.requests


async def test_a_redirect_to_no_name_is_an_error_of_the_store(server: FaultServer) -> None:
    server.script = spoil.when(lambda request: request.key == "a/b", spoil.redirect("http://a..b/x"))
    async with HTTPStore(server.url, trust_env=False) as store:
        with pytest.raises(StoreError, match="redirect"):
            await store.get("a/b")
