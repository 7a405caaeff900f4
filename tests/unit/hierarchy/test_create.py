"""Creating stores a whole node or nothing, and never replaces another one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.errors import PermissionDeniedError, StoreError
from aiozarr.stores import MemoryStore, PrefixStore, Store


async def keys(store: Store) -> list[str]:
    return sorted(await store.list())


async def an_array(store: Store, path: str) -> None:
    await aiozarr.create_array(store, path, shape=4, dtype="i4")


async def a_group(store: Store, path: str) -> None:
    await aiozarr.create_group(store, path)


Create = Callable[[Store, str], Awaitable[None]]


async def test_a_new_array_has_the_properties_of_its_arguments(store: Store) -> None:
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


async def test_creating_an_array_stores_its_document_and_the_groups_above(store: Store) -> None:
    await aiozarr.create_array(store, "g/h/a", shape=3, dtype="i4")
    assert await keys(store) == ["g/h/a/zarr.json", "g/h/zarr.json", "g/zarr.json", "zarr.json"]
    group = await aiozarr.open_group(store, "g")
    assert [name async for name, _ in group.members(None)] == ["h", "h/a"]


async def test_groups_above_keep_their_attributes(store: Store) -> None:
    await aiozarr.create_group(store, "g", attributes={"a": 1})
    await aiozarr.create_group(store, "g/h", attributes={"b": 2})
    assert (await aiozarr.open_group(store, "g")).attrs == {"a": 1}
    assert (await aiozarr.open_group(store, "g/h")).attrs == {"b": 2}


@pytest.mark.parametrize("key", ["c/0", "0", "0.1", "c", "b/zarr.json", ".zgroup", "b/.zarray"])
async def test_chunks_and_documents_below_a_path_hinder_an_array(store: Store, key: str) -> None:
    await store.set(f"a/{key}", b"stored")
    with pytest.raises(aiozarr.NodeExistsError, match="overwrite=True would delete"):
        await an_array(store, "a")
    assert await store.get(f"a/{key}") == b"stored"


@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_other_files_hinder_no_node(store: Store, zarr_format: int) -> None:
    await store.set("README.md", b"about")
    await store.set("a/notes/2024.txt", b"text")
    await aiozarr.create_group(store, zarr_format=zarr_format)
    await aiozarr.create_array(store, "a", shape=4, dtype="i4", zarr_format=zarr_format)
    assert await store.get("README.md") == b"about"
    assert await store.get("a/notes/2024.txt") == b"text"


@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_a_group_above_existing_nodes_keeps_them(tmp_path: Path, zarr_format: int) -> None:
    array = await aiozarr.create_array(tmp_path / "x" / "y", shape=3, dtype="i4", zarr_format=zarr_format)
    await array[...].write([1, 2, 3])
    group = await aiozarr.create_group(tmp_path / "x", attributes={"a": 1}, zarr_format=zarr_format)
    assert group.attrs == {"a": 1}
    assert [name async for name, _ in group.members()] == ["y"]
    assert (await (await aiozarr.open_array(tmp_path / "x" / "y"))[...]).tolist() == [1, 2, 3]


async def test_a_group_that_becomes_explicit_stays_whole_in_consolidated_metadata() -> None:
    store = MemoryStore()
    await store.set("zarr.json", b'{"zarr_format":3,"node_type":"group"}')
    await aiozarr.create_array(PrefixStore(store, "x/y"), shape=3, dtype="i4")
    await aiozarr.consolidate_metadata(store)
    await store.erase("x/zarr.json")
    await aiozarr.create_group(store, "x", attributes={"a": 1})
    group = await aiozarr.open_group(store)
    assert [name async for name, _ in group.members(None)] == ["x", "x/y"]


async def test_a_group_is_hindered_by_a_node_of_another_format(store: Store) -> None:
    await aiozarr.create_array(store, shape=4, dtype="i4", zarr_format=2)
    with pytest.raises(aiozarr.NodeExistsError, match="there is an array at"):
        await aiozarr.create_group(store)


async def test_the_error_says_what_an_overwrite_would_delete(store: Store) -> None:
    await aiozarr.create_group(store, "x")
    await aiozarr.create_group(store, "x/g")
    array = await aiozarr.create_array(store, "x/y", shape=4, dtype="i4", chunks=2)
    await array[...].write([1, 2, 3, 4])
    with pytest.raises(aiozarr.NodeExistsError) as caught:
        await aiozarr.create_group(store, "x")
    assert str(caught.value) == (
        f"there is a group at {store.url}/x; open_group opens it; "
        "overwrite=True would delete the group, 1 array, 1 group, 2 objects"
    )
    with pytest.raises(aiozarr.NodeExistsError) as caught:
        await aiozarr.create_array(store, "x/y", shape=4, dtype="i4")
    assert str(caught.value) == (
        f"there is an array at {store.url}/x/y; open_array opens it; overwrite=True would delete the array, 2 objects"
    )


async def test_overwrite_erases_the_node_with_everything_below_it_and_nothing_else(store: Store) -> None:
    old = await aiozarr.create_array(store, "g/a/x", shape=3, dtype="i4")
    await old[...].write(1)
    await aiozarr.create_group(store, "g/ab")
    new = await aiozarr.create_array(store, "g/a", shape=3, dtype="i4", fill_value=9, overwrite=True)
    assert (await new[...]).tolist() == [9, 9, 9]
    assert await keys(store) == ["g/a/zarr.json", "g/ab/zarr.json", "g/zarr.json", "zarr.json"]


async def test_of_two_creators_of_one_node_one_wins(store: Store) -> None:
    shapes = [(3,), (4,), (5,)]
    results = await asyncio.gather(
        *[aiozarr.create_array(store, "g/a", shape=shape, dtype="i4") for shape in shapes], return_exceptions=True
    )
    winners = [result for result in results if isinstance(result, aiozarr.Array)]
    assert len(winners) == 1
    assert all(isinstance(result, aiozarr.NodeExistsError) for result in results if result not in winners)
    assert (await aiozarr.open_array(store, "g/a")).shape == winners[0].shape


async def test_a_creator_in_another_process_is_detected_by_the_write(remote: Any) -> None:
    def sneak_in(operation: str, key: str) -> None:
        if (operation, key) == ("set", "a/zarr.json"):
            remote.held.set_now("a/zarr.json", b'{"zarr_format": 3, "node_type": "group"}')

    remote.hook = sneak_in
    with pytest.raises(aiozarr.NodeExistsError):
        await aiozarr.create_array(remote, "a", shape=3, dtype="i4")
    assert isinstance(await aiozarr.open(remote, "a"), aiozarr.Group)


async def test_a_parent_group_created_by_another_writer_is_accepted(remote: Any) -> None:
    def sneak_in(operation: str, key: str) -> None:
        if (operation, key) == ("set", "g/zarr.json"):
            remote.held.set_now(key, b'{"zarr_format": 3, "node_type": "group", "attributes": {"theirs": 1}}')

    remote.hook = sneak_in
    await aiozarr.create_array(remote, "g/a", shape=3, dtype="i4")
    assert (await aiozarr.open_group(remote, "g")).attrs == {"theirs": 1}


async def test_many_creators_of_siblings_share_their_parents(store: Store) -> None:
    await asyncio.gather(*[aiozarr.create_group(store, f"g/h/{n}") for n in range(10)])
    group = await aiozarr.open_group(store, "g/h")
    assert len([name async for name, _ in group.members()]) == 10


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
async def test_an_invalid_node_is_refused_before_anything_is_erased_or_stored(
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


async def test_creating_does_not_need_permission_to_list(remote: Any) -> None:
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


async def test_a_store_that_cannot_write_is_an_error(remote_with: Callable[..., Any]) -> None:
    remote = remote_with(writable=False)
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
