"""The service of S3: who pays, which certificates and proxies count, and how large values go up."""

import asyncio
import gzip
import os
from pathlib import Path
from typing import Any

import pytest
from certificates import authority
from proxy import proxy as forward_proxy

from aiozarr.errors import PermissionDeniedError, StoreError, UnsupportedOperationError
from aiozarr.model import IfAbsent
from aiozarr.stores.object.store import ObjectStore
from aiozarr.stores.obstore import service as obstore_service
from aiozarr.stores.s3 import service as module
from aiozarr.testing import http_replies as spoil
from aiozarr.testing.http_replies import Reply, Request
from aiozarr.testing.http_server import FaultServer

XML = (("Content-Type", "application/xml"),)
LISTING = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
DELETED = b"<DeleteResult><Deleted><Key>root/a/b</Key></Deleted></DeleteResult>"


def answers(request: Request, reply: Reply) -> Reply:
    if "list-type=2" in request.target:
        return Reply(200, XML, LISTING)
    return Reply(200, XML, DELETED) if request.method == "POST" else reply


def at(server: FaultServer, **options: Any) -> ObjectStore:
    return ObjectStore(
        "s3://bkt/root", **{"endpoint_url": server.url, "key": "k", "secret": "s", "region": "us-east-1", **options}
    )


async def everything(store: ObjectStore) -> None:
    """One request of each kind."""
    await store.fetch("a/b")
    await store.set("x", b"1")
    await store.list()
    await store.list_dir("")
    await store.erase("x")
    await store.erase_values(["a/b"])


async def test_whoever_pays_says_so_with_every_request(server: FaultServer) -> None:
    server.script = answers
    async with at(server, requester_pays=True) as store:
        await everything(store)
    assert len(server.requests) == 6
    for request in server.requests:
        signed = "x-amz-request-payer=requester" in request.target.partition("X-Amz-Signature")[0]
        assert signed or request.headers.get("x-amz-request-payer") == "requester"
        if not signed:
            assert "x-amz-request-payer" in request.headers["authorization"].partition("Signature=")[0]


async def test_what_is_written_is_encrypted_as_it_is_asked_for(server: FaultServer) -> None:
    given = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "a-key", "BucketKeyEnabled": True}
    async with at(server, s3_additional_kwargs=given) as store:
        await store.set("x", b"1")
        await store.fetch("x")
    put, get = server.requests
    assert put.headers["x-amz-server-side-encryption"] == "aws:kms"
    assert put.headers["x-amz-server-side-encryption-aws-kms-key-id"] == "a-key"
    assert put.headers["x-amz-server-side-encryption-bucket-key-enabled"] == "true"
    assert not any(name.startswith("x-amz-server-side") for name in get.headers)


# --- certificates and proxies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["verify", "environment", "pem", "bytes", "unchecked", "allow"])
async def test_a_server_with_a_certificate_of_ones_own_is_read_written_and_listed(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(authority().pem())
    options: dict[str, Any] = {
        "verify": {"client_kwargs": {"verify": str(path)}},
        "environment": {},
        "pem": {"root_certificate": authority().pem().decode()},
        "bytes": {"client_options": {"root_certificate": authority().pem()}},
        "unchecked": {"verify": False},
        "allow": {"allow_invalid_certificates": True},
    }[how]
    if how == "environment":
        monkeypatch.setenv("AWS_CA_BUNDLE", str(path))
    with FaultServer({"bkt/root/a/b": b"abc"}, script=answers, tls=authority().server()) as server:
        async with at(server, **options) as store:
            await everything(store)


async def test_an_unknown_certificate_is_refused_for_reads_and_writes() -> None:
    with FaultServer({"bkt/root/a/b": b"abc"}, tls=authority().server()) as server:
        async with at(server) as store:
            for call in (store.fetch("a/b"), store.set("x", b"")):
                with pytest.raises(StoreError, match="certificate"):
                    await call
    assert not server.requests


def test_certificates_that_cannot_be_read_are_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        ObjectStore("s3://bkt", verify=str(tmp_path / "none.pem"), anon=True)


@pytest.mark.parametrize("name", ["proxy", "proxies"])
async def test_a_proxy_that_is_given_sees_every_request(server: FaultServer, name: str) -> None:
    server.script = answers
    with forward_proxy() as proxy:
        options = {"proxy": proxy.url} if name == "proxy" else {"config_kwargs": {"proxies": {"http": proxy.url}}}
        async with at(server, **options) as store:
            await everything(store)
        assert len(proxy.heads) == 6
        assert "hidden" not in repr(store)


async def test_what_is_stored_compressed_comes_as_it_is_stored_behind_a_proxy_too(server: FaultServer) -> None:
    packed = gzip.compress(b"text" * 50)
    server.put("bkt/root/packed", packed)
    server.script = lambda request, reply: reply.with_headers(Content_Encoding="gzip")
    with forward_proxy() as proxy:
        async with at(server, proxy=proxy.url) as store:
            assert await store.get("packed") == packed
        assert proxy.heads


# --- large values ------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("operation", ["get", "stat", "set", "erase", "list", "list_dir", "erase_values"])
async def test_a_refusal_of_what_is_not_signed_says_that_it_was_not(server: FaultServer, operation: str) -> None:
    server.script = lambda request, reply: Reply(403)
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, anon=True) as store:
        arguments = {"set": ("k", b"1"), "list": (), "list_dir": ("",), "erase_values": (["k"],)}.get(operation, ("k",))
        with pytest.raises(PermissionDeniedError, match="anon=True sends no credentials"):
            await getattr(store, operation)(*arguments)
