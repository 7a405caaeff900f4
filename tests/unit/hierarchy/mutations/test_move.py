"""Moving a node with everything below it: at no moment is an incomplete node visible at the destination."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
import aiozarr.sync
from aiozarr.errors import StoreError
from aiozarr.stores import LocalStore, Store

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])


@FORMATS
async def test_a_node_moves_with_everything_below_it(store: Store, zarr_format: int) -> None:
    root = await aiozarr.create_group(store, "r", zarr_format=zarr_format)
    array = await root.create_array("g/h/a", shape=4, dtype="i4", chunks=2, attributes={"n": 1})
    await array[...].write([1, 2, 3, 4])
    await root.create_group("gg")
    await root.move("g", "x/y")
    moved = await root.open("x/y/h/a")
    assert isinstance(moved, aiozarr.Array)
    assert (await moved[...]).tolist() == [1, 2, 3, 4]
    assert moved.attrs == {"n": 1}
    assert sorted([name async for name, _ in root.members(None)]) == ["gg", "x", "x/y", "x/y/h", "x/y/h/a"]
    await root.move("x/y/h/a", "a")
    assert (await root.open("a")).attrs == {"n": 1}


async def test_an_invalid_move_is_an_error_and_moves_nothing(store: Store) -> None:
    root = await aiozarr.create_group(store)
    await root.create_array("a", shape=4, dtype="i4")
    await root.create_group("g/h")
    before = sorted(await store.list())
    for source, dest, error in [
        ("none", "b", aiozarr.NodeNotFoundError),
        ("a", "g", aiozarr.NodeExistsError),
        ("g", "a/b", aiozarr.NodeTypeError),
        ("g", "g/x", ValueError),
        ("g/h", "g", ValueError),
        ("a", "a", ValueError),
        ("", "b", ValueError),
    ]:
        with pytest.raises(error):
            await root.move(source, dest)
    assert sorted(await store.list()) == before


@pytest.mark.parametrize(
    ("zarr_format", "failing"), [(3, "b/c/1"), (3, "b/zarr.json"), (2, "b/1"), (2, "b/.zarray"), (2, "b/.zattrs")]
)
async def test_a_failed_move_leaves_the_source_complete_and_no_node_at_the_destination(
    remote: Any, zarr_format: int, failing: str
) -> None:
    root = await aiozarr.create_group(remote, zarr_format=zarr_format)
    array = await root.create_array("a", shape=4, dtype="i4", chunks=2)
    await array[...].write([1, 2, 3, 4])
    failed: list[str] = []

    def fail(operation: str, key: str) -> None:
        if operation == "set" and key == failing:
            failed.append(key)
            raise StoreError("the disk is full")

    remote.hook = fail
    await asyncio.gather(root.move("a", "b"), return_exceptions=True)
    remote.hook = lambda operation, key: None
    assert failed
    with pytest.raises((aiozarr.NodeNotFoundError, aiozarr.NodeTypeError)):
        await aiozarr.open_array(remote, "b")
    assert (await (await aiozarr.open_array(remote, "a"))[...]).tolist() == [1, 2, 3, 4]


@FORMATS
@pytest.mark.parametrize("stray", ["b/9", "b/x/zarr.json", "b/.zgroup"])
async def test_objects_of_another_origin_at_the_destination_are_not_touched(
    store: Store, zarr_format: int, stray: str
) -> None:
    root = await aiozarr.create_group(store, zarr_format=zarr_format)
    array = await root.create_array("a", shape=4, dtype="i4", chunks=2)
    await array[...].write([1, 2, 3, 4])
    await store.set(stray, b"{}")
    before = sorted(await store.list())
    with pytest.raises(aiozarr.NodeExistsError):
        await root.move("a", "b")
    assert sorted(await store.list()) == before


@FORMATS
async def test_a_node_that_differs_in_one_chunk_or_has_more_is_another_node(store: Store, zarr_format: int) -> None:
    root = await aiozarr.create_group(store, zarr_format=zarr_format)
    for name, values in (("a", [1, 2, 3, 4]), ("b", [1, 2, 3, 5]), ("c", [1, 2, 0, 0])):
        array = await root.create_array(name, shape=4, dtype="i4", chunks=2, fill_value=0)
        await array[...].write(values)
    for source, dest in (("a", "b"), ("a", "c"), ("c", "a")):
        with pytest.raises(aiozarr.NodeExistsError):
            await root.move(source, dest)
    assert [(await (await aiozarr.open_array(store, name))[...]).tolist()[-1] for name in "abc"] == [4, 5, 0]


async def test_a_large_chunk_moves_in_parts_and_is_never_held_whole(tmp_path: Path) -> None:
    events: list[aiozarr.RequestEvent] = []
    settings = aiozarr.Settings(max_request_bytes=1000, on_event=events.append)
    values = np.arange(8500, dtype="u2").view("u1")[:8500]
    root = await aiozarr.create_group(LocalStore(tmp_path), settings=settings)
    await root.create_array("a", data=values, chunks=(8500,), codecs=["bytes"])
    events.clear()
    await root.move("a", "b")
    parts = [event.bytes_fetched for event in events if event.operation == "fetch" and event.key == "a/c/0"]
    assert (sum(parts), max(parts)) == (8500, 1000)
    assert (await (await aiozarr.open_array(tmp_path, "b"))[...]).tolist() == values.tolist()
    assert not (tmp_path / "a").exists()
