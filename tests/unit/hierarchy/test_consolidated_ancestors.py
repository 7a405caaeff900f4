"""Consolidated metadata above the destination of a copy, against other writers and nodes that cannot be read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

import aiozarr
from aiozarr.stores import MemoryStore, PrefixStore, Store
from aiozarr.testing.fakes import FakeStore
from tests.support.consolidated_trees import FORMATS, TREE, consolidated_tree, copies


async def new_array(zarr_format: int) -> Store:
    source = MemoryStore()
    await aiozarr.create_array(source, data=[1, 2, 3], zarr_format=zarr_format)
    return source


async def copy_below(store: FakeStore, source: Store, meanwhile: Callable[[], None] | None = None) -> None:
    """Copy `source` to `g/b`. `meanwhile` is called when its document is stored."""

    def plan(call: Any) -> None:
        if meanwhile is not None and call.operation == "set" and call.key in ("g/b/zarr.json", "g/b/.zarray"):
            meanwhile()

    store.faults = plan
    await aiozarr.copy(source, PrefixStore(store, "g/b"), overwrite=True)
    store.faults = None


def document(store: FakeStore, key: str) -> dict[str, Any]:
    value = store.memory.fetch_now(key)
    assert value is not None
    found: dict[str, Any] = json.loads(bytes(value.data))
    return found


async def test_the_sentinel_is_stored_meanwhile_and_a_process_that_removes_it_leaves_none() -> None:
    store = FakeStore(latency=0)
    await consolidated_tree(store, 3)

    def remove_sentinel() -> None:
        members = document(store, "zarr.json")
        assert members.pop("consolidated_metadata") is None
        store.memory.set_now("zarr.json", json.dumps(members).encode())

    await copy_below(store, await new_array(3), remove_sentinel)
    assert "consolidated_metadata" not in document(store, "zarr.json")
    group = await aiozarr.open_group(store)
    assert [name async for name, _ in group.members(None)] == sorted(TREE)


async def test_consolidated_metadata_of_another_process_that_lack_the_copy_are_removed() -> None:
    store = FakeStore(latency=0)
    await consolidated_tree(store, 2)
    old = bytes(await store.memory.get(".zmetadata") or b"")
    await copy_below(store, await new_array(2), lambda: store.memory.set_now(".zmetadata", old))
    assert await copies(store, 2) is None


@FORMATS
async def test_a_copied_node_that_cannot_be_read_leaves_none(zarr_format: int) -> None:
    store = FakeStore(latency=0)
    await consolidated_tree(store, zarr_format)
    source = await new_array(zarr_format)
    await source.set("zarr.json" if zarr_format == 3 else ".zarray", b'{"zarr_format": 3, "node_type": "array"}')
    await copy_below(store, source)
    assert await copies(store, zarr_format) is None
    await copy_below(store, await new_array(zarr_format))
    await aiozarr.consolidate_metadata(store)
    assert await copies(store, zarr_format) == TREE | {"g/b": [3]}


@FORMATS
async def test_open_groups_read_the_nodes_themselves_meanwhile(zarr_format: int) -> None:
    store = FakeStore(latency=0.001)
    root = await consolidated_tree(store, zarr_format)
    shapes: list[Any] = []
    tasks: list[asyncio.Task[None]] = []

    async def look() -> None:
        try:
            node = await root.open("g/b")
        except aiozarr.NodeNotFoundError:
            shapes.append(None)  # the old document is withdrawn, because its chunks differ
        else:
            assert isinstance(node, aiozarr.Array)
            shapes.append(node.shape)

    loop = asyncio.get_running_loop()
    began = asyncio.Event()

    def plan(call: Any) -> None:
        if call.operation == "set" and call.key in ("g/b/c/0", "g/b/0"):
            loop.call_soon_threadsafe(lambda: tasks.append(asyncio.ensure_future(look())))
            loop.call_soon_threadsafe(began.set)

    store.faults = plan
    settings = aiozarr.Settings(max_requests=1)
    copying = asyncio.create_task(
        aiozarr.copy(await new_array(zarr_format), PrefixStore(store, "g/b"), overwrite=True, settings=settings)
    )
    await began.wait()
    await asyncio.gather(*tasks)
    await copying
    await look()
    assert shapes[0] in (None, (3,))
    assert shapes[-1] == (3,)


@FORMATS
async def test_other_changes_wait_until_the_copy_has_ended(zarr_format: int) -> None:
    store = FakeStore(latency=0.001)
    root = await consolidated_tree(store, zarr_format)
    creations: list[asyncio.Task[Any]] = []
    loop = asyncio.get_running_loop()

    def create() -> None:
        creations.append(asyncio.ensure_future(root.create_array("new", shape=1, dtype="u1")))

    await copy_below(store, await new_array(zarr_format), lambda: loop.call_soon_threadsafe(create) and None)
    async with asyncio.timeout(60):
        await asyncio.gather(*creations)
    assert creations
    assert await copies(store, zarr_format) == TREE | {"g/b": [3], "new": [1]}


async def test_locks_are_released_by_a_copy_that_fails() -> None:
    store = FakeStore(latency=0)
    root = await consolidated_tree(store, 3)

    def fail() -> None:
        raise aiozarr.PermissionDeniedError("no")

    with pytest.raises(aiozarr.CopyError):
        await copy_below(store, await new_array(3), fail)
    async with asyncio.timeout(60):
        await root.create_array("new", shape=1, dtype="u1")
    # A change below a group with a sentinel removes it: the journal still names the group.
    store.faults = None
    await aiozarr.copy(await new_array(3), PrefixStore(store, "g/b"), overwrite=True)
    assert await copies(store, 3) == TREE | {"g/b": [3], "new": [1]}
