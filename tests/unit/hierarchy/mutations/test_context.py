"""The context of a node that is about to be created: the nodes above it, and keys at its path."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import zarr

import aiozarr
from aiozarr.errors import PermissionDeniedError
from aiozarr.stores import LocalStore, MemoryStore, Store
from aiozarr.stores.contract import split_root, with_root


async def keys(store: Store) -> list[str]:
    return sorted(await store.list())


async def an_array(store: Store, path: str) -> None:
    await aiozarr.create_array(store, path, shape=4, dtype="i4")


async def a_group(store: Store, path: str) -> None:
    await aiozarr.create_group(store, path)


Create = Callable[[Store, str], Awaitable[None]]


@pytest.mark.parametrize("create", [an_array, a_group])
async def test_an_existing_node_is_not_replaced(store: Store, create: Create) -> None:
    await aiozarr.create_array(store, "a", shape=3, dtype="i4")
    before = await store.get("a/zarr.json")
    with pytest.raises(aiozarr.NodeExistsError, match="overwrite=True") as caught:
        await create(store, "a")
    assert caught.value.url == f"{store.url}/a"
    assert await store.get("a/zarr.json") == before


async def test_a_path_with_chunks_below_it_is_occupied_for_an_array(store: Store) -> None:
    await store.set("a/b/c/0", b"chunk")
    with pytest.raises(aiozarr.NodeExistsError, match="overwrite=True would delete 1 object"):
        await an_array(store, "a/b")
    assert await keys(store) == ["a/b/c/0"]


async def test_an_unreadable_document_occupies_the_path_and_can_be_overwritten(memory: MemoryStore) -> None:
    await memory.set("a/zarr.json", b"{")
    with pytest.raises(aiozarr.NodeExistsError):
        await aiozarr.create_group(memory, "a")
    await aiozarr.create_group(memory, "a", overwrite=True)
    assert isinstance(await aiozarr.open(memory, "a"), aiozarr.Group)


async def test_no_node_is_created_below_an_array(store: Store) -> None:
    await aiozarr.create_array(store, "a", shape=3, dtype="i4")
    with pytest.raises(aiozarr.NodeTypeError, match="is an array"):
        await aiozarr.create_group(store, "a/b/c")
    with pytest.raises(aiozarr.NodeTypeError, match="is an array"):
        await aiozarr.create_array(store, "a/b", shape=3, dtype="i4", overwrite=True)
    assert await keys(store) == ["a/zarr.json", "zarr.json"]


async def test_a_parent_array_created_by_another_writer_is_refused(remote: Any) -> None:
    await aiozarr.create_array(remote, "model", shape=3, dtype="i4")
    document = bytes(await remote.get("model/zarr.json"))

    def sneak_in(operation: str, key: str) -> None:
        if (operation, key) == ("set", "g/zarr.json"):
            remote.held.set_now(key, document)

    remote.hook = sneak_in
    with pytest.raises(aiozarr.NodeTypeError):
        await aiozarr.create_array(remote, "g/a", shape=3, dtype="i4")
    assert await remote.get("g/a/zarr.json") is None


async def test_all_lookups_of_a_creation_are_concurrent(remote: Any) -> None:
    await aiozarr.create_group(remote, "a/b/c")
    remote.calls.clear()
    await aiozarr.create_array(remote, "a/b/c/d", shape=3, dtype="i4")
    look_ups, writes = remote.calls[:-1], remote.calls[-1:]
    assert sorted(look_ups) == sorted(
        [("fetch", f"{path}zarr.json") for path in ("", "a/", "a/b/", "a/b/c/", "a/b/c/d/")]
        # Copies of the other format, which would lack the new node.
        + [("fetch", f"{path}.zmetadata") for path in ("", "a/", "a/b/", "a/b/c/")]
        + [("scan", "a/b/c/d/")]
    )
    assert writes == [("set", "a/b/c/d/zarr.json")]


async def test_a_node_that_would_hide_another_format_is_not_created(store: Store) -> None:
    await aiozarr.create_group(store, "g", zarr_format=2)
    with pytest.raises(aiozarr.NodeTypeError, match="group of Zarr format 2"):
        await aiozarr.create_array(store, "g/a", shape=1, dtype="i4")
    await aiozarr.create_array(store, "g/b", shape=1, dtype="i4", zarr_format=2)
    with pytest.raises(aiozarr.NodeTypeError, match="is an array"):
        await aiozarr.create_array(store, "g/b/c", shape=1, dtype="i4", zarr_format=2)
    with pytest.raises(aiozarr.NodeExistsError):
        await aiozarr.create_group(store, "g/b")


FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])


@pytest.fixture(params=["memory", "local"])
def top(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a place where nothing is."""
    return f"memory://{uuid4().hex}/q" if request.param == "memory" else str(tmp_path / "q")


