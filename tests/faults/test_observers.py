"""`Settings.on_event` tells of every request, and `Settings.max_requests` holds for each, of whatever operation."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import aiozarr
from aiozarr.stores import LocalStore, MemoryStore
from tests.support.remote_arrays import QUICK, serve_array
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def told(events: list[Any]) -> list[tuple[str, str]]:
    return [(event.operation, event.key) for event in events]


@pytest.mark.parametrize("inner", [None, (1,)], ids=["plain", "sharded"])
async def test_opening_reading_and_probing_report_the_requests_that_the_server_saw(
    server: FaultServer, inner: tuple[int] | None
) -> None:
    events: list[Any] = []
    remote = await serve_array(server, inner=inner)
    array = await aiozarr.open_array(server.url, zarr_format=3, settings=replace(QUICK, on_event=events.append))
    assert told(events) == [("fetch", "zarr.json")]
    assert events[0].bytes_fetched == len(server.get("zarr.json") or b"")
    await array[:4]
    await array[...].probe()
    seen = [("stat" if request.method == "HEAD" else "fetch", request.key) for request in server.requests]
    assert sorted(told(events)) == sorted(seen[remote.begun :])
    assert {event.store for event in events} == {server.url}
    assert all(event.error is None and event.attempts == 1 and event.seconds >= 0 for event in events)


async def test_the_event_of_a_failed_request_has_its_error_and_attempts(server: FaultServer) -> None:
    events: list[Any] = []
    await serve_array(server)
    settings = replace(QUICK, on_event=events.append, retries=1)
    server.script = spoil.always(spoil.status(500))
    with pytest.raises(aiozarr.StoreError) as raised:
        await aiozarr.open_array(server.url, zarr_format=3, settings=settings)
    assert [(event.operation, event.attempts, event.error) for event in events] == [("fetch", 2, raised.value)]


@pytest.mark.parametrize("kind", [MemoryStore, LocalStore])
async def test_creating_writing_listing_and_deleting_report_their_requests(
    kind: type[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    events: list[Any] = []
    store = kind() if kind is MemoryStore else kind(tmp_path_factory.mktemp("events"))
    settings = aiozarr.Settings(on_event=events.append)
    group = await aiozarr.create_group(store, settings=settings)
    array = await group.create_array("a", shape=4, dtype="i4", chunks=2)
    assert {("set", "zarr.json"), ("set", "a/zarr.json")} <= set(told(events))
    events.clear()
    await array[...].write(1)
    await array.update_attributes({"x": 1})
    # The group above is looked at too: it might hold a copy of what changes.
    fetched = {("fetch", "a/zarr.json"), ("fetch", "zarr.json")}
    assert {("set", "a/c/0"), ("set", "a/c/1"), ("set", "a/zarr.json")} | fetched == set(told(events))
    events.clear()
    assert [name async for name, _ in group.members()] == ["a"]
    assert "list" in {operation for operation, _ in told(events)}
    await group.delete("a")
    assert "erase" in {operation for operation, _ in told(events)}


async def test_a_fixed_limit_of_requests_holds_for_opening_too(server: FaultServer) -> None:
    await serve_array(server)
    server.latency = 0.03
    settings = replace(QUICK, max_requests=2)
    await asyncio.gather(*(aiozarr.open_array(server.url, zarr_format=3, settings=settings) for _ in range(12)))
    assert server.max_in_flight <= 2


async def test_a_fixed_limit_of_requests_holds_for_probing_too(server: FaultServer) -> None:
    remote = await serve_array(server, shape=(64,), chunks=(2,), settings=replace(QUICK, max_requests=3))
    server.latency = 0.01
    plan = await remote.array[...].probe()
    assert plan.requests == 32
    assert server.max_in_flight <= 3
