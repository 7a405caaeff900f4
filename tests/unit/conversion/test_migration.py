"""`aiozarr.migrate` and its blocking twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import aiozarr
from aiozarr import sync
from aiozarr.stores import MemoryStore, PrefixStore, Store

VALUES = np.arange(60, dtype=">i2").reshape(6, 10)
STEPS = np.arange(4, dtype="i4")


async def tree(store: Any) -> Store:
    """A consolidated tree of format 2 with an array that stays, one that is encoded again, and one without chunks."""
    group = await aiozarr.create_group(store, zarr_format=2, attributes={"title": "a"})
    options: dict[str, Any] = {"dimension_names": ["y", "x"], "attributes": {"units": "K"}, "fill_value": -1}
    wind = await group.create_array("sea/wind", shape=(6, 10), dtype=">i2", chunks=(4, 4), **options)
    await wind[:4].write(VALUES[:4])
    delta = {"id": "delta", "dtype": ">i4"}
    await group.create_array("steps", data=STEPS, dtype=">i4", chunks=3, filters=[delta])
    await group.create_array("none", shape=3, dtype="f8", compressor=None)
    await aiozarr.consolidate_metadata(group.store)
    return group.store


async def objects(store: Store) -> dict[str, bytes]:
    return {entry.key: bytes(await store.get(entry.key) or b"") async for entry in store.scan()}


async def check(store: Any) -> None:
    group = await aiozarr.open_group(store, use_consolidated=True)
    assert (group.zarr_format, dict(group.attrs)) == (3, {"title": "a"})
    wind = await group.open("sea/wind")
    assert (wind.zarr_format, wind.dimension_names, dict(wind.attrs)) == (3, ("y", "x"), {"units": "K"})
    found = await wind[...]
    assert np.array_equal(found[:4], VALUES[:4])
    assert (found[4:] == -1).all()
    assert np.array_equal(await (await group.open("steps"))[...], STEPS)
    assert (await (await group.open("none"))[...]).tolist() == [0, 0, 0]


async def test_in_place_documents_are_written_and_chunks_are_not_touched() -> None:
    store = await tree(MemoryStore())
    before = await objects(store)
    report = await aiozarr.migrate(store)
    after = await objects(store)
    assert after.items() >= before.items()
    new = {"zarr.json", "sea/zarr.json", "sea/wind/zarr.json", "steps/zarr.json", "none/zarr.json"}
    assert after.keys() - before.keys() == new | {"steps/c/0", "steps/c/1"}
    assert list(report.reencoded) == ["steps"]
    assert "big-endian" in report.reencoded["steps"]
    assert (report.arrays, report.groups, report.tasks) == (3, 2, 1)
    await check(store)


async def test_beside_chunks_are_copied_as_they_are_without_the_old_documents(tmp_path: Path) -> None:
    store = await tree(tmp_path / "old")
    before = await objects(store)
    report = await aiozarr.migrate(tmp_path / "old", tmp_path / "new")
    assert report.copied == 3
    assert await objects(store) == before
    await check(tmp_path / "new")
    names = {path.name for path in (tmp_path / "new").rglob("*")}
    assert not names & {".zarray", ".zgroup", ".zattrs", ".zmetadata"}
    found: Any = zarr.open_group(tmp_path / "new", mode="r").metadata
    assert sorted(found.consolidated_metadata.metadata) == ["none", "sea", "steps"]


async def test_the_old_tree_is_erased_on_request_alone() -> None:
    store = await tree(MemoryStore())
    await aiozarr.migrate(store, erase_old=True)
    keys = set(await objects(store))
    assert not [key for key in keys if "/.z" in f"/{key}"]
    assert {key for key in keys if key.startswith("steps/")} == {"steps/zarr.json", "steps/c/0", "steps/c/1"}
    await check(store)


async def test_a_migrated_tree_is_not_migrated_again_unless_asked() -> None:
    store = await tree(MemoryStore())
    await aiozarr.migrate(store)
    with pytest.raises(aiozarr.NodeExistsError, match=r"5 of 5 nodes .* documents of format 3 already"):
        await aiozarr.migrate(store)
    await aiozarr.migrate(store, overwrite=True)
    await aiozarr.migrate(store, resume=True)
    await check(store)


async def test_a_dry_run_writes_nothing() -> None:
    store = await tree(MemoryStore())
    before = await objects(store)
    report = await aiozarr.migrate(store, dry_run=True)
    assert (report.arrays, report.groups, list(report.reencoded)) == (3, 2, ["steps"])
    assert await objects(store) == before


async def test_an_array_of_format_1_is_migrated() -> None:
    store = MemoryStore()
    await aiozarr.create_array(store, data=VALUES, chunks=(4, 4), zarr_format=1, order="F")
    await aiozarr.migrate(store)
    array = await aiozarr.open_array(store)
    assert array.zarr_format == 3
    assert np.array_equal(await array[...], VALUES)


async def test_a_failed_migration_leaves_the_root_as_it_was_and_is_resumed() -> None:
    store: Any = await tree(MemoryStore())
    original = store.set_now

    def fail(key: str, value: Any, **options: Any) -> Any:
        if key == "sea/wind/zarr.json":
            raise aiozarr.StoreError("no more", store=store.url, key=key)
        return original(key, value, **options)

    store.set_now = fail
    with pytest.raises(aiozarr.StoreError, match="no more"):
        await aiozarr.migrate(store)
    assert (await aiozarr.open(store)).zarr_format == 2
    store.set_now = original
    await aiozarr.migrate(store, resume=True)
    await check(store)


async def test_what_cannot_be_migrated_is_said_and_nothing_is_written() -> None:
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.migrate(MemoryStore())
    store = MemoryStore()
    await aiozarr.create_array(store, shape=3, dtype="i1")
    with pytest.raises(aiozarr.NodeNotFoundError, match="format 2"):
        await aiozarr.migrate(store)
    old = MemoryStore()
    await aiozarr.create_array(old, shape=3, dtype=object, filters=[{"id": "json2"}], zarr_format=2)
    before = await objects(old)
    with pytest.raises(aiozarr.UnsupportedMetadataError):
        await aiozarr.migrate(old)
    assert await objects(old) == before
    with pytest.raises(ValueError, match="in place"):
        await aiozarr.migrate(old, MemoryStore(), erase_old=True)
    with pytest.raises(TypeError, match="destination_options"):
        await aiozarr.migrate(old, destination_options={"anon": True})


async def test_a_destination_that_holds_keys_is_refused(tmp_path: Path) -> None:
    source = await tree(MemoryStore())
    await aiozarr.create_array(tmp_path, shape=3, dtype="i1")
    with pytest.raises(aiozarr.NodeExistsError):
        await aiozarr.migrate(source, tmp_path)
    await aiozarr.migrate(source, tmp_path, overwrite=True)
    await check(tmp_path)


def test_the_blocking_twin_migrates(tmp_path: Path) -> None:
    sync.create_array(tmp_path, data=VALUES, zarr_format=2)
    assert sync.migrate(tmp_path).arrays == 1
    assert sync.open_array(tmp_path).zarr_format == 3


@pytest.mark.parametrize("zarr_format", [1, 2])
async def test_a_folder_of_arrays_without_a_group_is_migrated(zarr_format: int) -> None:
    store = MemoryStore()
    for path in ("a", "b/c"):
        await aiozarr.create_array(PrefixStore(store, path), data=STEPS, zarr_format=zarr_format)
    report = await aiozarr.migrate(store, erase_old=True)
    assert (report.arrays, report.groups) == (2, 2)
    group = await aiozarr.open_group(store, zarr_format=3)
    assert sorted([name async for name, _ in group.members(None)]) == ["a", "b", "b/c"]
    assert {key.rpartition("/")[2] for key in await store.list()} == {"zarr.json", "0"}
    assert np.array_equal(await (await aiozarr.open_array(store, "b/c"))[...], STEPS)


async def test_old_documents_are_erased_later_below_folders_without_documents() -> None:
    store = await _folder_of_arrays()
    await aiozarr.migrate(store)
    plan = await aiozarr.migrate(store, erase_old=True, dry_run=True)
    assert {key for action, key in plan.planned if action == "erase"} >= {"a/.zarray", "b/c/.zarray"}
    await aiozarr.migrate(store, erase_old=True)
    stored = await store.list()
    assert [key for key in stored if "/.z" in key or key.startswith(".z")] == []
    assert {"zarr.json", "a/zarr.json", "b/zarr.json", "b/c/zarr.json"} <= set(stored)
    with pytest.raises(aiozarr.NodeNotFoundError, match="group of 3"):
        await aiozarr.migrate(store, erase_old=True)


async def test_an_interrupted_erasure_of_old_documents_is_continued() -> None:
    store = await _folder_of_arrays()
    await aiozarr.migrate(store)
    await store.erase("a/.zarray")
    await aiozarr.migrate(store, erase_old=True)
    assert "b/c/.zarray" not in await store.list()


async def test_a_node_of_format_3_in_an_old_tree_is_not_touched() -> None:
    store = MemoryStore()
    await aiozarr.create_group(store, zarr_format=2)
    await aiozarr.create_array(store, "a", data=[1, 2], zarr_format=2)
    await aiozarr.create_array(PrefixStore(store, "x"), data=[3, 4], attributes={"n": 1})
    document = await store.get("x/zarr.json")
    report = await aiozarr.migrate(store, erase_old=True)
    assert (report.arrays, report.groups) == (1, 1)
    assert await store.get("x/zarr.json") == document
    assert [name async for name, _ in (await aiozarr.open_group(store)).arrays()] == ["a", "x"]


async def _folder_of_arrays() -> MemoryStore:
    """Return a store with arrays of format 2 in folders that are no groups."""
    store = MemoryStore()
    for path in ("a", "b/c"):
        await aiozarr.create_array(PrefixStore(store, path), data=[1, 2], zarr_format=2)
    return store
