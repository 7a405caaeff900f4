"""What a failed append says about the array; `tests/faults/test_nth_failure.py` interrupts all other changes."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import StoreError
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore, FaultyStore
from aiozarr.testing.faults import Call, Delay, LoseResponse, on_operation


@pytest.mark.parametrize("zarr_format", [1, 2, 3])
async def test_an_append_takes_its_growth_back_if_the_response_to_it_was_lost(zarr_format: int) -> None:
    store = FaultyStore(MemoryStore())
    array = await aiozarr.create_array(store, shape=14, dtype="i4", chunks=4, zarr_format=zarr_format)
    lost = LoseResponse(StoreError("its answer was lost"))
    store.faults = on_operation("set", lost, times=1)
    with pytest.raises(StoreError, match="its answer was lost") as caught:
        await array.append(np.zeros(2, "i4"))
    assert not hasattr(caught.value, "__notes__")
    assert array.shape == (await aiozarr.open_array(store)).shape == (14,)


async def test_a_growth_that_may_be_that_of_another_writer_is_left_to_it() -> None:
    store = MemoryStore()
    other = await aiozarr.create_array(store, shape=(4,), dtype="i4", chunks=(4,))

    class Overtaken(FakeStore):
        async def set(self, key: str, *args: Any, **kwargs: Any) -> Any:
            if key == "zarr.json":
                await other.append([7, 7])
                raise StoreError("its answer was lost", retryable=True)
            return await super().set(key, *args, **kwargs)

    losing = Overtaken(latency=0)
    losing.memory = store
    array = await aiozarr.open_array(losing, mode="r+", settings=aiozarr.Settings(retries=0))
    with pytest.raises(StoreError, match="its answer was lost") as caught:
        await array.append([7, 7])
    assert "may have grown from 4 to 6" in str(caught.value.__notes__)
    await other.refresh()
    assert (await other[...]).tolist() == [0, 0, 0, 0, 7, 7]


async def test_an_append_whose_growth_is_unknown_says_so() -> None:
    store = FaultyStore(MemoryStore())
    array = await aiozarr.create_array(store, shape=14, dtype="i4", chunks=4)

    def lose(call: Call) -> LoseResponse | None:
        if call.operation != "set":
            return None
        store.faults = lambda call: StoreError("gone") if call.operation == "fetch" else None
        return LoseResponse(StoreError("its answer was lost"))

    store.faults = lose
    with pytest.raises(StoreError, match="its answer was lost") as caught:
        await array.append(np.zeros(2, "i4"))
    assert "may have grown from 14 to 16 (gone" in str(caught.value.__notes__)


@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_an_append_that_cannot_rewrite_consolidated_metadata_is_taken_back(zarr_format: int) -> None:
    store = FaultyStore(MemoryStore())
    group = await aiozarr.create_group(store, zarr_format=zarr_format)
    array = await group.create_array("a", shape=14, dtype="i4", chunks=4)
    await aiozarr.consolidate_metadata(store)
    written: list[str] = []

    def refuse(call: Call) -> StoreError | None:
        if call.operation != "set" or "refused" in written:
            return None
        is_after = any(key.startswith("a/") for key in written) and not call.key.startswith("a/")
        written.append("refused" if is_after else call.key)
        return StoreError("refused") if is_after else None

    store.faults = refuse
    with pytest.raises(StoreError, match="refused") as caught:
        await array.append(np.ones(2, "i4"))
    assert not hasattr(caught.value, "__notes__")
    assert array.shape == (await aiozarr.open_array(store, "a")).shape == (14,)


async def test_a_failed_append_says_what_it_leaves_where_others_have_appended_since() -> None:
    store = MemoryStore()
    array = await aiozarr.create_array(store, shape=(4,), dtype="i4", chunks=(4,))
    other = await aiozarr.open_array(store, mode="r+")

    class Interrupting(FakeStore):
        async def set(self, key: str, *args: Any, **kwargs: Any) -> Any:
            if key.startswith("c/1"):
                await other.append([7])
                raise StoreError("refused")
            return await super().set(key, *args, **kwargs)

    failing = Interrupting(latency=0)
    failing.memory = store
    array = await aiozarr.open_array(failing, mode="r+")
    with pytest.raises(StoreError, match="refused") as caught:
        await array.append([5, 5])
    [note] = [note for note in caught.value.__notes__ if "cut" in note]
    assert "from 4 to 6 hold some of the appended values and the fill value" in note
    await other.refresh()
    assert (await other[...]).tolist() == [0, 0, 0, 0, 0, 0, 7]


async def test_a_cancelled_append_does_not_wait_for_a_store_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.hierarchy.array.CUT_SECONDS", 0.05)
    store = FakeStore(latency=0)
    array = await aiozarr.create_array(store, shape=(4,), dtype="i4", chunks=(4,))
    task = asyncio.ensure_future(array.append([1]))
    loop = asyncio.get_running_loop()

    def hang(call: Call) -> Delay | None:
        if call.key != "c/1":
            return None
        store.faults = lambda _: Delay(1000)
        loop.call_soon_threadsafe(task.cancel)
        return Delay(1000)

    store.faults = hang
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert "hold some of the appended values and the fill value (it took more than 0.05" in str(caught.value.__notes__)


async def test_a_creation_that_stored_the_attributes_alone_is_completed_by_its_repeat() -> None:
    store = MemoryStore()
    await aiozarr.create_group(store, "g", attributes={"a": 1}, zarr_format=2)
    await store.erase("g/.zgroup")
    with pytest.raises(aiozarr.NodeExistsError):
        await aiozarr.create_group(store, "g", attributes={"a": 2}, zarr_format=2)
    group = await aiozarr.create_group(store, "g", attributes={"a": 1}, zarr_format=2)
    assert dict(group.attrs) == {"a": 1}


@pytest.mark.parametrize("is_in_group", [False, True])
async def test_a_creation_whose_data_cannot_be_written_says_what_it_leaves(is_in_group: bool) -> None:
    store = FaultyStore(MemoryStore())
    group = await aiozarr.create_group(store)
    create = group.create_array if is_in_group else partial(aiozarr.create_array, store)
    store.faults = lambda call: StoreError("refused") if call.key == "a/c/1" else None
    with pytest.raises(StoreError, match="refused") as caught:
        await create("a", data=[5, 6], chunks=1)
    [note] = caught.value.__notes__
    assert note.startswith(f"{store.url}/a was created")
    store.faults = None
    again = await create("a", data=[5, 6], chunks=1, overwrite=True)
    assert (await again[...]).tolist() == [5, 6]
