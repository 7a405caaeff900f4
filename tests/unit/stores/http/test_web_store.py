"""Reads over HTTP, as all stores of web servers share them: ranges, ends, versions and sizes."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from aiozarr.errors import (
    ChangedError,
    LimitError,
    ShortReadError,
    StoreError,
    UnsupportedOperationError,
)
from aiozarr.model import Entry, Range, Suffix, Version
from aiozarr.stores.capabilities import MAX_TAIL_ATTEMPTS
from aiozarr.stores.http.store import HTTPStore
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer

DATA = bytes(range(256)) * 1000


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server with a value."""
    with FaultServer({"a/b": DATA, "empty": b""}) as running:
        yield running


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (spoil.content_range("bytes 0-9/256000"), StoreError),
        (spoil.content_range("bytes 5-13/256000"), StoreError),
        (spoil.content_range("bytes 5-14/12"), StoreError),
        (spoil.shortened(3), StoreError),
        (spoil.lengthened(b"more"), StoreError),
        (spoil.multipart, StoreError),
        (spoil.gzipped, StoreError),
        (spoil.etag('"other"'), ChangedError),
        (spoil.etag(None), ChangedError),
        (spoil.truncated(5), ShortReadError),
        (lambda reply: spoil.chunked(spoil.shortened(3)(reply)), ShortReadError),
        (lambda reply: spoil.chunked(spoil.lengthened(b"xx")(reply)), LimitError),
    ],
)
async def test_a_ranged_answer_that_is_not_exactly_what_was_asked_for_is_never_used(
    server: FaultServer, fault: spoil.Spoil, kind: type[Exception]
) -> None:
    async with HTTPStore(server.url) as store:
        value = await store.fetch("a/b")
        assert value is not None
        server.script = spoil.always(fault)
        with pytest.raises(kind):
            await store.fetch("a/b", Range(5, 10), if_match=value.version)


async def test_a_server_without_ranges_is_read_whole_and_cut_and_the_store_says_so(server: FaultServer) -> None:
    server.script = lambda request, reply: (
        reply if reply.status == 404 else spoil.whole(server.get(request.key) or b"")(reply)
    )
    async with HTTPStore(server.url) as store:
        claims = [store.supports.partial_reads]
        whole = await store.fetch("a/b", Range(0))
        assert whole is not None
        assert bytes(whole.data) == DATA
        claims.append(store.supports.partial_reads)
        for part, expected in ((Range(5, 10), DATA[5:15]), (Suffix(7), DATA[-7:]), (Range(1 << 40, 5), b"")):
            value = await store.fetch("a/b", part)
            assert value is not None
            assert (bytes(value.data), value.size) == (expected, len(DATA))
        claims.append(store.supports.partial_reads)
        assert claims == [True, True, False]
        assert not pickle.loads(pickle.dumps(store)).supports.partial_reads


async def test_a_part_under_status_200_is_taken_if_it_says_which_it_is(server: FaultServer) -> None:
    server.script = spoil.always(spoil.status_only(200))
    async with HTTPStore(server.url) as store:
        value = await store.fetch("a/b", Range(5, 10))
        assert value is not None
        assert (bytes(value.data), value.size) == (DATA[5:15], len(DATA))
        assert store.supports.partial_reads


@pytest.mark.parametrize("frame", [spoil.chunked, spoil.until_close, spoil.closing, spoil.dropping, spoil.gzipped])
async def test_a_whole_value_is_read_in_every_framing(server: FaultServer, frame: spoil.Spoil) -> None:
    server.script = spoil.always(frame)
    async with HTTPStore(server.url) as store:
        for _ in range(3):
            value = await store.fetch("a/b")
            assert value is not None
            assert (bytes(value.data), value.size) == (DATA, len(DATA))
            assert value.version is not None


async def test_a_refused_suffix_that_is_longer_than_the_object_is_asked_for_again_as_a_range(
    server: FaultServer,
) -> None:
    server.script = spoil.when(lambda request: "-999999" in request.headers.get("range", ""), spoil.status(416))
    async with HTTPStore(server.url) as store:
        value = await store.fetch("a/b", Suffix(999_999))
    assert value is not None
    assert bytes(value.data) == DATA


async def test_an_object_that_shrank_is_a_changed_error_where_a_version_was_asked_for(server: FaultServer) -> None:
    async with HTTPStore(server.url) as store:
        value = await store.fetch("a/b")
        assert value is not None
        server.put("a/b", b"tiny")
        server.script = lambda request, reply: reply if request.method == "HEAD" else spoil.status(416)(reply)
        with pytest.raises(ChangedError):
            await store.fetch("a/b", Range(1000, 5), if_match=value.version)
        shrunk = await store.fetch("a/b", Range(1000, 5))
        assert shrunk is not None
        assert (bytes(shrunk.data), shrunk.size) == (b"", 4)


async def test_a_weak_version_is_compared_and_not_sent(server: FaultServer) -> None:
    server.script = spoil.always(spoil.etag('W/"1"'))
    async with HTTPStore(server.url) as store:
        value = await store.fetch("a/b", if_match=Version('W/"1"'))
        assert value is not None
        assert value.version == Version('W/"1"')
        with pytest.raises(ChangedError):
            await store.fetch("a/b", if_match=Version('W/"2"'))
    assert all("if-match" not in request.headers for request in server.requests)


