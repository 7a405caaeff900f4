"""A cache of chunks stays within its bytes, and never returns values that its own writes have replaced."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import StoreError
from aiozarr.model import Range, Version
from aiozarr.stores import CachingTransformer, MemoryStore


class Counted(MemoryStore):
    """Counts what is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.fails = False

    def fetch_now(self, key: str, range: Any = None, *, if_match: Any = None) -> Any:
        self.fetched.append(key)
        return super().fetch_now(key, range, if_match=if_match)

    def set_now(self, key: str, value: Any, *, precondition: Any = None) -> Version:
        version = super().set_now(key, value, precondition=precondition)
        if self.fails:
            raise StoreError("the answer was lost")
        return version


async def test_a_cached_value_is_not_fetched_again() -> None:
    store, cache = Counted(), CachingTransformer(1 << 20)
    array = await aiozarr.create_array(store, shape=(40, 3), dtype="i4", chunks=(2, 3), shards=(20, 3))
    await array[...].write(np.arange(120).reshape(40, 3))
    cached = array.with_storage_transformer(cache)
    first = await cached[:30]
    store.fetched.clear()
    np.testing.assert_array_equal(await cached[:30], first)
    assert store.fetched == []
    assert cache.nbytes > 0
    assert (await cached[39]).tolist() == [117, 118, 119]


async def test_own_writes_are_seen_and_so_are_those_that_seem_to_fail() -> None:
    store, cache = Counted(), CachingTransformer()
    array = (await aiozarr.create_array(store, shape=4, dtype="i4", chunks=2, fill_value=9)).with_storage_transformer(
        cache
    )
    await array[...].write([1, 2, 3, 4])
    assert (await array[...]).tolist() == [1, 2, 3, 4]
    await array[1:3].write(7)
    assert (await array[...]).tolist() == [1, 7, 7, 4]
    await array.resize(2)
    await array.resize(4)
    assert (await array[...]).tolist() == [1, 7, 9, 9]
    store.fails = True
    wrapped = array._chunk_store
    with pytest.raises(StoreError):
        await wrapped.set("c/0", b"new")
    store.fails = False
    assert bytes(await wrapped.get("c/0") or b"") == b"new"
    await wrapped.erase_prefix("c/")
    assert await wrapped.get("c/0") is None


async def test_the_bytes_are_bounded_and_evicted_by_least_recent_use() -> None:
    store, cache = Counted(), CachingTransformer(250)
    wrapped = cache.wrap(store, "")
    for key in "abc":
        await store.set(key, bytes(100))
    for key in ("a", "b", "a", "c", "a"):
        await wrapped.get(key)
    assert cache.nbytes == 200
    assert store.fetched == ["a", "b", "c"]
    await store.set("large", bytes(1000))
    await wrapped.get("large")
    assert cache.nbytes == 200
    cache.forget()
    assert cache.nbytes == 0


async def test_a_definite_version_is_never_answered_with_another_one() -> None:
    store, cache = Counted(), CachingTransformer()
    wrapped = cache.wrap(store, "")
    old = await store.set("a", b"old")
    assert bytes((await wrapped.get("a")) or b"") == b"old"
    new = await store.set("a", b"new!")
    assert bytes((await wrapped.fetch("a", if_match=new)).data) == b"new!"  # type: ignore[union-attr]
    with pytest.raises(aiozarr.ChangedError):
        await wrapped.fetch("a", Range(0, 1), if_match=old)


async def test_a_fetch_that_a_write_overtakes_is_not_kept() -> None:
    gate = threading.Event()

    class Slow(Counted):
        async def fetch(self, key: str, range: Any = None, *, if_match: Any = None) -> Any:
            value = self.fetch_now(key, range)
            while not gate.is_set():
                await asyncio.sleep(0)
            return value

    store, cache = Slow(), CachingTransformer()
    wrapped = cache.wrap(store, "")
    await wrapped.set("a", b"old")
    reading = asyncio.create_task(wrapped.fetch("a"))
    await asyncio.sleep(0)
    await wrapped.set("a", b"new")
    gate.set()
    await reading
    assert bytes((await wrapped.get("a")) or b"") == b"new"


@pytest.mark.parametrize(("given", "error"), [(0, ValueError), ("1", TypeError), (True, TypeError)])
def test_an_invalid_size_is_an_error(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        CachingTransformer(given)
    with pytest.raises(aiozarr.InvalidMetadataError):
        CachingTransformer.from_json({"max_bytes": given})
    assert CachingTransformer.from_json({"max_bytes": 5}).to_json() == {"max_bytes": 5}
