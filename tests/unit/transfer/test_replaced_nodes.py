"""Copies onto older nodes: what belongs to the copied ones is removed, and all else stays."""

from __future__ import annotations

import numpy as np

import aiozarr
from aiozarr.model import Supports
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore


async def test_a_copy_onto_an_older_array_reads_equal_and_other_nodes_stay() -> None:
    source, destination = MemoryStore(), MemoryStore()
    for store, zarr_format in ((source, 2), (destination, 3)):
        group = await aiozarr.create_group(store, zarr_format=zarr_format)
        await group.create_array("a", shape=(4, 4), chunks=(2, 2), dtype="i4", fill_value=0)
    await (await aiozarr.open_array(source, "a", mode="r+"))[:2, :2].write(1)
    values = {"chunk": "a/0.1", "old": "a/0.1.0", "other": "b/c/0", "file": "notes.txt", "root": "0.1"}
    await aiozarr.create_array(destination, "b", shape=2, dtype="i4")
    for key in values.values():
        await destination.set(key, b"x")
    plan = await aiozarr.copy(source, destination, overwrite=True, dry_run=True)
    report = await aiozarr.copy(source, destination, overwrite=True)
    assert {key for action, key in plan.planned if action == "delete"} == {"zarr.json", "a/zarr.json", "a/0.1"}
    assert (plan.deleted, report.deleted, report.planned) == (3, 3, ())
    copied_array = await aiozarr.open_array(destination, "a")
    assert np.array_equal(await copied_array[...], await (await aiozarr.open_array(source, "a"))[...])
    assert {"b/zarr.json", "b/c/0", "notes.txt", "0.1", "a/0.1.0"} <= set(await destination.list())


async def test_chunks_that_a_source_without_listing_lacks_are_removed() -> None:
    source, destination = FakeStore(supports=Supports(writeable=True)), FakeStore()
    for store in (source.memory, destination.memory):
        array = await aiozarr.create_array(store, shape=4, chunks=1, dtype="i4")
        await array[...].write(range(1, 5))
    source.memory.erase_now("c/2")
    report = await aiozarr.copy(source, destination, overwrite=True)
    assert (report.deleted, report.missing_chunks) == (1, 1)
    assert sorted(await destination.memory.list()) == ["c/0", "c/1", "c/3", "zarr.json"]
