"""Nodes are looked up in consolidated metadata, in place of their own documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import aiozarr
import aiozarr.sync
from aiozarr.stores import MemoryStore, Store

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])


async def filled(store: Store, zarr_format: int) -> aiozarr.Group:
    """A consolidated tree: `a`, `g` with `b` and `h`."""
    root = await aiozarr.create_group(store, zarr_format=zarr_format, attributes={"title": "t"})
    await root.create_array("a", shape=4, dtype="i4", chunks=2, attributes={"n": 1})
    await root.create_group("g", attributes={"level": 1})
    await root.create_array("g/b", shape=(2, 3), dtype="f8")
    await root.create_group("g/h")
    return await aiozarr.consolidate_metadata(store)


@FORMATS
@pytest.mark.parametrize("known", [True, False])
async def test_a_consolidated_tree_of_a_known_format_is_one_request(remote: Any, zarr_format: int, known: bool) -> None:
    await filled(remote, zarr_format)
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
    await filled(source, zarr_format)
    for key in await source.list():
        await remote.held.set(key, bytes(await source.get(key) or b""))
    root = await aiozarr.open_group(remote)
    assert len([m async for m in root.members(None)]) == 4
    info = await root.info()
    assert (info.arrays, info.groups, info.objects_stored, info.consolidated) == (2, 2, None, True)


@FORMATS
async def test_every_handle_of_the_process_sees_a_changed_attribute(memory: MemoryStore, zarr_format: int) -> None:
    root = await filled(memory, zarr_format)
    other = await aiozarr.open_group(memory)
    array = await aiozarr.open_array(memory, "g/b", mode="r+")
    await array.update_attributes({"new": 1})
    assert (await root.open("g/b")).attrs == (await other.open("g/b")).attrs == {"new": 1}
    await root.update_attributes({"title": "new"})
    assert (await aiozarr.open_group(memory)).attrs == {"title": "new"}
