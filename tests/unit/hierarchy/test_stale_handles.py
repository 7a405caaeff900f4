"""Handles whose array was grown, cut or replaced since: nothing is lost, and nothing is read as something else."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.stores import LocalStore, MemoryStore, Store
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Call

LAYOUTS: list[dict[str, Any]] = [
    {"chunks": (4,)},
    {"chunks": (2,), "shards": (4,)},
    {"chunks": (4,), "zarr_format": 2},
    {"chunks": [[3, 4]]},
]


@pytest.fixture(params=LAYOUTS, ids=["regular", "sharded", "format 2", "rectilinear"])
def layout(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param  # type: ignore[no-any-return]


async def sample(store: Store, layout: dict[str, Any]) -> aiozarr.Array:
    return await aiozarr.create_array(store, "a", shape=(6,), dtype="i4", **layout)


async def other_handle(store: Store) -> aiozarr.Array:
    return await aiozarr.open_array(store, "a", mode="r+")


async def test_a_view_made_before_an_append_keeps_what_was_appended(store: Store, layout: dict[str, Any]) -> None:
    array = await sample(store, layout)
    view = array[4:6]
    await array.append([9, 9])
    await view.write(2)
    assert (await array[...]).tolist() == [0, 0, 0, 0, 2, 2, 9, 9]


async def test_a_handle_keeps_what_was_stored_through_another_one(store: Store, layout: dict[str, Any]) -> None:
    array = await sample(store, layout)
    await array[0:1].write(1)
    other = await other_handle(store)
    await other.resize(8)
    await other[6:8].write(9)
    await array[4:6].write(2)
    assert array.shape == (6,)
    assert (await other[...]).tolist() == [1, 0, 0, 0, 2, 2, 9, 9]


async def test_a_handle_keeps_what_another_process_has_appended(tmp_path: Path, layout: dict[str, Any]) -> None:
    array = await sample(LocalStore(tmp_path), layout)
    await array[0:1].write(1)
    code = f"import aiozarr.sync as z; z.open_array({str(tmp_path)!r}, 'a', mode='r+').append([9, 9])"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == 0
    await array[4:6].write(2)
    assert (await (await other_handle(array.store))[...]).tolist() == [1, 0, 0, 0, 2, 2, 9, 9]


async def test_a_write_outside_a_shape_that_this_process_has_cut_stores_nothing(
    store: Store, layout: dict[str, Any]
) -> None:
    array = await sample(store, layout)
    other = await other_handle(store)
    await other.resize(3)
    for view in (array[...], array[2:5], array.oindex[[5, 0]], array[5:0:-2], array.vindex[[3]]):
        with pytest.raises(aiozarr.ChangedError, match=r"now has the shape \(3,\)"):
            await view.write(5)
    await array[0:3].write(7)
    await other.resize(6)
    assert (await other[...]).tolist() == [7, 7, 7, 0, 0, 0]
    view = array[...]
    await array.refresh()
    await array.resize(2)
    with pytest.raises(aiozarr.ChangedError, match=r"now has the shape \(2,\)"):
        await view.write(1)


async def test_whole_chunks_inside_the_array_are_written_without_a_read() -> None:
    store = FakeStore(latency=0)
    array = await aiozarr.create_array(store, shape=(10,), dtype="i4", chunks=(4,))
    store.reset()
    await array[...].write(1)
    calls = sorted((call.key, call.operation) for call in store.calls)
    assert calls == [("c/0", "set"), ("c/1", "set"), ("c/2", "fetch"), ("c/2", "set")]


USES: dict[str, Callable[[aiozarr.Array], Awaitable[Any]]] = {
    "read": lambda array: array[...].read(),
    "read one": lambda array: array[0].read(),
    "read_many": lambda array: aiozarr.read_many([array]),
    "stream": lambda array: anext(array[...].stream()),
    "probe": lambda array: array[...].probe(),
    "write": lambda array: array[...].write(1),
    "append": lambda array: array.append([1]),
    "resize": lambda array: array.resize(8),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_a_handle_of_a_replaced_array_reads_and_writes_nothing(
    store: Store, use: Callable[[aiozarr.Array], Awaitable[Any]]
) -> None:
    array = await aiozarr.create_array(store, "g/a", shape=(4,), dtype="i4", chunks=(2,))
    await array[...].write(1)
    opened = await aiozarr.open_array(store, "g/a", mode="r+", settings=aiozarr.Settings(chunk_cache_bytes=1 << 20))
    await opened[...]
    new = await aiozarr.create_array(store, "g/a", shape=(4,), dtype="f4", chunks=(2,), overwrite=True)
    for handle in (array, opened):
        with pytest.raises(aiozarr.ChangedError, match=r"was replaced .* is now float32 of shape \(4,\)"):
            await use(handle)
    await use(new)
    await aiozarr.create_group(store, "g", overwrite=True)
    with pytest.raises(aiozarr.NodeNotFoundError):
        await use(new)
    await aiozarr.create_group(store, "g/a")
    with pytest.raises((aiozarr.ChangedError, aiozarr.NodeTypeError), match="a group"):
        await use(new)


async def test_a_handle_that_finds_its_array_replaced_by_another_process_tells_the_others(tmp_path: Path) -> None:
    created = await aiozarr.create_array(tmp_path, shape=(4,), dtype="i4", chunks=(2,))
    opened = await aiozarr.open_array(tmp_path, mode="r+")
    code = f"import aiozarr.sync as z; z.create_array({str(tmp_path)!r}, shape=4, dtype='f4', chunks=2, overwrite=True)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == 0
    for use in (opened[...].write, created[...].write, lambda _: opened[...].read(), lambda _: created[...].read()):
        with pytest.raises(aiozarr.ChangedError, match="is now float32"):
            await use(1)
    assert await opened.refresh()
    await opened[...].write(1.5)
    assert (await opened[...]).tolist() == [1.5] * 4


async def test_a_handle_of_an_array_that_was_made_again_reads_it(store: Store) -> None:
    array = await aiozarr.create_array(store, "a", shape=(4,), dtype="i4", chunks=(2,))
    again = await aiozarr.create_array(store, "a", shape=(4,), dtype="i4", chunks=(2,), overwrite=True)
    await again[...].write(3)
    assert (await array[...]).tolist() == [3] * 4


async def test_other_nodes_that_are_erased_cost_readers_nothing() -> None:
    store = FakeStore(latency=0)
    array = await aiozarr.create_array(store, "a", shape=(4,), dtype="i4", chunks=(2,))
    group = await aiozarr.create_group(store, "b")
    await group.create_array("c", data=[1])
    await group.delete("c")
    store.reset()
    await array[...]
    assert sorted(call.key for call in store.calls) == ["a/c/0", "a/c/1"]


@pytest.mark.parametrize("settings", [None, aiozarr.Settings(chunk_cache_bytes=1 << 20)])
async def test_appends_and_writes_at_once_lose_nothing(tmp_path: Path, settings: aiozarr.Settings | None) -> None:
    for number, store in enumerate([MemoryStore(), LocalStore(tmp_path)] * 8):
        path = f"a{number}"
        array = await aiozarr.create_array(store, path, shape=(6,), dtype="i4", chunks=(4,))
        other = await aiozarr.open_array(store, path, mode="r+", settings=settings)
        await asyncio.gather(array.append([9, 9]), other[4:6].write(2), array[3:6].write(2), other.append([9]))
        values = (await (await aiozarr.open_array(store, path))[...]).tolist()
        assert values == [0, 0, 0, 2, 2, 2, 9, 9, 9]


async def test_a_repeated_append_knows_its_growth_from_that_of_another_process() -> None:
    """Both store the same shape. The first one's request fails, and is repeated after the second one has appended."""
    one, two = FakeStore(latency=0), FakeStore(latency=0)
    two.memory = one.memory
    mine = await aiozarr.create_array(one, shape=(0,), chunks=(4,), dtype="i4")
    theirs = await aiozarr.open_array(two, mode="r+")
    has_failed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def fail_first(call: Call) -> aiozarr.ThrottledError | None:
        if call.operation != "set" or has_failed.is_set():
            return None
        loop.call_soon_threadsafe(has_failed.set)
        one.faults = lambda _: None
        return aiozarr.ThrottledError("slow down")

    async def append_theirs() -> None:
        await has_failed.wait()
        await theirs.append([2])

    one.faults = fail_first
    await asyncio.gather(mine.append([1]), append_theirs())
    assert sorted(await (await aiozarr.open_array(one))[...]) == [1, 2]
