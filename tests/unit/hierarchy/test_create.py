"""Creating leaves a whole node or nothing, and never takes another's place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import aiozarr
from aiozarr.errors import PermissionDeniedError, StoreError
from aiozarr.stores import MemoryStore, Store


async def keys(store: Store) -> list[str]:
    return sorted(await store.list())


async def an_array(store: Store, path: str) -> None:
    await aiozarr.create_array(store, path, shape=4, dtype="i4")


async def a_group(store: Store, path: str) -> None:
    await aiozarr.create_group(store, path)


Create = Callable[[Store, str], Awaitable[None]]


async def test_a_new_array_is_what_its_arguments_say(store: Store) -> None:
    array = await aiozarr.create_array(
        store,
        "a",
        shape=(8, 6),
        dtype="f4",
        chunks=(2, 3),
        shards=(4, 6),
        fill_value=1.5,
        order="F",
        dimension_names=["y", "x"],
        attributes={"units": "m"},
        chunk_key_encoding="v2",
    )
    opened = await aiozarr.open_array(store, "a")
    for found in (array, opened):
        assert (found.shape, found.ndim, found.size, found.nbytes) == ((8, 6), 2, 48, 192)
        assert (found.chunks, found.shards, found.order) == ((2, 3), (4, 6), "F")
        assert (found.fill_value, found.dtype) == (1.5, "f4")
        assert (found.dimension_names, found.attrs) == (("y", "x"), {"units": "m"})
        assert (found.path, found.url, found.store, found.zarr_format) == ("a", f"{store.url}/a", store, 3)
    assert opened.metadata == array.metadata
    assert (array.read_only, opened.read_only) == (False, True)


async def test_an_array_is_one_document_and_groups_above_it_are_made(store: Store) -> None:
    await aiozarr.create_array(store, "g/h/a", shape=3, dtype="i4")
    assert await keys(store) == ["g/h/a/zarr.json", "g/h/zarr.json", "g/zarr.json", "zarr.json"]
    group = await aiozarr.open_group(store, "g")
    assert [name async for name, _ in group.members(None)] == ["h", "h/a"]


async def test_groups_above_keep_their_attributes(store: Store) -> None:
    await aiozarr.create_group(store, "g", attributes={"a": 1})
    await aiozarr.create_group(store, "g/h", attributes={"b": 2})
    assert (await aiozarr.open_group(store, "g")).attrs == {"a": 1}
    assert (await aiozarr.open_group(store, "g/h")).attrs == {"b": 2}


@pytest.mark.parametrize("create", [an_array, a_group])
async def test_what_is_there_already_is_not_replaced(store: Store, create: Create) -> None:
    await aiozarr.create_array(store, "a", shape=3, dtype="i4")
    before = await store.get("a/zarr.json")
    with pytest.raises(aiozarr.NodeExistsError, match="overwrite=True") as caught:
        await create(store, "a")
    assert caught.value.url == f"{store.url}/a"
    assert await store.get("a/zarr.json") == before


@pytest.mark.parametrize("create", [an_array, a_group])
async def test_a_place_with_keys_below_it_is_taken(store: Store, create: Create) -> None:
    await store.set("a/b/c/0", b"chunk")
    with pytest.raises(aiozarr.NodeExistsError, match="keys are stored"):
        await create(store, "a/b")
    assert await keys(store) == ["a/b/c/0"]


async def test_a_document_that_cannot_be_read_is_in_the_way_and_can_be_overwritten(memory: MemoryStore) -> None:
    await memory.set("a/zarr.json", b"{")
    with pytest.raises(aiozarr.NodeExistsError):
        await aiozarr.create_group(memory, "a")
    await aiozarr.create_group(memory, "a", overwrite=True)
    assert isinstance(await aiozarr.open(memory, "a"), aiozarr.Group)


async def test_overwrite_erases_what_is_there_with_all_below_it_and_nothing_else(store: Store) -> None:
    old = await aiozarr.create_array(store, "g/a/x", shape=3, dtype="i4")
    await old[...].write(1)
    await aiozarr.create_group(store, "g/ab")
    new = await aiozarr.create_array(store, "g/a", shape=3, dtype="i4", fill_value=9, overwrite=True)
    assert (await new[...]).tolist() == [9, 9, 9]
    assert await keys(store) == ["g/a/zarr.json", "g/ab/zarr.json", "g/zarr.json", "zarr.json"]


async def test_no_node_is_created_below_an_array(store: Store) -> None:
    await aiozarr.create_array(store, "a", shape=3, dtype="i4")
    with pytest.raises(aiozarr.NodeTypeError, match="is an array"):
        await aiozarr.create_group(store, "a/b/c")
    with pytest.raises(aiozarr.NodeTypeError, match="is an array"):
        await aiozarr.create_array(store, "a/b", shape=3, dtype="i4", overwrite=True)
    assert await keys(store) == ["a/zarr.json", "zarr.json"]


async def test_of_two_creators_of_one_node_one_wins(store: Store) -> None:
    shapes = [(3,), (4,), (5,)]
    results = await asyncio.gather(
        *[aiozarr.create_array(store, "g/a", shape=shape, dtype="i4") for shape in shapes], return_exceptions=True
    )
    winners = [result for result in results if isinstance(result, aiozarr.Array)]
    assert len(winners) == 1
    assert all(isinstance(result, aiozarr.NodeExistsError) for result in results if result not in winners)
    assert (await aiozarr.open_array(store, "g/a")).shape == winners[0].shape


async def test_a_creator_in_another_process_is_seen_at_the_write_itself(remote: Any) -> None:
    def sneak_in(operation: str, key: str) -> None:
        if (operation, key) == ("set", "a/zarr.json"):
            remote.held.set_now("a/zarr.json", b'{"zarr_format": 3, "node_type": "group"}')

    remote.hook = sneak_in
    with pytest.raises(aiozarr.NodeExistsError):
        await aiozarr.create_array(remote, "a", shape=3, dtype="i4")
    assert isinstance(await aiozarr.open(remote, "a"), aiozarr.Group)


async def test_a_group_above_that_another_writer_made_is_as_good(remote: Any) -> None:
    def sneak_in(operation: str, key: str) -> None:
        if (operation, key) == ("set", "g/zarr.json"):
            remote.held.set_now(key, b'{"zarr_format": 3, "node_type": "group", "attributes": {"theirs": 1}}')

    remote.hook = sneak_in
    await aiozarr.create_array(remote, "g/a", shape=3, dtype="i4")
    assert (await aiozarr.open_group(remote, "g")).attrs == {"theirs": 1}


async def test_an_array_above_that_another_writer_made_is_no_parent(remote: Any) -> None:
    await aiozarr.create_array(remote, "model", shape=3, dtype="i4")
    document = bytes(await remote.get("model/zarr.json"))

    def sneak_in(operation: str, key: str) -> None:
        if (operation, key) == ("set", "g/zarr.json"):
            remote.held.set_now(key, document)

    remote.hook = sneak_in
    with pytest.raises(aiozarr.NodeTypeError):
        await aiozarr.create_array(remote, "g/a", shape=3, dtype="i4")
    assert await remote.get("g/a/zarr.json") is None


async def test_many_creators_of_siblings_share_their_parents(store: Store) -> None:
    await asyncio.gather(*[aiozarr.create_group(store, f"g/h/{n}") for n in range(10)])
    group = await aiozarr.open_group(store, "g/h")
    assert len([name async for name, _ in group.members()]) == 10


async def test_everything_is_looked_up_at_once(remote: Any) -> None:
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


@pytest.mark.parametrize(
    "bad",
    [
        {"codecs": ["bytes", "no_such_codec"]},
        {"dtype": object},
        {"chunks": 0},
        {"attributes": {"a": float("nan")}},
        {"chunk_key_encoding": "no_such_encoding"},
        {"chunk_key_encoding": ("default", "/../")},
        {"codecs": [{"name": "transpose", "configuration": {"order": [0, 1, 2]}}, "bytes"]},
    ],
)
async def test_what_cannot_be_created_is_refused_before_anything_is_erased_or_stored(
    memory: MemoryStore, bad: dict[str, Any]
) -> None:
    await aiozarr.create_array(memory, "a", shape=3, dtype="i4")
    before = await keys(memory)
    with pytest.raises((ValueError, TypeError, aiozarr.MetadataError)):
        await aiozarr.create_array(memory, "a", **{"shape": (3, 3), "dtype": "i4", "overwrite": True, **bad})
    with pytest.raises((ValueError, TypeError, aiozarr.MetadataError)):
        await aiozarr.create_array(memory, "g/b", **{"shape": (3, 3), "dtype": "i4", **bad})
    assert await keys(memory) == before


@pytest.mark.parametrize("failing", ["set a/zarr.json", "fetch a/zarr.json", "set zarr.json"])
async def test_a_store_that_fails_leaves_no_half_created_node(remote: Any, failing: str) -> None:
    def fail(operation: str, key: str) -> None:
        if f"{operation} {key}" == failing:
            raise StoreError("the disk is full", key=key)

    remote.hook = fail
    with pytest.raises(StoreError, match="disk is full"):
        await aiozarr.create_array(remote, "a", shape=3, dtype="i4")
    remote.hook = lambda operation, key: None
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open(remote, "a")


async def test_a_writer_who_may_not_list_can_create(remote: Any) -> None:
    def refuse(operation: str, key: str) -> None:
        if operation == "scan":
            raise PermissionDeniedError("no listing")

    remote.hook = refuse
    await aiozarr.create_array(remote, "a", shape=3, dtype="i4")
    assert (await aiozarr.open_array(remote, "a")).shape == (3,)


async def test_a_store_without_conditions_is_written_without_them(remote_with: Callable[..., Any]) -> None:
    remote = remote_with(conditional_writes=False)
    results = await asyncio.gather(
        *[aiozarr.create_array(remote, "a", shape=n, dtype="i4") for n in (3, 4)], return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["Array", "NodeExistsError"]


async def test_a_store_that_cannot_write_says_so(remote_with: Callable[..., Any]) -> None:
    remote = remote_with(writeable=False)
    with pytest.raises(aiozarr.UnsupportedOperationError):
        await aiozarr.create_array(remote, "a", shape=3, dtype="i4")
    assert await keys(remote.held) == []


async def test_a_group_may_have_a_unicode_name(store: Store) -> None:
    for name in ("温度", "é", "e\u0301", "a b+c%20"):
        await aiozarr.create_group(store, name, attributes={"name": name})
    for name in ("温度", "é", "e\u0301", "a b+c%20"):
        assert (await aiozarr.open_group(store, name)).attrs["name"] == name


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)])
async def test_arrays_without_elements_or_dimensions_are_created(store: Store, shape: tuple[int, ...]) -> None:
    array = await aiozarr.create_array(store, shape=shape, dtype="f8", fill_value=2)
    found = await array[...]
    assert found.shape == shape
    assert (found == 2).all()
    document = json.loads(bytes(await store.get("zarr.json") or b""))
    assert document["shape"] == list(shape)
