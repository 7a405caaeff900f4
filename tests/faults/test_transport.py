"""What a read does when connections break or stall, and when an answer is not exactly the one that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

import aiozarr
from aiozarr.model import Range
from tests.support.remote_arrays import QUICK, RemoteArray, serve_array
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def on(remote: RemoteArray, fault: spoil.Spoil, *numbers: int) -> None:
    """Spoil the answers to these requests, counted from now on; without numbers, all of them."""
    begun = len(remote.server.requests)
    remote.server.script = lambda request, reply: (
        fault(reply) if not numbers or request.number - begun in numbers else reply
    )


# --- connections that break ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [spoil.reset, spoil.cut_in_head, spoil.reset_in_body(5), spoil.truncated(5)],
    ids=["f10-before-the-head", "f10-in-the-head", "f11-body", "f14-short"],
)
@pytest.mark.parametrize("inner", [None, (1,)], ids=["plain", "sharded"])
async def test_a_connection_that_breaks_once_costs_one_retry(
    server: FaultServer, fault: spoil.Spoil, inner: tuple[int] | None
) -> None:
    remote = await serve_array(server, inner=inner)
    on(remote, fault, 1, 2)
    assert np.array_equal(await remote.array[...], remote.values)
    assert len(remote.keys) == (4 if inner is None else 8) + 2


async def test_a_server_that_always_resets_is_an_error_after_the_allowed_attempts(server: FaultServer) -> None:
    remote = await serve_array(server, settings=replace(QUICK, retries=2))
    on(remote, spoil.reset)
    with pytest.raises(aiozarr.StoreError) as raised:
        await remote.array[:2]
    assert (raised.value.store, raised.value.key, raised.value.attempts) == (server.url, "c/0", 3)
    # One of them on a kept connection, whose silent repetition is not counted.
    assert len(remote.keys) == 4


async def test_a_retry_after_a_broken_body_requires_the_version_of_the_index(
    server: FaultServer,
) -> None:
    remote = await serve_array(server, inner=(1,))
    on(remote, spoil.reset_in_body(5), 2)
    assert (await remote.array[0:2]).tolist() == [1, 2]
    data = server.requests[remote.begun + 1 :]
    assert [request.headers["range"] for request in data] == ["bytes=0-15"] * 2
    assert all("if-match" in request.headers for request in data)


async def test_a_body_that_is_always_too_short_is_a_short_read(server: FaultServer) -> None:
    remote = await serve_array(server, settings=replace(QUICK, retries=2))
    on(remote, spoil.truncated(5))
    with pytest.raises(aiozarr.ShortReadError) as raised:
        await remote.array[:2]
    assert (raised.value.key, raised.value.attempts) == ("c/0", 3)
    assert remote.keys == ["c/0"] * 3


async def test_an_idle_connection_closed_by_the_server_costs_no_retry(
    server: FaultServer,
) -> None:
    remote = await serve_array(server, settings=replace(QUICK, retries=0))
    on(remote, spoil.dropping)
    for start in range(0, 8, 2):
        with aiozarr.record() as report:
            assert np.array_equal(await remote.array[start : start + 2], remote.values[start : start + 2])
        assert (report.requests, report.retries) == (1, 0)


# --- answers that are not what was asked for -----------------------------------------------------------------------

RANGED: list[tuple[str, spoil.Spoil]] = [
    ("f15-shorter", spoil.shortened(3)),
    ("f16-longer", spoil.lengthened(b"junk")),
    ("f17-other-range", spoil.content_range("bytes 0-19/1000000")),
    ("f20-multipart", spoil.multipart),
    ("f77-encoded", spoil.gzipped),
    ("f19-other-range-as-200", lambda reply: spoil.status_only(200)(spoil.content_range("bytes 0-9/10")(reply))),
]


@pytest.mark.parametrize("index_codecs", ["checked", "unchecked"])
@pytest.mark.parametrize("fault", [fault for _, fault in RANGED], ids=[name for name, _ in RANGED])
async def test_a_response_with_another_range_is_an_error_without_checksums_too(
    server: FaultServer, fault: spoil.Spoil, index_codecs: str
) -> None:
    raw = [{"name": "bytes", "configuration": {"endian": "little"}}]
    described = {} if index_codecs == "checked" else {"codecs": raw, "index_codecs": raw}
    remote = await serve_array(server, inner=(1,), settings=replace(QUICK, retries=1), **described)
    on(remote, fault)
    with pytest.raises(aiozarr.StoreError) as raised:
        await remote.array[:2]
    assert (raised.value.store, raised.value.key) == (server.url, "c/0")
    assert raised.value.range is not None
    assert len(remote.keys) <= 2


@pytest.mark.parametrize("fault", [spoil.shortened(3), spoil.lengthened(b"junk")], ids=["f15-shorter", "f16-longer"])
async def test_a_whole_chunk_of_another_length_is_a_codec_error_that_names_it(
    server: FaultServer, fault: spoil.Spoil
) -> None:
    remote = await serve_array(server, codecs=[{"name": "bytes", "configuration": {"endian": "little"}}])
    on(remote, fault)
    with pytest.raises(aiozarr.CodecError) as raised:
        await remote.array[:2]
    assert (raised.value.store, raised.value.key) == (server.url, "c/0")


async def test_bytes_after_the_end_of_a_response_do_not_reach_the_next_one(server: FaultServer) -> None:
    remote = await serve_array(server)

    def more(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        return replace(reply, body=reply.body + b"HTTP/1.1 200 OK\r\n\r\n", length=len(reply.body))

    server.script = more
    for start in range(0, 8, 2):
        assert np.array_equal(await remote.array[start : start + 2], remote.values[start : start + 2])


async def test_a_server_without_ranges_is_read_whole_where_that_is_affordable(server: FaultServer) -> None:
    remote = await serve_array(server, inner=(1,))
    server.script = lambda request, reply: spoil.whole(server.get(request.key) or b"")(reply)
    assert np.array_equal(await remote.array[...], remote.values)
    assert not remote.array.store.supports.partial_reads


async def test_a_whole_object_beyond_the_budget_is_refused(server: FaultServer) -> None:
    remote = await serve_array(server, inner=(1,), settings=replace(QUICK, retries=0))
    server.put("c/0", bytes(80 << 20))
    server.script = lambda request, reply: spoil.whole(server.get(request.key) or b"")(reply)
    with pytest.raises(aiozarr.StoreError) as raised:
        await remote.array[:2]
    assert raised.value.key == "c/0"


async def test_a_range_under_status_200_is_accepted_with_an_exact_content_range(server: FaultServer) -> None:
    remote = await serve_array(server, inner=(1,))
    on(remote, spoil.status_only(200))
    assert np.array_equal(await remote.array[...], remote.values)


async def test_a_shard_that_shrank_below_the_range_is_read_again(server: FaultServer) -> None:
    remote = await serve_array(server, inner=(1,))
    assert np.array_equal(await remote.array[...], remote.values)  # its indexes are known now
    small = server.get("c/1")
    assert small is not None
    server.put("c/0", small)
    server.script = spoil.when(
        lambda request: request.key == "c/0" and "if-match" in request.headers and request.number == begun + 1,
        spoil.status(416),
    )
    begun = len(server.requests)
    assert (await remote.array[:2]).tolist() == [3, 4]


async def test_a_shard_shorter_than_its_index_is_an_error_that_names_it(server: FaultServer) -> None:
    remote = await serve_array(server, inner=(1,))
    for data in (b"", b"short"):
        server.put("c/0", data)
        with pytest.raises(aiozarr.CodecError) as raised:
            await remote.array[:2]
        assert raised.value.key == "c/0"
        server.script = spoil.when(lambda request: "bytes=-" in request.headers.get("range", ""), spoil.status(416))


# --- answers that do not come --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [spoil.stalled(5), spoil.stalled(0), spoil.no_answer, spoil.dripping(1, 0.05)],
    ids=["f23-in-the-body", "f23-before-the-body", "no-head", "f24-dripping"],
)
@pytest.mark.parametrize("times", [1, None])
async def test_a_stalled_response_is_retried_after_the_idle_timeout(
    server: FaultServer, fault: Callable[[spoil.Reply], spoil.Reply], times: int | None
) -> None:
    remote = await serve_array(server, settings=replace(QUICK, retries=1, idle_timeout=0.2))
    on(remote, fault, *([] if times is None else [1]))
    if times is not None:
        assert (await remote.array[:2]).tolist() == [1, 2]
    else:
        with pytest.raises(aiozarr.StoreTimeoutError) as raised:
            await remote.array[:2]
        assert (raised.value.store, raised.value.key, raised.value.attempts) == (server.url, "c/0", 2)
        assert raised.value.elapsed is not None
        assert raised.value.elapsed >= 0.4
        assert raised.value.retryable
    assert remote.keys == ["c/0"] * 2


async def test_the_idle_timeout_of_the_settings_reaches_stores_opened_by_url_and_options_come_first() -> None:
    with FaultServer({"zarr.json": b"{}"}, script=spoil.always(spoil.no_answer)) as server:
        settings = aiozarr.Settings(idle_timeout=0.1, retries=0)
        with pytest.raises(aiozarr.StoreTimeoutError, match=r"0\.1 s"):
            await aiozarr.open(server.url, zarr_format=3, settings=settings)
        with pytest.raises(aiozarr.StoreTimeoutError, match=r"0\.2 s"):
            await aiozarr.open(server.url, zarr_format=3, settings=settings, storage_options={"idle_timeout": 0.2})


async def test_an_error_of_a_range_names_the_range(server: FaultServer) -> None:
    remote = await serve_array(server, inner=(1,), settings=replace(QUICK, retries=0))
    on(remote, spoil.status(500, X_Request_Id="of-the-data"), 2)
    with pytest.raises(aiozarr.StoreError) as raised:
        await remote.array[:2]
    assert isinstance(raised.value.range, Range)
    assert raised.value.request_id == "of-the-data"
