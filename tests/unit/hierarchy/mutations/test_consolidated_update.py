"""Consolidated metadata stay current: every change of a node below updates or invalidates them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import aiozarr
import aiozarr.sync
from aiozarr.errors import StoreError
from aiozarr.stores import MemoryStore, Store
from tests.support.consolidated_trees import COPIES, FORMATS, TREE, consolidated_tree, copies


async def change_attributes(root: aiozarr.Group) -> None:
    node = await root.open("g/b")
    await node.update_attributes({"new": 1})


async def change_own_attributes(root: aiozarr.Group) -> None:
    await root.update_attributes({"title": "new"})


async def resize(root: aiozarr.Group) -> None:
    array = await root.open("a")
    assert isinstance(array, aiozarr.Array)
    await array.resize(9)


async def append(root: aiozarr.Group) -> None:
    array = await root.open("a")
    assert isinstance(array, aiozarr.Array)
    await array.append([1])


CHANGES: list[tuple[Any, dict[str, Any]]] = [
    (lambda root: root.create_array("g/new", shape=1, dtype="u1"), TREE | {"g/new": [1]}),
    (lambda root: root.create_group("x/y"), TREE | {"x": None, "x/y": None}),
    (lambda root: root.create_array("g", shape=7, dtype="u1", overwrite=True), {"a": [4], "g": [7]}),
    (lambda root: root.delete("g"), {"a": [4]}),
    (lambda root: root.move("g", "k/l"), {"a": [4], "k": None, "k/l": None, "k/l/b": [2, 3], "k/l/h": None}),
    (resize, TREE | {"a": [9]}),
    (append, TREE | {"a": [5]}),
    (change_attributes, TREE),
    (change_own_attributes, TREE),
    (
        lambda root: root.create_hierarchy({"m/n": {"shape": 2, "dtype": "i1"}, "o": {}}),
        TREE | {"m": None, "m/n": [2], "o": None},
    ),
    (lambda root: root.require_group("g/h/i"), TREE | {"g/h/i": None}),
]


@FORMATS
@pytest.mark.parametrize(("change", "after"), CHANGES)
async def test_every_change_below_updates_consolidated_metadata(
    memory: MemoryStore, zarr_format: int, change: Any, after: dict[str, Any]
) -> None:
    root = await consolidated_tree(memory, zarr_format)
    other = await aiozarr.open_group(memory)
    await change(root)
    assert await copies(memory, zarr_format) == after
    for group in (root, other, await aiozarr.open_group(memory)):
        assert sorted([name async for name, _ in group.members(None)]) == sorted(after)
    # What the copies say is what the nodes' own documents say.
    by_copies = {name: node.metadata async for name, node in root.arrays(None)}
    for name, metadata in by_copies.items():
        assert (await aiozarr.open_array(memory, name)).metadata == metadata


@FORMATS
@pytest.mark.parametrize("failing", ["set g/new/zarr.json", "set g/new/.zarray", "erase g/", "set copies"])
async def test_a_failed_change_leaves_no_stale_consolidated_metadata(
    remote: Any, zarr_format: int, failing: str
) -> None:
    root = await consolidated_tree(remote, zarr_format)
    root = await aiozarr.open_group(remote, mode="r+")
    begun: list[str] = []

    def fail(operation: str, key: str) -> None:
        if operation == "set" and key.startswith("g/new"):
            begun.append(key)
        last = failing == "set copies" and operation == "set" and key == COPIES[zarr_format] and begun
        erasing = failing == "erase g/" and operation == "erase" and key.startswith("g/")
        if f"{operation} {key}" == failing or last or erasing:
            raise StoreError("the network is gone")

    remote.hook = fail
    change = root.delete("g/b") if failing == "erase g/" else root.create_array("g/new", shape=1, dtype="u1")
    await asyncio.gather(change, return_exceptions=True)
    remote.hook = lambda operation, key: None
    found = await copies(remote, zarr_format)
    fresh = await aiozarr.open_group(remote)
    names = sorted([name async for name, _ in fresh.members(None)])
    truth = [name for name in (*TREE, "g/new") if await fresh.contains(name)]
    stored = [key for key in await remote.held.list() if key.endswith((".zarray", ".zgroup", "zarr.json"))]
    assert names == sorted([key.rpartition("/")[0] for key in stored if "/" in key]) == sorted(truth)
    assert found is None or sorted(found) == names


@FORMATS
async def test_concurrent_changes_are_all_in_the_consolidated_metadata(store: Store, zarr_format: int) -> None:
    root = await consolidated_tree(store, zarr_format)
    b = await root.open("g/b")
    await asyncio.gather(
        *[root.create_array(f"g/n{n}", shape=n + 1, dtype="i1") for n in range(6)],
        *[b.update_attributes({f"k{n}": n}) for n in range(4)],
        root.delete("a"),
    )
    expected = {name: shape for name, shape in TREE.items() if name != "a"} | {f"g/n{n}": [n + 1] for n in range(6)}
    assert await copies(store, zarr_format) == expected
    fresh = await aiozarr.open_group(store)
    assert (await fresh.open("g/b")).attrs == {f"k{n}": n for n in range(4)}


async def test_a_concurrent_change_of_another_process_prevents_stale_consolidated_metadata(remote: Any) -> None:
    root = await consolidated_tree(remote, 3)
    sneaked = MemoryStore()
    await aiozarr.create_array(sneaked, "theirs", shape=1, dtype="i1")
    document = bytes(await sneaked.get("theirs/zarr.json") or b"")

    def overtake(operation: str, key: str) -> None:
        if (operation, key) == ("set", "g/ours/zarr.json"):
            # As aiozarr does elsewhere: it finds the mark where the copies were, takes it away, and stores its node.
            marked = json.loads(bytes(remote.held.fetch_now("zarr.json").data))
            assert marked.pop("consolidated_metadata") is None
            remote.held.set_now("zarr.json", json.dumps(marked).encode())
            remote.held.set_now("theirs/zarr.json", document)

    remote.hook = overtake
    await root.create_array("g/ours", shape=1, dtype="i1")
    remote.hook = lambda operation, key: None
    assert await copies(remote, 3) is None
    names = [name async for name, _ in (await aiozarr.open_group(remote)).members()]
    assert names == ["a", "g", "theirs"]


async def test_a_sentinel_left_by_a_crash_is_removed(memory: MemoryStore) -> None:
    root = await consolidated_tree(memory, 3)
    document = json.loads(bytes(await memory.get("zarr.json") or b""))
    document["consolidated_metadata"] = None
    await memory.set("zarr.json", json.dumps(document).encode())
    await root.create_group("new")
    assert "consolidated_metadata" not in json.loads(bytes(await memory.get("zarr.json") or b""))
    assert await root.contains("new")


@FORMATS
async def test_nested_consolidated_groups_are_both_updated(memory: MemoryStore, zarr_format: int) -> None:
    await consolidated_tree(memory, zarr_format)
    await aiozarr.consolidate_metadata(memory, "g")
    root = await aiozarr.consolidate_metadata(memory)
    await root.create_array("g/new", shape=3, dtype="i1")
    assert await copies(memory, zarr_format) == TREE | {"g/new": [3]}
    assert await copies(memory, zarr_format, "g") == {"b": [2, 3], "h": None, "new": [3]}


@FORMATS
async def test_a_change_without_consolidated_groups_reads_each_document_once(remote: Any, zarr_format: int) -> None:
    root = await aiozarr.create_group(remote, zarr_format=zarr_format)
    array = await root.create_array("a", shape=3, dtype="i4")
    remote.calls.clear()
    await array.update_attributes({"a": 1})
    assert len(remote.calls) == len(set(remote.calls)) == {3: 3, 2: 6}[zarr_format]
