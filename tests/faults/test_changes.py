"""What a read does when an object is replaced while its parts are read, and when what is stored is damaged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.engine import shard_read
from tests.support.remote_arrays import CHECKED, QUICK, RAW, RemoteArray, serve_array
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

SHARDED: dict[str, Any] = {"shape": (8,), "chunks": (8,), "inner": (2,), "codecs": RAW, "index_codecs": RAW}


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


async def two_states(server: FaultServer, **described: Any) -> tuple[RemoteArray, bytes, bytes]:
    """Serve an array of one shard; return it with two states of the shard, whose values are 1, 2, ... and the tens."""
    described = {**SHARDED, **described}
    remote = await serve_array(server, **described)
    old = server.get("c/0")
    assert old is not None
    with FaultServer() as other:
        tens = await serve_array(other, **{**described, "settings": QUICK})
        tens.values[...] *= 10
        from aiozarr.stores import MemoryStore

        store = MemoryStore()
        await store.set("zarr.json", other.get("zarr.json") or b"")
        await (await aiozarr.open_array(store, mode="r+"))[...].write(tens.values)
        new = await store.get("c/0")
    assert new is not None
    return remote, old, bytes(new)


@pytest.mark.parametrize("heeds", [True, False], ids=["f38-checks-if-match", "f39-ignores-if-match"])
async def test_a_shard_replaced_between_index_and_data_is_read_again_and_never_mixed(
    server: FaultServer, heeds: bool
) -> None:
    remote, _, new = await two_states(server)

    def script(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        if request.number == remote.begun + 1:
            server.put("c/0", new)  # the index of the old one is on its way
        if not heeds and reply.status == 412:
            found = spoil.StoredObject(new, '"other"')
            return spoil.honest(replace(request, headers={"range": request.headers["range"]}), found)
        return reply

    server.script = script
    values = await remote.array[...]
    assert np.array_equal(values, remote.values * 10)
    assert "if-match" in server.requests[remote.begun + 1].headers


@pytest.mark.parametrize("limit", [64 << 20, 10])
async def test_a_shard_that_is_replaced_each_time_is_read_whole_or_a_changed_error_after_a_few_attempts(
    server: FaultServer, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_read, "MAX_WHOLE_BYTES", limit)
    remote, old, new = await two_states(server)

    def script(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        server.put("c/0", new if request.number % 2 else old)
        return reply

    server.script = script
    if limit > len(new):
        values = await remote.array[...]
        assert any(np.array_equal(values, each) for each in (remote.values, remote.values * 10))
        assert len(remote.keys) == 2 * 2 + 1
        return
    with pytest.raises(aiozarr.ChangedError) as raised:
        await remote.array[...]
    assert (raised.value.store, raised.value.key) == (server.url, "c/0")
    assert len(remote.keys) <= 4 * 2 + 2


async def test_a_replaced_shard_of_the_same_etag_is_found_by_the_checksums_of_its_chunks(
    server: FaultServer,
) -> None:
    remote, old, new = await two_states(server, codecs=CHECKED)
    # The same length and the same ETag, and another layout: only the checksums can tell.
    mixed = new[4:12] + new[:4] + new[12:]
    server.put("c/0", old, etag='"same"')

    def script(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        if request.number == remote.begun + 1:
            server.put("c/0", mixed, etag='"same"')
        return reply

    server.script = script
    with pytest.raises(aiozarr.ChecksumError) as raised:
        await remote.array[:2]
    assert raised.value.key == "c/0"
    assert raised.value.range is not None


async def test_without_an_etag_a_replaced_shard_is_detected_by_last_modified(server: FaultServer) -> None:
    remote, old, new = await two_states(server)
    server.put("c/0", old, etag=None)
    times = iter(["Mon, 01 Jan 2024 00:00:00 GMT", *["Mon, 01 Jan 2024 00:00:09 GMT"] * 20])

    def script(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        server.put("c/0", new, etag=None)
        return reply.with_headers(Last_Modified=next(times))

    server.script = script
    assert np.array_equal(await remote.array[...], remote.values * 10)
    assert all("if-match" not in request.headers for request in server.requests[remote.begun :])


async def test_a_server_without_etag_and_last_modified_is_read_in_the_documented_weak_mode(
    server: FaultServer,
) -> None:
    remote, old, _ = await two_states(server)
    server.put("c/0", old, etag=None)
    server.script = lambda request, reply: reply.without("Last-Modified")
    for _ in range(2):
        assert np.array_equal(await remote.array[...], remote.values)
    # An index is not kept whose object's version nobody can check.
    assert len([each for each in remote.ranges if each.startswith("bytes=-")]) == 2


# --- damage --------------------------------------------------------------------------------------------------------


def flip(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


async def test_a_chunk_damaged_in_transit_is_fetched_again(server: FaultServer) -> None:
    remote = await serve_array(server)
    server.script = spoil.when(
        lambda request: request.number == remote.begun + 1, lambda reply: replace(reply, body=flip(reply.body, 2))
    )
    assert np.array_equal(await remote.array[:2], remote.values[:2])
    assert remote.keys == ["c/0"] * 2


async def test_a_damaged_chunk_is_fetched_again_once_for_all_waiting_views(server: FaultServer) -> None:
    remote = await serve_array(server)
    server.script = spoil.when(
        lambda request: request.number == remote.begun + 1, lambda reply: replace(reply, body=flip(reply.body, 2))
    )
    found = await aiozarr.read_many([remote.array[:2], remote.array[1:2], remote.array[::-1][-2:]])
    assert [each.tolist() for each in found] == [[1, 2], [2], [2, 1]]
    assert remote.keys == ["c/0"] * 2


async def test_a_checksum_error_after_another_error_does_not_delay_the_read(
    server: FaultServer,
) -> None:
    remote = await serve_array(server, shape=(1 << 20,), chunks=(1 << 18,))
    damaged = flip(server.get("c/0") or b"", 2)
    for key in ("c/0", "c/1", "c/2"):
        server.put(key, damaged)
    server.script = spoil.when(lambda request: request.key == "c/3", spoil.status(403))
    for _ in range(10):
        with pytest.raises((aiozarr.PermissionDeniedError, aiozarr.ChecksumError)):
            async with asyncio.timeout(20):
                await remote.array[...]


async def test_a_chunk_that_is_stored_damaged_is_a_checksum_error_with_store_and_key(server: FaultServer) -> None:
    remote = await serve_array(server)
    server.put("c/0", flip(server.get("c/0") or b"", 2))
    with pytest.raises(aiozarr.ChecksumError) as raised:
        await remote.array[:2]
    assert remote.keys == ["c/0"] * 2
    assert (raised.value.codec, raised.value.store, raised.value.key) == ("crc32c", server.url, "c/0")
    assert raised.value.range is None


async def test_a_damaged_stored_inner_chunk_is_an_error_with_its_position_in_the_shard(
    server: FaultServer,
) -> None:
    remote = await serve_array(server, shape=(8,), chunks=(8,), inner=(2,))
    server.put("c/0", flip(server.get("c/0") or b"", 12 + 3))  # the second of them: each has 8 + 4 bytes
    with pytest.raises(aiozarr.ChecksumError) as raised:
        await remote.array[2:4]
    assert raised.value.key == "c/0"
    assert raised.value.range == aiozarr.stores.Range(12, 12)
    assert len(remote.keys) == 4
    assert (await remote.array[4:8]).tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize("once", [True, False])
async def test_a_damaged_index_is_fetched_again(server: FaultServer, once: bool) -> None:
    remote = await serve_array(server, shape=(8,), chunks=(8,), inner=(2,))

    def script(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        if once and request.number > remote.begun + 1:
            return reply
        return replace(reply, body=flip(reply.body, 2))

    server.script = script
    if once:
        assert np.array_equal(await remote.array[...], remote.values)
        assert len(remote.keys) == 3
        return
    with pytest.raises(aiozarr.ChecksumError) as raised:
        await remote.array[...]
    assert (raised.value.store, raised.value.key) == (server.url, "c/0")
    assert raised.value.range is not None
    assert len(remote.keys) == 2
