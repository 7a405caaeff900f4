"""Uploads: checked by the server, bound by conditions, resumed where the server was, and gone if cancelled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
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
from aiozarr.http1 import pool
from aiozarr.model import IfAbsent, IfMatch, Version
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.stores.gcs import upload as uploads
from aiozarr.stores.gcs.address import GcsOptions, find_endpoint
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.gcs_store import run
from tests.support.servers.http_replies import Reply, Request, applied, first, no_answer, reset, status

PART = uploads.PART_QUANTUM_BYTES
BIG = os.urandom(3 * PART + 1000)

pytestmark = pytest.mark.usefixtures("small_parts")


def ranges(server: GcsServer) -> list[str]:
    """The parts that were sent, in units of parts."""
    return [request.headers["content-range"] for request in server.requests if "content-range" in request.headers]


def generation_of(server: GcsServer, key: str) -> Version:
    blob = server.blob("bucket", key)
    assert blob is not None
    return Version(generation=str(blob.generation))


@pytest.mark.parametrize("data", [b"", b"x", BIG[:PART]])
def test_a_small_value_is_one_request_and_returns_its_generation(server: GcsServer, data: bytes) -> None:
    version = run(server, lambda store: store.set("a b/ü%", data))
    assert server.get("bucket", "a b/ü%") == data
    assert version == generation_of(server, "a b/ü%")
    assert server.counts() == {"POST": 1}


def test_a_large_value_is_uploaded_in_parts_and_returns_its_generation(server: GcsServer) -> None:
    version = run(server, lambda store: store.set("k", BIG))
    assert server.get("bucket", "k") == BIG
    assert version == generation_of(server, "k")
    assert len(ranges(server)) == 4
    assert len(server.requests) == 5
    assert server.connections == 1


@pytest.mark.parametrize("data", [b"x", BIG])
def test_conditions_hold_for_small_and_large_values(server: GcsServer, data: bytes) -> None:
    async def use(store: ObjectStore) -> None:
        version = await store.set("k", data, precondition=IfAbsent())
        assert version is not None
        with pytest.raises(PreconditionFailedError) as caught:
            await store.set("k", data + b"2", precondition=IfAbsent())
        assert (caught.value.status, caught.value.key) == (412, "k")
        newer = await store.set("k", data + b"3", precondition=IfMatch(version))
        assert newer is not None
        with pytest.raises(PreconditionFailedError):
            await store.set("k", data + b"4", precondition=IfMatch(version))
        assert newer == generation_of(server, "k")

    run(server, use)
    assert server.get("bucket", "k") == data + b"3"


def test_a_version_of_another_kind_of_store_is_no_condition(server: GcsServer) -> None:
    async def use(store: ObjectStore) -> None:
        with pytest.raises(UnsupportedOperationError, match="generation"):
            await store.set("k", b"1", precondition=IfMatch(Version('"etag"')))

    run(server, use)
    assert server.requests == []


@pytest.mark.parametrize("data", [b"value", BIG])
def test_a_value_that_is_damaged_on_its_way_is_refused(server: GcsServer, data: bytes) -> None:
    honest = server._judge

    def damaged(request: Request) -> Any:
        spoiled = data[:2] + b"??" + data[4:]
        body = request.body.replace(data[:PART], spoiled[:PART]) if data[:4] in request.body else request.body
        return honest(replace(request, body=body))

    server._judge = damaged  # type: ignore[method-assign]

    async def use(store: ObjectStore) -> None:
        with pytest.raises(StoreError, match="damaged") as caught:
            await store.set("k", data)
        assert caught.value.retryable

    run(server, use)
    assert server.get("bucket", "k") is None


def nth_part(number: int, spoil: Callable[[Reply], Reply], times: int = 1) -> Callable[[Request, Reply], Reply]:
    """Spoil the answers to the first `times` tries of part `number`, from 0."""
    left = [times]

    def script(request: Request, reply: Reply) -> Reply:
        if request.headers.get("content-range", "").startswith(f"bytes {number * PART}-") and left[0]:
            left[0] -= 1
            return spoil(reply)
        return reply

    return script


@pytest.mark.parametrize("part", [0, 1, 3])
@pytest.mark.parametrize("spoil", [status(503), status(500), status(429, Retry_After="0"), applied(502), reset])
def test_a_part_whose_answer_is_lost_is_not_sent_again(
    server: GcsServer, part: int, spoil: Callable[[Reply], Reply]
) -> None:
    server.script = nth_part(part, spoil)
    version = run(server, lambda store: store.set("k", BIG, precondition=IfAbsent()))
    assert server.get("bucket", "k") == BIG
    assert version == generation_of(server, "k")
    sent = ranges(server)
    assert sent.count(f"bytes */{len(BIG)}") == 1
    # A refused last part is kept, and the question after it completes the upload.
    assert len(sent) == 5


def test_a_part_that_nothing_answers_is_asked_after(server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "SLOWEST_BYTES_PER_SECOND", 1 << 30)
    server.script = nth_part(1, no_answer)
    run(server, lambda store: store.set("k", BIG), idle_timeout=0.2)
    assert server.get("bucket", "k") == BIG


def test_an_upload_goes_on_from_where_the_server_says(server: GcsServer) -> None:
    server.uploads.keeps = PART - 5000
    run(server, lambda store: store.set("k", BIG))
    assert server.get("bucket", "k") == BIG
    assert ranges(server)[1].startswith(f"bytes {PART - 5000}-")


def test_a_server_that_has_all_and_does_not_say_that_it_is_stored_is_asked(server: GcsServer) -> None:
    all_of_it = f"bytes=0-{len(BIG) - 1}"
    server.script = nth_part(3, lambda reply: Reply(308, (("Range", all_of_it),), applied=True))
    run(server, lambda store: store.set("k", BIG))
    assert server.get("bucket", "k") == BIG
    assert ranges(server)[-1] == f"bytes */{len(BIG)}"


def test_a_server_that_stores_nothing_is_an_error_and_the_session_is_cancelled(server: GcsServer) -> None:
    server.uploads.keeps = 0

    async def use(store: ObjectStore) -> None:
        with pytest.raises(StoreError, match="the server does not store the bytes sent") as caught:
            await store.set("k", BIG)
        assert caught.value.retryable

    run(server, use)
    assert len(ranges(server)) == uploads.MAX_FAULTS + 1
    assert server.uploads.sessions == {}


def test_a_server_that_always_fails_is_an_error_with_the_last_cause(server: GcsServer) -> None:
    server.script = lambda request, reply: status(503)(reply) if "content-range" in request.headers else reply

    async def use(store: ObjectStore) -> None:
        with pytest.raises(ThrottledError) as caught:
            await store.set("k", BIG)
        assert caught.value.status == 503

    run(server, use)
    assert server.uploads.sessions == {}
    assert server.get("bucket", "k") is None


def test_a_condition_that_ceases_to_hold_during_the_upload_fails_it(server: GcsServer) -> None:
    def script(request: Request, reply: Reply) -> Reply:
        if request.headers.get("content-range", "").startswith("bytes 0-"):
            server.put("bucket", "k", b"theirs")
        return reply

    server.script = script

    async def use(store: ObjectStore) -> None:
        with pytest.raises(PreconditionFailedError):
            await store.set("k", BIG, precondition=IfAbsent())

    run(server, use)
    assert server.get("bucket", "k") == b"theirs"
    assert server.uploads.sessions == {}


@pytest.mark.parametrize(
    ("spoil", "kind", "retryable"),
    [
        (status(503), ThrottledError, True),
        (status(429), ThrottledError, True),
        (status(403, b'{"error": {"errors": [{"reason": "rateLimitExceeded"}]}}'), ThrottledError, True),
        (status(403), PermissionDeniedError, False),
        (status(500), StoreError, True),
        (status(404), StoreError, True),
        (status(404, b"<Error><Code>NoSuchBucket</Code></Error>"), StoreError, False),
        (status(302, Location="http://elsewhere.example/"), StoreError, False),
        (reset, StoreError, True),
    ],
)
@pytest.mark.parametrize("data", [b"value", BIG])
def test_a_write_that_fails_at_its_begin_says_why(
    server: GcsServer, data: bytes, spoil: Callable[[Reply], Reply], kind: type[StoreError], retryable: bool
) -> None:
    server.script = first(1, spoil)

    async def use(store: ObjectStore) -> None:
        with pytest.raises(kind) as caught:
            await store.set("k", data)
        assert caught.value.retryable == retryable
        assert (caught.value.store, caught.value.key) == ("gs://bucket", "k")

    run(server, use)
    assert len(server.requests) == 1


def test_a_server_that_asks_for_a_long_pause_is_left_to_the_scheduler(server: GcsServer) -> None:
    server.script = nth_part(1, status(503, Retry_After="60"))

    async def use(store: ObjectStore) -> None:
        with pytest.raises(ThrottledError) as caught:
            await store.set("k", BIG)
        assert caught.value.retry_after == 60

    run(server, use)
    assert server.uploads.sessions == {}


def test_the_id_of_a_session_is_not_told(server: GcsServer) -> None:
    server.script = nth_part(0, status(403, X_GUploader_UploadID="session-secret"))

    async def use(store: ObjectStore) -> None:
        with pytest.raises(PermissionDeniedError) as caught:
            await store.set("k", BIG)
        assert caught.value.request_id is None

    run(server, use)


@pytest.mark.parametrize("code", [404, 410])
def test_an_expired_session_may_be_begun_anew(server: GcsServer, code: int) -> None:
    server.script = nth_part(1, status(code))

    async def use(store: ObjectStore) -> None:
        with pytest.raises(StoreError) as caught:
            await store.set("k", BIG)
        assert (caught.value.status, caught.value.retryable) == (code, True)
        assert "upload_id" not in str(caught.value)

    run(server, use)


def test_a_session_on_another_server_is_refused() -> None:
    google = find_endpoint("b", GcsOptions(), {})
    for near in ("https://storage.googleapis.com", "https://www.googleapis.com"):
        assert uploads.session_target(f"{near}/upload/x?upload_id=1", google) == "/upload/x?upload_id=1"
    for location in (
        "https://evil.example/x",
        "http://storage.googleapis.com/x",
        "",
        "/x",
        "https://a.googleapis.com.evil/x",
        "https://storage.googleapis.com/x HTTP/1.1",
    ):
        with pytest.raises(StoreError, match="session"):
            uploads.session_target(location, google)
    other = find_endpoint("b", GcsOptions(universe_domain="universe.test"), {})
    assert uploads.session_target("https://eu.universe.test/upload/x", other) == "/upload/x"
    with pytest.raises(StoreError, match="session"):
        uploads.session_target("https://storage.googleapis.com/upload/x", other)
    emulator = find_endpoint("b", GcsOptions(endpoint_url="http://localhost:1"), {})
    assert uploads.session_target("http://0.0.0.0:4443/up?x=1", emulator) == "/up?x=1"


@pytest.mark.parametrize("begun_already", [False, True])
def test_a_cancelled_upload_leaves_nothing(server: GcsServer, begun_already: bool) -> None:
    begun = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    def script(request: Request, reply: Reply) -> Reply:
        if ("content-range" in request.headers) == begun_already and request.method != "DELETE":
            loops[0].call_soon_threadsafe(begun.set)
            return no_answer(reply)
        return reply

    server.script = script

    async def use(store: ObjectStore) -> None:
        loops.append(asyncio.get_running_loop())
        task = asyncio.create_task(store.set("k", BIG))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(server, use)
    assert server.get("bucket", "k") is None
    if begun_already:
        assert server.uploads.sessions == {}


def test_memory_of_any_kind_is_sent(server: GcsServer) -> None:
    async def use(store: ObjectStore) -> None:
        await store.set("a", bytearray(b"abc"))
        await store.set("b", memoryview(BIG)[5:])

    run(server, use)
    assert server.get("bucket", "a") == b"abc"
    assert server.get("bucket", "b") == BIG[5:]


@pytest.mark.parametrize(
    ("resource", "data"),
    [('{"generation": "1", "size": "4"}', b"value"), ('{"generation": "1", "crc32c": "AAAAAA=="}', b"value")],
)
@pytest.mark.parametrize("large", [False, True])
def test_an_object_that_the_server_reports_otherwise_than_it_was_sent_is_an_error(
    server: GcsServer, resource: str, data: bytes, large: bool
) -> None:
    def report(request: Request, reply: Reply) -> Reply:
        is_last = b"generation" in reply.body
        return replace(reply, body=resource.encode()) if is_last else reply

    server.script = report
    with pytest.raises(StoreError, match="different bytes from those sent") as caught:
        run(server, lambda store: store.set("k", BIG if large else data))
    assert caught.value.retryable


def test_a_server_that_reports_more_bytes_than_were_sent_is_an_error(server: GcsServer) -> None:
    server.script = lambda request, reply: reply.with_headers(Range=f"bytes=0-{PART}") if reply.status == 308 else reply
    with pytest.raises(StoreError, match="different bytes from those sent"):
        run(server, lambda store: store.set("k", BIG))


def test_the_answer_to_a_status_query_is_checked_as_any_other(server: GcsServer) -> None:
    def finish(request: Request, reply: Reply) -> Reply:
        content = request.headers.get("content-range", "")
        if content.startswith("bytes */"):
            return Reply(200, (), b'{"generation": "1", "size": "0"}')
        return Reply(503) if content else reply

    server.script = finish
    with pytest.raises(StoreError, match="different bytes from those sent"):
        run(server, lambda store: store.set("k", BIG))
