"""The service of S3: who pays, which certificates and proxies count, and how large values go up."""

from __future__ import annotations

import asyncio
import gzip
import os

import pytest

from aiozarr.errors import StoreError, UnsupportedOperationError
from aiozarr.model import IfAbsent
from aiozarr.stores.obstore import obstore_bucket as obstore_service
from aiozarr.stores.s3 import bucket_client as module
from tests.support.http_proxy import proxy as forward_proxy
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer
from tests.support.servers.s3_replies import XML, answers, at, everything


async def test_every_request_names_the_requester_that_pays(server: FaultServer) -> None:
    server.script = answers
    async with at(server, requester_pays=True) as store:
        await everything(store)
    assert len(server.requests) == 6
    for request in server.requests:
        signed = "x-amz-request-payer=requester" in request.target.partition("X-Amz-Signature")[0]
        assert signed or request.headers.get("x-amz-request-payer") == "requester"
        if not signed:
            assert "x-amz-request-payer" in request.headers["authorization"].partition("Signature=")[0]


async def test_writes_are_encrypted_as_the_options_ask(server: FaultServer) -> None:
    given = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "a-key", "BucketKeyEnabled": True}
    async with at(server, s3_additional_kwargs=given) as store:
        await store.set("x", b"1")
        await store.fetch("x")
    put, get = server.requests
    assert put.headers["x-amz-server-side-encryption"] == "aws:kms"
    assert put.headers["x-amz-server-side-encryption-aws-kms-key-id"] == "a-key"
    assert put.headers["x-amz-server-side-encryption-bucket-key-enabled"] == "true"
    assert not any(name.startswith("x-amz-server-side") for name in get.headers)


async def test_compressed_objects_are_returned_as_stored_also_through_a_proxy(server: FaultServer) -> None:
    packed = gzip.compress(b"text" * 50)
    server.put("bkt/root/packed", packed)
    server.script = lambda request, reply: reply.with_headers(Content_Encoding="gzip")
    with forward_proxy() as proxy:
        async with at(server, proxy=proxy.url) as store:
            assert await store.get("packed") == packed
        assert proxy.heads


async def test_a_condition_needs_one_request_and_that_has_a_limit(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PUT_BYTES", 10)
    async with at(server) as store:
        await store.set("x", bytes(10), precondition=IfAbsent())
        with pytest.raises(UnsupportedOperationError, match="one request, which takes 10 bytes, not 11"):
            await store.set("y", bytes(11), precondition=IfAbsent())
        await store.set("y", bytes(11))
    assert len(server.requests) == 2


class Uploads:
    """Uploads in parts, as S3 does them."""

    def __init__(self, fault: spoil.Spoil | None = None) -> None:
        self.fault = fault
        self.parts: dict[str, int] = {}
        self.open = 0

    def __call__(self, request: Request, reply: Reply) -> Reply:
        if request.method == "POST" and "?uploads" in request.target:
            self.open += 1
            return Reply(
                200, XML, b"<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>"
            )
        if "uploadId=u1" not in request.target:
            return reply
        if request.method == "PUT":
            self.parts[request.target] = len(request.body)
            done = Reply(200, (("ETag", '"part"'),), applied=False)
            return done if self.fault is None else self.fault(done)
        self.open -= 1
        if request.method == "DELETE":
            return Reply(204, applied=False)
        return Reply(
            200, XML, b"<CompleteMultipartUploadResult><ETag>&quot;whole&quot;</ETag></CompleteMultipartUploadResult>"
        )


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obstore_service, "SINGLE_PUT_BYTES", 1 << 20)
    monkeypatch.setattr(obstore_service, "PART_BYTES", 5 << 20)


@pytest.mark.usefixtures("_small_parts")
async def test_an_upload_in_parts_that_fails_leaves_no_parts(server: FaultServer) -> None:
    uploads = Uploads()
    server.script = uploads
    data = os.urandom(12 << 20)
    async with at(server) as store:
        version = await store.set("big", data)
        assert version is not None
        assert version.etag == '"whole"'
        assert sorted(uploads.parts.values()) == [2 << 20, 5 << 20, 5 << 20]
        assert uploads.open == 0
        uploads.fault = spoil.status(500)
        with pytest.raises(StoreError) as caught:
            await store.set("big", data)
        assert caught.value.retryable
    assert uploads.open == 0
    assert any(request.method == "DELETE" for request in server.requests)  # other parts may still be on their way


@pytest.mark.usefixtures("_small_parts")
async def test_an_upload_in_parts_that_is_cancelled_stops(server: FaultServer) -> None:
    uploads = Uploads(spoil.no_answer)
    server.script = uploads
    async with at(server) as store:
        task = asyncio.create_task(store.set("big", bytes(12 << 20)))
        while not uploads.parts and not task.done():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert server.get("bkt/root/big") is None
