"""Redirects, proxies and encoded bodies."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from aiozarr.errors import ChangedError, LimitError, ShortReadError, StoreError, StoreTimeoutError
from aiozarr.http1.endpoint_client import EndpointClient, Request
from aiozarr.http1.request import RequestTemplate
from aiozarr.http1.response_check import Expectation
from aiozarr.http1.url import WebAddress
from aiozarr.model import Range
from aiozarr.stores.http.http_options import HTTPOptions
from aiozarr.stores.http.store import HTTPStore
from tests.support.certificates import authority
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


async def test_a_certificate_behind_a_redirect_is_checked_as_any_other(server: FaultServer) -> None:
    with FaultServer({"moved/a/b": DATA}, tls=authority().server()) as secure:
        server.script = sends_to(f"{secure.url}/moved")
        async with HTTPStore(server.url) as store:
            with pytest.raises(StoreError, match=r"certificate is not valid: \w+") as caught:
                await store.get("a/b")
            assert not caught.value.retryable
            assert not secure.requests
        async with HTTPStore(server.url, root_certificate=authority().pem()) as store:
            assert await store.get("a/b") == DATA


async def test_a_redirect_costs_one_request_more(server: FaultServer, other: FaultServer) -> None:
    server.script = sends_to(f"{other.url}/moved")
    async with HTTPStore(server.url) as store:
        assert await store.get("a/b") == DATA
    assert (len(server.requests), len(other.requests)) == (1, 1)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (spoil.content_range("bytes 0-9/25600"), StoreError),
        (spoil.truncated(5), ShortReadError),
        (spoil.etag('"other"'), ChangedError),
        (spoil.stalled(5), StoreTimeoutError),
        (spoil.reset, StoreError),
        (spoil.gzipped, StoreError),
        (spoil.garbage(b"nonsense\r\n\r\n"), StoreError),
        (spoil.header_flood(2000), StoreError),
    ],
)
async def test_responses_after_a_redirect_are_checked_like_all_others(
    server: FaultServer, other: FaultServer, fault: spoil.Spoil, kind: type[Exception]
) -> None:
    server.script = sends_to(f"{other.url}/moved")
    async with HTTPStore(server.url, idle_timeout=0.2) as store:
        value = await store.fetch("a/b")
        assert value is not None
        other.script = spoil.always(fault)
        with pytest.raises(kind) as caught:
            await store.fetch("a/b", Range(5, 10), if_match=value.version)
        assert str(other.port) not in str(caught.value)


async def test_a_cancelled_fallback_leaves_no_connection_open(server: FaultServer, other: FaultServer) -> None:
    server.script = sends_to(f"{other.url}/moved")
    other.script = spoil.always(spoil.stalled(5))
    store = HTTPStore(server.url)
    task = asyncio.create_task(store.fetch("a/b"))
    while not other.requests:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.aclose()
    for _ in range(500):
        if not other.open_connections:
            break
        await asyncio.sleep(0.01)
    assert other.open_connections == 0


async def test_a_body_that_drips_after_a_redirect_is_a_timeout(server: FaultServer, other: FaultServer) -> None:
    server.script = sends_to(f"{other.url}/moved")
    other.script = spoil.always(spoil.dripping(1, 0.02))
    async with HTTPStore(server.url, idle_timeout=0.2) as store:
        async with asyncio.timeout(10):
            with pytest.raises(StoreTimeoutError):
                await store.get("a/b")
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_endless_head_after_a_redirect_is_an_error(server: FaultServer) -> None:
    async def hesitate(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for byte in b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.02)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(hesitate, "127.0.0.1", 0) as slow:
        server.script = spoil.always(spoil.redirect(f"http://127.0.0.1:{slow.sockets[0].getsockname()[1]}/x"))
        async with HTTPStore(server.url, idle_timeout=0.2) as store:
            async with asyncio.timeout(10):
                with pytest.raises(StoreTimeoutError):
                    await store.get("a/b")


async def test_an_encoded_body_is_decoded_and_bounded(server: FaultServer) -> None:
    server.put("bomb", bytes(10 << 20))
    server.script = spoil.always(spoil.gzipped)
    async with HTTPStore(server.url) as store:
        value = await store.fetch("a/b")
        assert value is not None
        assert (bytes(value.data), value.size) == (DATA, len(DATA))
    client = EndpointClient(WebAddress.parse(server.url), HTTPOptions(), follow_redirects=True)
    expectation = Expectation(max_bytes=1 << 20)
    with pytest.raises(LimitError):
        await client.send(Request(client, "GET", "bomb", "/bomb", RequestTemplate("", {}), expectation))
    await client.aclose()


ENCODED = {
    "gzip": gzip.compress(DATA),
    "x-gzip": gzip.compress(DATA),
    "gzip of two members": gzip.compress(DATA[:500]) + gzip.compress(DATA[500:]),
    "deflate": zlib.compress(DATA),
    "deflate without a head": zlib.compress(DATA, wbits=-15),
}


@pytest.mark.parametrize("kind", ENCODED)
@pytest.mark.parametrize("cut", [0, 1, 8, 20])
async def test_an_encoded_body_is_decoded_whole_or_an_error(server: FaultServer, kind: str, cut: int) -> None:
    """What was cut before it was sent has the length that the server announces."""
    body = ENCODED[kind]
    server.script = spoil.always(
        lambda reply: replace(reply, body=body[: len(body) - cut]).with_headers(Content_Encoding=kind.partition(" ")[0])
    )
    async with HTTPStore(server.url) as store:
        if not cut:
            assert await store.get("a/b") == DATA
            return
        with pytest.raises(ShortReadError, match="encoded body"):
            await store.get("a/b")


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(DATA) + b"xx", gzip.compress(DATA)[:-8] + bytes(8)])
async def test_an_encoded_body_that_is_none_is_an_error(server: FaultServer, body: bytes) -> None:
    server.script = spoil.always(lambda reply: replace(reply, body=body).with_headers(Content_Encoding="gzip"))
    async with HTTPStore(server.url) as store:
        with pytest.raises(StoreError, match="decode"):
            await store.get("a/b")


@pytest.mark.parametrize("encoding", ["banana", "gzip, gzip", "br", "zstd", ""])
async def test_a_body_that_is_encoded_in_an_unknown_way_is_no_value(server: FaultServer, encoding: str) -> None:
    server.script = spoil.always(lambda reply: reply.with_headers(Content_Encoding=encoding))
    async with HTTPStore(server.url) as store:
        if encoding:
            with pytest.raises(StoreError, match=f"Content-Encoding {encoding!r}.*only gzip and deflate"):
                await store.get("a/b")
        else:
            assert await store.get("a/b") == DATA
