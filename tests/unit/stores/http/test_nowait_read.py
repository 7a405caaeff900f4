"""Reads without a task end like those with one: with the same values and errors, by the same requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from aiozarr.errors import InvalidKeyError, StoreError
from aiozarr.model import ByteRange, Range, Suffix, Value, Version
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.stores.capabilities import NowaitStore
from aiozarr.stores.http.store import HTTPStore
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

DATA = bytes(range(256)) * 300
OPTIONS = {"key": "k", "secret": "s", "region": "us-east-1"}


class Outcome:
    """A callback that stores the outcome of a read."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Value | None] = asyncio.get_running_loop().create_future()

    def fetched(self, value: Value | None) -> None:
        self.future.set_result(value)

    def failed(self, error: Exception) -> None:
        self.future.set_exception(error)


async def at_once(
    store: NowaitStore, key: str, range: ByteRange | None = None, if_match: Version | None = None
) -> Value | None:
    """Read by `begin_fetch`, which must be possible."""
    outcome = Outcome()
    assert store._fetch_nowait(key, range, if_match, outcome) is not None
    return await outcome.future


def web(server: FaultServer) -> NowaitStore:
    return HTTPStore(server.url)


def bucket(server: FaultServer) -> NowaitStore:
    return ObjectStore("s3://bucket", endpoint_url=server.url, **OPTIONS)


def gcs(server: FaultServer) -> NowaitStore:
    return ObjectStore("gs://bucket", endpoint_url=server.url, token="secret-token")


def azure(server: FaultServer) -> NowaitStore:
    return ObjectStore("az://bucket", endpoint_url=f"{server.url}/acct", account_key="c2VjcmV0")


KEYS = {web: "a/b", bucket: "bucket/a/b", gcs: "bucket/a/b", azure: "acct/bucket/a/b"}
STORES = [web, bucket, gcs, azure]

SPOILS: dict[str, spoil.Spoil] = {
    "honest": lambda reply: reply,
    "chunked": spoil.chunked,
    "until close": spoil.until_close,
    "gzipped": spoil.gzipped,
    "closing": spoil.closing,
    "whole": spoil.whole(DATA),
    "multipart": spoil.multipart,
    "other range": spoil.content_range("bytes 1-2/3"),
    "truncated": spoil.truncated(100),
    "shortened": spoil.shortened(3),
    "lengthened": spoil.lengthened(b"more"),
    "reset": spoil.reset,
    "reset in body": spoil.reset_in_body(70_000),
    "garbage": spoil.garbage(b"\x00\x01\x02"),
    "flood": spoil.header_flood(200),
    "no etag": spoil.etag(None),
    "other etag": spoil.etag('"other"'),
    "html": spoil.html(),
    "folder": lambda reply: reply.with_headers(x_ms_meta_hdi_isfolder="true"),
    "checksum": lambda reply: reply.with_headers(x_goog_hash="crc32c=AAAAAA=="),
    "unpacked": lambda reply: reply.with_headers(x_goog_stored_content_encoding="gzip"),
    **{str(code): spoil.status(code) for code in (204, 304, 400, 401, 403, 404, 405, 410, 412, 416, 429, 500, 503)},
}


async def outcome_of(
    make: Callable[[FaultServer], NowaitStore], change: spoil.Spoil, range: ByteRange | None, match: bool, prompt: bool
) -> tuple[object, ...]:
    """Return how one read ends, and the requests that it takes."""
    with FaultServer({KEYS[make]: DATA}) as server:
        store = make(server)
        async with store:
            first = await store.fetch("a/b", Range(0, 1))  # a connection is at hand from here on
            assert first is not None
            before = len(server.requests)
            server.script = spoil.always(change)
            version = first.version if match else None
            try:
                if prompt and (range is None or type(range) is Range or store.supports.suffix_reads):
                    value = await at_once(store, "a/b", range, version)
                else:
                    value = await store.fetch("a/b", range, if_match=version)
            except StoreError as error:
                ended: tuple[object, ...] = (
                    type(error), error.message, error.status, error.retryable, error.key, error.range,
                )  # fmt: skip
            else:
                ended = ("nothing",) if value is None else (bytes(value.data), value.size, value.version is None)
            asked = [
                (each.method, each.key, each.headers.get("range"), each.headers.get("if-match") is None)
                for each in server.requests[before:]
            ]
            return (*ended, store.supports, asked)


