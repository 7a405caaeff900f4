"""Interrupted erasures leave whole arrays or none; refused ones change nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

import aiozarr
from aiozarr.errors import StoreError
from aiozarr.model import Entry
from aiozarr.settings import Settings
from aiozarr.stores import MemoryStore

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])
ATTRIBUTES = {"units": "m"}


class Ordered(MemoryStore):
    """A store that erases prefixes in the order of keys, as listings of servers come, and that fails after a while."""

    left = 1000

    async def erase(self, key: str) -> None:
        if not self.left:
            raise StoreError("the connection is gone")
        self.left -= 1
        await super().erase(key)

    async def erase_prefix(self, prefix: str) -> None:
        for key in sorted(await self.list_prefix(prefix)):
            await self.erase(key)

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        for entry in sorted([entry async for entry in super().scan(prefix)], key=lambda entry: entry.key):
            yield entry


async def delete(root: aiozarr.Group) -> None:
    await root.delete("s")


async def move(root: aiozarr.Group) -> None:
    await root.move("s", "t")


async def overwrite(root: aiozarr.Group) -> None:
    await root.create_group("s", overwrite=True)


@FORMATS
@pytest.mark.parametrize("change", [delete, move, overwrite])
async def test_an_erasure_interrupted_anywhere_leaves_no_array_that_reads_as_fill_values(
    zarr_format: int, change: Callable[[aiozarr.Group], Awaitable[None]]
) -> None:
    interrupted = 0
    for left in range(100):
        store = Ordered()
        root = await aiozarr.create_group(store, zarr_format=zarr_format, settings=Settings(retries=1))
        array = await root.create_array("s/a", shape=4, chunks=1, dtype="i4", attributes=ATTRIBUTES)
        await array[...].write([1, 2, 3, 4])
        store.left = left
        try:
            await change(root)
        except StoreError:
            interrupted += 1
        else:
            break
        store.left = 1000
        found = await root.open("s/a") if await root.contains("s/a") else None
        if isinstance(found, aiozarr.Array):
            assert (await found[...]).tolist() == [1, 2, 3, 4], left
            assert found.attrs == ATTRIBUTES, left
    assert interrupted > 5


async def _filled(remote: Any, zarr_format: int) -> tuple[aiozarr.Group, set[str]]:
    held = await aiozarr.create_group(remote.held, zarr_format=zarr_format)
    for path in ("a", "g/b"):
        array = await held.create_array(path, shape=(2, 2), chunks=1, dtype="i4")
        await array[...].write(1)
    await held.create_array("many", shape=100_001, chunks=1, dtype="i4")
    await held.create_array("none", shape=(0, 1 << 40), chunks=1, dtype="i4")
    await aiozarr.consolidate_metadata(remote.held)
    return await aiozarr.open_group(remote, mode="r+"), set(await remote.held.list())


@FORMATS
async def test_a_store_that_cannot_list_refuses_an_incomplete_erasure(
    remote_with: Callable[..., Any], zarr_format: int
) -> None:
    remote = remote_with(listable=False)
    root, before = await _filled(remote, zarr_format)
    for name in ("g", "many"):
        with pytest.raises(aiozarr.UnsupportedOperationError, match="needs a listing"):
            await root.delete(name)
        with pytest.raises(aiozarr.UnsupportedOperationError, match="needs a listing"):
            await root.create_array(name, shape=1, dtype="i4", overwrite=True)
    with pytest.raises(aiozarr.UnsupportedOperationError, match="needs a listing"):
        await aiozarr.create_group(remote, zarr_format=zarr_format, overwrite=True)
    assert set(await remote.held.list()) == before
    assert (await aiozarr.open_group(remote)).metadata.consolidated is not None


@FORMATS
async def test_a_store_that_cannot_list_erases_arrays_by_the_keys_of_their_chunks(
    remote_with: Callable[..., Any], zarr_format: int
) -> None:
    remote = remote_with(listable=False)
    root, _ = await _filled(remote, zarr_format)
    await root.delete("none")
    await root.delete("g/b")
    assert not await remote.held.list_prefix("g/b/")
    array = await root.create_array("a", shape=(2, 2), chunks=1, dtype="i4", overwrite=True)
    assert (await array[...]).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(aiozarr.NodeNotFoundError):
        await root.delete("g/b")


async def test_an_unreadable_array_is_not_erased_in_part(remote_with: Callable[..., Any]) -> None:
    remote = remote_with(listable=False)
    root = await aiozarr.create_group(remote)
    await remote.held.set("a/zarr.json", b"{")
    with pytest.raises(aiozarr.UnsupportedOperationError, match="needs a listing"):
        await root.delete("a")
    assert await remote.held.exists("a/zarr.json")


async def test_a_missing_listing_is_an_error_before_anything_changes(remote_with: Callable[..., Any]) -> None:
    remote = remote_with(listable=False)
    root = await aiozarr.create_group(remote)
    with pytest.raises(aiozarr.UnsupportedOperationError, match="cannot list keys and therefore cannot show"):
        await root.tree()
    with pytest.raises(aiozarr.UnsupportedOperationError, match="cannot list keys and therefore cannot consolidate"):
        await aiozarr.consolidate_metadata(remote)
    assert await remote.held.get("zarr.json") is not None
    assert b"consolidated" not in bytes(await remote.held.get("zarr.json"))
