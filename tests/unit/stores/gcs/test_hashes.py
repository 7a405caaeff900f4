"""The CRC32C of stored objects is compared with the received bytes."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from aiozarr.errors import (
    StoreError,
)
from aiozarr.stores.bucket.store import ObjectStore
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.gcs_store import run
from tests.support.servers.http_replies import first


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
