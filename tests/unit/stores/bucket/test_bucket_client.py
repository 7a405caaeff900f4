"""What the clients of all clouds share: missing objects, deletes, and errors of the bucket."""

from __future__ import annotations

import pytest

from aiozarr.errors import (
    LimitError,
    PermissionDeniedError,
    StoreError,
    ThrottledError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from aiozarr.model import IfAbsent, IfMatch, Range, Version
from aiozarr.stores.bucket.store import ObjectStore
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_replies import Reply
from tests.support.servers.http_server import FaultServer
from tests.support.servers.moto import LocalS3
from tests.support.servers.s3_replies import at, document


@pytest.mark.parametrize(
    ("fault", "kind", "retryable"),
    [
        (document("NoSuchBucket", 404), StoreError, False),
        (document("AccessDenied", 403), PermissionDeniedError, False),
        (document("ExpiredToken", 400), UnauthenticatedError, False),
        (document("SlowDown", 503), ThrottledError, True),
        (document("InternalError", 500), StoreError, True),
        (document("MethodNotAllowed", 405), UnsupportedOperationError, False),
        (spoil.redirect("https://elsewhere.example/"), StoreError, False),
        (spoil.redirect("/bkt/root/other", 307), StoreError, False),
    ],
)
async def test_only_a_404_of_the_object_is_missing(
    server: FaultServer, fault: spoil.Spoil, kind: type[StoreError], retryable: bool
) -> None:
    server.script = spoil.always(fault)
    async with at(server) as store:
        for operation in (store.fetch, store.stat):
            with pytest.raises(kind) as caught:
                await operation("a/b")
            error = caught.value
            assert type(error) is kind
            assert (error.store, error.key, error.retryable) == ("s3://bkt/root", "a/b", retryable)
            assert "Signature" not in str(error)


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_object_that_is_not_there_is_missing(server: FaultServer, chunked: bool) -> None:
    for fault in (document("NoSuchKey", 404), spoil.status(404)):
        server.script = lambda request, reply, fault=fault: spoil.chunked(fault(reply)) if chunked else fault(reply)
        async with at(server) as store:
            assert await store.fetch("a/b") is None
            assert await store.fetch("a/b", Range(5, 5)) is None
            assert await store.stat("a/b") is None
    assert server.connections == 2


async def test_an_html_page_is_not_a_value(server: FaultServer) -> None:
    async with at(server) as store:
        server.script = spoil.always(spoil.html())
        for call in (store.fetch("a/b"), store.fetch("a/b", Range(2, 5)), store.stat("a/b")):
            with pytest.raises(StoreError, match="HTML page"):
                await call
        server.script = None
        server.put("bkt/root/page", b"<html>stored by somebody</html>")
        assert bytes(await store.get("page") or b"").startswith(b"<html>")


async def test_the_answer_to_a_delete_is_not_received_without_end(server: FaultServer) -> None:
    server.script = spoil.always(lambda reply: Reply(200, (), b"x" * (2 << 20)))
    async with at(server) as store:
        with pytest.raises(LimitError):
            await store.erase("a/b")


async def test_a_bucket_that_does_not_exist_is_an_error_for_every_operation(s3_server: LocalS3) -> None:
    async with ObjectStore("s3://never-made", **s3_server.storage_options) as store:
        calls = (
            store.fetch("a"),
            store.stat("a"),
            store.set("a", b""),
            store.set("a", b"", precondition=IfAbsent()),
            store.set("a", b"", precondition=IfMatch(Version('"x"'))),
            store.erase("a"),
            store.erase_values(["a"]),
            store.list(),
            store.list_dir(""),
        )
        for call in calls:
            with pytest.raises(StoreError, match="bucket does not exist") as caught:
                await call
            assert type(caught.value) is StoreError