RANGES = [None, Range(5, 1000), Range(5), Range(0, 0), Range(10**9, 5), Suffix(7)]
# A quarter of all combinations: each response meets each store and each range, both with a version and without.
CASES = [
    (name, make, part, (row // 2 + column // 2) % 2 == 1)
    for first, name in enumerate(SPOILS)
    for row, part in enumerate(RANGES)
    for column, make in enumerate(STORES)
    if (first + row + column) % 2 == 0
]


@pytest.mark.parametrize(("name", "make", "range", "match"), CASES)
async def test_a_read_without_a_task_ends_like_one_with_a_task(
    name: str, make: Callable[[FaultServer], NowaitStore], range: ByteRange | None, match: bool
) -> None:
    waited = await outcome_of(make, SPOILS[name], range, match, False)
    assert await outcome_of(make, SPOILS[name], range, match, True) == waited


async def test_a_redirect_is_followed() -> None:
    with FaultServer({"b": DATA}) as target, FaultServer({"a": b""}) as server:
        async with HTTPStore(server.url) as store:
            await store.fetch("a")
            server.script = spoil.always(spoil.redirect(f"{target.url}/b"))
            value = await at_once(store, "a", Range(1, 5))
            assert value is not None
            assert bytes(value.data) == DATA[1:6]
            assert [len(server.requests), len(target.requests)] == [2, 1]


@pytest.mark.parametrize("make", STORES)
async def test_after_a_preconnect_reads_need_no_task(make: Callable[[FaultServer], NowaitStore]) -> None:
    with FaultServer({KEYS[make]: DATA}) as server:
        async with make(server) as store:
            assert await store.fetch("a/b") is not None  # now an S3 store knows the bucket's region
            store._preconnect(3)
            while server.open_connections < 3 or len(asyncio.all_tasks()) > 1:  # of the preconnect
                await asyncio.sleep(0.01)
            outcomes = [Outcome() for _ in range(3)]
            assert all(store._fetch_nowait("a/b", None, None, outcome) is not None for outcome in outcomes)
            for outcome in outcomes:
                value = await outcome.future
                assert value is not None
                assert bytes(value.data) == DATA
            assert server.connections == 3


@pytest.mark.parametrize("make", STORES)
async def test_without_an_idle_connection_nothing_is_sent(make: Callable[[FaultServer], NowaitStore]) -> None:
    with FaultServer({KEYS[make]: DATA}) as server:
        async with make(server) as store:
            assert store._fetch_nowait("a/b", None, None, Outcome()) is None
            assert await store.fetch("a/b") is not None
            first, second = Outcome(), Outcome()
            assert store._fetch_nowait("a/b", None, None, first) is not None
            assert store._fetch_nowait("a/b", None, None, second) is None  # the only connection has work
            value = await first.future
            assert value is not None
            assert bytes(value.data) == DATA
            with pytest.raises(InvalidKeyError):
                store._fetch_nowait("a//b", None, None, second)
            assert (len(server.requests), server.connections) == (2, 1)


async def test_a_stale_connection_is_replaced() -> None:
    with FaultServer({"a/b": DATA}) as server:
        server.script = spoil.only({2: spoil.reset})
        async with HTTPStore(server.url) as store:
            await store.fetch("a/b")
            value = await at_once(store, "a/b", Range(3, 4))
            assert value is not None
            assert bytes(value.data) == DATA[3:7]
            assert (len(server.requests), server.connections) == (3, 2)


@pytest.mark.parametrize("change", [spoil.delayed(0.2), spoil.redirect("/elsewhere"), spoil.status(416)])
@pytest.mark.parametrize("after", [0.0, 0.02])
async def test_an_abandoned_read_calls_nothing_and_does_not_disturb_the_next_read(
    change: spoil.Spoil, after: float
) -> None:
    with FaultServer({"a/b": DATA, "c": b"other"}) as server:
        async with HTTPStore(server.url) as store:
            await store.fetch("c")
            server.script = spoil.always(change)
            outcome = Outcome()
            sent = store._fetch_nowait("a/b", Range(0, 3), None, outcome)
            assert sent is not None
            await asyncio.sleep(after)
            over = outcome.future.done()
            sent.give_up()
            server.script = spoil.always(lambda reply: reply)
            value = await store.fetch("c")
            assert value is not None
            assert bytes(value.data) == b"other"
            await asyncio.sleep(0.3)
            assert outcome.future.done() == over
            if over:
                outcome.future.exception()
