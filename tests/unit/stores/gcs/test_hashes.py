"""The CRC32C of stored objects is compared with the received bytes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from aiozarr.errors import (
    StoreError,
)
from aiozarr.stores.object.store import ObjectStore
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.http_replies import first

T = TypeVar("T")


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
