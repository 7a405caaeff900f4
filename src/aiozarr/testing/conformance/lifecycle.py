"""The lifecycle of a store: identity, loops, threads, pickles, cancellation, closing; and the whole suite."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aiozarr.model import Range
from aiozarr.stores.contract import Store
from aiozarr.testing.conformance.base import Base, conforms, needs, read
from aiozarr.testing.conformance.reading import Listing, Reading
from aiozarr.testing.conformance.writing import Conditions, Writing


class Lifecycle(Base):
    """Statements about a store as an object."""

    @conforms()
    async def test_a_store_equals_itself_and_not_another(self, store: Store) -> None:
        assert store == store
        assert hash(store) == hash(store)
        assert store != object()
        assert isinstance(store.url, str)
        assert "://" in store.url
        hash(store.origin)
        hash(store.identity)
        assert repr(store)

    @conforms()
    async def test_closing_twice_is_no_error(self, store: Store) -> None:
        await self.put(store, "a", b"1")
        await store.get("a")
        await store.aclose()
        await store.aclose()

    @conforms()
    async def test_a_store_is_an_async_context_manager(self, store: Store) -> None:
        await self.put(store, "a", b"1")
        async with store as entered:
            assert entered is store
            assert await read(store, "a") == b"1"

    @conforms()
    async def test_a_pickled_store_is_the_same_store(self, store: Store) -> None:
        if not self.pickles:
            pytest.skip(f"{type(store).__name__} does not pickle")
        await self.put(store, "a/b", b"1")
        clone = pickle.loads(pickle.dumps(store))
        try:
            assert clone == store
            assert hash(clone) == hash(store)
            assert clone.url == store.url
            assert clone.supports == store.supports
            assert await read(clone, "a/b") == b"1"
        finally:
            await clone.aclose()

    def test_a_store_works_in_one_event_loop_after_another(self) -> None:
        async def begin() -> Store:
            store = await self.make_store()
            await self.put(store, "a/b", b"123")
            assert await read(store, "a/b") == b"123"
            return store

        async def go_on(store: Store) -> None:
            assert await asyncio.gather(*(read(store, "a/b") for _ in range(5))) == [b"123"] * 5
            if store.supports.writable:
                await store.set("a/c", b"456")
                assert await read(store, "a/c") == b"456"

        store = asyncio.run(begin())
        asyncio.run(go_on(store))
        asyncio.run(go_on(store))
        asyncio.run(store.aclose())

    def test_a_store_works_in_the_loops_of_several_threads_at_once(self) -> None:
        async def begin() -> Store:
            store = await self.make_store()
            await self.put(store, "a/b", b"0123456789")
            return store

        async def work(number: int) -> None:
            for step in range(10):
                value = await store.fetch("a/b", Range(number, 4))
                assert value is not None
                assert bytes(memoryview(value.data)) == b"0123456789"[number : number + 4]
                if store.supports.writable:
                    await store.set(f"t/{number}", b"%d" % step)
                    assert await read(store, f"t/{number}") == b"%d" % step

        store = asyncio.run(begin())
        with ThreadPoolExecutor(4) as threads:
            for done in [threads.submit(asyncio.run, work(number)) for number in range(4)]:
                done.result()
        asyncio.run(store.aclose())

    @pytest.mark.parametrize("operation", ["fetch", "part", "set", "erase", "list"])
    @conforms()
    async def test_a_cancelled_operation_leaves_the_store_usable(self, store: Store, operation: str) -> None:
        """Cancelled at any of its first turns; a write is then done or not done, never half done."""
        if operation in ("set", "erase"):
            needs(store, "writable")
        if operation == "list":
            needs(store, "listable")
        old, new = b"o" * 300_000, b"n" * 200_000
        start: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "fetch": lambda: store.fetch("a/b"),
            "part": lambda: store.fetch("a/b", Range(1000, 250_000)),
            "set": lambda: store.set("a/b", new),
            "erase": lambda: store.erase("a/b"),
            "list": store.list,
        }
        allowed: dict[str, set[bytes | None]] = {"set": {old, new}, "erase": {old, None}}
        for turns in (0, 1, 2, 3, 5, 10, 30):
            await self.put(store, "a/b", old)
            task = asyncio.create_task(start[operation]())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            ended = await asyncio.gather(task, return_exceptions=True)
            assert not isinstance(ended[0], Exception)
            assert await read(store, "a/b") in allowed.get(operation, {old})

    @conforms()
    async def test_many_cancelled_reads_leave_nothing_behind(self, store: Store) -> None:
        await self.put(store, "a/b", b"x" * 100_000)
        tasks = [asyncio.create_task(store.fetch("a/b")) for _ in range(40)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for value in ended[1::2]:
            assert not isinstance(value, BaseException)
            assert value is not None
            assert memoryview(value.data).nbytes == 100_000
        assert await read(store, "a/b") == b"x" * 100_000


class StoreConformance(Reading, Writing, Conditions, Listing, Lifecycle):
    """Every statement of the store contract as a test; a subclass overrides attributes of `conformance.base.Base`."""