async def test_last_modified_is_the_version_where_there_is_no_etag(server: FaultServer) -> None:
    server.script = spoil.always(spoil.etag(None))
    async with HTTPStore(server.url) as store:
        value = await store.fetch("a/b", Range(0, 1))
        entry = await store.stat("a/b")
    assert value is not None
    assert value.version is not None
    assert value.version.weak
    assert entry == Entry("a/b", len(DATA), value.version)


@pytest.mark.parametrize("status", [403, 405, 501])
async def test_stat_requests_the_first_byte_if_head_is_refused(server: FaultServer, status: int) -> None:
    server.script = spoil.when(lambda request: request.method == "HEAD", spoil.status(status))
    async with HTTPStore(server.url) as store:
        entry = await store.stat("a/b")
        assert entry is not None
        assert (entry.size, entry.version is not None) == (len(DATA), True)
        assert await store.stat("gone") is None


async def test_stat_requests_the_first_byte_if_head_has_no_size(server: FaultServer) -> None:
    server.script = spoil.when(lambda request: request.method == "HEAD", spoil.chunked)
    async with HTTPStore(server.url) as store:
        entry = await store.stat("a/b")
    assert entry is not None
    assert entry.size == len(DATA)


async def test_a_whole_object_that_is_too_large_to_come_in_place_of_a_range_is_refused_by_its_name(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["aiozarr.http1.response_check"], "MAX_CUT_BYTES", 1000)
    server.script = spoil.always(spoil.whole(DATA))
    async with HTTPStore(server.url) as store:
        with pytest.raises(UnsupportedOperationError, match="does not answer ranges") as caught:
            await store.fetch("a/b", Range(5, 10))
    assert (caught.value.key, caught.value.store) == ("a/b", server.url)
    assert "'a/b'" in str(caught.value)


TAIL = bytes(range(200))


def without_suffixes(tail_server: FaultServer) -> HTTPStore:
    store = HTTPStore(tail_server.url)
    store.supports = replace(store.supports, suffix_reads=False)
    return store


@pytest.fixture
def tail_server() -> Iterator[FaultServer]:
    with FaultServer({"a": TAIL, "empty": b""}) as running:
        yield running


@pytest.mark.parametrize(("length", "expected"), [(7, TAIL[-7:]), (200, TAIL), (300, TAIL), (0, b"")])
async def test_an_end_is_found_by_the_size(tail_server: FaultServer, length: int, expected: bytes) -> None:
    async with without_suffixes(tail_server) as store:
        value = await store.fetch("a", Suffix(length))
        assert value is not None
        assert (bytes(value.data), value.size, value.version) == (expected, 200, Version('"1"'))
    assert [request.method for request in tail_server.requests] == (["HEAD", "GET"] if length else ["HEAD"])
    assert not any("bytes=-" in request.headers.get("range", "") for request in tail_server.requests)


async def test_the_end_of_an_empty_or_missing_object_is_one_request(tail_server: FaultServer) -> None:
    async with without_suffixes(tail_server) as store:
        value = await store.fetch("empty", Suffix(7))
        assert value is not None
        assert (bytes(value.data), value.size) == (b"", 0)
        assert await store.fetch("missing", Suffix(7)) is None
    assert len(tail_server.requests) == 2


async def test_another_version_than_expected_is_noticed_by_the_size_already(tail_server: FaultServer) -> None:
    async with without_suffixes(tail_server) as store:
        with pytest.raises(ChangedError) as raised:
            await store.fetch("a", Suffix(7), if_match=Version('"other"'))
    assert (raised.value.key, raised.value.range) == ("a", Suffix(7))
    assert len(tail_server.requests) == 1


async def test_an_error_of_an_end_names_the_range_of_the_caller(tail_server: FaultServer) -> None:
    async with without_suffixes(tail_server) as store:
        with pytest.raises(LimitError) as limited:
            await store.fetch("a", Suffix(7), max_bytes=6)
        tail_server.script = lambda request, reply: Reply(500) if request.method == "GET" else reply
        with pytest.raises(StoreError) as failed:
            await store.fetch("a", Suffix(7))
    assert [(error.key, error.range) for error in (limited.value, failed.value)] == [("a", Suffix(7))] * 2


async def test_a_value_that_changes_in_between_is_looked_at_anew_a_few_times(tail_server: FaultServer) -> None:
    changes = 1

    def replace_it(request: Request, reply: Reply) -> Reply:
        nonlocal changes
        if request.method == "HEAD" and changes:
            changes -= 1
            tail_server.put("a", b"newer")
        return reply

    tail_server.script = replace_it
    async with without_suffixes(tail_server) as store:
        value = await store.fetch("a", Suffix(2))
        assert value is not None
        assert bytes(value.data) == b"er"
        changes, before = 100, len(tail_server.requests)
        with pytest.raises(ChangedError):
            await store.fetch("a", Suffix(2))
        assert len(tail_server.requests) - before == 2 * MAX_TAIL_ATTEMPTS


def test_the_hosts_of_azure_are_known_to_have_no_suffix_ranges() -> None:
    azure = HTTPStore("https://acct.blob.core.windows.net/data/field.zarr")
    assert not azure.supports.suffix_reads
    assert azure._client.template.headers["x-ms-version"] == "2023-11-03"
    mine = HTTPStore("https://acct.blob.core.windows.net/data", headers={"X-MS-Version": "2021-12-02"})
    assert list(mine._client.template.headers.values()) == ["2021-12-02"]
    other = HTTPStore("https://blob.core.windows.net.example/data")
    assert other.supports.suffix_reads
    assert other._client.template.headers == {}
