"""Copies by S3 itself, against moto: whole objects, parts, and objects that change."""

from __future__ import annotations

from typing import Any

import pytest

import aiozarr
from aiozarr.errors import ChangedError, StoreError, UnsupportedOperationError
from aiozarr.model import Version
from aiozarr.stores import ObjectStore
from aiozarr.stores.s3 import bucket_client
from tests.support.servers.http_replies import Reply
from tests.support.servers.http_server import FaultServer
from tests.support.servers.moto import LocalS3
from tests.support.servers.s3_replies import at

TREE = {"zarr.json": b"{}", "empty": b"", **{f"c/{n} ä+&%": bytes([n]) * 100 for n in range(20)}}


@pytest.fixture
def options(s3_server: LocalS3) -> dict[str, str]:
    s3_server.create_bucket("one")
    s3_server.create_bucket("two")
    return s3_server.storage_options


async def test_objects_are_copied_between_buckets_without_their_bytes(options: dict[str, str]) -> None:
    async with ObjectStore("s3://one/a.zarr", **options) as source, ObjectStore("s3://two/b.zarr", **options) as target:
        for key, data in TREE.items():
            await source.set(key, data)
        # The second copy compares the document that is there with that of the source, two bytes each.
        for verify, compared in (("size", 0), ("checksum", 4)):
            with aiozarr.record() as record:
                report = await aiozarr.copy(source, target, verify=verify, overwrite=True)  # type: ignore[arg-type]
            assert (report.objects, report.server_side, report.failed) == (len(TREE), len(TREE), ())
            assert report.bytes == sum(map(len, TREE.values()))
            assert record.bytes_fetched == compared
        stored = {entry.key: bytes(await target.get(entry.key) or b"") async for entry in target.scan()}
        assert stored == TREE


async def test_a_large_object_is_copied_in_parts(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_client, "MAX_SINGLE_COPY_BYTES", 6 << 20)
    monkeypatch.setattr(bucket_client, "COPY_PART_BYTES", 5 << 20)
    data = bytes(range(256)) * 4 * 1024 * 11
    async with ObjectStore("s3://one/large", **options) as store:
        version = await store.set("a", data)
        copied = await store._copy_from(store, "a", "b", size=len(data), if_match=version)
        value = await store.fetch("b")
        assert value is not None
        assert bytes(value.data) == data
        assert value.version == copied
        with pytest.raises(ChangedError):
            await store._copy_from(store, "missing", "c", size=len(data))
        assert not await store.exists("c")


async def test_an_object_that_was_replaced_is_copied_and_named(options: dict[str, str]) -> None:
    # moto ignores the condition of a copy, as some servers do.
    async with ObjectStore("s3://one/changed", **options) as source:
        await source.set("a", b"old")

        class Late(ObjectStore):
            async def _copy_from(self, *arguments: Any, **keywords: Any) -> Version | None:
                await source.set("a", b"new one")
                return await super()._copy_from(*arguments, **keywords)

        async with Late("s3://two/changed", **options) as target:
            report = await aiozarr.copy(source, target)
            assert report.changed == ("a",)
            assert bytes(await target.get("a") or b"") == b"new one"


async def test_documents_are_fetched_if_the_server_says_of_each_copy_that_the_object_was_replaced(
    options: dict[str, str],
) -> None:
    # Some servers compare the ETag of the condition with its quotes, or do not decode the key of the source.
    class Refusing(ObjectStore):
        async def _copy_from(self, *arguments: Any, **keywords: Any) -> Version | None:
            raise ChangedError("the object was replaced or removed before it was copied", status=412)

    async with ObjectStore("s3://one/kept", **options) as source, Refusing("s3://two/kept", **options) as target:
        for key in ("zarr.json", "c/0"):
            await source.set(key, b"{}")
        report = await aiozarr.copy(source, target)
        assert (report.objects, report.server_side, report.changed) == (2, 0, ())
        assert {entry.key async for entry in target.scan()} == {"zarr.json", "c/0"}


async def test_the_condition_and_the_encryption_are_headers_of_the_copy(server: FaultServer) -> None:
    server.script = lambda request, usual: Reply(
        200, (), b"<CopyObjectResult><ETag>&quot;x&quot;</ETag></CopyObjectResult>"
    )
    async with at(server, server_side_encryption="AES256") as store:
        version = await store._copy_from(store, "k ä", "l", size=1, if_match=Version('"v"'))
    assert version == Version('"x"')
    (request,) = server.requests
    assert (request.method, request.key, request.body) == ("PUT", "bkt/root/l", b"")
    assert request.headers["x-amz-copy-source"] == "/bkt/root/k%20%C3%A4"
    assert request.headers["x-amz-copy-source-if-match"] == '"v"'
    assert request.headers["x-amz-server-side-encryption"] == "AES256"


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"<Error><Code>InternalError</Code><Message>x</Message></Error>", StoreError),
        (200, b"", StoreError),
        (200, b"<CopyObjectResult", StoreError),
        (200, b'<!DOCTYPE a [<!ENTITY b "c">]><CopyObjectResult/>', StoreError),
        (412, b"<Error><Code>PreconditionFailed</Code></Error>", ChangedError),
        (404, b"<Error><Code>NoSuchKey</Code></Error>", ChangedError),
        (501, b"<Error><Code>NotImplemented</Code></Error>", UnsupportedOperationError),
        (403, b"<Error><Code>AccessDenied</Code></Error>", UnsupportedOperationError),
        (503, b"<Error><Code>SlowDown</Code></Error>", StoreError),
    ],
)
async def test_only_a_result_says_that_an_object_was_copied(
    server: FaultServer, status: int, body: bytes, error: type[Exception]
) -> None:
    server.script = lambda request, usual: Reply(status, (), body)
    async with at(server) as store:
        with pytest.raises(error) as caught:
            await store._copy_from(store, "k", "l", size=1)
    assert type(caught.value) is error or error is StoreError
    assert getattr(caught.value, "retryable", False) == (status in (200, 503))
    assert getattr(caught.value, "status", None) == status
