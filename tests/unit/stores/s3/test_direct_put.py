"""Values of up to 1 MiB are stored by the HTTP client, if it can; the client library stores the others."""

import asyncio
from base64 import b64encode
from dataclasses import replace
from hashlib import md5
from typing import Any, cast

import google_crc32c
import pytest

from aiozarr.errors import PermissionDeniedError, StoreError, StoreTimeoutError, ThrottledError
from aiozarr.model import IfAbsent, Version
from aiozarr.stores.object.store import ObjectStore
from aiozarr.stores.s3.direct_put import MAX_DIRECT_BYTES, MAX_MD5_BYTES, MAX_REFUSALS
from tests.support.certificates import authority
from tests.support.servers.http_replies import Reply, Request, dropping, no_answer
from tests.support.servers.http_server import FaultServer

SMALL = b"x" * MAX_MD5_BYTES
CRC32C = "x-amz-checksum-crc32c"


def at(server: FaultServer, **options: Any) -> ObjectStore:
    return ObjectStore(
        "s3://bkt/root", **{"endpoint_url": server.url, "key": "k", "secret": "s", "region": "us-east-1", **options}
    )


def is_direct(request: Request) -> bool:
    """Return whether the HTTP client sent this: it signs in the query, the client library in a header."""
    return "X-Amz-Signature=" in request.target and "authorization" not in request.headers


async def test_a_small_value_is_one_request_with_a_digest_of_its_bytes(server: FaultServer) -> None:
    async with at(server) as store:
        version = await store.set("ä key", SMALL)
        assert version == (await store.stat("ä key")).version  # type: ignore[union-attr]  # it is stored
        assert await store.get("ä key") == SMALL
    put = server.requests[0]
    assert (put.method, is_direct(put), put.body) == ("PUT", True, SMALL)
    assert put.headers["content-md5"] == b64encode(md5(SMALL, usedforsecurity=False).digest()).decode()
    assert [request.method for request in server.requests].count("PUT") == 1


@pytest.mark.parametrize("nbytes", [MAX_MD5_BYTES + 1, MAX_DIRECT_BYTES])
@pytest.mark.parametrize("anonymous", [False, True])
async def test_a_larger_value_goes_with_a_checksum_that_is_signed(
    server: FaultServer, nbytes: int, anonymous: bool
) -> None:
    data = bytes(range(256)) * (nbytes // 256) + b"x" * (nbytes % 256)
    async with at(server, **({"key": None, "secret": None, "anon": True} if anonymous else {})) as store:
        await store.set("x", data)
    assert server.get("bkt/root/x") == data
    (put,) = server.requests
    assert "content-md5" not in put.headers
    assert "authorization" not in put.headers
    assert put.headers[CRC32C] == b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()
    assert (f"X-Amz-SignedHeaders=host%3B{CRC32C}&" in put.target) != anonymous


async def test_where_the_client_library_signs_no_other_header_can_be(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_S3_EXPRESS", "false")  # of the library's own settings: it has to sign
    async with at(server) as store:
        await store.set("small", SMALL)
        await store.set("x", SMALL + b"x")
    assert [is_direct(request) for request in server.requests] == [True, False]
    assert server.get("bkt/root/x") == SMALL + b"x"


async def test_over_tls_nothing_is_hashed() -> None:
    with FaultServer({"bkt/root/a": b""}, tls=authority().server()) as server:
        async with at(server, verify=False) as store:
            await store.set("x", b"1")
            await store.set("y", b"2" * MAX_DIRECT_BYTES)
        assert [is_direct(request) for request in server.requests] == [True, True]
        assert not any({"content-md5", CRC32C} & request.headers.keys() for request in server.requests)
        assert server.get("bkt/root/y") == b"2" * MAX_DIRECT_BYTES


@pytest.mark.parametrize("how", ["large", "condition", "encryption", "payer", "environment"])
async def test_what_says_more_than_its_bytes_is_put_by_the_client_library(
    server: FaultServer, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {}
    if how == "encryption":
        options = {"server_side_encryption": "AES256"}
    elif how == "payer":
        options = {"requester_pays": True}
    elif how == "environment":
        monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "AES256")
    async with at(server, **options) as store:
        data = b"x" * (MAX_DIRECT_BYTES + 1) if how == "large" else b"1"
        await store.set("x", data, precondition=IfAbsent() if how == "condition" else None)
    assert [is_direct(request) for request in server.requests] == [False]
    assert server.get("bkt/root/x") == data


@pytest.mark.parametrize("reply", [Reply(403), Reply(400), Reply(501), Reply(400, (), b"<Code>BadDigest</Code>")])
async def test_a_server_that_does_not_take_it_this_way_is_asked_the_other_way_and_soon_at_once(
    server: FaultServer, reply: Reply
) -> None:
    refused = replace(reply, applied=False)
    server.script = lambda request, usual: refused if is_direct(request) and request.method == "PUT" else usual
    async with at(server) as store:
        for number in range(MAX_REFUSALS + 2):
            await store.set(f"k{number}", b"%d" % number)
    ways = [is_direct(request) for request in server.requests]
    assert ways == [True, False] * MAX_REFUSALS + [False, False]
    assert server.get("bkt/root/k4") == b"4"


async def test_a_refusal_of_both_is_the_error_of_the_client_library(server: FaultServer) -> None:
    server.script = lambda request, usual: Reply(403, applied=False)
    async with at(server) as store:
        for _ in range(MAX_REFUSALS + 1):
            with pytest.raises(PermissionDeniedError):
                await store.set("x", b"1")
    assert sum(is_direct(request) for request in server.requests) == MAX_REFUSALS + 1


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


async def test_a_server_that_closes_before_the_body_gets_the_write_of_the_client_library() -> None:
    """The answer of such a server may be lost: a socket that cannot send any more is closed with what it received."""
    ways: list[bool] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        ways.append("X-Amz-Signature=" in head)
        if not ways[-1]:
            length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
            assert await reader.readexactly(length) == data
            writer.write(b'HTTP/1.1 200 OK\r\nETag: "1"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
            await writer.drain()
        else:
            cast("asyncio.Transport", writer.transport).abort()
        writer.close()

    data = b"x" * MAX_DIRECT_BYTES
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    options = {"endpoint_url": address, "key": "k", "secret": "s", "region": "us-east-1"}
    async with server, ObjectStore("s3://bkt", **options) as store:
        for _ in range(MAX_REFUSALS + 1):  # it is no refusal: the next value is put as usual
            assert await store.set("x", data) == Version('"1"')
    assert ways == [True, False] * (MAX_REFUSALS + 1)


async def test_a_slow_upload_is_waited_for_and_a_stalled_one_is_not() -> None:
    """Buffers of the system take it all at once, and do not tell what has left them."""
    data = b"x" * (MAX_MD5_BYTES + 1)  # a second at the slowest rate, besides twice `idle_timeout`
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
