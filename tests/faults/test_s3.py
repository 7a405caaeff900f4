"""What a read does when an object store refuses or lacks something: S3's own error documents, and a real server."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.model import ByteRange, Range, Suffix
from aiozarr.stores.bucket.store import ObjectStore
from tests.support.remote_arrays import QUICK, serve_array
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer
from tests.support.servers.moto import LocalS3


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def refusal(status: int, code: str) -> spoil.Spoil:
    body = f"<Error><Code>{code}</Code><Message>no</Message><RequestId>id-3</RequestId></Error>".encode()
    return spoil.status(status, body, X_Amz_Request_Id="id-3")


async def open_in_bucket(server: FaultServer, **described: Any) -> aiozarr.Array:
    """Serve an array under `bucket/`, and open it as an object store's."""
    await serve_array(server, **described)
    for key in list(server.keys()):
        server.put(f"bucket/{key}", server.get(key) or b"")
    return await aiozarr.open_array(
        "s3://bucket", settings=QUICK, storage_options={"endpoint_url": server.url, "anon": True}
    )


@pytest.mark.parametrize("inner", [None, (1,)], ids=["plain", "sharded"])
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "AccessDenied", aiozarr.PermissionDeniedError),
        (404, "NoSuchBucket", aiozarr.StoreError),
        (403, "InvalidAccessKeyId", aiozarr.UnauthenticatedError),
        (400, "ExpiredToken", aiozarr.UnauthenticatedError),
        (405, "MethodNotAllowed", aiozarr.UnsupportedOperationError),
        (410, "Gone", aiozarr.StoreError),
    ],
)
async def test_a_refusal_is_an_error_and_never_the_fill_value(
    server: FaultServer, inner: tuple[int] | None, status: int, code: str, kind: type[aiozarr.StoreError]
) -> None:
    array = await open_in_bucket(server, inner=inner)
    begun = len(server.requests)
    server.script = spoil.always(refusal(status, code))
    with pytest.raises(kind, match=code) as raised:
        await array[:2]
    assert (raised.value.store, raised.value.key, raised.value.status) == ("s3://bucket", "c/0", status)
    assert (raised.value.request_id, raised.value.attempts) == ("id-3", 1)
    assert len(server.requests) == begun + 1
    server.script = None
    assert np.array_equal(await array[...], np.arange(1, 9))


async def test_a_missing_key_reads_as_the_fill_value(server: FaultServer) -> None:
    array = await open_in_bucket(server)
    server.script = spoil.when(lambda request: request.key == "bucket/c/0", refusal(404, "NoSuchKey"))
    assert (await array[:4]).tolist() == [0, 0, 3, 4]


async def test_a_slow_down_error_document_is_retried(server: FaultServer) -> None:
    array = await open_in_bucket(server)
    begun = len(server.requests)
    server.script = spoil.when(lambda request: request.number <= begun + 2, refusal(503, "SlowDown"))
    assert (await array[:2]).tolist() == [1, 2]
    assert len(server.requests) == begun + 3


async def test_the_idle_timeout_of_the_settings_reaches_object_stores_opened_by_url(server: FaultServer) -> None:
    server.script = spoil.always(spoil.no_answer)
    with pytest.raises(aiozarr.StoreTimeoutError) as raised:
        await aiozarr.open_array(
            "s3://bucket/a",
            zarr_format=3,
            settings=aiozarr.Settings(idle_timeout=0.1, retries=1),
            storage_options={"endpoint_url": server.url, "anon": True},
        )
    # The server did not respond: which document was asked for does not matter.
    assert (raised.value.store, raised.value.key, raised.value.attempts) == ("s3://bucket/a", None, 2)


