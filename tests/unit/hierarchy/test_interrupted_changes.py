"""What a failed append says about the array; `tests/faults/test_nth_failure.py` interrupts all other changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import StoreError
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore, FaultyStore
from aiozarr.testing.faults import LoseResponse, on_operation


async def test_an_append_whose_growth_is_unknown_says_so() -> None:
    store = FaultyStore(MemoryStore())
    array = await aiozarr.create_array(store, shape=14, dtype="i4", chunks=4)
    store.faults = on_operation("set", LoseResponse(StoreError("its answer was lost")), times=1)
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
