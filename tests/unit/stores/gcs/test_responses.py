"""Pages of GCS's listings: followed, parsed, checked and bounded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from aiozarr.errors import (
    LimitError,
    StoreError,
)
from aiozarr.stores.bucket.listing import MAX_PAGE_BYTES
from aiozarr.stores.bucket.store import ObjectStore
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.gcs_store import run
from tests.support.servers.http_replies import when


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
        with pytest.raises(StoreError, match="the pages of the server's listing form a loop"):
            await store.list()

    run(server, use)

    assert len(server.requests) <= 4 * length


def test_names_outside_of_the_prefix_and_invalid_keys_are_neither_listed_nor_removed(server: GcsServer) -> None:
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
        {"nextPageToken": "\ud800"},
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
