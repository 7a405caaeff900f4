"""Values are stored by one signed request, with a checksum where TLS does not protect them."""

import asyncio
from base64 import b64encode
from typing import Any

import google_crc32c
import pytest

from aiozarr.errors import StoreError, StoreTimeoutError, ThrottledError
from aiozarr.http1.pool import MAX_WRITE_BYTES
from aiozarr.model import Version
from aiozarr.stores.bucket.store import ObjectStore
from tests.support.certificates import authority
from tests.support.servers.http_replies import Reply, dropping, no_answer
from tests.support.servers.http_server import FaultServer

CRC32C = "x-amz-checksum-crc32c"


def at(server: FaultServer, **options: Any) -> ObjectStore:
    return ObjectStore(
        "s3://bkt/root", **{"endpoint_url": server.url, "key": "k", "secret": "s", "region": "us-east-1", **options}
    )


@pytest.mark.parametrize("nbytes", [0, 5, MAX_WRITE_BYTES, MAX_WRITE_BYTES + 1])
@pytest.mark.parametrize("anonymous", [False, True])
async def test_a_value_is_one_request_with_a_checksum_that_is_signed(
    server: FaultServer, nbytes: int, anonymous: bool
) -> None:
    data = (bytes(range(256)) * (nbytes // 256 + 1))[:nbytes]
    async with at(server, **({"key": None, "secret": None, "anon": True} if anonymous else {})) as store:
        version = await store.set("ä key", data)
        assert version == (await store.stat("ä key")).version  # type: ignore[union-attr]  # it is stored
    assert server.get("bkt/root/ä key") == data
    put = server.requests[0]
    assert (put.method, put.body, [request.method for request in server.requests].count("PUT")) == ("PUT", data, 1)
    assert put.headers[CRC32C] == b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()
    assert (f"X-Amz-SignedHeaders=host%3B{CRC32C}&" in put.target) != anonymous


async def test_over_tls_nothing_is_hashed() -> None:
    with FaultServer({"bkt/root/a": b""}, tls=authority().server()) as server:
        async with at(server, verify=False) as store:
            await store.set("x", b"1")
            await store.set("y", b"2" * (MAX_WRITE_BYTES + 1))
        assert not any({"content-md5", CRC32C} & request.headers.keys() for request in server.requests)
        assert server.get("bkt/root/y") == b"2" * (MAX_WRITE_BYTES + 1)


async def test_a_server_that_is_busy_is_not_asked_again_at_once(server: FaultServer) -> None:
    server.script = lambda request, usual: Reply(503, (("Retry-After", "7"),), b"<Code>SlowDown</Code>", applied=False)
    async with at(server) as store:
        with pytest.raises(ThrottledError) as caught:
            await store.set("x", b"1")
    assert caught.value.retry_after == 7
    assert len(server.requests) == 1


async def test_an_answer_without_a_version_is_no_write(server: FaultServer) -> None:
    server.script = lambda request, usual: Reply(200, (), b"<html>log in</html>", applied=False)
    async with at(server) as store:
        with pytest.raises(StoreError):
            await store.set("x", b"1")
    assert server.get("bkt/root/x") is None


async def test_a_pooled_connection_that_was_closed_is_no_error(server: FaultServer) -> None:
    server.script = lambda request, usual: dropping(usual) if request.number == 1 else usual
    async with at(server) as store:
        await store.set("x", b"1")
        await store.set("x", b"2")
    assert server.get("bkt/root/x") == b"2"


async def test_the_connection_of_a_cancelled_write_is_not_reused(server: FaultServer) -> None:
    server.script = lambda request, usual: no_answer(usual) if request.method == "PUT" else usual
    async with at(server) as store:
        task = asyncio.create_task(store.set("x", b"1"))
        while not server.requests and not task.done():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await store.get("a/b") is not None


async def test_a_slow_upload_is_waited_for_and_a_stalled_one_is_not() -> None:
    """Buffers of the system take it all at once, and do not tell what has left them."""
    data = b"x" * ((64 << 10) + 1)  # a second at the slowest rate, besides twice `idle_timeout`
    taking, bodies = [True], []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b""
        while taking[0] and len(body) < len(data):
            await asyncio.sleep(0.1)
            body += await reader.read(len(data) // 10)
        bodies.append(body)
        if taking[0]:
            writer.write(b'HTTP/1.1 200 OK\r\nETag: "1"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
            await writer.drain()
        else:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=4096)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    options: dict[str, Any] = {"endpoint_url": address, "key": "k", "secret": "s", "region": "us-east-1"}
    async with server, ObjectStore("s3://bkt", idle_timeout=0.2, **options) as store:
        assert await store.set("x", data) == Version('"1"')
        taking[0] = False
        with pytest.raises(StoreTimeoutError):
            await store.set("x", data)
    assert bodies == [data, b""]
