"""What is stored in a format that is not read yet is refused by name, never taken for an empty group."""

from __future__ import annotations

import pytest

import aiozarr
from aiozarr.errors import UnsupportedMetadataError
from aiozarr.stores import MemoryStore


@pytest.mark.parametrize(("key", "name"), [(".zarray", "2"), (".zgroup", "2"), ("meta", "1")])
async def test_a_node_of_another_format_is_refused_by_its_number(key: str, name: str) -> None:
    store = MemoryStore()
    await store.set(f"old/{key}", b"{}")
    await store.set("old/0.0", b"chunk")
    with pytest.raises(UnsupportedMetadataError, match=f"format {name}") as raised:
        await aiozarr.open(store, "old")
    assert raised.value.name == name
    assert raised.value.key == f"old/{key}"


async def test_an_implicit_group_is_still_one() -> None:
    store = MemoryStore()
    await aiozarr.create_array(store, "a/b", shape=(1,), dtype="i4")
    await store.erase("a/zarr.json")
    assert isinstance(await aiozarr.open(store, "a"), aiozarr.Group)
