"""Round trips of opening, listing and creating: concurrent requests count once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import aiozarr
from tests.support.small_tree import store_arrays


class Rounds:
    """Lets requests through in rounds: a round begins when nothing else can happen, and answers all that wait then."""

    def __init__(self, remote: Any) -> None:
        self.count = 0
        self.requests = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._turn: asyncio.Task[None] | None = None
        remote._before = self.wait

    async def wait(self, operation: str, key: str) -> None:
        self.requests += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if self._turn is None:
            self._turn = asyncio.create_task(self._answer())
        await future

    async def _answer(self) -> None:
        # Whoever can send a request without waiting for another's answer has done so by then.
        for _ in range(200):
            await asyncio.sleep(0)
        self.count += 1
        self._turn = None
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


WIDE = aiozarr.Settings(max_requests=1024)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    ("names", "levels"),
    [
        ([f"a{n}" for n in range(200)], 1),
        ([f"g{n % 10}/a{n}" for n in range(200)], 2),
        ([f"g{n % 4}/h{n % 5}/a{n}" for n in range(200)], 3),
    ],
)
async def test_a_tree_of_200_arrays_is_one_round_trip_per_level_and_one_for_the_documents(
    remote: Any, zarr_format: int, names: list[str], levels: int
) -> None:
    await store_arrays(remote.held, zarr_format, names)
    root = await aiozarr.open_group(remote, settings=WIDE)
    rounds = Rounds(remote)
    found = [name async for name, _ in root.arrays(None)]
    assert sorted(found) == sorted(names)
    assert rounds.count <= levels + 1


async def test_the_members_of_a_group_are_two_round_trips_and_one_request_each(remote: Any) -> None:
    names = [f"a{n}" for n in range(200)]
    await store_arrays(remote.held, 3, names)
    root = await aiozarr.open_group(remote, settings=WIDE)
    rounds = Rounds(remote)
    assert len([name async for name, _ in root.members()]) == 200
    assert (rounds.count, rounds.requests) == (2, 201)


@pytest.mark.parametrize("zarr_format", [None, 1, 2, 3])
async def test_opening_an_array_is_one_round_trip_for_any_format(remote: Any, zarr_format: int | None) -> None:
    await aiozarr.create_array(remote, "a", shape=1, dtype="i1", zarr_format=zarr_format or 2)
    rounds = Rounds(remote)
    await aiozarr.open_array(remote, "a", zarr_format=zarr_format)
    assert rounds.count == 1


@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_a_consolidated_tree_is_one_round_trip(remote: Any, zarr_format: int) -> None:
    names = [f"g{n % 10}/a{n}" for n in range(200)]
    await store_arrays(remote.held, zarr_format, names)
    await aiozarr.consolidate_metadata(remote)
    rounds = Rounds(remote)
    root = await aiozarr.open_group(remote, zarr_format=zarr_format)
    assert len([name async for name, _ in root.arrays(None)]) == 200
    assert rounds.count == 1


@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_creating_below_existing_groups_is_one_round_trip_and_the_documents(
    remote: Any, zarr_format: int
) -> None:
    await aiozarr.create_group(remote, "g/h", zarr_format=zarr_format)
    rounds = Rounds(remote)
    await aiozarr.create_array(remote, "g/h/a", shape=1, dtype="i1", zarr_format=zarr_format)
    assert rounds.count == {3: 2, 2: 3}[zarr_format]
