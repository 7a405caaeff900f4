"""The context of a node that is about to be created: the nodes above it, and keys at its path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import aiozarr
from aiozarr.stores import MemoryStore, Store


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