async def _filled(top: str, zarr_format: int, *, has_gaps: bool = False) -> None:
    """A consolidated tree. `has_gaps`: the groups `g` and `g/h` have no documents, as other programs leave them."""
    root = await aiozarr.create_group(top, zarr_format=zarr_format)
    await root.create_group("g")
    await root.create_array("g/a", shape=4, chunks=2, dtype="i4")
    await root.create_array("g/h/b", shape=1, dtype="i4")
    await aiozarr.consolidate_metadata(top)
    for path in ("g", "g/h") if has_gaps else ():
        for key in (".zgroup", ".zattrs", "zarr.json"):
            await root.store.erase(f"{path}/{key}")
    if has_gaps:
        key = {2: ".zmetadata", 3: "zarr.json"}[zarr_format]
        document = json.loads(bytes(await root.store.get(key) or b""))
        copies = document["metadata"] if zarr_format == 2 else document["consolidated_metadata"]["metadata"]
        for name in ("g", "g/h", *(f"{path}/{key}" for path in ("g", "g/h") for key in (".zgroup", ".zattrs"))):
            copies.pop(name, None)
        await root.store.set(key, json.dumps(document).encode())


async def _resize(top: str, zarr_format: int) -> None:
    await (await aiozarr.open_array(f"{top}/g", "a", mode="r+")).resize((9,))


async def _resize_an_array_that_is_the_target(top: str, zarr_format: int) -> None:
    await (await aiozarr.open_array(f"{top}/g/h/b", mode="r+")).resize((9,))


async def _update(top: str, zarr_format: int) -> None:
    await (await aiozarr.open_group(f"{top}/g", mode="r+")).update_attributes({"x": 1})


async def _create(top: str, zarr_format: int) -> None:
    await aiozarr.create_array(f"{top}/g/h", "new/one", shape=3, dtype="i4", zarr_format=zarr_format)


async def _create_where_the_target_is(top: str, zarr_format: int) -> None:
    await aiozarr.create_group(f"{top}/g/fresh", zarr_format=zarr_format)


async def _create_many(top: str, zarr_format: int) -> None:
    group = await aiozarr.open_group(f"{top}/g/h", mode="r+")
    made = await group.create_hierarchy({"x/y": {"shape": 2, "dtype": "i4"}, "z": {}})
    assert sorted(made) == ["x/y", "z"]


async def _overwrite(top: str, zarr_format: int) -> None:
    await aiozarr.create_group(f"{top}/g", zarr_format=zarr_format, overwrite=True)


async def _delete(top: str, zarr_format: int) -> None:
    await (await aiozarr.open_group(f"{top}/g", mode="r+")).delete("a")


async def _move(top: str, zarr_format: int) -> None:
    await (await aiozarr.open_group(f"{top}/g", mode="r+")).move("a", "h/c")


CHANGES = [
    _resize,
    _resize_an_array_that_is_the_target,
    _update,
    _create,
    _create_where_the_target_is,
    _create_many,
    _overwrite,
    _delete,
    _move,
]


