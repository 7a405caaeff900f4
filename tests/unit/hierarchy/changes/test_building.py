"""Groups make what is required, many nodes at once, and move them; each whole or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import aiozarr
import aiozarr.sync
from aiozarr.errors import StoreError
from aiozarr.stores import MemoryStore, Store

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])


async def test_what_is_required_is_made_once_and_opened_then(store: Store) -> None:
    root = await aiozarr.create_group(store)
    made = await root.require_array("g/a", shape=(3, 2), dtype="i4", attributes={"n": 1})
    await made[...].write(5)
    for array in [await root.require_array("g/a", shape=(3, 2), dtype="i8") for _ in range(2)]:
        assert (array.attrs, array.dtype) == ({"n": 1}, np.dtype("i4"))
        assert (await array[...]).sum() == 30
    group = await root.require_group("g")
    assert [name async for name, _ in group.members()] == ["a"]
    assert (await root.require_group("h")).path == "h"


async def test_what_does_not_fit_the_requirement_is_an_error(store: Store) -> None:
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


async def test_of_many_that_require_a_node_at_once_one_makes_it(store: Store) -> None:
    root = await aiozarr.create_group(store)
    arrays = await asyncio.gather(*[root.require_array("a", shape=3, dtype="i4") for _ in range(5)])
    groups = await asyncio.gather(*[root.require_group("g") for _ in range(5)])
    assert {array.shape for array in arrays} == {(3,)}
    assert {group.path for group in groups} == {"g"}


@FORMATS
async def test_a_whole_hierarchy_is_made_from_a_mapping(store: Store, zarr_format: int) -> None:
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
async def test_a_mapping_that_is_no_hierarchy_is_refused_whole(
    memory: MemoryStore, nodes: dict[str, Any], error: type[Exception]
) -> None:
    root = await aiozarr.create_group(memory)
    with pytest.raises(error):
        await root.create_hierarchy(nodes)
    assert await memory.list() == ["zarr.json"]


async def test_a_hierarchy_is_made_with_the_nodes_of_a_level_at_once(remote: Any) -> None:
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


@FORMATS
async def test_a_node_moves_with_all_below_it(store: Store, zarr_format: int) -> None:
    root = await aiozarr.create_group(store, "r", zarr_format=zarr_format)
    array = await root.create_array("g/h/a", shape=4, dtype="i4", chunks=2, attributes={"n": 1})
    await array[...].write([1, 2, 3, 4])
    await root.create_group("gg")
    await root.move("g", "x/y")
    moved = await root.open("x/y/h/a")
    assert isinstance(moved, aiozarr.Array)
    assert (await moved[...]).tolist() == [1, 2, 3, 4]
    assert moved.attrs == {"n": 1}
    assert sorted([name async for name, _ in root.members(None)]) == ["gg", "x", "x/y", "x/y/h", "x/y/h/a"]
    await root.move("x/y/h/a", "a")
    assert (await root.open("a")).attrs == {"n": 1}


async def test_a_move_that_cannot_be_is_an_error_and_moves_nothing(store: Store) -> None:
    root = await aiozarr.create_group(store)
    await root.create_array("a", shape=4, dtype="i4")
    await root.create_group("g/h")
    before = sorted(await store.list())
    for source, dest, error in [
        ("none", "b", aiozarr.NodeNotFoundError),
        ("a", "g", aiozarr.NodeExistsError),
        ("g", "a/b", aiozarr.NodeTypeError),
        ("g", "g/x", ValueError),
        ("g/h", "g", ValueError),
        ("a", "a", ValueError),
        ("", "b", ValueError),
    ]:
        with pytest.raises(error):
            await root.move(source, dest)
    assert sorted(await store.list()) == before


@pytest.mark.parametrize(
    ("zarr_format", "failing"), [(3, "b/c/1"), (3, "b/zarr.json"), (2, "b/1"), (2, "b/.zarray"), (2, "b/.zattrs")]
)
async def test_a_move_that_fails_leaves_the_source_whole_and_no_node_at_its_end(
    remote: Any, zarr_format: int, failing: str
) -> None:
    root = await aiozarr.create_group(remote, zarr_format=zarr_format)
    array = await root.create_array("a", shape=4, dtype="i4", chunks=2)
    await array[...].write([1, 2, 3, 4])
    failed: list[str] = []

    def fail(operation: str, key: str) -> None:
        if operation == "set" and key == failing:
            failed.append(key)
            raise StoreError("the disk is full")

    remote.hook = fail
    await asyncio.gather(root.move("a", "b"), return_exceptions=True)
    remote.hook = lambda operation, key: None
    assert failed
    with pytest.raises((aiozarr.NodeNotFoundError, aiozarr.NodeTypeError)):
        await aiozarr.open_array(remote, "b")
    assert (await (await aiozarr.open_array(remote, "a"))[...]).tolist() == [1, 2, 3, 4]


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
async def test_the_facts_of_a_group_count_what_lies_below(store: Store, zarr_format: int) -> None:
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
