"""Requests to GCS carry a token, the payer, and the encoding in which objects are stored."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest

from aiozarr.errors import (
    StoreError,
)
from aiozarr.model import Range
from aiozarr.stores.bucket.store import ObjectStore
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.gcs_store import run
from tests.support.servers.http_replies import Reply, Request, gzipped, when


def test_compressed_objects_are_returned_as_stored(server: GcsServer) -> None:
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


def test_objects_that_the_server_compresses_in_transit_are_requested_without_encoding(server: GcsServer) -> None:
    server.put("bucket", "zarr.json", b"{}" * 100)
    accepts = lambda request: "gzip" in request.headers.get("accept-encoding", "")  # noqa: E731
    server.script = when(accepts, gzipped)
    assert run(server, lambda store: store.get("zarr.json")) == b"{}" * 100
    assert len(server.requests) == 2


def test_an_object_that_the_server_decompresses_is_an_error(server: GcsServer) -> None:
    server.put("bucket", "k", gzip.compress(b"text"), content_encoding="gzip")

    def script(request: Request, reply: Reply) -> Reply:
        return replace(reply.without("Content-Encoding"), body=b"text")

    server.script = script

    async def use(store: ObjectStore) -> None:
        with pytest.raises(StoreError, match="decompressed"):
            await store.get("k")

    run(server, use)


def test_every_request_names_the_requester_that_pays(server: GcsServer) -> None:
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