async def _shown(group: aiozarr.Group) -> dict[str, Any]:
    return {name: (getattr(node, "shape", None), dict(node.attrs)) async for name, node in group.members(None)}


@FORMATS
@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_through_an_inner_store_updates_the_consolidated_metadata_above(
    top: str, zarr_format: int, change: Callable[[str, int], Awaitable[None]], has_gaps: bool
) -> None:
    await _filled(top, zarr_format, has_gaps=has_gaps)
    handle = await aiozarr.open_group(top)
    before = await _shown(handle)
    await change(top, zarr_format)
    opened = await aiozarr.open_group(top)
    assert opened.metadata.consolidated is not None
    shown = await _shown(opened)
    assert shown != before
    assert await _shown(handle) == shown
    # As the nodes' own documents say it.
    store = opened.store
    key = ".zmetadata" if zarr_format == 2 else "zarr.json"
    if zarr_format == 2:
        await store.erase(key)
    else:
        document = json.loads(bytes(await store.get(key) or b""))
        del document["consolidated_metadata"]
        await store.set(key, json.dumps(document).encode())
    assert await _shown(await aiozarr.open_group(top)) == shown


@FORMATS
async def test_a_consolidated_tree_without_gaps_is_what_other_readers_see(tmp_path: Path, zarr_format: int) -> None:
    store = LocalStore(tmp_path)
    await _filled(str(tmp_path), zarr_format, has_gaps=True)
    await aiozarr.create_array(tmp_path / "g/h/b", shape=3, dtype="f8", zarr_format=zarr_format, overwrite=True)
    expected = ["g", "g/a", "g/h", "g/h/b"]
    for options in ({}, {"use_consolidated": False}):
        group: Any = zarr.open_group(tmp_path, mode="r", zarr_format=zarr_format, **options)  # type: ignore[arg-type]
        assert sorted(name for name, _ in group.members(max_depth=None)) == expected
        assert group["g/h/b"].shape == (3,)
    # A folder of files is not a group.
    await store.set("g/tables/part.0.parquet", b"PAR1")
    await aiozarr.consolidate_metadata(tmp_path)
    group = zarr.open_group(tmp_path, mode="r", zarr_format=zarr_format)  # type: ignore[arg-type]
    assert sorted(name for name, _ in group.members(max_depth=None)) == expected
    assert sorted([name async for name, _ in (await aiozarr.open_group(tmp_path)).members(None)]) == expected
    assert (
        sorted([name async for name, _ in (await aiozarr.open_group(tmp_path, use_consolidated=False)).members(None)])
        == expected
    )


@FORMATS
async def test_a_handle_of_an_inner_store_sees_changes_through_other_stores(top: str, zarr_format: int) -> None:
    await _filled(top, zarr_format)
    inner = await aiozarr.consolidate_metadata(f"{top}/g")
    assert [name async for name, _ in inner.arrays()] == ["a"]
    await (await aiozarr.open_group(top, mode="r+")).delete("g/a")
    assert [name async for name, _ in inner.arrays()] == []
    outer = await aiozarr.open_group(top)
    assert await outer.contains("g/h/b")
    await (await aiozarr.open_group(f"{top}/g/h", mode="r+")).delete("b")
    assert not await outer.contains("g/h/b")
    assert not await inner.contains("h/b")


@FORMATS
async def test_a_handle_above_all_groups_sees_changes_below(top: str, zarr_format: int) -> None:
    await _filled(f"{top}/in", zarr_format)
    handle = await aiozarr.open_group(top, "in")
    assert await handle.contains("g/a")
    await (await aiozarr.open_group(f"{top}/in", mode="r+")).delete("g/a")
    assert not await handle.contains("g/a")