# --- writes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [spoil.status(503), spoil.status(500), spoil.applied(503), spoil.applied(500), spoil.reset],
    ids=["f03-refused", "f07-failed", "f04-applied-503", "f07-applied-500", "f12-f13-reset-after-the-body"],
)
async def test_a_write_that_is_refused_or_whose_response_is_lost_is_repeated(
    server: FaultServer, fault: spoil.Spoil
) -> None:
    """Whole chunks are put without a condition, parts of chunks and the document of a new node with one."""
    options = {"endpoint_url": server.url, "key": "k", "secret": "s", "region": "us-east-1"}
    store = ObjectStore("s3://bucket/a", **options)
    assert await store.probe_conditional_writes()
    spoilt: set[tuple[str, bool]] = set()

    def script(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        if "list-type=" in request.target:
            return spoil.status(200, b"<ListBucketResult/>")(reply)
        write = (request.key, "if-none-match" in request.headers or "if-match" in request.headers)
        if request.method != "PUT" or write in spoilt:
            return reply
        spoilt.add(write)
        return fault(reply)

    server.script = script
    array = await aiozarr.create_array(store, shape=8, chunks=4, dtype="i4", settings=QUICK)
    await array[...].write(np.arange(1, 9))
    await array[2:6].write(0)
    assert (await array[...]).tolist() == [1, 2, 0, 0, 0, 0, 7, 8]
    assert {(f"bucket/a/c/{chunk}", condition) for chunk in (0, 1) for condition in (False, True)} < spoilt
    assert ("bucket/a/zarr.json", True) in spoilt


# --- a real server -------------------------------------------------------------------------------------------------


async def test_opening_in_a_missing_bucket_is_an_error(s3_server: LocalS3) -> None:
    for opening in (aiozarr.open, aiozarr.open_array, aiozarr.open_group):
        with pytest.raises(aiozarr.StoreError, match="bucket") as raised:
            await opening("s3://faults-no-such-bucket/a", storage_options=s3_server.storage_options)
        assert not isinstance(raised.value, FileNotFoundError)


async def test_a_deleted_bucket_is_an_error_of_the_read_and_never_the_fill_value(s3_server: LocalS3) -> None:
    from urllib.request import Request, urlopen

    s3_server.create_bucket("faults-gone")
    array = await aiozarr.create_array(
        "s3://faults-gone", shape=4, dtype="i4", chunks=2, storage_options=s3_server.storage_options
    )
    assert (await array[...]).tolist() == [0, 0, 0, 0]
    await array.store.erase("zarr.json")
    urlopen(Request(f"{s3_server.endpoint_url}/faults-gone", method="DELETE"), timeout=30).close()  # noqa: ASYNC210  # a server in a process of its own
    with pytest.raises(aiozarr.StoreError, match="NoSuchBucket"):
        await array[...]


def checksum(name: str, data: bytes) -> str:
    value = zlib.crc32(data).to_bytes(4, "big") if name == "crc32" else hashlib.new(name, data).digest()
    return base64.b64encode(value).decode()


def with_checksum(name: str, suffix: str = "", damaged: int = 0, **headers: str) -> spoil.Script:
    """Name the checksum of the stored object in each response to a GET, and damage the first bodies of chunks."""
    left = [damaged]

    def script(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        if request.method != "GET" or reply.status not in (200, 206):
            return reply
        reply = reply.with_headers(**{f"x_amz_checksum_{name}": checksum(name, reply.body) + suffix}, **headers)
        if request.key.startswith("bucket/c/") and left[0]:
            left[0] -= 1
            return replace(reply, body=bytes([reply.body[0] ^ 8]) + reply.body[1:])
        return reply

    return script


@pytest.mark.parametrize("name", ["crc32", "sha1", "sha256"])
async def test_a_body_without_its_checksum_is_fetched_again(server: FaultServer, name: str) -> None:
    array = await open_in_bucket(server)
    begun = len(server.requests)
    server.script = with_checksum(name, damaged=1)
    assert (await array[...]).tolist() == list(range(1, 9))
    chunks = server.requests[begun:]
    assert len(chunks) == array.nchunks + 1
    # Unsigned requests have the header; it costs no request of its own.
    assert {request.headers["x-amz-checksum-mode"] for request in chunks} == {"ENABLED"}


async def test_a_body_that_never_has_its_checksum_is_an_error(server: FaultServer) -> None:
    array = await open_in_bucket(server)
    server.script = with_checksum("sha256", damaged=1 << 30)
    with pytest.raises(aiozarr.StoreError, match="do not have the SHA256 that the server reports") as raised:
        await array[:2]
    assert (raised.value.key, raised.value.retryable) == ("c/0", True)
    assert (raised.value.attempts or 0) > 1


@pytest.mark.parametrize(
    ("suffix", "headers"),
    [("-3", {}), ("", {"x_amz_checksum_type": "COMPOSITE"}), ("!", {})],
    ids=["number of parts", "type", "not base64"],
)
async def test_a_checksum_of_anything_but_the_whole_object_is_not_compared(
    server: FaultServer, suffix: str, headers: dict[str, str]
) -> None:
    server.put("bucket/c/k", bytes(2))
    server.script = with_checksum("crc32", suffix, damaged=1, **headers)
    async with ObjectStore("s3://bucket", endpoint_url=server.url, anon=True) as store:
        assert bytes(await store.get("c/k") or b"") == b"\x08\0"


@pytest.mark.parametrize("status", [206, 200])  # rclone sends parts with status 200
async def test_a_part_is_not_compared_with_a_checksum(server: FaultServer, status: int) -> None:
    server.put("bucket/c/k", bytes(20))
    script = with_checksum("crc32", damaged=1)
    server.script = lambda request, reply: replace(script(request, reply), status=status)
    async with ObjectStore("s3://bucket", endpoint_url=server.url, anon=True) as store:
        value = await store.fetch("c/k", Range(4, 2))
    assert value is not None
    assert bytes(value.data) == b"\x08\0"
    assert "x-amz-checksum-mode" not in server.requests[-1].headers


@pytest.mark.parametrize("wanted", [Range(0, 20), Range(0, 100), Suffix(100)])
async def test_a_range_of_all_bytes_is_compared_with_the_checksum_of_the_object(
    server: FaultServer, wanted: ByteRange
) -> None:
    server.put("bucket/c/k", bytes(20))
    server.script = with_checksum("crc32", damaged=1)
    async with ObjectStore("s3://bucket", endpoint_url=server.url, anon=True) as store:
        with pytest.raises(aiozarr.StoreError, match="do not have the CRC32 that the server reports"):
            await store.fetch("c/k", wanted)
        value = await store.fetch("c/k", wanted)
    assert value is not None
    assert bytes(value.data) == bytes(20)


async def test_the_checksum_of_a_stored_value_is_compared_with_what_was_sent(server: FaultServer) -> None:
    server.script = spoil.always(lambda reply: reply.with_headers(x_amz_checksum_crc32="y/Q5Jg==", ETag='"e"'))
    async with ObjectStore("s3://bucket", endpoint_url=server.url, anon=True) as store:
        await store.set("k", b"123456789")
        with pytest.raises(aiozarr.StoreError, match="the sent bytes do not have the CRC32"):
            await store.set("k", b"12345678")
