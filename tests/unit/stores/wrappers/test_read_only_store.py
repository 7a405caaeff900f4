"""A read-only store sends no write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import UnsupportedOperationError
from aiozarr.stores import MemoryStore, ReadOnlyStore
from aiozarr.testing.fakes import FakeStore


async def test_no_write_reaches_the_inner_store() -> None:
    inner = FakeStore({"a/k": b"1"}, latency=0)
    store = ReadOnlyStore(inner)
    calls: Any = [
        lambda: store.set("a/k", b"2"),
        lambda: store.set_partial_values([("a/k", 0, b"2")]),
        lambda: store.erase("a/k"),
        lambda: store.erase_values(["a/k"]),
        lambda: store.erase_prefix("a/"),
    ]
    for call in calls:
        with pytest.raises(UnsupportedOperationError, match="read-only") as caught:
            await call()
        assert caught.value.store == store.url
    assert await store.probe_conditional_writes() is False
    assert inner.count == 0
    assert bytes(await store.get("a/k") or b"") == b"1"
    assert (store.supports.writeable, store.supports.conditional_writes) == (False, False)
    assert store.supports.listable


async def test_arrays_on_it_are_read_and_refuse_to_be_written() -> None:
    inner = MemoryStore()
    array = await aiozarr.create_array(inner, shape=4, dtype="i4", chunks=2)
    await array[...].write([1, 2, 3, 4])
    same = await aiozarr.open_array(ReadOnlyStore(inner), mode="r+")
    np.testing.assert_array_equal(await same[...], [1, 2, 3, 4])
    with pytest.raises(UnsupportedOperationError):
        await same[0].write(9)
    with pytest.raises(UnsupportedOperationError):
        await aiozarr.create_array(ReadOnlyStore(inner), "b", shape=4, dtype="i4")
