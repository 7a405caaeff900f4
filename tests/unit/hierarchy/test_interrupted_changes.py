"""Changes of a shape whose N-th call of the store fails: the array stays readable, and the repeat completes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import StoreError
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Call, Delay

Change = Callable[[aiozarr.Array], Coroutine[Any, Any, object]]

CHANGES: dict[str, Change] = {
    "grow": lambda array: array.resize(16),
    "grow and clear": lambda array: array.resize(16, clear=True),
    "cut": lambda array: array.resize(3),
    "cut and keep": lambda array: array.resize(3, delete_chunks=False),
    "append": lambda array: array.append(np.arange(100, 107, dtype="i4")),
}


class FailingStore(FakeStore):
    """Fails its `failing`-th call: before its effect, after it, or by hanging until the caller is cancelled."""

    failing = 0
    kind = ""
    calls_so_far = 0
    hung: Callable[[], object] = staticmethod(lambda: None)

    async def _interrupted(self, call: Coroutine[Any, Any, Any]) -> Any:
        self.calls_so_far += 1
        if self.calls_so_far != self.failing:
            return await call
        if self.kind == "before":
            call.close()
            raise StoreError("refused")
        if self.kind == "hang":
            call.close()
            self.hung()
            await asyncio.sleep(1000)
        await call
        raise StoreError("its answer was lost")


def _wrapped(name: str) -> Any:
    original = getattr(FakeStore, name)

    async def method(self: FailingStore, *args: Any, **kwargs: Any) -> Any:
        return await self._interrupted(original(self, *args, **kwargs))

    return method


for _name in ("set", "erase", "erase_if_match", "stat"):
    setattr(FailingStore, _name, _wrapped(_name))


async def stored_array(store: FakeStore, *, is_stale: bool) -> None:
    """Store 14 elements in chunks of 4. `is_stale`: the array has 5 of them, and the others lie behind its end."""
    array = await aiozarr.create_array(store, shape=(14,), dtype="i4", chunks=(4,))
    await array[...].write(9)
    if is_stale:
        await array.resize(5, delete_chunks=False)


async def outcome(name: str, failing: int = 0, kind: str = "") -> tuple[int, MemoryStore]:
    """Interrupt the change at one call, check that the array is readable, repeat it, and return calls and store."""
    store, change = FailingStore(latency=0), CHANGES[name]
    await stored_array(store, is_stale="cut" not in name)
    array = await aiozarr.open_array(store, mode="r+")
    task = asyncio.ensure_future(change(array))
    loop = asyncio.get_running_loop()
    store.calls_so_far, store.failing, store.kind = 0, failing, kind
    store.hung = lambda: loop.call_soon_threadsafe(task.cancel)  # it hangs on the I/O thread
    await asyncio.wait([task])
    calls, store.failing = store.calls_so_far, 0
    again = await aiozarr.open_array(store, mode="r+")
    before = await again[...]
    assert before[:3].tolist() == [9, 9, 9]
    if task.cancelled() or task.exception() is not None:
        await change(again)
    return calls, store.memory


async def contents(store: MemoryStore) -> dict[str, bytes]:
    return {key: bytes(await store.get(key) or b"") for key in await store.list()}


@pytest.mark.filterwarnings("ignore::aiozarr.StaleDataWarning")
@pytest.mark.parametrize("name", CHANGES)
async def test_the_repeat_gives_what_a_clean_run_gives(name: str) -> None:
    count, clean = await outcome(name)
    expected = await contents(clean)
    assert count >= 1
    for kind in ("before", "after", "hang"):
        # If the outcome of its first call is unknown, an append cannot know its own growth from another writer's.
        for number in range(2 if (name, kind) == ("append", "after") else 1, count + 1):
            assert await contents((await outcome(name, number, kind))[1]) == expected, (kind, number)


async def test_an_append_whose_growth_is_unknown_says_so() -> None:
    store = FailingStore(latency=0)
    await stored_array(store, is_stale=False)
    array = await aiozarr.open_array(store, mode="r+")
    store.calls_so_far, store.failing, store.kind = 0, 1, "after"
    with pytest.raises(StoreError, match="its answer was lost") as caught:
        await array.append(np.zeros(2, "i4"))
    assert "may have grown from 14 to 16" in str(caught.value.__notes__)


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
