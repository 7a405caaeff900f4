"""The service of S3: who pays, which certificates and proxies count, and how large values go up."""

from __future__ import annotations

import asyncio
import gzip
import os
from importlib.util import find_spec

import pytest

from aiozarr.errors import PreconditionFailedError, StoreError, UnsupportedOperationError
from aiozarr.model import IfAbsent, IfMatch, Version
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.stores.s3 import bucket_client as module
from aiozarr.stores.s3.address import S3Endpoint
from tests.support.http_proxy import proxy as forward_proxy
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer
from tests.support.servers.moto import LocalS3
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


@pytest.mark.parametrize("name", ["CRC32C", "SHA256"])
async def test_checksums_are_those_that_the_option_asks_for(s3_server: LocalS3, name: str) -> None:
    s3_server.create_bucket("sums")
    async with ObjectStore("s3://sums", **s3_server.storage_options, checksum_algorithm=name.lower()) as store:
        await store.set(name, b"123456789")
        assert await store.get(name) == b"123456789"  # moto returns the checksum, which is compared


async def test_a_checksum_whose_package_is_missing_names_it(server: FaultServer) -> None:
    if find_spec("awscrt") is None:
        with pytest.raises(ImportError, match=r"CRC64NVME.*awscrt"):
            at(server, checksum_algorithm="CRC64NVME")
    with pytest.raises(ValueError, match=r"CRC32C, .*not 'MD4'"):
        at(server, checksum_algorithm="md4")


async def test_a_condition_on_another_server_needs_one_request_and_that_has_a_limit(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PUT_BYTES", 10)
    async with at(server) as store:
        await store.set("x", bytes(10), precondition=IfAbsent())
        with pytest.raises(UnsupportedOperationError, match="at most 10 bytes, not 11"):
            await store.set("y", bytes(11), precondition=IfAbsent())
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (412, "PreconditionFailed", PreconditionFailedError),
        (304, "", PreconditionFailedError),
        (404, "NoSuchKey", PreconditionFailedError),
        (409, "BlobExists", PreconditionFailedError),
        (409, "ConditionalRequestConflict", StoreError),
        (404, "NoSuchBucket", StoreError),
    ],
)
async def test_a_condition_that_fails_is_told_from_other_refusals(
    server: FaultServer, status: int, code: str, error: type[StoreError]
) -> None:
    body = f"<Error><Code>{code}</Code></Error>".encode() if code else b""
    server.script = lambda request, usual: Reply(status, (("x-amz-request-id", "r-1"),), body, applied=False)
    async with at(server) as store:
        with pytest.raises(error) as caught:
            await store.set("x", b"1", precondition=IfMatch(Version('"v"')))
    assert (type(caught.value), caught.value.status, caught.value.request_id) == (error, status, "r-1")
    assert caught.value.retryable == (code == "ConditionalRequestConflict")
    (put,) = server.requests
    assert put.headers["if-match"] == '"v"'
    assert "SignedHeaders=host%3Bif-match%3Bx-amz-checksum-crc32c&" in put.target


@pytest.mark.parametrize("proxied", [False, True])
async def test_a_condition_whose_connection_was_lost_is_not_sent_again_in_silence(
    server: FaultServer, proxied: bool
) -> None:
    """The first request may have been carried out: the second one would be refused, as if another had written."""
    server.script = lambda request, usual: spoil.reset(usual) if request.number == 2 else usual
    far = {"endpoint_url": "http://far.example", "proxy": server.url}
    options: dict[str, str] = {"key": "k", "secret": "s", "region": "us-east-1"}
    async with ObjectStore("s3://bkt", **options, **(far if proxied else {"endpoint_url": server.url})) as store:
        await store.set("x", b"1")
        with pytest.raises(StoreError) as caught:
            await store.set("y", b"2", precondition=IfAbsent())
        assert caught.value.retryable
    assert len(server.requests) == 2


class Uploads:
    """Uploads in parts, as S3 does them."""

    def __init__(self, fault: spoil.Spoil | None = None) -> None:
        self.fault = fault
        self.parts: dict[str, int] = {}
        self.open = 0
        self.begun: list[Request] = []
        self.completed: list[Request] = []

    def __call__(self, request: Request, reply: Reply) -> Reply:
        if request.method == "POST" and "uploads=" in request.target:
            self.open += 1
            self.begun.append(request)
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
        self.completed.append(request)
        return Reply(
            200, XML, b"<CompleteMultipartUploadResult><ETag>&quot;whole&quot;</ETag></CompleteMultipartUploadResult>"
        )


@pytest.fixture
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.stores.bucket.bucket_client.SINGLE_UPLOAD_BYTES", 1 << 20)
    monkeypatch.setattr("aiozarr.stores.bucket.bucket_client.PART_BYTES", 5 << 20)


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
async def test_a_condition_on_aws_is_one_of_the_completion(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = S3Endpoint("bkt", f"{server.url}/bkt", "us-east-1", True, False)
    monkeypatch.setattr(module, "find_endpoint", lambda *_: place)
    uploads = Uploads()
    server.script = uploads
    async with at(server, server_side_encryption="AES256") as store:
        assert await store.set("big", bytes(6 << 20), precondition=IfAbsent()) == Version('"whole"')
        assert server.keys() == ["bkt/root/a/b"]  # the record of the upload is gone
        assert uploads.begun[0].headers["x-amz-server-side-encryption"] == "AES256"
        assert uploads.begun[0].headers["x-amz-checksum-algorithm"] == "CRC32C"
        assert uploads.completed[0].headers["if-none-match"] == "*"
        assert uploads.completed[0].body.count(b"<ChecksumCRC32C>") == 2
        done = uploads.__call__
        server.script = lambda request, usual: (
            Reply(412, (), b"<Error><Code>PreconditionFailed</Code></Error>")
            if request.method == "POST" and "uploadId" in request.target
            else done(request, usual)
        )
        with pytest.raises(PreconditionFailedError):
            await store.set("big", bytes(6 << 20), precondition=IfMatch(Version('"v"')))
    assert uploads.open == 0


@pytest.mark.usefixtures("_small_parts")
@pytest.mark.parametrize("checksum", ["AAAAAA==-2", "AAAAAA==-1"])
async def test_an_upload_whose_result_is_of_other_parts_is_an_error(checksum: str, server: FaultServer) -> None:
    done = Uploads().__call__
    result = f"<CompleteMultipartUploadResult><ChecksumCRC32C>{checksum}</ChecksumCRC32C>"
    server.script = lambda request, usual: (
        Reply(200, XML, f"{result}<ETag>e</ETag></CompleteMultipartUploadResult>".encode())
        if request.method == "POST" and "uploadId" in request.target
        else done(request, usual)
    )
    async with at(server) as store:
        with pytest.raises(StoreError, match="the server stored different bytes from those sent: the checksum of"):
            await store.set("big", bytes(6 << 20))


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
    assert uploads.open == 0
    assert server.keys() == ["bkt/root/a/b"]
