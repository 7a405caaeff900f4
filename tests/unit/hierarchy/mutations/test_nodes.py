"""Updates of metadata: concurrent ones are all kept, and a failed one changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
import aiozarr.sync
from aiozarr.errors import PermissionDeniedError, StoreError
from aiozarr.model import Precondition
from aiozarr.stores import LocalStore, MemoryStore, Store


async def test_attributes_are_updated_by_name_and_replaced_as_a_whole(store: Store) -> None:
    for node in (
        await aiozarr.create_array(store, "a", shape=3, dtype="i4", attributes={"a": 1, "b": 2}),
        await aiozarr.create_group(store, "g", attributes={"a": 1, "b": 2}),
    ):
        await node.update_attributes({"b": 3, "c": [4]})
        assert node.attrs == {"a": 1, "b": 3, "c": [4]}
        assert (await aiozarr.open(store, node.path)).attrs == node.attrs
        await node.replace_attributes({"d": None})
        assert node.attrs == {"d": None}
        assert (await aiozarr.open(store, node.path)).attrs == node.attrs


async def test_attributes_are_only_read_through_attrs(memory: MemoryStore) -> None:
    given = {"a": [1]}
    group = await aiozarr.create_group(memory, attributes=given)
    with pytest.raises(TypeError):
        group.attrs["b"] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        group.attrs["a"].append(2)
    given["a"].append(3)
    assert group.attrs == {"a": [1]}


async def test_concurrent_updates_of_one_node_all_survive(store: Store) -> None:
    group = await aiozarr.create_group(store, "g")
    others = [await aiozarr.open_group(store, "g", mode="r+") for _ in range(4)]
    await asyncio.gather(*[node.update_attributes({f"a{n}": n}) for n, node in enumerate([group, *others] * 2)])
    assert (await aiozarr.open_group(store, "g")).attrs == {f"a{n}": n for n in range(10)}


async def test_updating_an_erased_node_does_not_create_it_again(memory: MemoryStore) -> None:
    array = await aiozarr.create_array(memory, "a", shape=3, dtype="i4")
    await memory.erase("a/zarr.json")
    with pytest.raises(aiozarr.NodeNotFoundError):
        await array.update_attributes({"a": 1})
    with pytest.raises(aiozarr.NodeNotFoundError):
        await array.resize(5)
    assert await memory.list() == ["zarr.json"]


async def test_a_node_that_changed_its_kind_is_not_updated(memory: MemoryStore) -> None:
    array = await aiozarr.create_array(memory, "a", shape=3, dtype="i4")
    await aiozarr.create_group(memory, "a", overwrite=True)
    with pytest.raises(aiozarr.NodeTypeError):
        await array.update_attributes({"a": 1})
    assert (await aiozarr.open_group(memory, "a")).attrs == {}


async def test_a_read_only_node_refuses_changes(memory: MemoryStore) -> None:
    await aiozarr.create_array(memory, "a", shape=3, dtype="i4")
    array, group = await aiozarr.open_array(memory, "a"), await aiozarr.open_group(memory)
    for change in (
        array.update_attributes({}),
        array.replace_attributes({}),
        array.resize(4),
        array.append([1]),
        group.update_attributes({}),
        group.create_group("g"),
        group.create_array("b", shape=1, dtype="i4"),
        group.delete("a"),
    ):
        with pytest.raises(aiozarr.UnsupportedOperationError, match=r"mode='r\+'"):
            await change
    assert sorted(await memory.list()) == ["a/zarr.json", "zarr.json"]


@pytest.mark.parametrize("bad", [{"a": object()}, {1: 2}, 3])
async def test_values_that_are_not_json_are_refused_before_any_request(remote: Any, bad: Any) -> None:
    group = await aiozarr.create_group(remote)
    remote.calls.clear()
    with pytest.raises(TypeError):
        await group.update_attributes(bad)
    assert remote.calls == []


class Disturbed(LocalStore):
    """A store whose next write is preceded by what `disturb(key)` does."""

    disturb: Callable[[str], object] | None = None

    def set_now(self, key: str, value: Any, *, precondition: Precondition | None = None) -> str:
        disturb, self.disturb = self.disturb, None
        if disturb is not None:
            disturb(key)
        return super().set_now(key, value, precondition=precondition)


async def test_an_update_on_the_disk_keeps_that_of_another_process(tmp_path: Path) -> None:
    store = Disturbed(tmp_path)
    array = await aiozarr.create_array(store, "a", shape=3, dtype="i4", attributes={"x": 1})
    document = tmp_path / "a" / "zarr.json"
    other = document.read_bytes().replace(b'"x": 1', b'"x": 22, "y": 3')
    store.disturb = lambda _: document.write_bytes(other)
    await array.update_attributes({"z": 4})
    assert array.attrs == {"x": 22, "y": 3, "z": 4}
    assert (await aiozarr.open_array(store, "a")).attrs == array.attrs


@pytest.mark.parametrize("retryable", [True, False])
async def test_a_write_that_the_disk_refuses_is_repeated_only_if_that_may_help(tmp_path: Path, retryable: bool) -> None:
    store = Disturbed(tmp_path)
    array = await aiozarr.create_array(store, "a", shape=3, dtype="i4")

    def refuse(key: str) -> None:
        raise StoreError("no", key=key, retryable=retryable)

    store.disturb = refuse
    with nullcontext() if retryable else pytest.raises(StoreError, match="no"):
        await array.update_attributes({"a": 1})
    assert array.attrs == ({"a": 1} if retryable else {})
    assert (await aiozarr.open_array(store, "a")).attrs == array.attrs


async def test_consolidated_metadata_are_updated_however_their_name_is_written(tmp_path: Path) -> None:
    group = await aiozarr.create_group(tmp_path)
    array = await group.create_array("a", shape=3, dtype="i4")
    await aiozarr.consolidate_metadata(tmp_path)
    document = tmp_path / "zarr.json"
    document.write_bytes(document.read_bytes().replace(b"consolidated_", b"\\u0063onsolidated_"))
    await array.update_attributes({"a": 1})
    assert (await (await aiozarr.open_group(tmp_path)).open("a")).attrs == {"a": 1}


async def test_a_failed_update_changes_neither_store_nor_handle(remote: Any) -> None:
    group = await aiozarr.create_group(remote, attributes={"a": 1})

    def refuse(operation: str, key: str) -> None:
        if operation == "set":
            raise PermissionDeniedError("no", key=key)

    remote.hook = refuse
    with pytest.raises(PermissionDeniedError):
        await group.update_attributes({"a": 2})
    assert group.attrs == {"a": 1}
    assert (await aiozarr.open_group(remote)).attrs == {"a": 1}


@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_an_erased_array_is_not_found_though_its_chunks_remain(store: Store, zarr_format: int) -> None:
    array = await aiozarr.create_array(store, "a", shape=4, chunks=1, dtype="i4", zarr_format=zarr_format)
    await array[...].write(1)
    await store.erase("a/zarr.json")
    await store.erase("a/.zarray")
    for change in (array.resize(2), array.append([1]), array.update_attributes({"a": 1})):
        with pytest.raises(aiozarr.NodeNotFoundError):
            await change


FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])


async def test_a_required_node_is_created_once_and_then_opened(store: Store) -> None:
    root = await aiozarr.create_group(store)
    made = await root.require_array("g/a", shape=(3, 2), dtype="i4", attributes={"n": 1})
    await made[...].write(5)
    for array in [await root.require_array("g/a", shape=(3, 2), dtype="i8") for _ in range(2)]:
        assert (array.attrs, array.dtype) == ({"n": 1}, np.dtype("i4"))
        assert (await array[...]).sum() == 30
    group = await root.require_group("g")
    assert [name async for name, _ in group.members()] == ["a"]
    assert (await root.require_group("h")).path == "h"


async def test_an_existing_array_that_does_not_match_is_an_error(store: Store) -> None:
    root = await aiozarr.create_group(store)
    await root.create_array("a", shape=3, dtype="i4")
    await root.create_group("g")
    with pytest.raises(TypeError, match="shape"):
        await root.require_array("a", shape=4, dtype="i4")
    with pytest.raises(TypeError, match="int32"):
        await root.require_array("a", shape=3, dtype="i2")
    with pytest.raises(TypeError, match="int32"):
        await root.require_array("a", shape=3, dtype="i8", exact=True)
    with pytest.raises(aiozarr.NodeTypeError):
        await root.require_array("g", shape=3, dtype="i4")
    with pytest.raises(aiozarr.NodeTypeError):
        await root.require_group("a")


async def test_of_many_concurrent_requirers_one_creates_the_node(store: Store) -> None:
    root = await aiozarr.create_group(store)
    arrays = await asyncio.gather(*[root.require_array("a", shape=3, dtype="i4") for _ in range(5)])
    groups = await asyncio.gather(*[root.require_group("g") for _ in range(5)])
    assert {array.shape for array in arrays} == {(3,)}
    assert {group.path for group in groups} == {"g"}


@FORMATS
async def test_a_hierarchy_is_created_from_a_mapping(store: Store, zarr_format: int) -> None:
    model = await aiozarr.create_array(MemoryStore(), shape=7, dtype="u1", zarr_format=zarr_format)
    root = await aiozarr.create_group(store, "r", zarr_format=zarr_format)
    made = await root.create_hierarchy(
        {
            "g/h/a": {"shape": (4, 5), "dtype": "f4", "chunks": 2},
            "g": {"attributes": {"n": 1}},
            "e": {},
            "m": model.metadata,
        }
    )
    assert sorted(made) == ["e", "g", "g/h/a", "m"]
    array = made["g/h/a"]
    assert isinstance(array, aiozarr.Array)
    await array[...].write(1)
    assert sorted([name async for name, _ in root.members(None)]) == ["e", "g", "g/h", "g/h/a", "m"]
    assert (await root.open("g")).attrs == {"n": 1}
    assert (await root.open("m")).metadata == model.metadata


@pytest.mark.parametrize(
    ("nodes", "error"),
    [
        ({"a": {"shape": 1, "dtype": "i4"}, "a/b": {}}, ValueError),
        ({"a": {}, "/a": {}}, ValueError),
        ({"": {}}, ValueError),
        ({"a": {"dtype": "i4"}}, TypeError),
        ({"a": {"shape": 1, "dtype": "i4", "no_such_option": 1}}, TypeError),
        ({"a": {"atributes": {}}}, TypeError),
        ({"a": 3}, TypeError),
        ({"a": aiozarr.sync.create_group(MemoryStore(), zarr_format=2).metadata}, ValueError),
        ({"ok": {}, "..": {}}, aiozarr.InvalidKeyError),
    ],
)
async def test_an_invalid_mapping_is_refused_whole(
    memory: MemoryStore, nodes: dict[str, Any], error: type[Exception]
) -> None:
    root = await aiozarr.create_group(memory)
    with pytest.raises(error):
        await root.create_hierarchy(nodes)
    assert await memory.list() == ["zarr.json"]


async def test_the_nodes_of_a_level_are_created_concurrently(remote: Any) -> None:
    root = await aiozarr.create_group(remote)
    most = under_way = 0

    async def count(operation: str, key: str) -> None:
        nonlocal most, under_way
        under_way += operation == "set"
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= operation == "set"

    remote._before = count
    await root.create_hierarchy({f"n{n}": {"shape": 1, "dtype": "i1"} for n in range(30)})
    assert most >= 15


async def test_the_groups_above_are_read_once_for_the_nodes_of_a_level(remote: Any) -> None:
    root = await aiozarr.create_group(remote, "g/h")
    await aiozarr.consolidate_metadata(remote, "g/h")
    requests: list[tuple[str, str]] = []

    async def note(operation: str, key: str) -> None:
        requests.append((operation, key))

    remote._before = note
    await root.create_hierarchy({f"n{n}": {"shape": 1, "dtype": "i1"} for n in range(30)})
    # All are read again, alone, because there are consolidated metadata. These are invalidated and rewritten once.
    assert requests.count(("fetch", "g/h/n7/zarr.json")) == requests.count(("fetch", "g/zarr.json")) == 2
    assert requests.count(("set", "g/h/zarr.json")) == 2
    stored = (await aiozarr.open_group(remote, "g/h")).metadata.consolidated
    assert stored is not None
    assert len(stored.nodes) == 30


async def test_nothing_is_stored_beside_a_node_that_exists(store: Store) -> None:
    root = await aiozarr.create_group(store)
    await root.create_group("n7")
    with pytest.raises(aiozarr.NodeExistsError, match="n7"):
        await root.create_hierarchy({f"n{n}": {} for n in range(30)})
    assert [name async for name, _ in root.members()] == ["n7"]


async def test_a_read_only_group_changes_nothing(memory: MemoryStore) -> None:
    await (await aiozarr.create_group(memory)).create_group("g")
    root = await aiozarr.open_group(memory)
    for action in (
        root.move("g", "h"),
        root.create_hierarchy({"x": {}}),
        root.require_group("x"),
        root.require_array("x", shape=1, dtype="i4"),
    ):
        with pytest.raises(aiozarr.UnsupportedOperationError):
            await action
    assert (await root.require_group("g")).path == "g"


@FORMATS
async def test_the_info_of_a_group_counts_the_nodes_and_objects_below(store: Store, zarr_format: int) -> None:
    root = await aiozarr.create_group(store, zarr_format=zarr_format, attributes={"n": 1})
    array = await root.create_array("g/a", shape=4, dtype="i4", chunks=2)
    await array[...].write(1)
    info = await root.info()
    assert (info.arrays, info.groups, info.objects_stored, info.attributes) == (1, 1, 2, 1)
    assert "arrays         : 1" in str(info).splitlines()
    assert info.as_dict()["zarr_format"] == zarr_format


def test_the_blocking_twins_do_the_same() -> None:
    root = aiozarr.sync.create_group(MemoryStore())
    assert isinstance(root.require_array("a", shape=1, dtype="i4"), aiozarr.sync.Array)
    assert isinstance(root.require_group("g"), aiozarr.sync.Group)
    made = root.create_hierarchy({"x": {"shape": 1, "dtype": "i4"}, "y": {}})
    assert [type(node) for node in made.values()] == [aiozarr.sync.Array, aiozarr.sync.Group]
    root.move("x", "z")
    assert sorted(root) == ["a", "g", "y", "z"]
    assert root.info().arrays == 2
