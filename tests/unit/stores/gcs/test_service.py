"""A bucket of Google Cloud Storage: generations, hashes, encodings, listings, deletes and who pays."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from aiozarr.errors import (
    ChangedError,
    EraseError,
    InvalidKeyError,
    LimitError,
    PermissionDeniedError,
    StoreError,
    ThrottledError,
)
from aiozarr.model import Entry, Range, Suffix, Version
from aiozarr.stores.object.listing import MAX_PAGE_BYTES
from aiozarr.stores.object.store import ObjectStore
from aiozarr.testing.gcs_server import GcsServer
from aiozarr.testing.http_replies import Reply, Request, Spoil, first, gzipped, html, no_answer, status, when

T = TypeVar("T")

NO_BUCKET = b'{"error": {"code": 404, "message": "The specified bucket does not exist."}}'


@pytest.fixture
def server() -> Iterator[GcsServer]:
    with GcsServer("bucket") as running:
        yield running


def run(server: GcsServer, use: Callable[[ObjectStore], Awaitable[T]], url: str = "gs://bucket", **options: Any) -> T:
    async def main() -> T:
        async with ObjectStore(url, **server.storage_options, **options) as store:
            result = await use(store)
        assert len(asyncio.all_tasks()) == 1
        return result

    return asyncio.run(main())


def test_connections_are_opened_ahead(server: GcsServer) -> None:
    async def use(store: ObjectStore) -> None:
        store.prepare(3)
        while server.open_connections < 3:
            await asyncio.sleep(0.01)
        assert await asyncio.gather(*(store.fetch("k") for _ in range(3))) == [None] * 3
        assert server.connections == 3

    run(server, use)


# --- versions --------------------------------------------------------------------------------------------------------


def test_every_operation_tells_the_same_generation(server: GcsServer) -> None:
    async def use(store: ObjectStore) -> None:
        version = await store.set("k", b"0123456789")
        assert version == Version(generation=str(server.blob("bucket", "k").generation))  # type: ignore[union-attr]
        for byte_range in (None, Range(2, 3), Suffix(2), Range(99, 1)):
            value = await store.fetch("k", byte_range)
            assert value is not None
            assert (value.version, value.size) == (version, 10)
        assert await store.stat("k") == Entry("k", 10, version)
        assert [entry async for entry in store.scan()] == [Entry("k", 10, version)]

    run(server, use)


def test_a_read_of_another_generation_is_refused_by_the_server(server: GcsServer) -> None:
    async def use(store: ObjectStore) -> None:
        version = await store.set("k", b"old")
        await store.set("k", b"new")
        for byte_range in (None, Range(0, 1), Suffix(1), Range(50, 1)):
            with pytest.raises(ChangedError):
                await store.fetch("k", byte_range, if_match=version)

    run(server, use)
    assert server.requests[-1].headers["x-goog-if-generation-match"]


def test_an_answer_of_another_generation_is_noticed_where_the_server_ignores_conditions(server: GcsServer) -> None:
    server.ignores_conditions = True

    async def use(store: ObjectStore) -> None:
        version = await store.set("k", b"old")
        await store.set("k", b"new")
        with pytest.raises(ChangedError):
            await store.fetch("k", Range(0, 1), if_match=version)

    run(server, use)


def test_a_server_that_ignores_conditions_of_writes_is_found_out(server: GcsServer) -> None:
    server.ignores_conditions = True
    assert not run(server, lambda store: store.probe_conditional_writes())
    assert server.keys("bucket") == []


def test_google_itself_is_trusted_with_conditions_and_others_are_not() -> None:
    assert ObjectStore("gs://bucket", anon=True).supports.conditional_writes is True
    assert ObjectStore("gs://bucket", endpoint_url="http://localhost:1").supports.conditional_writes is None


# --- what came is what was stored ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [5, 3 << 20])
@pytest.mark.parametrize("composite", [False, True])
def test_a_body_that_does_not_have_its_hash_is_an_error_that_may_pass(
    server: GcsServer, size: int, composite: bool
) -> None:
    data = b"!" + os.urandom(size - 1)
    server.put("bucket", "k", data, composite=composite)
    server.script = first(1, lambda reply: replace(reply, body=b"?" + reply.body[1:]))

    async def use(store: ObjectStore) -> None:
        with pytest.raises(StoreError, match="CRC32C") as caught:
            await store.get("k")
        assert (caught.value.retryable, caught.value.key) == (True, "k")
        assert await store.get("k") == data

    run(server, use)


def test_what_is_stored_compressed_is_read_as_it_is_stored(server: GcsServer) -> None:
    packed = gzip.compress(b"text" * 100, mtime=0)
    server.put("bucket", "k", packed, content_encoding="gzip")

    async def use(store: ObjectStore) -> None:
        value = await store.fetch("k")
        assert value is not None
        assert (bytes(value.data), value.size) == (packed, len(packed))
        part = await store.fetch("k", Range(3, 4))
        assert part is not None
        assert (bytes(part.data), part.size) == (packed[3:7], len(packed))
        assert (await store.stat("k")).size == len(packed)  # type: ignore[union-attr]

    run(server, use)


def test_what_the_server_compresses_on_the_way_is_asked_for_plainly(server: GcsServer) -> None:
    server.put("bucket", "zarr.json", b"{}" * 100)
    accepts = lambda request: "gzip" in request.headers.get("accept-encoding", "")  # noqa: E731
    server.script = when(accepts, gzipped)
    assert run(server, lambda store: store.get("zarr.json")) == b"{}" * 100
    assert len(server.requests) == 2


def test_what_a_server_insists_on_unpacking_is_an_error(server: GcsServer) -> None:
    server.put("bucket", "k", gzip.compress(b"text"), content_encoding="gzip")

    def script(request: Request, reply: Reply) -> Reply:
        return replace(reply.without("Content-Encoding"), body=b"text")

    server.script = script

    async def use(store: ObjectStore) -> None:
        with pytest.raises(StoreError, match="unpacked"):
            await store.get("k")

    run(server, use)


# --- what is missing, and what is refused ----------------------------------------------------------------------------


def test_a_missing_bucket_is_not_a_missing_key(server: GcsServer) -> None:
    async def use(store: ObjectStore) -> None:
        for operation in (store.get("k"), store.stat("k"), store.set("k", b"1"), store.erase("k"), store.list()):
            with pytest.raises(StoreError) as caught:
                await operation
            assert caught.value.status == 404

    run(server, use, "gs://none")


def test_a_requester_who_pays_is_named_in_every_request(server: GcsServer) -> None:
    server.payer = "mine"

    async def use(store: ObjectStore) -> None:
        await store.set("k", b"1")
        await store.set("big", bytes(17 << 20))
        assert await store.get("k") == b"1"
        assert await store.list() == ["big", "k"]
        await store.erase("k")

    run(server, use, requester_pays="mine")

    async def refused(store: ObjectStore) -> None:
        for operation in (store.get("k"), store.list(), store.set("k", b"1")):
            with pytest.raises(StoreError, match="requester_pays="):
                await operation

    run(server, refused)


def test_a_cancelled_read_leaves_the_connections_usable(server: GcsServer) -> None:
    server.put("bucket", "k", b"value")
    server.script = first(1, no_answer)

    async def use(store: ObjectStore) -> None:
        task = asyncio.create_task(store.get("k"))
        while not server.requests:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await store.get("k") == b"value"

    run(server, use)


@pytest.mark.parametrize("key", ["a\rb", "a\nb"])
def test_keys_that_google_refuses_are_refused_before_any_request(server: GcsServer, key: str) -> None:
    async def use(store: ObjectStore) -> None:
        with pytest.raises(InvalidKeyError):
            await store.set(key, b"1")

    run(server, use)
    assert server.requests == []


# --- listings --------------------------------------------------------------------------------------------------------


def test_a_listing_streams_in_page_by_page_and_asks_for_no_more_than_it_needs(server: GcsServer) -> None:
    for number in range(2300):
        server.put("bucket", f"a/{number:04}", b"x")
    server.put("bucket", "b", b"x")

    async def use(store: ObjectStore) -> None:
        scan = store.scan("a/")
        await anext(scan)
        assert len(server.requests) == 1
        assert len([entry async for entry in scan]) == 2299
        assert len(server.requests) == 3

    run(server, use)
    assert all("fields=items(name,size,generation),nextPageToken" in request.target for request in server.requests)


def test_folders_that_other_tools_make_are_no_keys(server: GcsServer) -> None:
    for key in ("a/", "a/b", "a/c/", "a/c/d", "a//x", "/y"):
        server.put("bucket", key, b"")

    async def use(store: ObjectStore) -> None:
        assert sorted(await store.list()) == ["a/b", "a/c/d"]
        assert await store.list_dir("a/") == (["a/b"], ["a/c/"])
        assert await store.list_dir("") == ([], ["a/"])

    run(server, use)


@pytest.mark.parametrize("body", [b"{", b"[]", b"<html>"])
def test_a_listing_that_is_none_is_an_error(server: GcsServer, body: bytes) -> None:
    server.script = lambda request, reply: replace(reply, body=body)

    async def use(store: ObjectStore) -> None:
        with pytest.raises(StoreError, match="listing"):
            await store.list()

    run(server, use)


@pytest.mark.parametrize("length", [1, 2, 7])
def test_a_listing_that_goes_in_a_circle_ends(server: GcsServer, length: int) -> None:
    server.script = lambda request, reply: replace(
        reply, body=b'{"nextPageToken": "%d"}' % (len(server.requests) % length)
    )

    async def use(store: ObjectStore) -> None:
        with pytest.raises(StoreError, match="circle"):
            await store.list()

    run(server, use)

    assert len(server.requests) <= 4 * length


def test_what_is_listed_outside_of_the_prefix_or_is_no_key_is_left_out_and_not_removed(server: GcsServer) -> None:
    names = ["root/a", "other/a", "rootx/b", "roo", "root/../x", "root/a\0b", "root/" + "x" * 2000, "root/\ud800"]
    page = {"items": [{"name": name, "size": "1"} for name in names], "prefixes": ["root/d/", "other/", "root//"]}
    server.script = when(
        lambda request: "maxResults" in request.target, lambda reply: replace(reply, body=json.dumps(page).encode())
    )

    async def use(store: ObjectStore) -> None:
        assert await store.list() == ["a"]
        assert await store.list_dir("") == (["a"], ["d/"])
        await store.erase_prefix("")

    run(server, use, "gs://bucket/root")
    assert [request.key for request in server.requests if request.method == "DELETE"] == ["bucket/root/a"]


@pytest.mark.parametrize(
    "page",
    [
        {"items": 5},
        {"items": {"a": 1}},
        {"items": [5]},
        {"items": [{"size": "1"}]},
        {"items": [{"name": 5}]},
        {"items": [{"name": "a", "size": "junk"}]},
        {"items": [{"name": "a", "size": -5}]},
        {"items": [{"name": "a", "size": True}]},
        {"items": [{"name": "a", "size": 1.5}]},
        {"items": [{"name": "a", "size": "9" * 30}]},
        {"items": [{"name": "a", "generation": [1]}]},
        {"nextPageToken": 5},
        {"prefixes": 5},
        {"prefixes": [5]},
    ],
)
def test_a_page_that_is_none_is_an_error_of_the_store(server: GcsServer, page: dict[str, Any]) -> None:
    server.script = lambda request, reply: replace(reply, body=json.dumps(page).encode())

    async def use(store: ObjectStore) -> None:
        for call in (store.list, lambda: store.list_dir("")):
            with pytest.raises(StoreError, match="the server's listing"):
                await call()

    run(server, use)


def test_a_page_that_says_of_nothing_that_it_is_nothing_is_empty(server: GcsServer) -> None:
    page = {"items": None, "prefixes": None, "nextPageToken": None, "kind": "unknown"}
    server.script = lambda request, reply: replace(reply, body=json.dumps(page).encode())
    assert run(server, lambda store: store.list_dir("")) == ([], [])


def test_a_page_without_end_is_not_received(server: GcsServer) -> None:
    server.script = lambda request, reply: replace(reply, body=b" " * (MAX_PAGE_BYTES + 1))

    async def use(store: ObjectStore) -> None:
        with pytest.raises(LimitError):
            await store.list()

    run(server, use)


# --- pages of others -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [html(404), lambda reply: replace(reply, status=404, body=NO_BUCKET)])
def test_a_404_that_is_not_about_the_object_is_an_error(server: GcsServer, missing: Spoil) -> None:
    server.put("bucket", "k", b"1")
    server.script = lambda request, reply: missing(reply)

    async def use(store: ObjectStore) -> None:
        for call in (store.get, store.stat, store.erase):
            with pytest.raises(StoreError) as caught:
                await call("k")
            assert caught.value.status == 404

    run(server, use)


def test_a_page_for_people_says_of_no_write_and_no_delete_that_it_was_done(server: GcsServer) -> None:
    server.script = lambda request, reply: html(200)(reply)

    async def use(store: ObjectStore) -> None:
        for call in (store.set("k", b"1"), store.erase("k"), store.erase_values(["k"])):
            with pytest.raises(StoreError, match="a page for people"):
                await call

    run(server, use)


# --- deletes ---------------------------------------------------------------------------------------------------------


def test_many_keys_are_removed_some_at_a_time_and_missing_ones_are_no_error(server: GcsServer) -> None:
    keys = [f"k{number}" for number in range(100)]
    for key in keys[::2]:
        server.put("bucket", key, b"x")
    server.latency = 0.005
    run(server, lambda store: store.erase_values(keys))
    assert server.keys("bucket") == []
    assert server.max_in_flight <= 32


def test_keys_that_could_not_be_removed_are_named_after_all_others_were(server: GcsServer) -> None:
    for number in range(10):
        server.put("bucket", f"r/k{number}", b"x")
    server.script = when(lambda request: request.method == "DELETE" and request.key.endswith("3"), status(403))

    async def use(store: ObjectStore) -> None:
        with pytest.raises(EraseError) as caught:
            await store.erase_prefix("")
        assert list(caught.value.failures) == ["k3"]

    run(server, use, "gs://bucket/r")
    assert server.keys("bucket") == ["r/k3"]


@pytest.mark.parametrize(("code", "kind"), [(403, PermissionDeniedError), (503, ThrottledError)])
def test_where_no_key_can_be_removed_the_reason_is_raised(server: GcsServer, code: int, kind: type[StoreError]) -> None:
    server.put("bucket", "k", b"x")
    server.script = when(lambda request: request.method == "DELETE", status(code))

    async def use(store: ObjectStore) -> None:
        with pytest.raises(kind):
            await store.erase_values(["k"])

    run(server, use)


# --- life ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_the_child_works_with_connections_of_its_own(server: GcsServer) -> None:
    store = ObjectStore("gs://bucket", **server.storage_options, token="ya29.a")

    async def use() -> None:
        await store.set("k", b"1")
        assert await store.get("k") == b"1"
        await store.aclose()

    asyncio.run(use())
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(use())
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    asyncio.run(use())
