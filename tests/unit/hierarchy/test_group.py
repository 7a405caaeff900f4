"""Groups open, list, draw, create and delete what lies below them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import aiozarr
from aiozarr.stores import MemoryStore, Store


async def filled(store: Store) -> aiozarr.Group:
    root = await aiozarr.create_group(store)
    await root.create_array("a", shape=(10, 10), dtype="f4")
    group = await root.create_group("g", attributes={"level": 1})
    await group.create_array("b", shape=3, dtype="i8")
    await group.create_group("h/i")
    await root.create_array("z/deep", shape=(), dtype="u1")
    return root


async def test_names_are_relative_to_the_group(store: Store) -> None:
    root = await filled(store)
    group = await root.open("g")
    assert isinstance(group, aiozarr.Group)
    assert (group.path, group.url, group.attrs) == ("g", f"{store.url}/g", {"level": 1})
    array = await group.open("b")
    assert isinstance(array, aiozarr.Array)
    assert array.path == "g/b"
    assert (await root.open("g/h/i")).path == "g/h/i"


async def test_members_are_listed_as_deep_as_asked(store: Store) -> None:
    root = await filled(store)

    async def names(depth: int | None) -> list[str]:
        return sorted([name async for name, _ in root.members(depth)])

    assert await names(0) == ["a", "g", "z"]
    assert await names(1) == ["a", "g", "g/b", "g/h", "z", "z/deep"]
    assert await names(None) == ["a", "g", "g/b", "g/h", "g/h/i", "z", "z/deep"]
    assert sorted([name async for name, _ in root.arrays(None)]) == ["a", "g/b", "z/deep"]
    assert sorted([name async for name, _ in root.groups()]) == ["g", "z"]
    async for name, node in root.members(None):
        assert node.path == name
        assert node.url == f"{store.url}/{name}"


async def test_the_tree_is_drawn_as_people_expect(store: Store) -> None:
    root = await filled(store)
    assert (await root.tree()).splitlines() == [
        "/",
        "├── a (10, 10) float32",
        "├── g",
        "│   ├── b (3,) int64",
        "│   └── h",
        "│       └── i",
        "└── z",
        "    └── deep () uint8",
    ]
    assert (await root.tree(max_depth=0)).splitlines()[1:] == ["├── a (10, 10) float32", "├── g", "└── z"]
    group = await root.open("g/h")
    assert isinstance(group, aiozarr.Group)
    assert await group.tree() == "/g/h\n└── i"


async def test_an_empty_group_has_no_members(store: Store) -> None:
    group = await aiozarr.create_group(store)
    assert [name async for name, _ in group.members(None)] == []
    assert await group.tree() == "/"


async def test_chunks_and_reserved_names_are_no_members(store: Store) -> None:
    root = await filled(store)
    array = await root.open("a")
    assert isinstance(array, aiozarr.Array)
    await array[...].write(1)
    await store.set("__private/x", b"1")
    await store.set("notes.txt", b"1")
    assert sorted([name async for name, _ in root.members(None)])[:2] == ["a", "g"]
    assert "__private" not in await root.tree()


async def test_directories_without_documents_are_implicit_groups(store: Store) -> None:
    root = await filled(store)
    await store.erase("g/h/zarr.json")
    found = {name: node async for name, node in root.members(None)}
    assert isinstance(found["g/h"], aiozarr.Group)
    assert "g/h/i" in found


async def test_a_document_that_cannot_be_read_is_named_by_members_and_drawn_by_tree(memory: MemoryStore) -> None:
    root = await filled(memory)
    await memory.set("g/b/zarr.json", b"{")
    with pytest.raises(aiozarr.InvalidMetadataError, match="g/b"):
        [name async for name, _ in root.members(None)]
    assert "│   ├── b (cannot be read: " in await root.tree()


async def test_a_listing_fetches_the_documents_of_a_level_at_once(remote: Any) -> None:
    root = await aiozarr.create_group(remote)
    await asyncio.gather(*[root.create_group(f"g{n}") for n in range(30)])
    under_way = most = 0

    async def count(operation: str, key: str) -> None:
        nonlocal under_way, most
        remote.calls.append((operation, key))
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1

    remote.calls.clear()
    remote._before = count
    assert len([name async for name, _ in root.members()]) == 30
    assert len(remote.calls) == 31
    assert most >= 15


async def test_a_listing_that_is_left_early_ends(store: Store) -> None:
    root = await filled(store)
    async for _ in root.members(None):
        break
    assert await root.contains("a")


async def test_a_store_that_cannot_list_says_so(remote_with: Callable[..., Any]) -> None:
    root = await aiozarr.create_group(remote_with(listable=False))
    with pytest.raises(aiozarr.UnsupportedOperationError):
        [name async for name, _ in root.members()]
    with pytest.raises(aiozarr.UnsupportedOperationError):
        await root.tree()


async def test_contains_tells_arrays_groups_and_implicit_groups_from_nothing(store: Store) -> None:
    root = await filled(store)
    await store.erase("g/h/zarr.json")
    assert [await root.contains(name) for name in ("a", "g", "g/b", "g/h", "z/deep")] == [True] * 5
    assert [await root.contains(name) for name in ("b", "a/b", "g/x", "ab")] == [False] * 4


async def test_delete_erases_a_node_and_all_below_it(store: Store) -> None:
    root = await filled(store)
    await root.create_group("gg")
    await root.delete("g")
    assert sorted([name async for name, _ in root.members()]) == ["a", "gg", "z"]
    assert not await store.list_prefix("g/")
    with pytest.raises(aiozarr.NodeNotFoundError):
        await root.delete("g")


async def test_delete_takes_documents_that_cannot_be_read(memory: MemoryStore) -> None:
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
    with pytest.raises(aiozarr.NodeTypeError):
        await aiozarr.open_array(remote, "a")


@pytest.mark.parametrize("name", ["", "/"])
async def test_the_group_itself_is_no_child(memory: MemoryStore, name: str) -> None:
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


async def test_a_group_prints_its_place(memory: MemoryStore) -> None:
    root = await filled(memory)
    assert repr(await root.open("g")) == f"<aiozarr.Group {memory.url}/g>"


async def test_a_hierarchy_is_described_by_a_mapping(memory: MemoryStore) -> None:
    root = await aiozarr.create_group(memory)
    with pytest.raises(TypeError, match="mapping"):
        await root.create_hierarchy([("a", {})])  # type: ignore[arg-type]


@pytest.mark.parametrize(("depth", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError), ("1", TypeError)])
async def test_a_depth_is_a_number_of_levels(memory: MemoryStore, depth: Any, error: type[Exception]) -> None:
    plain = await filled(memory)
    consolidated = await aiozarr.consolidate_metadata(memory)
    for root in (plain, consolidated):
        for walk in (root.members, root.arrays, root.groups):
            with pytest.raises(error):
                [name async for name, _ in walk(depth)]
        with pytest.raises(error):
            await root.tree(depth)


async def test_names_are_drawn_without_what_a_terminal_would_obey(memory: MemoryStore) -> None:
    root = await aiozarr.create_group(memory)
    await root.create_group("a\nb\x1b[2Jc\u202e")
    await root.create_group("日本 é")
    assert await root.tree() == "/\n├── a\\nb\\x1b[2Jc\\u202e\n└── 日本 é"
