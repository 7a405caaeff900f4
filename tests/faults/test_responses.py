"""What a read does when a server refuses, throttles, fails or lies about its status: one array, read by its URL."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate

import numpy as np
import pytest

import aiozarr
from aiozarr.engine import run
from tests.support.remote_arrays import QUICK, document, serve_array
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def first_of_each(count: int, fault: spoil.Spoil) -> spoil.Script:
    """Spoil the first `count` answers for each key."""
    seen: dict[str, int] = {}

    def script(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        seen[request.key] = seen.get(request.key, 0) + 1
        return fault(reply) if seen[request.key] <= count else reply

    return script


async def limit_of(array: aiozarr.Array) -> int:
    async def look(engine: object) -> int:
        limit: int = engine.state.queue_for(array.store).budget.limit  # type: ignore[attr-defined]  # it is an Engine
        return limit

    return await run(look)


# --- throttling and failures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [503, 429])
async def test_throttling_is_retried_with_fewer_requests_in_flight(server: FaultServer, status: int) -> None:
    remote = await serve_array(server)
    before = await limit_of(remote.array)
    server.script = first_of_each(2, spoil.status(status))
    with aiozarr.record() as report:
        values = await remote.array[:2]
    assert np.array_equal(values, remote.values[:2])
    assert remote.keys == ["c/0"] * 3
    assert (report.requests, report.retries) == (3, 2)
    assert await limit_of(remote.array) == before // 4


async def test_endless_throttling_is_an_error_after_the_allowed_attempts(server: FaultServer) -> None:
    remote = await serve_array(server, settings=replace(QUICK, retries=3))
    server.script = spoil.always(spoil.status(503, X_Request_Id="id-7"))
    with pytest.raises(aiozarr.ThrottledError) as raised:
        await remote.array[:2]
    error = raised.value
    assert remote.keys == ["c/0"] * 4
    assert (error.store, error.key, error.range) == (server.url, "c/0", None)
    assert (error.status, error.request_id, error.attempts) == (503, "id-7", 4)
    assert error.elapsed is not None
    assert 0 < error.elapsed <= QUICK.retry_seconds
    for fact in (server.url, "'c/0'", "503", "4 attempts", "id-7"):
        assert fact in str(error)


async def test_a_requested_pause_is_waited_for(server: FaultServer) -> None:
    remote = await serve_array(server, settings=replace(QUICK, retry_seconds=5.0))
    times: list[float] = []

    def script(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        times.append(time.monotonic())
        return reply if len(times) > 1 else spoil.status(429, Retry_After="1")(reply)

    server.script = script
    assert (await remote.array[:2]).tolist() == [1, 2]
    assert len(times) == 2
    assert times[1] - times[0] >= 1


@pytest.mark.parametrize(
    "asked", ["3600", "1000000000", formatdate(time.time() + 86_400, usegmt=True)], ids=["hour", "decades", "date"]
)
async def test_a_retry_after_beyond_retry_seconds_is_an_error_at_once(server: FaultServer, asked: str) -> None:
    remote = await serve_array(server)
    server.script = spoil.always(spoil.status(429, Retry_After=asked))
    with pytest.raises(aiozarr.ThrottledError) as raised:
        await remote.array[:2]
    assert remote.keys == ["c/0"]
    assert raised.value.attempts == 1
    assert raised.value.retry_after is not None
    assert raised.value.retry_after <= 3600


@pytest.mark.parametrize("asked", ["soon", "-5", "", "1e3", "Fri, 99 Foo 2020 25:61:61 GMT"])
async def test_an_invalid_retry_after_is_ignored(server: FaultServer, asked: str) -> None:
    remote = await serve_array(server)
    server.script = first_of_each(1, spoil.status(503, Retry_After=asked))
    assert (await remote.array[:2]).tolist() == [1, 2]
    assert remote.keys == ["c/0"] * 2


@pytest.mark.parametrize("status", [408, 500, 502, 504])
async def test_a_server_error_is_retried(server: FaultServer, status: int) -> None:
    remote = await serve_array(server)
    server.script = first_of_each(1, spoil.status(status))
    assert np.array_equal(await remote.array[...], remote.values)
    assert sorted(remote.keys) == sorted([f"c/{n}" for n in range(4)] * 2)


async def test_opening_retries_server_errors_too(server: FaultServer) -> None:
    server.put("zarr.json", json.dumps(document()).encode())
    server.script = first_of_each(2, spoil.status(500))
    array = await aiozarr.open_array(server.url, zarr_format=3, settings=QUICK)
    assert array.shape == (8,)
    assert len(server.requests) == 3


# --- what counts as missing ----------------------------------------------------------------------------------------


async def test_a_404_after_a_redirect_is_an_error_and_not_a_missing_chunk(server: FaultServer) -> None:
    remote = await serve_array(server)
    with FaultServer() as elsewhere:
        server.script = spoil.always(spoil.redirect(f"{elsewhere.url}/gone"))
        with pytest.raises(aiozarr.StoreError) as raised:
            await remote.array[:2]
    assert (raised.value.status, raised.value.key) == (404, "c/0")


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed_without_the_credentials(server: FaultServer, code: int) -> None:
    remote = await serve_array(server)
    with FaultServer({"moved": server.get("c/0") or b""}) as elsewhere:
        address = server.url.replace("http://", "http://someone:secret@")
        server.script = spoil.when(lambda request: request.key == "c/0", spoil.redirect(f"{elsewhere.url}/moved", code))
        array = await aiozarr.open_array(address, zarr_format=3, settings=QUICK)
        assert (await array[:2]).tolist() == remote.values[:2].tolist()
        assert "authorization" in server.requests[-1].headers
        assert len(elsewhere.requests) == 1
        assert "authorization" not in elsewhere.requests[0].headers


@pytest.mark.parametrize(
    ("status", "kind"), [(403, aiozarr.PermissionDeniedError), (401, aiozarr.UnauthenticatedError)]
)
async def test_a_refusal_is_an_error_and_never_the_fill_value(
    server: FaultServer, status: int, kind: type[aiozarr.StoreError]
) -> None:
    remote = await serve_array(server)
    server.script = spoil.when(lambda request: request.key == "c/1", spoil.status(status))
    with pytest.raises(kind) as raised:
        await remote.array[...]
    assert (raised.value.key, raised.value.status, raised.value.attempts) == ("c/1", status, 1)
    assert remote.keys.count("c/1") == 1


async def test_missing_statuses_can_include_403(server: FaultServer) -> None:
    remote = await serve_array(server, settings=replace(QUICK, missing_status=(404, 403)))
    server.script = spoil.when(lambda request: request.key == "c/1", spoil.status(403))
    assert (await remote.array[...]).tolist() == [1, 2, 0, 0, 5, 6, 7, 8]


@pytest.mark.parametrize("inner", [None, (1,)], ids=["plain", "sharded"])
async def test_a_missing_chunk_reads_as_the_fill_value_or_as_an_error_by_choice(
    server: FaultServer, inner: tuple[int] | None
) -> None:
    remote = await serve_array(server, inner=inner)
    server.remove("c/1")
    assert (await remote.array[...]).tolist() == [1, 2, 0, 0, 5, 6, 7, 8]
    strict = await aiozarr.open_array(server.url, zarr_format=3, settings=replace(QUICK, missing_chunks="raise"))
    with pytest.raises(aiozarr.MissingChunkError) as raised:
        await strict[...]
    assert (raised.value.store, raised.value.key) == (server.url, "c/1")


@pytest.mark.parametrize("inner", [None, (1,)], ids=["plain", "sharded"])
async def test_missing_chunks_are_not_cached(server: FaultServer, inner: tuple[int] | None) -> None:
    remote = await serve_array(server, inner=inner)
    kept = server.get("c/1")
    assert kept is not None
    server.remove("c/1")
    assert (await remote.array[2:4]).tolist() == [0, 0]
    server.put("c/1", kept)
    assert (await remote.array[2:4]).tolist() == [3, 4]


# --- pages in place of values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [None, (1,)], ids=["plain", "sharded"])
async def test_a_login_page_in_place_of_a_chunk_is_an_error_that_names_it(
    server: FaultServer, inner: tuple[int] | None
) -> None:
    remote = await serve_array(server, inner=inner)
    server.script = spoil.always(spoil.html())
    with pytest.raises((aiozarr.CodecError, aiozarr.StoreError)) as raised:
        await remote.array[:2]
    assert raised.value.key == "c/0"  # type: ignore[union-attr]  # either has one


async def test_a_login_page_in_place_of_the_metadata_is_an_error_that_names_the_node(server: FaultServer) -> None:
    server.script = spoil.always(spoil.html())
    with pytest.raises((aiozarr.InvalidMetadataError, aiozarr.StoreError)) as raised:
        await aiozarr.open_array(server.url, zarr_format=3, settings=QUICK)
    assert server.url in str(raised.value)
    assert "zarr.json" in str(raised.value)


# --- metadata without end ------------------------------------------------------------------------------------------


async def test_a_metadata_document_over_its_limit_is_refused_by_the_head(server: FaultServer) -> None:
    server.put("zarr.json", b" " * 5_000_000)
    with pytest.raises(aiozarr.LimitError) as raised:
        await aiozarr.open_array(server.url, zarr_format=3, settings=replace(QUICK, max_metadata_bytes=1000))
    assert (raised.value.limit, raised.value.allowed, raised.value.value) == ("max_metadata_bytes", 1000, 5_000_000)
    error = raised.value
    assert (error.store, error.key, error.range) == (server.url, "zarr.json", None)
    assert "Settings.max_metadata_bytes" in str(error)
    assert ["range" in request.headers for request in server.requests] == [False]


@pytest.mark.parametrize(
    "frame", [lambda reply: reply, spoil.chunked, spoil.until_close], ids=["length", "chunks", "close"]
)
async def test_a_server_that_ignores_the_range_cannot_exceed_the_limit(server: FaultServer, frame: spoil.Spoil) -> None:
    server.script = spoil.always(lambda reply: frame(spoil.whole(b" " * 200_000_000)(spoil.status(200)(reply))))
    with pytest.raises((aiozarr.LimitError, aiozarr.StoreError)):
        await aiozarr.open_array(server.url, zarr_format=3, settings=replace(QUICK, max_metadata_bytes=1000, retries=0))
    assert len(server.requests) == 1
