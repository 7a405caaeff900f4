"""What reads and writes cost over a distance: requests are counted at the link to the server, and by the report.

The array has six shards of 2 × 2 inner chunks. A request that a store sends besides, such as a question for a size, is
written down here, and nowhere else hidden.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import LatencyStore, LocalStore, MemoryStore, Store, StoreEvent, TraceStore, ZipStore
from tests.support.locations import Location, all_locations, array_at, sample_values, stored_objects

VALUES = sample_values()
SHARDED = stored_objects()
PLAIN = stored_objects(chunks=(6, 5), shards=None)
# Bytes that nobody wants are not read here, so that all counts are exact.
AT_ONCE = 16
SETTINGS = aiozarr.Settings(merge_gap_bytes=0, max_requests=AT_ONCE)
LATENCY = 0.01


@dataclass(frozen=True)
class Costs:
    """The requests of one kind of store, by method.

    Attributes:
        opened: to open the array, whose format is known.
        row: to read a row through two shards: two indexes, and two merged ranges.
        again: to read it again.
        rest: to read all six shards after that: each comes whole.
        written: to write all six shards.
    """

    opened: dict[str, int] = field(default_factory=lambda: {"GET": 1})
    row: dict[str, int] = field(default_factory=lambda: {"GET": 4})
    again: dict[str, int] = field(default_factory=lambda: {"GET": 2})
    rest: dict[str, int] = field(default_factory=lambda: {"GET": 6})
    written: dict[str, int] | None = None


COSTS = {
    "http": Costs(),
    "nginx": Costs(),
    "s3": Costs(written={"PUT": 6}),
    "s3 on radosgw": Costs(written={"PUT": 6}),
    "gs": Costs(written={"POST": 6}),
    # It tells no versions, so indexes are not kept.
    "s3fs": Costs(again={"GET": 4}, written={"PUT": 6}),
    # It has no suffix ranges: the index at the end of a shard is found by the shard's size.
    "az": Costs(row={"HEAD": 2, "GET": 4}, written={"PUT": 6}),
    # The archive's directory comes first.
    "zip over http": Costs(opened={"GET": 2}),
}


@pytest.fixture(params=all_locations(*COSTS))
def name(request: pytest.FixtureRequest) -> str:
    location: str = request.param
    return location


@asynccontextmanager
async def opened(location: Location) -> AsyncIterator[aiozarr.Array]:
    """The array there, opened, with the requests of the opening forgotten."""
    mode: Any = "r+" if location.writable else "r"
    options = location.storage_options
    async with await aiozarr.open_array(
        location.url, zarr_format=3, mode=mode, storage_options=options, settings=SETTINGS
    ) as array:
        assert location.link is not None
        location.link.reset()
        yield array


def test_opening_an_array_of_known_format_is_one_request(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with array_at(name, SHARDED, tmp_path, request, LATENCY) as location:
        assert location.link is not None

        async def job() -> int:
            with aiozarr.record() as report:
                array = await aiozarr.open_array(location.url, zarr_format=3, storage_options=location.storage_options)
            await array.aclose()
            return report.requests

        requests = _run(job, location)
        assert requests == 1
        assert location.link.requests == COSTS[name].opened


def test_a_plane_through_shards_costs_an_index_and_a_merged_range_of_each(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    costs = COSTS[name]
    with array_at(name, SHARDED, tmp_path, request, LATENCY) as location:
        link = location.link
        assert link is not None

        async def job() -> None:
            async with opened(location) as array:
                for selection, expected in ((10, costs.row), (10, costs.again), ((), costs.rest)):
                    with aiozarr.record() as report:
                        assert np.array_equal(await array[selection], VALUES[selection])
                    assert link.requests == expected
                    assert report.requests == sum(expected.values())
                    assert report.retries == 0
                    link.reset()

        _run(job, location)


def test_many_chunks_are_one_request_each_and_as_many_at_a_time_as_the_budget_allows(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with array_at(name, PLAIN, tmp_path, request, LATENCY) as location:
        link = location.link
        assert link is not None

        async def job() -> None:
            async with opened(location) as array:
                with aiozarr.record() as report:
                    assert np.array_equal(await array[...], VALUES)
            assert link.requests == {"GET": 64}
            assert report.requests == 64
            assert 4 <= link.max_in_flight <= AT_ONCE

        _run(job, location)


def test_writing_whole_shards_is_one_request_each(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    expected = COSTS[name].written
    if expected is None:
        pytest.skip("this location is read only")
    with array_at(name, SHARDED, tmp_path, request, LATENCY) as location:
        link = location.link
        assert link is not None

        async def job() -> None:
            async with opened(location) as array:
                with aiozarr.record() as report:
                    await array[...].write(VALUES + 1)
                # The first write of a handle compares the array's document.
                assert link.requests == {**expected, "GET": expected.get("GET", 0) + 1}
                assert report.requests == 7
                link.reset()
                # What was written is not asked for its size any more, and its index not either.
                assert np.array_equal(await array[10], VALUES[10] + 1)
                assert "HEAD" not in link.requests

        _run(job, location)


async def test_a_narrow_line_changes_no_count(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with array_at("http", SHARDED, tmp_path, request, LATENCY) as location:
        assert location.link is not None
        location.link.bandwidth = 1e6
        async with opened(location) as array:
            assert np.array_equal(await array[...], VALUES)
            assert location.link.requests == {"GET": 6}


# --- stores without a server -----------------------------------------------------------------------------------------


def _memory(folder: Path) -> Store:
    store = MemoryStore()
    for key, data in SHARDED.items():
        store.set_now(key, data)
    return store


def _local(folder: Path) -> Store:
    store = LocalStore(folder / "a.zarr")
    for key, data in SHARDED.items():
        store.set_now(key, data)
    return store


async def _archive(folder: Path) -> Store:
    async with ZipStore(folder / "a.zip", "w") as store:
        for key, data in SHARDED.items():
            await store.set(key, data)
    return ZipStore(folder / "a.zip")


@pytest.mark.parametrize("kind", ["memory", "local", "zip"])
async def test_local_stores_get_the_same_calls_when_they_are_slow(kind: str, tmp_path: Path) -> None:
    makers: dict[str, Callable[[Path], Any]] = {"memory": _memory, "local": _local, "zip": _archive}
    made = makers[kind](tmp_path)
    inner: Store = made if isinstance(made, Store) else await made
    events: list[StoreEvent] = []
    store = TraceStore(LatencyStore(inner, LATENCY), events.append)
    with aiozarr.record() as report:
        array = await aiozarr.open_array(store, zarr_format=3, settings=SETTINGS)
    assert report.requests == len(events) == 1
    for selection, expected in ((10, 4), (10, 2), ((), 6)):
        events.clear()
        with aiozarr.record() as report:
            assert np.array_equal(await array[selection], VALUES[selection])
        assert report.requests == len(events) == expected
    assert _at_once(events) >= 4
    await store.aclose()


def _at_once(events: list[StoreEvent]) -> int:
    """The most operations that were under way at one time."""
    turns = sorted([(one.started, 1) for one in events] + [(one.started + one.seconds, -1) for one in events])
    return int(np.cumsum([step for _, step in turns]).max())


def _run(job: Callable[[], Any], location: Location) -> Any:
    """Run the job with the requests before it forgotten."""
    assert location.link is not None
    location.link.reset()
    return asyncio.run(job())
