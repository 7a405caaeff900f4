"""Names that begin with `__` are reserved in format 3, and nodes of such names exist: xarray writes them."""

from __future__ import annotations

import pytest

import aiozarr
from aiozarr.stores import MemoryStore

NAME = "__xarray_dataarray_variable__"


async def with_reserved_name() -> MemoryStore:
    source, store = MemoryStore(), MemoryStore()
    array = await aiozarr.create_array(source, "a", data=[1, 2, 3])
    await aiozarr.create_group(store)
    for key in ("zarr.json", "c/0"):
        await store.set(f"{NAME}/{key}", bytes(await array.store.get(f"a/{key}") or b""))
    return store


async def test_an_array_of_a_reserved_name_is_read_listed_and_counted() -> None:
    store = await with_reserved_name()
    group = await aiozarr.open_group(store)
    assert [name async for name, _ in group.members()] == [NAME]
    assert await group.contains(NAME)
    assert (await (await aiozarr.open_array(store, NAME))[...]).tolist() == [1, 2, 3]
    assert NAME in await group.tree()
    assert (await group.info()).arrays == 1


async def test_consolidation_contains_it() -> None:
    store = await with_reserved_name()
    await aiozarr.consolidate_metadata(store)
    group = await aiozarr.open_group(store, use_consolidated=True)
    assert [name async for name, _ in group.members()] == [NAME]
    assert (await (await group.open(NAME))[...]).tolist() == [1, 2, 3]  # type: ignore[index]


async def test_it_can_be_written_and_deleted_and_not_created() -> None:
    store = await with_reserved_name()
    array = await aiozarr.open_array(store, NAME, mode="r+")
    await array[0].write(7)
    await array.update_attributes({"a": 1})
    group = await aiozarr.open_group(store, mode="r+")
    await group.delete(NAME)
    with pytest.raises(
        aiozarr.InvalidKeyError, match=f"'{NAME}' is not a name for a new node: names that begin with '__'"
    ):
        await group.create_array(NAME, data=[1])
    with pytest.raises(aiozarr.InvalidKeyError, match="reserved"):
        await aiozarr.create_group(store, f"a/{NAME}")
    assert await store.list() == ["zarr.json"]
