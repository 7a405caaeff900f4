"""Objects that are uploaded in pieces and in parts: against moto, and the messages alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aiozarr.errors import (
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    ThrottledError,
    UnsupportedOperationError,
)
from aiozarr.http1.connection import Response
from aiozarr.http1.response_check import NO_VALUE
from aiozarr.model import IfAbsent, Version
from aiozarr.stores import ObjectStore
from aiozarr.stores.bucket.listing import etag_version
from aiozarr.stores.capabilities import UploadedPart
from aiozarr.stores.s3.messages import completion, parse_result
from tests.support.bodies import BytesBody
from tests.support.certificates import authority
from tests.support.servers.http_replies import Reply, Request, status
from tests.support.servers.http_server import FaultServer
from tests.support.servers.moto import LocalS3

MIB = 1 << 20


def at(server: FaultServer, **options: Any) -> ObjectStore:
    return ObjectStore(
        "s3://bkt/root", **{"endpoint_url": server.url, "key": "k", "secret": "s", "region": "us-east-1", **options}
    )


async def test_parts_become_one_object(s3_server: LocalS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.stores.bucket.bucket_client.SINGLE_UPLOAD_BYTES", 6 * MIB)
    monkeypatch.setattr("aiozarr.stores.bucket.bucket_client.PART_BYTES", 5 * MIB)
    s3_server.create_bucket("parts")
    body = BytesBody(11 * MIB + 7)
    async with ObjectStore("s3://parts/x", **s3_server.storage_options) as store:
        assert store._upload_part_bytes(6 * MIB) is None
        assert store._upload_part_bytes(body.nbytes) == 5 * MIB
        assert store._upload_part_bytes(10_000 * 5 * MIB + 1) == 5 * MIB + 1  # S3 takes 10,000 parts
        upload_id = await store._begin_parts("ä b")
        parts = [
            await store._upload_part(
                "ä b", upload_id, number, body.part(start := number * 5 * MIB, min(5 * MIB, body.nbytes - start))
            )
            for number in range(3)
        ]
        version = await store._complete_parts("ä b", upload_id, parts)
        value = await store.fetch("ä b")
        assert value is not None
        assert (bytes(value.data), value.version) == (body.data, version)


async def test_conditions_of_uploads(server: FaultServer) -> None:
    async with at(server) as store:
        assert store._upload_part_bytes(1 << 30) is not None
        assert store._upload_part_bytes(1 << 30, conditional=True) is None  # the probe has not tested parts
        await store._upload("x", BytesBody(10), precondition=IfAbsent())
        with pytest.raises(PreconditionFailedError):
            await store._upload("x", BytesBody(11), precondition=IfAbsent())
        store.supports = replace(store.supports, conditional_writes=False)
        with pytest.raises(UnsupportedOperationError):
            await store._upload("x", BytesBody(11), precondition=IfAbsent())
    assert server.get("bkt/root/x") == BytesBody(10).data


async def test_aborted_parts_store_nothing(s3_server: LocalS3) -> None:
    s3_server.create_bucket("aborted")
    async with ObjectStore("s3://aborted/x", **s3_server.storage_options) as store:
        upload_id = await store._begin_parts("a")
        await store._upload_part("a", upload_id, 0, BytesBody(10))
        await store._abort_parts("a", upload_id)
        await store._abort_parts("a", upload_id)  # it is gone already
        assert not await store.exists("a")
        with pytest.raises(StoreError):
            await store._upload_part("a", upload_id, 0, BytesBody(10))


async def test_a_body_is_one_request_with_a_signed_checksum(server: FaultServer) -> None:
    body = BytesBody(3 * MIB)
    async with at(server) as store:
        version = await store._upload("x", body)
        assert version == (await store.stat("x")).version  # type: ignore[union-attr]  # it is stored
    put = server.requests[0]
    assert (put.method, put.body) == ("PUT", body.data)
    assert put.headers["x-amz-checksum-crc32c"] == await body.crc32c()
    assert "X-Amz-SignedHeaders=host%3Bx-amz-checksum-crc32c&" in put.target


async def test_over_tls_a_body_is_not_hashed() -> None:
    class Unhashed(BytesBody):
        async def crc32c(self) -> str:
            raise AssertionError("TLS detects damage")

    with FaultServer(tls=authority().server()) as server:
        async with at(server, verify=False) as store:
            await store._upload("x", body := Unhashed(3 * MIB))
        assert server.get("bkt/root/x") == body.data


@pytest.mark.parametrize(
    ("options", "nbytes", "can"),
    [
        ({}, 5 << 30, True),
        ({}, 50 << 30, True),
        ({"server_side_encryption": "AES256"}, 1, True),
        ({"checksum_algorithm": "crc32c"}, 1, True),
        ({"checksum_algorithm": "SHA256"}, 1, False),
    ],
)
def test_a_body_that_is_read_while_it_is_sent_has_no_checksum_but_crc32c(
    server: FaultServer, options: dict[str, Any], nbytes: int, can: bool
) -> None:
    assert at(server, **options)._can_upload(nbytes) is can


@pytest.mark.parametrize(
    ("reply", "error", "retryable"),
    [
        (Reply(503, (("Retry-After", "7"),), b"<Code>SlowDown</Code>"), StoreError, True),
        (Reply(403, (), b"<Code>AccessDenied</Code>"), PermissionDeniedError, False),
        (Reply(501), UnsupportedOperationError, False),
        (Reply(200, (), b"<html>log in</html>"), StoreError, False),
        (Reply(200, (), b"<Error><Code>InternalError</Code></Error>"), StoreError, True),
        (Reply(200, (), b"<Error><Code>SlowDown</Code></Error>"), ThrottledError, True),
        (Reply(404, (), b"<Code>NoSuchBucket</Code>"), StoreError, False),
    ],
)
async def test_only_a_result_confirms_a_step(
    server: FaultServer, reply: Reply, error: type[StoreError], retryable: bool
) -> None:
    server.script = lambda request, usual: reply
    async with at(server) as store:
        steps = [
            store._upload("x", BytesBody(10)),
            store._begin_parts("x"),
            store._upload_part("x", "id", 0, BytesBody(10)),
            store._complete_parts("x", "id", []),
        ]
        for step in steps:
            with pytest.raises(StoreError) as caught:
                await step
            assert isinstance(caught.value, error)
            assert (caught.value.retryable, caught.value.key) == (retryable, "x")
            assert caught.value.status == reply.status


async def test_an_upload_follows_the_bucket_to_its_region() -> None:
    def script(request: Request, usual: Reply) -> Reply:
        if "%2Feu-west-3%2F" not in request.target:
            return status(301, b"<Error><Code>PermanentRedirect</Code></Error>", x_amz_bucket_region="eu-west-3")(usual)
        return usual

    with FaultServer(script=script) as server:
        body = BytesBody(3 * MIB)
        async with at(server) as store:
            await store._upload("x", body)
        assert [request.body for request in server.requests] == [body.data] * 2
        assert server.get("bkt/root/x") == body.data


def response(status: int, body: bytes) -> Response:
    return Response(status, {}, NO_VALUE, body)


def test_messages() -> None:
    assert completion([UploadedPart('"a&b"'), UploadedPart("c", "AAAA")], "CRC32C") == (
        b"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&quot;a&amp;b&quot;</ETag></Part>"
        b"<Part><PartNumber>2</PartNumber><ETag>c</ETag><ChecksumCRC32C>AAAA</ChecksumCRC32C></Part>"
        b"</CompleteMultipartUpload>"
    )
    found = parse_result(response(200, b'  \n <?xml version="1.0"?>  <R xmlns="y"><ETag>&quot;v&quot;</ETag></R>'), "R")
    assert found == {"ETag": '"v"'}
    assert etag_version(found["ETag"]) == Version('"v"')
    assert etag_version("") is None
    for other in (
        response(200, b"<Error/>"),
        response(200, b""),
        response(404, b"<R/>"),
        response(200, b"<!DOCTYPE R><R/>"),
        response(200, "<!DOCTYPE R><R/>".encode("utf-16")),
        response(200, b"<R>" + b"<a/>" * (1 << 20) + b"</R>"),
    ):
        assert parse_result(other, "R") is None
