"""Requests with a body send memory as it is, and leave nothing after a cancellation."""

from __future__ import annotations

import asyncio
import os

import pytest

from aiozarr.stores.gcs import upload as uploads
from aiozarr.stores.object.store import ObjectStore
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.gcs_store import run
from tests.support.servers.http_replies import Reply, Request, no_answer

PART = uploads.PART_QUANTUM_BYTES
BIG = os.urandom(3 * PART + 1000)

pytestmark = pytest.mark.usefixtures("small_parts")


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


def test_memory_of_any_kind_is_sent_without_a_copy(server: GcsServer) -> None:
    async def use(store: ObjectStore) -> None:
        await store.set("a", bytearray(b"abc"))
        await store.set("b", memoryview(BIG)[5:])

    run(server, use)
    assert server.get("bucket", "a") == b"abc"
    assert server.get("bucket", "b") == BIG[5:]
