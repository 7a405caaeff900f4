"""Nodes of every format: found with one round trip, created and changed by the rules of their format."""

from __future__ import annotations

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import MemoryStore, Store


@pytest.mark.parametrize("zarr_format", [1, 2, 3])
async def test_an_array_of_each_format_is_written_read_and_opened_again(store: Store, zarr_format: int) -> None:
    array = await aiozarr.create_array(
        store, "a", shape=(5, 4), dtype=">i2", chunks=2, order="F", attributes={"n": 1}, zarr_format=zarr_format
    )
    values = np.arange(20, dtype="i2").reshape(5, 4)
    await array[...].write(values)
    for known in (None, zarr_format):
        opened = await aiozarr.open_array(store, "a", zarr_format=known, mode="r+")
        assert (opened.zarr_format, opened.order, opened.attrs) == (zarr_format, "F", {"n": 1})
        np.testing.assert_array_equal(await opened[...], values)
        assert opened.metadata == array.metadata
    await opened.append(values[:1])
    await opened.update_attributes({"m": 2})
    again = await aiozarr.open_array(store, "a")
    assert (again.shape, again.attrs) == ((6, 4), {"n": 1, "m": 2})
    np.testing.assert_array_equal(await again[5], values[0])
    info = await again.info()
    assert (info.objects_stored, info.objects_expected, info.zarr_format) == (6, 6, zarr_format)


async def test_format_2_makes_groups_at_all_paths_above(store: Store) -> None:
    await aiozarr.create_array(store, "/g//h\\a/", shape=3, dtype="i4", zarr_format=2)
    assert sorted(await store.list()) == [".zgroup", "g/.zgroup", "g/h/.zgroup", "g/h/a/.zarray", "g/h/a/.zattrs"]
    group = await aiozarr.open_group(store, zarr_format=2)
    assert (await group.open("g//h/a")).path == "g/h/a"
    assert [name async for name, _ in group.members(None)] == ["g", "g/h", "g/h/a"]


async def test_children_have_the_format_of_their_group(store: Store) -> None:
    group = await aiozarr.create_group(store, zarr_format=2, attributes={"a": 1})
    array = await group.create_array(
        "a", shape=3, dtype="i4", compressor=None, filters=[{"id": "delta", "dtype": "<i4"}]
    )
    assert (array.zarr_format, (await group.create_group("g")).zarr_format) == (2, 2)
    with pytest.raises(TypeError, match="codecs is an option of format 3"):
        await group.create_array("b", shape=3, dtype="i4", codecs=["bytes"])
    await group.delete("a")
    assert not await group.contains("a")


@pytest.mark.parametrize(("old", "new"), [(2, 3), (3, 2), (1, 2), (1, 3), (3, 1)])
async def test_overwriting_erases_the_documents_of_every_format(memory: MemoryStore, old: int, new: int) -> None:
    array = await aiozarr.create_array(memory, shape=3, dtype="i4", zarr_format=old, attributes={"old": 1})
    await array[...].write(1)
    with pytest.raises(aiozarr.NodeExistsError):
        await aiozarr.create_array(memory, shape=5, dtype="i4", zarr_format=new)
    await aiozarr.create_array(memory, shape=5, dtype="i4", zarr_format=new, overwrite=True)
    opened = await aiozarr.open_array(memory)
    assert (opened.zarr_format, opened.shape, opened.attrs) == (new, (5,), {})
    expected = {1: ["attrs", "meta"], 2: [".zarray", ".zattrs"], 3: ["zarr.json"]}
    assert sorted(await memory.list()) == expected[new]
