"""A whole object that came in place of a range serves further ranges of its version."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

import aiozarr
from aiozarr.errors import (
    ChangedError,
)
from aiozarr.model import Range, Suffix, Version
from aiozarr.stores.http.store import HTTPStore
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

DATA = bytes(range(256)) * 1000


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server with a value."""
    with FaultServer({"a/b": DATA, "empty": b""}) as running:
        yield running


def whole_always(server: FaultServer) -> spoil.Script:
    """Answer like a server without ranges."""
    return lambda request, reply: (
        reply
        if reply.status in (404, 412) or request.method == "HEAD"
        else spoil.whole(server.get(request.key) or b"")(reply)
    )


async def test_a_whole_object_that_came_for_a_range_serves_all_ranges_of_its_version(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script = whole_always(server)
    async with HTTPStore(server.url) as store:
        tail = await store.fetch("a/b", Suffix(7))
        assert tail is not None
        for part, expected in ((Range(5, 10), DATA[5:15]), (Suffix(3), DATA[-3:]), (Range(1 << 40, 1), b"")):
            value = await store.fetch("a/b", part, if_match=tail.version)
            assert value is not None
            assert (bytes(value.data), value.size, value.version) == (expected, len(DATA), tail.version)
        assert [request.method for request in server.requests] == ["GET", "HEAD", "HEAD", "HEAD"]
        assert pickle.loads(pickle.dumps(store)) == store
        # Who asks for what is stored now is never answered from what was kept.
        server.put("a/b", DATA[::-1])
        value = await store.fetch("a/b", Range(5, 10))
        assert value is not None
        assert bytes(value.data) == DATA[::-1][5:15]
        with pytest.raises(ChangedError):
            await store.fetch("a/b", Range(5, 10), if_match=tail.version)
        # What is kept is bounded.
        monkeypatch.setattr("aiozarr.stores.http.full_object_cache.MAX_CUT_BYTES", len(DATA))
        server.put("c", DATA)
        versions = [value.version for key in ("a/b", "c") if (value := await store.fetch(key, Range(0, 1)))]
        server.requests.clear()
        for key, version in zip(("c", "a/b"), reversed(versions), strict=True):
            await store.fetch(key, Range(1, 1), if_match=version)
        asked = [(request.method, request.key) for request in server.requests]
        assert asked == [("HEAD", "c"), ("GET", "a/b")]
        server.remove("a/b")
        assert await store.fetch("a/b", Range(1, 1), if_match=versions[0]) is None
        server.put("a/b", DATA, etag='"1"')
        version = Version('"1"')
        script, refused = server.script, spoil.status(405)
        server.script = lambda request, reply: (
            refused(reply) if request.method == "HEAD" else script(request, reply) if script else reply
        )
        for _ in range(2):
            value = await store.fetch("a/b", Range(5, 10), if_match=version)
            assert value is not None
            assert bytes(value.data) == DATA[5:15]


async def test_a_shard_is_sent_once_by_a_server_without_ranges(server: FaultServer) -> None:
    source = aiozarr.stores.MemoryStore()
    array = await aiozarr.create_array(source, shape=(4096,), dtype="int32", chunks=(64,), shards=(2048,))
    await array[...].write(range(4096))
    for entry in [entry async for entry in source.scan("")]:
        server.put(entry.key, bytes(memoryview(await source.get(entry.key) or b"")))
    server.script = whole_always(server)
    async with await aiozarr.open_array(server.url, zarr_format=3) as found:
        server.requests.clear()
        assert list(await found[::700]) == list(range(0, 4096, 700))
    assert sorted(request.key for request in server.requests if request.method == "GET") == ["c/0", "c/1"]
