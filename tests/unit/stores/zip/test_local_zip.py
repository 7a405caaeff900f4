"""A closed archive is complete and readable. An abandoned store writes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import aiozarr
from aiozarr.errors import UnsupportedOperationError
from aiozarr.stores import ZipStore
from aiozarr.stores.zip.zip_store import ZipMode
from tests.support.zip_archives import read


@pytest.mark.parametrize("mode", ["w", "x", "a"])
async def test_a_closed_archive_is_read_and_refuses_to_be_written(tmp_path: Path, mode: ZipMode) -> None:
    path = tmp_path / "x.zip"
    store = ZipStore(path, mode)
    await store.set("a", b"1")
    await store.aclose()
    before = path.read_bytes()
    writes: list[Callable[[], Awaitable[object]]] = [
        lambda: store.set("b", b"2"),
        lambda: store.erase("a"),
        lambda: store.erase_values(["a"]),
        lambda: store.set_partial_values([("a", 0, b"2")]),
    ]
    for write in writes:
        with pytest.raises(UnsupportedOperationError, match=r"was closed.*open it again"):
            await write()
    assert await read(store, "a") == b"1"
    await store.aclose()
    assert path.read_bytes() == before
    again = ZipStore(path, "a")
    await again.set("b", b"2")
    await again.aclose()
    assert await read(store, "b") == b"2"


async def test_a_child_refuses_to_be_written_once_its_group_has_closed_the_archive(tmp_path: Path) -> None:
    async with await aiozarr.create_group(tmp_path / "x.zip") as group:
        array = await group.create_array("a", shape=(2,), dtype="int32")
        await array[...].write(1)
    with pytest.raises(UnsupportedOperationError, match=r"was closed.*open it again"):
        await array[...].write(2)
    assert (await array[...]).tolist() == [1, 1]


async def test_a_change_of_a_node_by_its_url_updates_consolidated_metadata_above_in_the_archive(tmp_path: Path) -> None:
    group = await aiozarr.create_group(tmp_path / "x.zip")
    await group.create_array("a/b", data=[1, 2])
    await aiozarr.consolidate_metadata(group.store)
    await group.store.aclose()
    async with await aiozarr.open_array(tmp_path / "x.zip/a/b", mode="r+") as array:
        await array.append([3])
    async with await aiozarr.open_group(tmp_path / "x.zip") as group:
        assert group.metadata.consolidated is not None
        found = await group.open("a/b")
        assert isinstance(found, aiozarr.Array)
        assert found.shape == (3,)