@FORMATS
async def test_changes_through_outer_and_inner_stores_take_turns(top: str, zarr_format: int) -> None:
    await _filled(top, zarr_format)
    outer = await aiozarr.open_group(top, mode="r+")
    inner = await aiozarr.open_group(f"{top}/g", mode="r+")
    await asyncio.gather(
        *[outer.create_group(f"g/o{n}") for n in range(8)],
        *[inner.create_group(f"i{n}") for n in range(8)],
        *[aiozarr.create_group(f"{top}/g/t{n}", zarr_format=zarr_format) for n in range(8)],
    )
    opened = await aiozarr.open_group(top)
    assert opened.metadata.consolidated is not None
    names = {name async for name, _ in opened.groups(None)}
    assert names >= {f"g/{kind}{n}" for kind in "oit" for n in range(8)}


class Inside(MemoryStore):
    """A store that notes which keys are fetched, with the place of its root, and refuses those of some roots."""

    fetched: list[tuple[str, str]]
    refused: tuple[str, ...] = ()

    async def fetch(self, key: str, range: Any = None, *, if_match: Any = None) -> Any:
        self.fetched.append((self._base, key))
        if self._base in self.refused:
            raise PermissionDeniedError("not for you", key=key)
        return await super().fetch(key, range, if_match=if_match)


def _inside(coordinates_outside: MemoryStore, base: str, refused: tuple[str, ...] = ()) -> Inside:
    store = Inside()
    store._space, store._base, store.fetched, store.refused = coordinates_outside._space, base, [], refused
    return store


@pytest.mark.parametrize("above", [None, "", "x/y"])
async def test_each_level_above_the_root_is_read_once(above: str | None) -> None:
    coordinates_outside = MemoryStore()
    if above is not None:
        await aiozarr.create_group(coordinates_outside, above)
    await aiozarr.create_array(_inside(coordinates_outside, "x/y/z/"), "a", shape=1, dtype="i4")
    store = _inside(coordinates_outside, "x/y/z/")
    array = await aiozarr.open_array(store, "a", mode="r+")
    store.fetched.clear()
    await array.update_attributes({"b": 1})
    before = store.fetched[: [base for base, _ in store.fetched].index("") + 1]
    assert [each for each in before if each[0] != "x/y/z/"] == [(base, "zarr.json") for base in ("x/y/", "x/", "")]


async def test_forbidden_documents_above_the_root_count_as_missing() -> None:
    coordinates_outside = MemoryStore()
    await aiozarr.create_group(coordinates_outside)
    store = _inside(coordinates_outside, "g/", refused=("",))
    group = await aiozarr.create_group(store)
    await group.create_array("a", shape=1, dtype="i4")
    await group.delete("a")
    assert ("", "zarr.json") in store.fetched


@FORMATS
async def test_a_node_is_not_created_below_an_array_above_the_root(zarr_format: int) -> None:
    store = MemoryStore()
    await aiozarr.create_array(store, "a", shape=1, dtype="i4", zarr_format=zarr_format)
    for inside in ("a/g/", "a/c/0/"):
        for make in (aiozarr.create_group, partial(aiozarr.create_array, shape=1, dtype="i4")):
            with pytest.raises(aiozarr.NodeTypeError, match="/a is an array; no node can be below it"):
                await make(_inside(store, inside), overwrite=True)


