"""Stores that count their calls and make them fail as planned: one in memory with latency, and one around any store.

`FakeStore` sleeps with `asyncio.sleep` and so fits `aiozarr.testing.virtual_time`, where tests state facts instead of
seconds: "512 calls, never more than 64 in flight, 8 rounds". `FaultyStore` shows the state that an operation leaves
behind if its N-th call fails, for every N: count the calls of a run without faults, then repeat it with `nth(number,
action)` for each.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from typing_extensions import Buffer

from aiozarr.model import ByteRange, Entry, Precondition, Supports, Value, Version, check_key, check_prefix
from aiozarr.stores.capabilities import FetchCallback, NowaitStore, PendingFetch
from aiozarr.stores.contract import Store, byte_view, check_max_bytes, takes_max_bytes
from aiozarr.stores.memory_store import MemoryStore
from aiozarr.stores.wrapper_store import WrapperStore, entries_of
from aiozarr.testing.faults import Action, Call, Corrupt, Delay, Hang, LoseResponse, Plan

__all__ = ["FakeStore", "FaultyStore"]


class _CountedCalls:
    """The calls of a store, and the faults that happen to them."""

    def __init__(self, faults: Plan | None, *, latency: float = 0.0, bandwidth: float | None = None) -> None:
        self.latency = latency
        self.bandwidth = bandwidth
        self.faults = faults
        self.calls: list[Call] = []
        self.in_flight = 0
        self.max_in_flight = 0

    @property
    def count(self) -> int:
        """How many calls there were."""
        return len(self.calls)

    @property
    def rounds(self) -> int:
        """At how many different times calls started: the round trips a read took, where all calls take equally long."""
        return len({call.started for call in self.calls})

    @property
    def nbytes(self) -> int:
        """How many bytes were read and written."""
        return sum(call.nbytes for call in self.calls)

    def log(self, operation: str = "fetch") -> list[tuple[str, ByteRange | None]]:
        """Return key and range of each call of `operation`."""
        return [(call.key, call.range) for call in self.calls if call.operation == operation]

    def reset(self) -> None:
        """Forget the calls so far."""
        self.calls.clear()
        self.max_in_flight = self.in_flight

    @asynccontextmanager
    async def _call(self, operation: str, key: str, range: ByteRange | None = None) -> AsyncIterator[_AtWork]:
        call = Call(len(self.calls) + 1, operation, key, range, asyncio.get_running_loop().time())
        self.calls.append(call)
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            action = None if self.faults is None else self.faults(call)
            await asyncio.sleep(self.latency + (action.seconds if isinstance(action, Delay) else 0.0))
            if isinstance(action, Exception):
                raise copy.copy(action)
            if isinstance(action, Hang) and not action.takes_effect:
                await action.hang()
            yield _AtWork(call, action, self.bandwidth)
            if isinstance(action, Hang):
                await action.hang()
            if isinstance(action, LoseResponse):
                raise copy.copy(action.error)
        except BaseException as error:
            call.error = error
            raise
        finally:
            call.ended = asyncio.get_running_loop().time()
            self.in_flight -= 1


class FakeStore(_CountedCalls, NowaitStore):
    """A store in memory. Each call takes `latency` seconds, plus its bytes divided by `bandwidth` (bytes per second).

    Attributes:
        sends_nowait: Whether `_fetch_nowait` sends reads without a task, as a store with an idle connection does.
        calls: every call, in the order in which they started.
        in_flight, max_in_flight: the current and the highest number of unfinished calls.
        faults: the plan of faults; may be replaced at any time.
        memory: the store of the values, which a test may read and change.
    """

    sends_nowait = False

    def __init__(
        self,
        values: Mapping[str, Buffer] | None = None,
        *,
        latency: float = 0.01,
        bandwidth: float | None = None,
        versions: bool = True,
        faults: Plan | None = None,
        supports: Supports | None = None,
        origin: Hashable = None,
        page_size: int = 1000,
    ) -> None:
        self.memory = MemoryStore()
        for key, data in (values or {}).items():
            self.memory.set_now(key, data)
        self.supports = supports or replace(
            self.memory.supports,
            conditional_reads=versions,
            conditional_writes=versions,
            conditional_erases=versions,
            bounded_reads=takes_max_bytes(type(self)),
        )
        super().__init__(faults, latency=latency, bandwidth=bandwidth)
        self._versions = versions
        self._origin = origin
        self._page_size = page_size

    @property
    def url(self) -> str:
        return self.memory.url.replace("memory:", "fake:", 1)

    @property
    def origin(self) -> Hashable:
        return self.identity if self._origin is None else self._origin

    # --- the contract --------------------------------------------------------------------------------------------

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        check_key(key, store=self.url)
        async with self._call("fetch", key, range) as at_work:
            value = self.memory.fetch_now(key, range, if_match=if_match if self._versions else None)
            if value is None:
                return None
            value = at_work.spoilt(value if self._versions else replace(value, version=None))
            check_max_bytes(memoryview(value.data).nbytes, max_bytes, store=self.url, key=key, range=range)
            await at_work.transfer(memoryview(value.data).nbytes)
            return value

    def _fetch_nowait(
        self,
        key: str,
        range: ByteRange | None,
        if_match: Version | None,
        callback: FetchCallback,
        *,
        max_bytes: int | None = None,
    ) -> PendingFetch | None:
        check_key(key, store=self.url)
        bound = {} if max_bytes is None else {"max_bytes": max_bytes}
        send = partial(self.fetch, key, range, if_match=if_match, **bound)
        return _Sent(send, callback) if self.sends_nowait else None

    async def stat(self, key: str) -> Entry | None:
        check_key(key, store=self.url)
        async with self._call("stat", key):
            value = self.memory.fetch_now(key)
            return None if value is None else Entry(key, value.size, value.version if self._versions else None)

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        check_key(key, store=self.url)
        data = bytes(byte_view(value))
        async with self._call("set", key) as at_work:
            await at_work.transfer(len(data))
            version = self.memory.set_now(key, data, precondition=precondition)
            return version if self._versions else None

    async def erase(self, key: str) -> None:
        check_key(key, store=self.url)
        async with self._call("erase", key):
            self.memory.erase_now(key)

    async def erase_if_match(self, key: str, version: Version) -> None:
        check_key(key, store=self.url)
        async with self._call("erase", key):
            self.memory.erase_if_match_now(key, version)

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        check_prefix(prefix, store=self.url)
        first = 0
        while True:
            async with self._call("list", prefix):
                entries = [entry async for entry in self.memory.scan(prefix)]
            page = sorted(entries, key=lambda entry: entry.key)[first : first + self._page_size]
            for entry in page:
                yield entry if self._versions else replace(entry, version=None)
            first += len(page)
            if first >= len(entries):
                return

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        check_prefix(prefix, store=self.url)
        async with self._call("list", prefix):
            return await self.memory.list_dir(prefix)


class FaultyStore(_CountedCalls, WrapperStore):
    """A store around another store, whose calls fail as planned.

    Several keys are erased by one call each, so that a fault leaves some of them. It has its own identity: through a
    new `FaultyStore` around the same store, an operation sees the state that another process would see. Closing it
    leaves the store open.

    Args:
        store: the store of the values.
        faults: the plan of faults; may be replaced at any time.

    Attributes:
        calls: every call, in the order in which they started.
        in_flight, max_in_flight: the current and the highest number of unfinished calls.
    """

    def __init__(self, store: Store, faults: Plan | None = None) -> None:
        WrapperStore.__init__(self, store)
        _CountedCalls.__init__(self, faults)
        self._process = object()

    @property
    def identity(self) -> Hashable:
        """An identity that differs from the inner store's."""
        return (FaultyStore, self._process, self._store.identity)

    def object_identity(self, key: str) -> Hashable:
        """Return the inner store's identity of the object, for this store alone."""
        return (FaultyStore, self._process, self._store.object_identity(key))

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        async with self._call("fetch", key, range) as at_work:
            value = await super().fetch(key, range, if_match=if_match, max_bytes=max_bytes)
            return None if value is None else at_work.spoilt(value)

    async def stat(self, key: str) -> Entry | None:
        async with self._call("stat", key):
            return await super().stat(key)

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        async with self._call("set", key):
            return await super().set(key, value, precondition=precondition)

    async def erase(self, key: str) -> None:
        async with self._call("erase", key):
            await super().erase(key)

    async def erase_if_match(self, key: str, version: Version) -> None:
        async with self._call("erase", key):
            await super().erase_if_match(key, version)

    async def erase_values(self, keys: Iterable[str]) -> None:
        for key in keys:
            await self.erase(key)

    async def erase_prefix(self, prefix: str) -> None:
        await self.erase_values([entry.key async for entry in self.scan(prefix)])

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        async with self._call("list", prefix), entries_of(self._store, prefix) as entries:
            async for entry in entries:
                yield entry

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        async with self._call("list", prefix):
            return await super().list_dir(prefix)

    async def aclose(self) -> None:
        """Leave the inner store open."""


@dataclass(frozen=True)
class _AtWork:
    call: Call
    action: Action
    bandwidth: float | None

    def spoilt(self, value: Value) -> Value:
        return self.action.change(value) if isinstance(self.action, Corrupt) else value

    async def transfer(self, nbytes: int) -> None:
        self.call.nbytes = nbytes
        if self.bandwidth is not None:
            await asyncio.sleep(nbytes / self.bandwidth)


class _Sent:
    """A read that was sent at once."""

    def __init__(self, fetch: Callable[[], Coroutine[Any, Any, Value | None]], taker: FetchCallback) -> None:
        self._task = asyncio.get_running_loop().create_task(self._tell(fetch, taker))

    async def _tell(self, fetch: Callable[[], Coroutine[Any, Any, Value | None]], taker: FetchCallback) -> None:
        try:
            value = await fetch()
        except Exception as error:
            taker.failed(error)
        else:
            taker.fetched(value)

    def give_up(self) -> None:
        self._task.cancel()
