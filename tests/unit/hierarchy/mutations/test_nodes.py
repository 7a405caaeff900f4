"""Updates of metadata: concurrent ones are all kept, and a failed one changes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import aiozarr
from aiozarr.errors import PermissionDeniedError
from aiozarr.stores import MemoryStore, Store


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
