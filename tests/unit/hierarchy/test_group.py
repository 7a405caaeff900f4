"""Groups open, list, create and delete the nodes below them."""

from __future__ import annotations

from typing import Any

import pytest

import aiozarr
from aiozarr.stores import MemoryStore, Store
from tests.support.small_tree import filled


async def test_names_are_relative_to_the_group(store: Store) -> None:
    root = await filled(store)
    group = await root.open("g")
    assert isinstance(group, aiozarr.Group)
    assert (group.path, group.url, group.attrs) == ("g", f"{store.url}/g", {"level": 1})
    array = await group.open("b")
    assert isinstance(array, aiozarr.Array)
    assert array.path == "g/b"
    assert (await root.open("g/h/i")).path == "g/h/i"


async def test_contains_finds_arrays_groups_and_implicit_groups(store: Store) -> None:
    root = await filled(store)
    await store.erase("g/h/zarr.json")
    assert [await root.contains(name) for name in ("a", "g", "g/b", "g/h", "z/deep")] == [True] * 5
    assert [await root.contains(name) for name in ("b", "a/b", "g/x", "ab")] == [False] * 4


async def test_delete_erases_a_node_and_everything_below_it(store: Store) -> None:
    root = await filled(store)
    await root.create_group("gg")
    await root.delete("g")
    assert sorted([name async for name, _ in root.members()]) == ["a", "gg", "z"]
    assert not await store.list_prefix("g/")
    with pytest.raises(aiozarr.NodeNotFoundError):
        await root.delete("g")


async def test_delete_erases_unreadable_documents(memory: MemoryStore) -> None:
    root = await filled(memory)
    await memory.set("g/zarr.json", b"{")
    await root.delete("g")
    assert not await root.contains("g")


async def test_an_interrupted_delete_leaves_no_array_that_reads_as_fill_values(remote: Any) -> None:
    root = await aiozarr.create_group(remote)
    array = await root.create_array("a", shape=4, dtype="i4", chunks=1)
    await array[...].write(1)

    def fail(operation: str, key: str) -> None:
        if operation == "erase" and "/c/" in key:
            raise aiozarr.PermissionDeniedError("no", key=key)

    remote.hook = fail
    with pytest.raises(aiozarr.PermissionDeniedError):
        await root.delete("a")
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open_array(remote, "a")


@pytest.mark.parametrize("name", ["", "/"])
async def test_the_group_itself_is_not_a_child(memory: MemoryStore, name: str) -> None:
    root = await filled(memory)
    for action in (root.delete(name), root.create_group(name), root.create_array(name, shape=1, dtype="i4")):
        with pytest.raises(ValueError, match="empty"):
            await action
    assert await root.contains("a")


async def test_what_a_group_creates_shares_its_settings_and_can_be_written(store: Store) -> None:
    settings = aiozarr.Settings(retries=1)
    root = await aiozarr.create_group(store, settings=settings)
    array = await root.create_array("a", shape=3, dtype="i4", attributes={"a": 1})
    await array[...].write([1, 2, 3])
    assert array.settings is settings
    assert (await (await root.open("a"))[...]).tolist() == [1, 2, 3]  # type: ignore[index]
    reader = await aiozarr.open_group(store)
    assert (await reader.open("a")).read_only


async def test_the_repr_of_a_group_has_its_url(memory: MemoryStore) -> None:
    root = await filled(memory)
    assert repr(await root.open("g")) == f"<aiozarr.Group {memory.url}/g>"


async def test_a_hierarchy_is_described_by_a_mapping(memory: MemoryStore) -> None:
    root = await aiozarr.create_group(memory)
    with pytest.raises(TypeError, match="mapping"):
        await root.create_hierarchy([("a", {})])  # type: ignore[arg-type]
