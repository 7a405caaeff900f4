"""The base of all parts of the suite: it creates stores, fills them, and runs each test in an event loop of its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, ClassVar, TypeVar

import pytest
from typing_extensions import Buffer

from aiozarr.errors import InvalidKeyError
from aiozarr.stores.contract import Store

T = TypeVar("T")

# fmt: off
INVALID_KEYS = (
    "", "/", "/a", "a/", "a//b", ".", "..", "./a", "../a", "a/..", "a/../b", "a/./b", "a\0b", "\udc80",
    "k" * 1025, "é" * 513,
)
INVALID_PREFIXES = ("a", "/", "/a/", "a//", "../", "./", "a/../", "a\0/", "\udc80/", "k" * 1025 + "/")
ODD_KEYS = (
    "with space", " ", "ü%20+", "%2F/%2e%2E", "#?&=;,", "a+b", "'\"`", "<x>&y", "back\\slash", "col:on", "*[!]",
    "🌍/🧊", "é", "e\u0301", "\u2028", "\x01\x7f", "-", "~", "a..b", "...", ".hidden", "c/0/0", "CON", "a@b", "$HOME",
    "line\nfeed", "tab\t", "n" * 200, "/".join("d" * 100 for _ in range(9)),
)
# fmt: on


class Base:
    """The attributes and methods that a subclass overrides.

    Attributes:
        store_name: the name of the store in tables of results. If empty, the name of the class after `Test`.
        server_name, server_version: the server of the store and its version, or empty strings.
        many_keys: the number of keys that the tests of pagination write, more than one page of a listing.
        big_bytes: the size of a big value in bytes.
        writers, increments: the number of tasks that increment one counter, and the increments of each.
        pickles: whether the store can be pickled, and the copy sees the same values.
        odd_keys: valid but unusual keys. Leave out keys that the backend cannot store.
    """

    store_name: ClassVar[str] = ""
    server_name: ClassVar[str] = ""
    server_version: str = ""
    many_keys: ClassVar[int] = 1100
    big_bytes: ClassVar[int] = 20 << 20
    writers: ClassVar[int] = 6
    increments: ClassVar[int] = 4
    pickles: ClassVar[bool] = True
    odd_keys: ClassVar[tuple[str, ...]] = ODD_KEYS

    async def make_store(self) -> Store:
        """Return a new store with nothing in it; it may be called several times in one test."""
        raise NotImplementedError("a subclass of StoreConformance must implement make_store")

    async def put(self, store: Store, key: str, data: Buffer) -> None:
        """Store `data`. A store that cannot be written to overrides this to store it past the store itself."""
        await store.set(key, data)

    async def put_all(self, store: Store, values: dict[str, bytes]) -> None:
        """Bring in many values, some at a time."""
        pending = iter(values.items())

        async def work() -> None:
            for key, data in pending:
                await self.put(store, key, data)

        await asyncio.gather(*(work() for _ in range(16)))


def needs(store: Store, *abilities: str) -> None:
    """Skip the test where the store does not claim these flags of `supports`."""
    for ability in abilities:
        if not getattr(store.supports, ability):
            pytest.skip(f"{type(store).__name__} does not support {ability}")


def conforms(*abilities: str) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """Make a coroutine `test(self, store, ...)` a plain test in a new loop, which must leave no unfinished task.

    It is skipped if the store does not claim one of the `abilities`, which are flags of `supports`.
    """

    def decorate(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        @wraps(test)
        def run(self: Base, **arguments: Any) -> None:
            async def main() -> None:
                store = await self.make_store()
                try:
                    needs(store, *abilities)
                    await test(self, store, **arguments)
                finally:
                    await store.aclose()
                await no_task_is_left()

            asyncio.run(main())

        parameters = [one for name, one in inspect.signature(test).parameters.items() if name != "store"]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what pytest reads fixtures from
        return run

    return decorate


async def assert_refused(invalid: str, *operations: Callable[[], Awaitable[object]]) -> None:
    """Assert that each operation raises `InvalidKeyError` for the key or prefix `invalid`."""
    for number, operation in enumerate(operations):
        try:
            await operation()
        except InvalidKeyError:
            continue
        raise AssertionError(f"operation {number} accepts the invalid key or prefix {invalid!a}")


async def no_task_is_left() -> None:
    """See that the current task is the only one, after the turns of the loop that ending tasks take."""
    for _ in range(20):
        if len(asyncio.all_tasks()) == 1:
            return
        await asyncio.sleep(0)
    for _ in range(50):  # a thread's result, or closing a transport, needs real time
        if len(asyncio.all_tasks()) == 1:
            return
        await asyncio.sleep(0.02)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    raise AssertionError(f"tasks are still running: {others}")


async def read(store: Store, key: str) -> bytes | None:
    """Return the value of `key` as bytes."""
    data = await store.get(key)
    return None if data is None else bytes(memoryview(data))
