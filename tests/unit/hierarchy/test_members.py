"""The members of a group: which nodes they are, to which depth, and by which requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

import aiozarr
import aiozarr.sync
from aiozarr.hierarchy import members
from aiozarr.model import Value
from aiozarr.stores import MemoryStore, PrefixStore, Store, WrapperStore
from aiozarr.testing.fakes import FakeStore
from tests.support.consolidated_trees import FORMATS, consolidated_tree
from tests.support.small_tree import copy_objects, filled, store_arrays


async def test_members_are_listed_to_the_given_depth(store: Store) -> None:
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


async def test_the_text_of_a_tree(store: Store) -> None:
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


async def test_chunks_and_reserved_names_are_not_members(store: Store) -> None:
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


class _Changing(WrapperStore):
    """Removes the objects below `prefix` when one of them is read; with `once`, it only reports each missing once."""

    def __init__(self, store: Store, prefix: str, *, once: bool = False) -> None:
        super().__init__(store)
        self._prefix, self._once, self._reported = prefix, once, set[str]()

    async def fetch(self, key: str, *args: Any, **options: Any) -> Value | None:
        if key.startswith(self._prefix) and key not in self._reported:
            if self._once:
                self._reported.add(key)
                return None
            await self._store.erase_prefix(self._prefix)
        return await super().fetch(key, *args, **options)


@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_a_listed_node_is_read_again_before_it_counts_as_a_folder(memory: MemoryStore, zarr_format: int) -> None:
    root = await aiozarr.create_group(memory, zarr_format=zarr_format)
    await root.create_array("a", data=[1, 2])
    root = await aiozarr.open_group(_Changing(memory, "a/", once=True))
    assert [(name, type(node)) async for name, node in root.members()] == [("a", aiozarr.Array)]


async def test_a_node_that_vanishes_while_it_is_listed_is_not_shown(memory: MemoryStore) -> None:
    root = await aiozarr.create_group(memory)
    for name in ("a", "b"):
        await root.create_array(name, data=[1, 2])
    root = await aiozarr.open_group(_Changing(memory, "b/"))
    assert [name async for name, _ in root.members()] == ["a"]


async def test_folders_above_nodes_are_groups_in_formats_without_implicit_groups(store: Store) -> None:
    root = await aiozarr.create_group(store, zarr_format=2)
    for zarr_format in (1, 2):
        below = PrefixStore(store, f"folder/deep/{zarr_format}")
        await aiozarr.create_array(below, data=[1, 2], zarr_format=zarr_format)
    await store.set("files/only/notes.txt", b"1")
    await store.set("attributes/.zattrs", b"{}")
    found = {name: node async for name, node in root.members(None)}
    assert sorted(found) == ["folder", "folder/deep", "folder/deep/1", "folder/deep/2"]
    assert [found[name].zarr_format for name in ("folder", "folder/deep")] == [2, 2]
    assert [found[f"folder/deep/{number}"].zarr_format for number in (1, 2)] == [1, 2]
    assert isinstance(await root.open("folder/deep"), aiozarr.Group)
    assert not await root.contains("files")
    assert not await root.contains("attributes")
    # Other readers need the document.
    await root.require_group("folder")
    assert await store.get("folder/.zgroup") is not None


async def test_an_unreadable_document_is_raised_by_members_and_shown_by_tree(memory: MemoryStore) -> None:
    root = await filled(memory)
    await memory.set("g/b/zarr.json", b"{")
    shown: list[str] = []
    with pytest.raises(aiozarr.InvalidMetadataError, match="g/b"):
        async for name, _ in root.members(None):
            shown.append(name)  # the list stays when the error comes
    assert sorted(shown) == ["a", "g", "g/h", "g/h/i", "z", "z/deep"]
    assert "│   ├── b (cannot be read: " in await root.tree()


UNKNOWN_CODEC = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [1],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
    "chunk_key_encoding": {"name": "default"},
    "codecs": [{"name": "x.unknown"}],
    "fill_value": 0,
}


@pytest.mark.parametrize("document", [UNKNOWN_CODEC, {"zarr_format": 3}], ids=["unknown codec", "damaged"])
@pytest.mark.parametrize("is_consolidated", [False, True])
async def test_names_are_listed_without_the_documents(
    memory: MemoryStore, document: dict[str, Any], is_consolidated: bool
) -> None:
    await (await aiozarr.create_group(memory)).create_group("a")
    await memory.set("b/zarr.json", json.dumps(document).encode())
    if is_consolidated:
        copies = {"a": {"zarr_format": 3, "node_type": "group"}, "b": document}
        inline = {"kind": "inline", "must_understand": False, "metadata": copies}
        root = {"zarr_format": 3, "node_type": "group", "consolidated_metadata": inline}
        await memory.set("zarr.json", json.dumps(root).encode())
    group = aiozarr.sync.open_group(memory)
    assert (sorted(group), sorted(group.keys()), len(group)) == (["a", "b"], ["a", "b"], 2)
    assert "b" in group
    assert "c" not in group
    assert await (await aiozarr.open_group(memory)).contains("b")
    for read in (group.values, group.items, lambda: group["b"]):
        with pytest.raises(aiozarr.MetadataError, match="b"):
            read()


async def test_a_node_without_permission_does_not_hide_the_others(memory: MemoryStore) -> None:
    await filled(memory)
    stored = {key: bytes(await memory.get(key) or b"") for key in await memory.list()}

    def refuse(call: Any) -> Any:
        return aiozarr.PermissionDeniedError("forbidden", status=403) if call.key.startswith("g/h/") else None

    root = await aiozarr.open_group(FakeStore(stored, faults=refuse))
    shown = await root.tree()
    assert "│   └── h (cannot be read: the metadata of " in shown
    assert "forbidden)" in shown
    assert "└── z\n    └── deep () uint8" in shown
    with pytest.raises(aiozarr.PermissionDeniedError):
        [name async for name, _ in root.members(None)]


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


async def test_leaving_a_listing_early_ends_it(store: Store) -> None:
    root = await filled(store)
    async for _ in root.members(None):
        break
    assert await root.contains("a")


async def test_a_store_that_cannot_list_is_an_error(remote_with: Callable[..., Any]) -> None:
    root = await aiozarr.create_group(remote_with(listable=False))
    with pytest.raises(aiozarr.UnsupportedOperationError):
        [name async for name, _ in root.members()]
    with pytest.raises(aiozarr.UnsupportedOperationError):
        await root.tree()


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


async def test_control_characters_in_names_are_escaped(memory: MemoryStore) -> None:
    root = await aiozarr.create_group(memory)
    await root.create_group("a\nb\x1b[2Jc\u202e")
    await root.create_group("日本 é")
    assert await root.tree() == "/\n├── a\\nb\\x1b[2Jc\\u202e\n└── 日本 é"


async def test_an_implicit_group_lists_nodes_of_another_format(store: Store) -> None:
    await aiozarr.create_array(store, "d/one", shape=1, dtype="i4", zarr_format=1)
    await aiozarr.create_array(store, "d/three", shape=3, dtype="i4")
    await store.erase("d/zarr.json")
    await store.erase("zarr.json")
    group = await aiozarr.open_group(store, "d")
    assert {name: node.zarr_format async for name, node in group.members()} == {"one": 1, "three": 3}
    assert (await group.open("one")).zarr_format == 1
    assert await group.contains("one")


async def test_the_early_listing_of_an_array_is_cancelled(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await store_arrays(remote.held, 3, ["a", "g/b"])
    root = await aiozarr.open_group(remote)
    ended: list[str] = []
    whole = members.list_names

    async def list_names(place: Any, group: Any) -> Any:
        if group.name == "a":
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                ended.append(group.name)
                raise
        return await whole(place, group)

    monkeypatch.setattr(members, "list_names", list_names)
    assert sorted([name async for name, _ in root.members(None)]) == ["a", "g", "g/b"]
    assert ended == ["a"]


@FORMATS
@pytest.mark.parametrize("known", [True, False])
async def test_a_consolidated_tree_of_a_known_format_is_one_request(remote: Any, zarr_format: int, known: bool) -> None:
    await consolidated_tree(remote, zarr_format)
    remote.calls.clear()
    root = await aiozarr.open_group(remote, zarr_format=zarr_format if known else None)
    asked = len(remote.calls)
    # Without a format, what was created here says which is likely: documents of format 3 would win over those of 2.
    assert asked == {2: 4 if known else 5, 3: 1}[zarr_format]
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
async def test_a_store_that_cannot_list_shows_a_consolidated_tree(
    remote_with: Callable[..., Any], zarr_format: int
) -> None:
    remote = remote_with(listable=False)
    source = MemoryStore()
    await consolidated_tree(source, zarr_format)
    await copy_objects(source, remote.held)
    root = await aiozarr.open_group(remote)
    assert len([m async for m in root.members(None)]) == 4
    info = await root.info()
    assert (info.arrays, info.groups, info.objects_stored, info.consolidated) == (2, 2, None, True)


@FORMATS
async def test_every_handle_of_the_process_sees_a_changed_attribute(memory: MemoryStore, zarr_format: int) -> None:
    root = await consolidated_tree(memory, zarr_format)
    other = await aiozarr.open_group(memory)
    array = await aiozarr.open_array(memory, "g/b", mode="r+")
    await array.update_attributes({"new": 1})
    assert (await root.open("g/b")).attrs == (await other.open("g/b")).attrs == {"new": 1}
    await root.update_attributes({"title": "new"})
    assert (await aiozarr.open_group(memory)).attrs == {"title": "new"}
