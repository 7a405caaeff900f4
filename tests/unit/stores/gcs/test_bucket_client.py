"""A bucket of Google Cloud Storage: generations, hashes, encodings, listings, deletes and who pays."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest

from aiozarr.errors import (
    ChangedError,
    EraseError,
    InvalidKeyError,
    PermissionDeniedError,
    StoreError,
    ThrottledError,
)
from aiozarr.model import Range, Suffix
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.stores.gcs.bucket_client import GcsBucketClient
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.gcs_store import run
from tests.support.servers.http_replies import Spoil, first, html, no_answer, status, when

NO_BUCKET = b'{"error": {"code": 404, "message": "The specified bucket does not exist."}}'


def test_connections_are_opened_ahead(server: GcsServer) -> None:
    async def use(store: ObjectStore) -> None:
        store._preconnect(3)
        client = store._client
        assert isinstance(client, GcsBucketClient)
        while len(client.sender.pool()._idle) < 3:
            await asyncio.sleep(0.01)
        assert await asyncio.gather(*(store.fetch("k") for _ in range(3))) == [None] * 3
        assert server.connections == 3

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


def test_a_missing_bucket_is_not_a_missing_key(server: GcsServer) -> None:
    async def use(store: ObjectStore) -> None:
        for operation in (store.get("k"), store.stat("k"), store.set("k", b"1"), store.erase("k"), store.list()):
            with pytest.raises(StoreError) as caught:
                await operation
            assert caught.value.status == 404

    run(server, use, "gs://none")


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


def test_an_html_page_confirms_neither_a_write_nor_a_delete(server: GcsServer) -> None:
    server.script = lambda request, reply: html(200)(reply)

    async def use(store: ObjectStore) -> None:
        for call in (store.set("k", b"1"), store.erase("k"), store.erase_values(["k"])):
            with pytest.raises(StoreError, match="HTML page"):
                await call

    run(server, use)


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
