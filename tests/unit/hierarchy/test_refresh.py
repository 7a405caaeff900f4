"""`refresh` brings a handle up to date with what other handles and processes have stored."""

from __future__ import annotations

import pytest

import aiozarr
from aiozarr.stores import MemoryStore, Store


async def test_a_handle_sees_a_later_shape_after_a_refresh(store: Store) -> None:
    writer = await aiozarr.create_array(store, "a", shape=2, dtype="i4", chunks=2, attributes={"n": 1})
    reader = await aiozarr.open_array(store, "a")
    view = reader[...]
    assert not await reader.refresh()
    await writer.append([1, 2, 3])
    await writer.update_attributes({"n": 2})
    assert reader.shape == (2,)
    assert await reader.refresh()
    assert (reader.shape, reader.attrs) == ((5,), {"n": 2})
    assert (await reader[2:]).tolist() == [1, 2, 3]
    assert view.shape == (2,)
    assert not await reader.refresh()


async def test_a_group_sees_later_attributes(store: Store) -> None:
    writer = await aiozarr.create_group(store)
    reader = await aiozarr.open_group(store)
    await writer.update_attributes({"a": 1})
    assert await reader.refresh()
    assert reader.attrs == {"a": 1}


async def test_a_replaced_array_is_read_by_its_new_layout(store: Store) -> None:
    await aiozarr.create_array(store, "a", shape=4, dtype="i4", chunks=2)
    reader = await aiozarr.open_array(store, "a")
    other = await aiozarr.create_array(store, "a", shape=(2, 2), dtype="f8", chunks=1, overwrite=True)
    await other[...].write([[1, 2], [3, 4]])
    assert await reader.refresh()
    assert (await reader[...]).tolist() == [[1, 2], [3, 4]]


async def test_a_deleted_or_replaced_node_is_an_error(store: Store) -> None:
    group = await aiozarr.create_group(store)
    array = await group.create_array("a", shape=4, dtype="i4")
    await array[...].write(1)
    reader = await aiozarr.open_array(store, "a")
    await store.erase("a/zarr.json")
    with pytest.raises(aiozarr.NodeNotFoundError, match="no array"):
        await reader.refresh()
    await group.create_group("a", overwrite=True)
    with pytest.raises(aiozarr.NodeTypeError, match="is now a group"):
        await reader.refresh()
    assert reader.shape == (4,)


def test_a_blocking_handle_refreshes() -> None:
    store = MemoryStore()
    writer = aiozarr.sync.create_array(store, shape=2, dtype="i4")
    reader = aiozarr.sync.open_array(store)
    writer.append([1])
    assert reader.refresh()
    assert reader.shape == (3,)
