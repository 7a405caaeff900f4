"""Behind a proxy, buckets of Google Cloud Storage are read as they are stored, written to and listed."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from aiozarr.errors import ChangedError, StoreError
from aiozarr.model import Range, Version
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.stores.gcs import upload as uploads
from tests.support.http_proxy import Proxy, proxy
from tests.support.servers.gcs_server import GcsServer


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with proxy() as running:
        monkeypatch.setenv("HTTP_PROXY", running.url)
        yield running


@pytest.fixture
def server() -> Iterator[GcsServer]:
    with GcsServer("bucket") as running:
        running.tokens = {"ya29.a"}
        yield running


def test_all_requests_go_through_the_proxy(server: GcsServer, between: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_SINGLE_BYTES", 1 << 18)
    big = os.urandom(1 << 19)
    packed = gzip.compress(b"text" * 50)
    server.put("bucket", "packed", packed, content_encoding="gzip")

    async def main() -> None:
        async with ObjectStore("gs://bucket", **server.storage_options, token="ya29.a") as store:
            version = await store.set("k", b"0123456789")
            await store.set("big", big)
            value = await store.fetch("k", Range(2, 3), if_match=version)
            assert value is not None
            assert (bytes(value.data), value.version) == (b"234", version)
            with pytest.raises(ChangedError):
                await store.fetch("k", Range(2, 3), if_match=Version(generation="1"))
            assert await store.get("big") == big
            assert store._can_copy_from(store)
            await store._copy_from(store, "k", "copy", size=10, if_match=version)
            assert await store.get("copy") == b"0123456789"
            assert await store.get("packed") == packed
            assert sorted(await store.list()) == ["big", "copy", "k", "packed"]
            await store.erase("k")
            assert await store.get("k") is None

    asyncio.run(main())
    assert len(between.heads) == len(server.requests)


def test_a_body_that_was_damaged_behind_the_proxy_is_noticed(server: GcsServer, between: Proxy) -> None:
    server.put("bucket", "k", b"0123456789")
    server.script = lambda request, reply: replace(reply, body=b"?" + reply.body[1:])

    async def main() -> None:
        async with ObjectStore("gs://bucket", **server.storage_options, token="ya29.a") as store:
            with pytest.raises(StoreError, match="CRC32C"):
                await store.get("k")

    asyncio.run(main())
    assert between.heads
