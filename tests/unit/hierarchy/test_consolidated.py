"""Consolidated metadata answer for a whole tree, and are never out of date without anybody knowing."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import aiozarr
import aiozarr.sync
from aiozarr.errors import StoreError
from aiozarr.stores import MemoryStore, Store

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])
COPIES = {2: ".zmetadata", 3: "zarr.json"}


async def filled(store: Store, zarr_format: int) -> aiozarr.Group:
    """A consolidated tree: `a`, `g` with `b` and `h`."""
    root = await aiozarr.create_group(store, zarr_format=zarr_format, attributes={"title": "t"})
    await root.create_array("a", shape=4, dtype="i4", chunks=2, attributes={"n": 1})
    await root.create_group("g", attributes={"level": 1})
    await root.create_array("g/b", shape=(2, 3), dtype="f8")
    await root.create_group("g/h")
    return await aiozarr.consolidate_metadata(store)


async def copies(store: Store, zarr_format: int, path: str = "") -> dict[str, Any] | None:
    """The paths that the stored copies are of, with the array's shape or None; None where there are no copies."""
    data = await store.get(f"{path}/{COPIES[zarr_format]}".lstrip("/"))
    if data is None:
        return None
    document = json.loads(bytes(data))
    if zarr_format == 3:
        held = document.get("consolidated_metadata")
        return None if held is None else {name: node.get("shape") for name, node in held["metadata"].items()}
    found = {}
    for key, members in document["metadata"].items():
        name, _, kind = key.rpartition("/")
        if kind in (".zarray", ".zgroup"):
            found[name] = members.get("shape")
    del found[""]
    return found


TREE = {"a": [4], "g": None, "g/b": [2, 3], "g/h": None}


@FORMATS
async def test_the_copies_are_those_of_all_nodes_below(store: Store, zarr_format: int) -> None:
    group = await filled(store, zarr_format)
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


@FORMATS
@pytest.mark.parametrize("known", [True, False])
async def test_a_whole_tree_is_one_request_where_the_format_is_known(
    remote: Any, zarr_format: int, known: bool
) -> None:
    await filled(remote, zarr_format)
    remote.calls.clear()
    root = await aiozarr.open_group(remote, zarr_format=zarr_format if known else None)
    asked = len(remote.calls)
    assert asked == (({2: 4, 3: 1}[zarr_format]) if known else 7)
    assert len([m async for m in root.members(None)]) == 4
    assert sorted([name async for name, _ in root.arrays(None)]) == ["a", "g/b"]
    assert "└── h" in await root.tree()
    group = await root.open("g")
    assert isinstance(group, aiozarr.Group)
    assert [name async for name, _ in group.members()] == ["b", "h"]
    assert await group.contains("b")
    assert not await root.contains("no/such")
    with pytest.raises(aiozarr.NodeNotFoundError):
        await root.open("x")
    assert len(remote.calls) == asked


@FORMATS
async def test_a_store_that_cannot_list_shows_the_tree_by_its_copies(
    remote_with: Callable[..., Any], zarr_format: int
) -> None:
    remote = remote_with(listable=False)
    source = MemoryStore()
    await filled(source, zarr_format)
    for key in await source.list():
        await remote.held.set(key, bytes(await source.get(key) or b""))
    root = await aiozarr.open_group(remote)
    assert len([m async for m in root.members(None)]) == 4
    info = await root.info()
    assert (info.arrays, info.groups, info.objects_stored, info.consolidated) == (2, 2, None, True)


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
async def test_every_change_below_is_one_of_the_copies_too(
    memory: MemoryStore, zarr_format: int, change: Any, after: dict[str, Any]
) -> None:
    root = await filled(memory, zarr_format)
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
async def test_an_attribute_that_changed_is_seen_by_every_handle_of_the_process(
    memory: MemoryStore, zarr_format: int
) -> None:
    root = await filled(memory, zarr_format)
    other = await aiozarr.open_group(memory)
    array = await aiozarr.open_array(memory, "g/b", mode="r+")
    await array.update_attributes({"new": 1})
    assert (await root.open("g/b")).attrs == (await other.open("g/b")).attrs == {"new": 1}
    await root.update_attributes({"title": "new"})
    assert (await aiozarr.open_group(memory)).attrs == {"title": "new"}


@FORMATS
@pytest.mark.parametrize("failing", ["set g/new/zarr.json", "set g/new/.zarray", "erase g/", "set copies"])
async def test_a_change_that_fails_leaves_no_copies_that_are_out_of_date(
    remote: Any, zarr_format: int, failing: str
) -> None:
    root = await filled(remote, zarr_format)
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
async def test_many_changes_at_once_are_all_in_the_copies(store: Store, zarr_format: int) -> None:
    root = await filled(store, zarr_format)
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


async def test_a_writer_of_another_process_keeps_copies_from_being_written_that_lack_its_change(remote: Any) -> None:
    root = await filled(remote, 3)
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


async def test_a_mark_that_was_left_behind_is_taken_away(memory: MemoryStore) -> None:
    root = await filled(memory, 3)
    document = json.loads(bytes(await memory.get("zarr.json") or b""))
    document["consolidated_metadata"] = None
    await memory.set("zarr.json", json.dumps(document).encode())
    await root.create_group("new")
    assert "consolidated_metadata" not in json.loads(bytes(await memory.get("zarr.json") or b""))
    assert await root.contains("new")


@FORMATS
async def test_copies_inside_a_tree_that_has_copies_are_both_kept(memory: MemoryStore, zarr_format: int) -> None:
    await filled(memory, zarr_format)
    await aiozarr.consolidate_metadata(memory, "g")
    root = await aiozarr.consolidate_metadata(memory)
    await root.create_array("g/new", shape=3, dtype="i1")
    assert await copies(memory, zarr_format) == TREE | {"g/new": [3]}
    assert await copies(memory, zarr_format, "g") == {"b": [2, 3], "h": None, "new": [3]}


@FORMATS
async def test_without_copies_a_change_asks_for_nothing_twice(remote: Any, zarr_format: int) -> None:
    root = await aiozarr.create_group(remote, zarr_format=zarr_format)
    array = await root.create_array("a", shape=3, dtype="i4")
    remote.calls.clear()
    await array.update_attributes({"a": 1})
    assert len(remote.calls) == len(set(remote.calls)) == {3: 3, 2: 6}[zarr_format]


async def test_a_node_of_another_format_below_cannot_be_consolidated(memory: MemoryStore) -> None:
    await aiozarr.create_group(memory)
    await aiozarr.create_array(memory, "old", shape=1, dtype="i4", zarr_format=1)
    with pytest.raises(aiozarr.NodeTypeError, match="format 1"):
        await aiozarr.consolidate_metadata(memory)
    with pytest.raises(aiozarr.NodeTypeError, match="array"):
        await aiozarr.consolidate_metadata(memory, "old")
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.consolidate_metadata(memory, "none")


async def test_implicit_groups_are_copied_as_groups(memory: MemoryStore) -> None:
    await filled(memory, 3)
    await memory.erase("g/zarr.json")
    await aiozarr.consolidate_metadata(memory)
    assert await copies(memory, 3) == TREE


@FORMATS
async def test_a_pickled_group_looks_again(memory: MemoryStore, zarr_format: int) -> None:
    root = await filled(memory, zarr_format)
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
