"""Consolidated metadata: a tree without requests, and no stale metadata after changes."""

from __future__ import annotations

import json
import pickle

import pytest

import aiozarr
import aiozarr.sync
from aiozarr.stores import MemoryStore, PrefixStore, Store
from tests.support.consolidated_trees import FORMATS, TREE, consolidated_tree, copies


@FORMATS
async def test_consolidated_metadata_contain_all_nodes_below(store: Store, zarr_format: int) -> None:
    group = await consolidated_tree(store, zarr_format)
    assert not group.read_only
    assert await copies(store, zarr_format) == TREE
    opened = await aiozarr.open_group(store)
    assert {name: getattr(node, "shape", None) for name, node in [m async for m in opened.members(None)]} == {
        "a": (4,),
        "g": None,
        "g/b": (2, 3),
        "g/h": None,
    }
    assert opened.attrs == {"title": "t"}
    assert (await opened.open("a")).attrs == {"n": 1}


async def test_a_node_of_another_format_below_cannot_be_consolidated(memory: MemoryStore) -> None:
    await aiozarr.create_group(memory)
    await aiozarr.create_array(memory, "old", shape=1, dtype="i4", zarr_format=1)
    with pytest.raises(aiozarr.NodeTypeError, match="format 1"):
        await aiozarr.consolidate_metadata(memory)
    with pytest.raises(aiozarr.NodeTypeError, match="array"):
        await aiozarr.consolidate_metadata(memory, "old")
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.consolidate_metadata(memory, "none")


async def test_implicit_groups_are_consolidated_as_groups(memory: MemoryStore) -> None:
    await consolidated_tree(memory, 3)
    await memory.erase("g/zarr.json")
    await aiozarr.consolidate_metadata(memory)
    assert await copies(memory, 3) == TREE


@FORMATS
async def test_an_unpickled_group_reads_its_metadata_again(memory: MemoryStore, zarr_format: int) -> None:
    root = await consolidated_tree(memory, zarr_format)
    sent = pickle.dumps(root)
    await root.delete("a")
    loaded: aiozarr.Group = pickle.loads(sent)
    assert [name async for name, _ in loaded.members()] == ["g"]


def test_the_blocking_twin_consolidates_and_answers() -> None:
    store = MemoryStore()
    aiozarr.sync.create_array(store, "a/b", shape=3, dtype="i4")
    group = aiozarr.sync.consolidate_metadata(store)
    assert isinstance(group, aiozarr.sync.Group)
    assert [name for name, _ in group.members(None)] == ["a", "a/b"]


@pytest.mark.parametrize("zarr_format", [None, 2])
async def test_a_root_without_zgroup_gets_one_beside_its_zmetadata(
    memory: MemoryStore, zarr_format: int | None
) -> None:
    for path in ("a", "b/c"):
        await aiozarr.create_array(memory, path, data=[1, 2], zarr_format=2)
    for key in (".zgroup", ".zattrs", "b/.zgroup", "b/.zattrs"):
        await memory.erase(key)
    group = await aiozarr.consolidate_metadata(memory, zarr_format=zarr_format)
    assert group.zarr_format == 2
    stored = await memory.list()
    assert {".zgroup", ".zmetadata"} <= set(stored)
    assert "zarr.json" not in stored
    copies = json.loads(bytes(await memory.get(".zmetadata") or b""))["metadata"]
    assert {".zgroup", "a/.zarray", "b/.zgroup", "b/c/.zarray"} <= set(copies)


async def test_a_folder_of_nodes_that_cannot_be_consolidated_gets_no_document(memory: MemoryStore) -> None:
    await aiozarr.create_array(PrefixStore(memory, "a"), data=[1, 2], zarr_format=2)
    await aiozarr.create_array(PrefixStore(memory, "b"), data=[1, 2], zarr_format=3)
    before = await memory.list()
    with pytest.raises(aiozarr.NodeTypeError):
        await aiozarr.consolidate_metadata(memory)
    assert await memory.list() == before
