"""Copies onto older nodes: what belongs to the copied ones is removed, and all else stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import StoreError
from aiozarr.model import Supports
from aiozarr.stores import LocalStore, MemoryStore, PrefixStore
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
    source, destination = FakeStore(supports=Supports(writable=True)), FakeStore()
    for store in (source.memory, destination.memory):
        array = await aiozarr.create_array(store, shape=4, chunks=1, dtype="i4")
        await array[...].write(range(1, 5))
    source.memory.erase_now("c/2")
    report = await aiozarr.copy(source, destination, overwrite=True)
    assert (report.deleted, report.missing_chunks) == (1, 1)
    assert sorted(await destination.memory.list()) == ["c/0", "c/1", "c/3", "zarr.json"]


MIRRORS: list[dict[str, Any]] = [
    {"delete": True},
    {"overwrite": True, "skip_equal": True},
    {"overwrite": True, "size_only": True},
    {"delete": True, "on_error": "continue", "resume": True},
]


@pytest.mark.parametrize("how", MIRRORS)
@pytest.mark.parametrize("where", ["local", "memory"])
@pytest.mark.parametrize(
    "change",
    [{"codecs": [{"name": "zstd", "level": 5}]}, {"dtype": "u4"}, {"attributes": {"a": 1}}, None],
    ids=["codec", "type", "attributes", "damaged"],
)
async def test_chunks_that_are_equal_stay_where_their_document_changes(
    tmp_path: Path, where: str, how: dict[str, Any], change: dict[str, Any] | None
) -> None:
    source, destination = (tmp_path / name if where == "local" else f"memory://{tmp_path.name}-{name}" for name in "ab")
    keywords: dict[str, Any] = {"shape": 8, "dtype": "i4", "chunks": 4, "codecs": [{"name": "zstd", "level": 1}]}
    before = await aiozarr.create_array(source, "x", **keywords)
    await before[...].write(range(1, 9))
    await aiozarr.copy(source, destination)
    if change is None:
        await aiozarr.stores.from_url(str(destination)).set("x/zarr.json", b"{")
    else:
        chunks = {key: bytes(await before.store.get(key) or b"") for key in ("x/c/0", "x/c/1")}
        await aiozarr.create_array(source, "x", overwrite=True, **{**keywords, **change})
        for key, data in chunks.items():
            await before.store.set(key, data)
    report = await aiozarr.copy(source, destination, **how)
    assert (report.objects, report.deleted, report.failed) == (1, 0, ())
    assert (await (await aiozarr.open_array(destination, "x"))[...]).tolist() == list(range(1, 9))


@pytest.mark.parametrize("how", MIRRORS)
@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_a_failure_elsewhere_leaves_no_old_chunk_that_the_new_document_misreads(
    how: dict[str, Any], zarr_format: int
) -> None:
    source, destination = FakeStore(), MemoryStore()
    for store, dtype in ((source.memory, "u4"), (destination, "i4")):
        await aiozarr.create_group(store, zarr_format=zarr_format)
        for name in ("x", "y"):
            await aiozarr.create_array(store, name, data=range(1, 9), dtype=dtype, chunks=4, zarr_format=zarr_format)
    second = "x/c/1" if zarr_format == 3 else "x/1"
    await source.memory.erase(second)
    broken = "y/c/0" if zarr_format == 3 else "y/0"
    await source.memory.set(broken, b"another size, so it is copied")
    source.faults = lambda call: StoreError("damaged") if call.key == broken else None
    report = await aiozarr.copy(source, destination, **{**how, "on_error": "continue"})
    assert report.failed
    assert (await (await aiozarr.open_array(destination, "x"))[...]).tolist() == [1, 2, 3, 4, 0, 0, 0, 0]
    assert await destination.exists(broken)


@pytest.mark.parametrize("how", MIRRORS)
async def test_a_mirror_of_a_new_layout_replaces_directories_by_files(tmp_path: Path, how: dict[str, Any]) -> None:
    for name, ndim in (("a", 1), ("b", 2)):
        await aiozarr.create_array(tmp_path / name, "x", data=np.ones((4,) * ndim, "i4"), chunks=(2,) * ndim)
    report = await aiozarr.copy(tmp_path / "a", tmp_path / "b", **how)
    assert report.failed == ()
    assert (await (await aiozarr.open_array(tmp_path / "b", "x"))[...]).tolist() == [1] * 4
    assert sorted(path.name for path in (tmp_path / "b/x/c").rglob("*")) == ["0", "1"]


async def failing(store: MemoryStore, key: str) -> FakeStore:
    """A copy of a store whose object `key` cannot be read."""
    stored = {each: bytes(await store.get(each) or b"") for each in await store.list()}
    return FakeStore(stored, faults=lambda call: aiozarr.StoreError("damaged") if call.key == key else None)


async def test_an_interrupted_overwriting_leaves_no_document_that_misreads_new_chunks(tmp_path: Path) -> None:
    source, destination = MemoryStore(), LocalStore(tmp_path / "x")
    for store, dtype, ndim in ((source, "f4", 1), (destination, "i4", 2)):
        await aiozarr.create_group(store)
        # The old chunk `a/c/1/0` lies where the new `a/c/1` must be.
        await aiozarr.create_array(store, "a", data=np.ones((4,) * ndim, dtype), chunks=(2,) * ndim)
        await aiozarr.create_array(store, "b", data=np.arange(2 + ndim), chunks=(2,))
    await destination.set("notes", b"mine")
    with pytest.raises(aiozarr.CopyError):
        await aiozarr.copy(await failing(source, "a/c/1"), destination, overwrite=True)
    found = await destination.list()
    assert "a/zarr.json" not in found
    # Readers of an array that has only grown go on.
    assert {"zarr.json", "b/zarr.json", "notes"} <= set(found)
    await aiozarr.copy(source, destination, overwrite=True)
    assert np.array_equal(await (await aiozarr.open_array(destination, "a"))[...], np.ones(4, "f4"))
    assert sorted(await destination.list()) == sorted([*await source.list(), "notes"])


@pytest.mark.parametrize("overwrite", [False, True])
async def test_a_copy_that_failed_before_it_withdrew_a_document_withdraws_it_when_resumed(overwrite: bool) -> None:
    source, destination = FakeStore(), FakeStore()
    for store, dtype in ((source, "f4"), (destination, "i4")):
        await aiozarr.create_array(store.memory, "a", data=np.ones(4, dtype), chunks=(2,))
    refused = StoreError("down")
    destination.faults = lambda call: refused if (call.operation, call.key) == ("erase", "a/zarr.json") else None
    with pytest.raises(aiozarr.CopyError):
        await aiozarr.copy(source, destination, overwrite=True)
    assert "a/zarr.json" in await destination.memory.list()
    destination.faults = None
    # A second interruption, while new chunks are stored.
    source.faults = lambda call: refused if call.key == "a/c/1" else None
    with pytest.raises(aiozarr.CopyError):
        await aiozarr.copy(source, destination, overwrite=overwrite, resume=True)
    assert "a/zarr.json" not in await destination.memory.list()
    source.faults = None
    await aiozarr.copy(source, destination, resume=True)
    assert np.array_equal(await (await aiozarr.open_array(destination, "a"))[...], np.ones(4, "f4"))


async def test_a_resumed_copy_of_a_source_with_new_codecs_keeps_the_chunks_that_it_skips() -> None:
    source, destination = FakeStore(), FakeStore()
    await aiozarr.create_array(source.memory, "a", data=np.ones(4, "i4"), chunks=(2,))
    refused = StoreError("down")
    source.faults = lambda call: refused if call.key == "zarr.json" else None
    with pytest.raises(aiozarr.CopyError):
        await aiozarr.copy(source, destination)
    document = json.loads(bytes(await source.memory.get("a/zarr.json") or b""))
    document["data_type"] = "float32"
    await source.memory.set("a/zarr.json", json.dumps(document).encode())
    await source.memory.set("a/c/1", bytes(await source.memory.get("a/c/1") or b"") + b"\0")
    source.faults = lambda call: refused if call.key == "a/c/1" else None
    with pytest.raises(aiozarr.CopyError):
        await aiozarr.copy(source, destination, resume=True)
    stored = await destination.memory.list()
    assert "a/zarr.json" not in stored
    assert "a/c/0" in stored


@pytest.mark.parametrize(("old", "new"), [(3, 2), (2, 3), (2, 1)])
async def test_an_interrupted_overwriting_by_another_format_leaves_no_document_of_the_old_one(
    old: int, new: int, tmp_path: Path
) -> None:
    source, destination = MemoryStore(), LocalStore(tmp_path / "x")
    for store, zarr_format, dtype in ((source, new, "f4"), (destination, old, "i4")):
        # Both formats have the same chunk keys.
        encoding: dict[str, Any] = {"chunk_key_encoding": "v2"} if zarr_format == 3 else {}
        data = np.ones((4, 4), dtype)
        await aiozarr.create_array(
            PrefixStore(store, "a"), data=data, chunks=(2, 2), zarr_format=zarr_format, **encoding
        )
    await aiozarr.create_array(destination, "b", shape=1, dtype="i4", zarr_format=old)
    with pytest.raises(aiozarr.CopyError):
        await aiozarr.copy(await failing(source, "a/1.1"), destination, overwrite=True)
    assert [key for key in await destination.list() if key in ("a/zarr.json", "a/.zarray", "a/meta")] == []
    plan = await aiozarr.copy(source, destination, overwrite=True, dry_run=True)
    report = await aiozarr.copy(source, destination, overwrite=True)
    assert report.deleted == plan.deleted
    found = await aiozarr.open_array(PrefixStore(destination, "a"))
    assert (found.zarr_format, found.dtype) == (new, np.dtype("f4"))
    assert np.array_equal(await found[...], np.ones((4, 4)))
    assert await (await aiozarr.open_array(destination, "b"))[...] == [0]
