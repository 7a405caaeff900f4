"""Values are stored by one signed request, with a checksum where TLS does not protect them."""

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from aiozarr.errors import PermissionDeniedError, StoreError, StoreTimeoutError, ThrottledError
from aiozarr.http1.pool import MAX_WRITE_BYTES
from aiozarr.model import Version
from aiozarr.stores.bucket.store import ObjectStore
from tests.support.certificates import authority
from tests.support.servers.http_replies import Reply, Request, dropping, no_answer
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


REFUSALS = [(501, "NotImplemented"), (400, "InvalidArgument"), (400, "InvalidRequest"), (400, "UnsupportedHeader")]


@pytest.mark.parametrize(("status", "code"), REFUSALS)
async def test_a_server_that_does_not_know_checksums_gets_none_after_its_first_refusal(
    server: FaultServer, status: int, code: str
) -> None:
    def script(request: Request, usual: Reply) -> Reply:
        known = not any(name.startswith("x-amz-checksum") for name in request.headers)
        return usual if known else Reply(status, (), f"<Code>{code}</Code>".encode(), applied=False)

    server.script = script
    async with at(server) as store:
        await store.set("x", b"1")
        await store.set("y", b"2")
    assert [request.method for request in server.requests] == ["PUT"] * 3
    assert (server.get("bkt/root/x"), server.get("bkt/root/y")) == (b"1", b"2")
    async with at(server, checksum_algorithm="CRC32C") as store:  # it was requested
        with pytest.raises(StoreError, match=code):
            await store.set("x", b"3")


async def test_a_refusal_for_another_reason_does_not_turn_checksums_off(server: FaultServer) -> None:
    refused = Reply(400, (), b"<Code>InvalidArgument</Code>", applied=False)
    server.script = lambda request, usual: refused if len(server.requests) <= 2 else usual
    async with at(server) as store:
        with pytest.raises(StoreError, match="InvalidArgument"):
            await store.set("x", b"1")
        await store.set("x", b"2")
    assert [CRC32C in request.headers for request in server.requests] == [True, False, True]


@pytest.mark.parametrize("source", ["option", "fsspec", "variable", "profile"])
async def test_checksums_are_turned_off_as_in_boto3(
    server: FaultServer, source: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names, options = ("request_checksum_calculation", "response_checksum_validation"), dict[str, Any]()
    words = dict.fromkeys(names, "WHEN_REQUIRED")
    match source:
        case "option":
            options = words
        case "fsspec":
            options = {"config_kwargs": words}
        case "variable":
            for name in names:
                monkeypatch.setenv(f"AWS_{name.upper()}", "when_required")
        case _:
            lines = "".join(f"{name} = when_required\n" for name in names)
            (tmp_path / "config").write_text(f"[default]\n{lines}")
            monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    async with at(server, **options) as store:
        await store.set("x", b"1")
        assert await store.fetch("x") is not None
    assert not any("checksum" in f"{request.target} {request.headers}" for request in server.requests)
    with pytest.raises(ValueError, match="'when_supported' or 'when_required'"):
        at(server, request_checksum_calculation="never")


@pytest.mark.parametrize("document", [b"<Code>AccessDenied</Code>", b""])
async def test_a_server_that_refuses_signed_urls_gets_signatures_in_headers(
    server: FaultServer, document: bytes
) -> None:
    def script(request: Request, usual: Reply) -> Reply:
        assert ("authorization" in request.headers) != ("X-Amz-Signature" in request.target)
        return usual if "authorization" in request.headers else Reply(403, (), document, applied=False)

    server.script = script
    async with at(server, token="session", requester_pays=True) as store:
        assert await store.fetch("a/b") is not None
        await store.set("x", b"1")
        assert await store.exists("x")
        await store.erase("x")
    signed = [request for request in server.requests if "authorization" in request.headers]
    assert len(signed) == len(server.requests) - 1
    for request in signed:
        assert request.headers["x-amz-security-token"] == "session"
        assert request.headers["x-amz-request-payer"] == "requester"
        assert "x-amz-request-payer;x-amz-security-token" in request.headers["authorization"]
    assert signed[0].headers["x-amz-checksum-mode"] == "ENABLED"


async def test_a_refusal_costs_one_more_request_in_the_life_of_a_store(server: FaultServer) -> None:
    server.script = lambda request, usual: Reply(403, (), b"<Code>AccessDenied</Code>", applied=False)
    async with at(server) as store:
        for key in ("x", "y", "z"):
            with pytest.raises(PermissionDeniedError):
                await store.fetch(key)
    assert [request.key for request in server.requests] == [f"bkt/root/{key}" for key in "xxyz"]


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
