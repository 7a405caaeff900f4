"""The client of one endpoint: pooled connections, redirects if it follows them, and bodies of any size."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

from aiozarr.errors import StoreError
from aiozarr.http1.endpoint_client import ONE_WRITE_BYTES, EndpointClient, Request
from aiozarr.http1.request import RequestTemplate
from aiozarr.http1.response_check import MAX_ERROR_BODY_BYTES, Expectation
from aiozarr.http1.url import Proxies, WebAddress
from aiozarr.stores.http.http_options import HTTPOptions
from tests.support.http_proxy import proxy
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server with one value."""
    with FaultServer({"a": b"value"}) as running:
        yield running


def client(server: FaultServer, **options: Any) -> EndpointClient:
    return EndpointClient(WebAddress.parse(server.url), HTTPOptions(), **options)


def request(sender: EndpointClient, method: str = "GET", key: str = "a", **more: Any) -> Request:
    return Request(sender, method, key, f"/{key}?sig=hidden", RequestTemplate("host", {}), Expectation(), **more)


async def test_clients_of_one_endpoint_share_connections_until_the_last_one_closes(server: FaultServer) -> None:
    first, second = client(server), client(server)
    for each in (first, second):
        assert bytes((await each.send(request(each))).body) == b"value"
    assert server.connections == 1
    assert first.pool() is second.pool()
    await first.aclose()
    assert not second.pool().closed
    assert bytes((await second.send(request(second))).body) == b"value"
    assert server.connections == 1
    await second.aclose()


async def test_a_redirect_is_a_response_unless_the_client_follows_it(server: FaultServer) -> None:
    server.script = spoil.when(lambda asked: asked.key == "moved", spoil.redirect("/a"))
    plain, following = client(server), client(server, follow_redirects=True)
    assert (await plain.send(request(plain, key="moved"))).status == 302
    response = await following.send(request(following, key="moved"))
    assert (response.status, bytes(response.body)) == (200, b"value")
    await plain.aclose()
    await following.aclose()


@pytest.mark.parametrize("size", [0, 10, ONE_WRITE_BYTES, ONE_WRITE_BYTES + 1, 5 << 20])
async def test_a_body_of_any_size_arrives_whole(server: FaultServer, size: int) -> None:
    body = os.urandom(size)
    sender = client(server)
    response = await sender.send(request(sender, "PUT", "new", body=memoryview(body)))
    assert response.status < 300
    assert server.get("new") == body
    await sender.aclose()


async def test_without_an_idle_connection_nothing_is_sent_at_once(server: FaultServer) -> None:
    sender = client(server)
    receiver: Any = None
    assert sender.send_nowait(request(sender), receiver) is None
    assert server.requests == []
    await sender.aclose()


async def test_a_response_whose_status_carries_a_value_is_not_cut(server: FaultServer) -> None:
    document = bytes(MAX_ERROR_BODY_BYTES + 1)
    server.script = spoil.always(spoil.status(207, document))
    sender = client(server)
    cut = (await sender.send(request(sender))).body
    assert len(memoryview(cut)) <= MAX_ERROR_BODY_BYTES
    listing = request(sender, "PROPFIND")
    listing.expectation = Expectation(value_statuses=frozenset({207}))
    assert (await sender.send(listing)).body == document
    await sender.aclose()


async def test_the_headers_of_a_request_are_sent_on_every_path(server: FaultServer) -> None:
    server.script = spoil.when(lambda asked: asked.key == "moved", spoil.redirect("/a"))
    plain, depth = client(server, follow_redirects=True), {"Depth": "1"}
    await plain.send(request(plain, headers=depth))
    answered = asyncio.get_running_loop().create_future()
    assert plain.send_nowait(request(plain, headers=depth), answered) is not None
    await answered
    await plain.send(request(plain, key="moved", headers=depth))
    with proxy() as running:
        through = client(server, proxies=Proxies(running.url))
        await through.send(request(through, headers=depth))
        await through.aclose()
    assert [asked.headers.get("depth") for asked in server.requests] == ["1"] * 5
    await plain.aclose()


async def test_a_request_with_headers_is_not_redirected_to_another_server(server: FaultServer) -> None:
    with FaultServer({"a": b"other"}) as other:
        server.script = spoil.always(spoil.redirect(f"{other.url}/a"))
        sender = client(server, follow_redirects=True)
        assert (await sender.send(request(sender))).body == b"other"
        with pytest.raises(StoreError, match="the request's headers are not meant for it"):
            await sender.send(request(sender, headers={"Depth": "1"}))
        assert len(other.requests) == 1
        await sender.aclose()


async def test_a_request_does_not_show_its_signature(server: FaultServer) -> None:
    assert repr(request(client(server))) == "<Request GET 'a'>"