async def test_a_node_that_is_below_an_array_already_can_be_changed() -> None:
    store = MemoryStore()
    await aiozarr.create_array(store, shape=1, dtype="i4")
    await store.set("g/zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    group = await aiozarr.open_group(_inside(store, "g/"), mode="r+")
    await group.update_attributes({"a": 1})
    assert group.attrs == {"a": 1}


@FORMATS
async def test_groups_above_the_target_are_neither_created_nor_checked(zarr_format: int) -> None:
    coordinates_outside = MemoryStore()
    await aiozarr.create_group(coordinates_outside, "x", zarr_format=5 - zarr_format)
    before = set(await coordinates_outside.list())
    await aiozarr.create_group(_inside(coordinates_outside, "x/g/"), "deep/er", zarr_format=zarr_format)
    assert {key for key in await coordinates_outside.list() if not key.startswith("x/g/")} == before
    with pytest.raises(aiozarr.NodeTypeError):
        await aiozarr.create_group(_inside(coordinates_outside, "x/"), "h", zarr_format=zarr_format)


def test_roots_are_split_at_their_last_segment() -> None:
    assert split_root("a/b/") == ("a/", "b")
    assert split_root("a/") == ("", "a")
    assert split_root("") == ("", "")


def test_a_parent_store_shares_the_state_of_the_store() -> None:
    store = MemoryStore.named(uuid4().hex, "a/b/")
    above = store.parent_store()
    assert above is not None
    assert (above[1], above[0].url) == ("b", store.url.removesuffix("/b"))
    assert isinstance(above[0], Store)
    same = with_root(above[0], _base="a/b/")
    assert same == store
    assert MemoryStore().parent_store() is None


FOREIGN = {2: (".zgroup", ".zattrs", ".zmetadata"), 3: ("zarr.json",)}


async def _hybrid(memory: MemoryStore) -> None:
    """A consolidated hierarchy with documents of both formats."""
    for zarr_format in (2, 3):
        other = MemoryStore()
        root = await aiozarr.create_group(other, zarr_format=zarr_format)
        await root.create_array("a", shape=3, dtype="i4")
        await aiozarr.consolidate_metadata(other)
        for key in await other.list():
            await memory.set(key, await other.get(key) or b"")


@FORMATS
@pytest.mark.parametrize("change", ["delete", "create", "move", "overwrite"])
async def test_a_change_in_one_format_leaves_no_stale_consolidated_metadata_of_the_other(
    memory: MemoryStore, zarr_format: int, change: str
) -> None:
    await _hybrid(memory)
    root = await aiozarr.open_group(memory, mode="r+", zarr_format=zarr_format)
    match change:
        case "delete":
            await root.delete("a")
        case "create":
            await root.create_group("new")
        case "move":
            await root.move("a", "b")
        case _:
            await root.create_group("a", overwrite=True)
    assert (await aiozarr.open_group(memory, zarr_format=zarr_format)).metadata.consolidated is not None
    other = await aiozarr.open_group(memory, zarr_format=5 - zarr_format)
    # A deletion erases the documents of both formats.
    assert (other.metadata.consolidated is None) == (change != "delete")
    assert await other.contains("a") == (change in ("create", "overwrite"))
    assert await other.contains("new") == (change == "create")


@FORMATS
async def test_attributes_of_one_format_do_not_change_consolidated_metadata_of_the_other(
    memory: MemoryStore, zarr_format: int
) -> None:
    await _hybrid(memory)
    array = await aiozarr.open_array(memory, "a", mode="r+", zarr_format=zarr_format)
    await array.update_attributes({"x": 1})
    for each in (2, 3):
        group = await aiozarr.open_group(memory, zarr_format=each)
        assert group.metadata.consolidated is not None
        assert (await group.open("a")).attrs == ({"x": 1} if each == zarr_format else {})


@FORMATS
@pytest.mark.parametrize("target", ["memory", "inside"])
async def test_arrays_of_format_1_invalidate_consolidated_metadata_of_other_formats(
    zarr_format: int, target: str
) -> None:
    url = f"memory://{uuid4().hex}"
    root = await aiozarr.create_group(url, zarr_format=zarr_format)
    await root.create_array("g/a", shape=3, dtype="i4")
    handle = await aiozarr.consolidate_metadata(url)
    where = (url, "g/a") if target == "memory" else (f"{url}/g", "a")
    await aiozarr.create_array(*where, shape=9, dtype="f8", zarr_format=1, overwrite=True)
    opened = await aiozarr.open_group(url)
    assert opened.metadata.consolidated is None
    for group in (handle, opened):
        found = await group.open("g/a")
        assert isinstance(found, aiozarr.Array)
        assert (found.shape, found.zarr_format) == ((9,), 1)
