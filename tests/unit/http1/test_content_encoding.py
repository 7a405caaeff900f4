"""Bodies with a Content-Encoding are decoded piece by piece, within a bound, and to their end."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from aiozarr.errors import LimitError, ShortReadError, StoreError
from aiozarr.http1 import Expectation, RequestTemplate
from aiozarr.http1.endpoint_client import EndpointClient, Request
from aiozarr.http1.url import WebAddress
from aiozarr.stores.http.store import HTTPStore
from aiozarr.stores.options.http_options import HTTPOptions
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

DATA = bytes(range(256)) * 100


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """The server that is asked."""
    with FaultServer({"a/b": DATA}) as running:
        yield running


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


@pytest.mark.parametrize("encoding", ["banana", "gzip, gzip", ""])
async def test_a_body_that_is_encoded_in_an_unknown_way_is_no_value(server: FaultServer, encoding: str) -> None:
    server.script = spoil.always(lambda reply: reply.with_headers(Content_Encoding=encoding))
    async with HTTPStore(server.url) as store:
        if encoding:
            with pytest.raises(StoreError, match="unknown Content-Encoding"):
                await store.get("a/b")
        else:
            assert await store.get("a/b") == DATA
