"""Ranges received in memory of the caller: the head before the bytes, and servers without ranges."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import ChangedError
from aiozarr.model import Range, Version
from aiozarr.stores import HTTPStore
from aiozarr.stores.capabilities import ResponseHead
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

MIB = 1 << 20
VALUES = np.arange(7 * MIB // 8, dtype="<i4")  # 3.5 MiB
DATA = VALUES.tobytes()


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server with one chunk of several MiB, and the array that it is of."""
    with FaultServer({"a/c/0": DATA, "a/zarr.json": document()}) as running:
        yield running


def document() -> bytes:
    return json.dumps(
        {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [len(VALUES)],
            "data_type": "int32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [len(VALUES)]}},
            "chunk_key_encoding": {"name": "default"},
            "fill_value": 0,
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        }
    ).encode()


class Place:
    """Memory for what comes."""

    def __init__(self) -> None:
        self.arrivals: list[ResponseHead] = []
        self.given: list[memoryview] = []

    def receive(self, arrival: ResponseHead) -> memoryview:
        self.arrivals.append(arrival)
        self.given.append(np.empty(arrival.stop - arrival.start, np.uint8).data)
        return self.given[-1]


async def test_a_range_is_received_where_it_is_wanted_and_told_of_before(server: FaultServer) -> None:
    async with HTTPStore(server.url) as store:
        place = Place()
        value = await store._fetch_into("a/c/0", Range(1000, MIB), place.receive)
        assert value is not None
        assert value.data is place.given[0]
        assert place.given[0] == DATA[1000 : 1000 + MIB]
        assert place.arrivals == [ResponseHead(1000, 1000 + MIB, len(DATA), value.version)]
        assert isinstance(value.version, Version)


async def test_a_request_whose_bytes_are_not_wanted_ends_before_them(server: FaultServer) -> None:
    def refuse(arrival: ResponseHead) -> memoryview:
        raise ChangedError("another one")

    async with HTTPStore(server.url) as store:
        with pytest.raises(ChangedError):
            await store._fetch_into("a/c/0", Range(0, MIB), refuse)
        value = await store.fetch("a/zarr.json")
        assert value is not None
        assert bytes(value.data) == document()
        assert server.connections == 2


@pytest.mark.parametrize("framing", [lambda reply: reply, spoil.chunked])
async def test_the_whole_object_in_place_of_a_range_is_taken_where_that_is_allowed(
    server: FaultServer, framing: spoil.Spoil
) -> None:
    server.script = spoil.always(lambda reply: framing(spoil.whole(DATA)(reply)))
    async with HTTPStore(server.url) as store:
        place = Place()
        value = await store._fetch_into("a/c/0", Range(0, MIB), place.receive, accept_full=True)
        assert value is not None
        assert (bytes(value.data), value.size) == (DATA, len(DATA))
        assert not store.supports.partial_reads
        assert all((each.start, each.stop, each.size) == (0, len(DATA), len(DATA)) for each in place.arrivals)


async def test_missing_and_changed_objects_are_reported_as_by_other_reads(server: FaultServer) -> None:
    async with HTTPStore(server.url) as store:
        assert await store._fetch_into("missing", Range(0, MIB), Place().receive) is None
        with pytest.raises(ChangedError):
            await store._fetch_into("a/c/0", Range(0, MIB), Place().receive, if_match=Version('"other"'))


async def read(server: FaultServer) -> list[str | None]:
    """Read the array by parts of a MiB, check it, and return the ranges of its chunk that were asked for."""
    array = await aiozarr.open_array(f"{server.url}/a", settings=aiozarr.Settings(max_request_bytes=MIB))
    before = len(server.requests)
    with aiozarr.record() as report:
        assert np.array_equal(await array[...].read(), VALUES)
    asked = server.requests[before:]
    assert {each.key for each in asked} == {"a/c/0"}
    assert report.bytes_fetched >= report.bytes_wanted >= len(DATA)
    return [each.headers.get("range") for each in asked]


async def test_a_large_chunk_comes_in_parts_on_the_condition_of_the_first(server: FaultServer) -> None:
    part = 7 * MIB // 8
    expected = [f"bytes={number * part}-{(number + 1) * part - 1}" for number in range(4)]
    ranges = await read(server)
    assert ranges[0] == expected[0]
    assert sorted(map(str, ranges)) == sorted(expected)
    conditions = [each.headers.get("if-match") for each in server.requests if each.key == "a/c/0"]
    assert conditions[0] is None
    assert len(set(conditions[1:])) == 1
    assert conditions[1] is not None


async def test_without_etags_dates_are_compared_and_without_both_there_are_no_parts(server: FaultServer) -> None:
    server.script = spoil.when(lambda request: request.key == "a/c/0", lambda reply: reply.without("ETag"))
    assert len(await read(server)) == 4
    server.script = spoil.when(
        lambda request: request.key == "a/c/0", lambda reply: reply.without("ETag", "Last-Modified")
    )
    # Nothing tells whether parts belong together: all of it comes at once, and from then on without a first part.
    first, whole = await read(server)
    assert first is not None
    assert whole is None
    assert await read(server) == [None]


async def test_a_server_without_ranges_sends_a_large_chunk_once(server: FaultServer) -> None:
    server.script = spoil.when(lambda request: request.key == "a/c/0", spoil.whole(DATA))
    assert len(await read(server)) == 1


async def test_a_server_that_encodes_ranges_is_asked_for_the_whole(server: FaultServer) -> None:
    server.script = spoil.when(lambda request: request.key == "a/c/0", spoil.gzipped)
    ranges = await read(server)
    assert ranges[-1] is None


async def test_parts_that_come_in_chunks_are_put_together_too(server: FaultServer) -> None:
    server.script = spoil.when(lambda request: request.key == "a/c/0", spoil.chunked)
    assert len(await read(server)) == 4


async def test_an_object_replaced_between_its_parts_is_read_anew(server: FaultServer) -> None:
    def replace_it(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        if request.key == "a/c/0" and not replaced:
            replaced.append(request)
            server.put("a/c/0", DATA)
        return reply

    replaced: list[spoil.Request] = []
    server.script = replace_it
    assert 4 < len(await read(server)) <= 8
