"""What arrays and groups have in common: closing, several event loops, pickles."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import MemoryStore


async def test_a_node_closes_only_the_store_that_opening_made(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await aiozarr.create_array(remote, "a", shape=3, dtype="i4")
    async with await aiozarr.open(remote, "a"):
        pass
    assert remote.closed == 0
    monkeypatch.setattr("aiozarr.engine.open_store.from_url", lambda url, **options: remote)
    async with await aiozarr.open_group("any://url") as group:
        child = await group.open("a")
        await child.aclose()
        assert remote.closed == 0
    assert remote.closed == 1


def test_a_node_works_on_one_event_loop_after_another(tmp_path: Path) -> None:
    async def create() -> aiozarr.Array:
        array = await aiozarr.create_array(tmp_path, "a", shape=3, dtype="i4")
        await array[...].write([1, 2, 3])
        return array

    array = asyncio.run(create())

    async def read() -> Any:
        return await array[...]

    assert asyncio.run(read()).tolist() == [1, 2, 3]
    assert asyncio.run(read()).tolist() == [1, 2, 3]


async def test_pickled_nodes_are_the_same_nodes(tmp_path: Path) -> None:
    settings = aiozarr.Settings(retries=1)
    array = await aiozarr.create_array(
        tmp_path,
        "g/a",
        shape=(4, 4),
        dtype=">f4",
        chunks=2,
        shards=4,
        fill_value="NaN",
        attributes={"n": [1]},
        settings=settings,
    )
    await array[:2].write(1)
    group = await aiozarr.open_group(tmp_path, "g")
    array2, group2 = pickle.loads(pickle.dumps((array, group)))
    assert array2.metadata == array.metadata
    assert (array2.url, array2.settings, array2.read_only) == (array.url, settings, False)
    assert (group2.url, group2.read_only) == (group.url, True)
    assert np.array_equal(await array2[...], await array[...], equal_nan=True)


async def test_attributes_beyond_json_are_pickled_too(memory: MemoryStore) -> None:
    await memory.set("zarr.json", b'{"zarr_format": 3, "node_type": "group", "attributes": {"fill": NaN}}')
    group = pickle.loads(pickle.dumps(await aiozarr.open_group(memory)))
    assert np.isnan(group.attrs["fill"])
