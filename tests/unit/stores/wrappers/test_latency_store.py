"""A latency store takes its time, by the clock of the running loop, and shares its bandwidth."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiozarr.stores import MemoryStore, Store
from aiozarr.testing import LatencyStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import in_virtual_time, run_virtual


def seconds_of(scenario: Callable[[Store], Awaitable[Any]], **options: Any) -> float:
    """How long the scenario takes on a store with a value of 1,000 bytes, in virtual time."""

    async def main() -> float:
        inner = MemoryStore()
        await inner.set("k", bytes(1000))
        store = LatencyStore(inner, 2, **options)
        await scenario(store)
        return asyncio.get_running_loop().time()

    return run_virtual(main())


async def scan(store: Store) -> None:
    assert [entry.key async for entry in store.scan()] == ["k"]


@pytest.mark.parametrize(
    "scenario",
    [
        lambda store: store.fetch("k"),
        lambda store: store.stat("k"),
        lambda store: store.get_partial_values([("k", (0, 1))] * 5),
        lambda store: store.set("k", b"1"),
        lambda store: store.erase_prefix(""),
        lambda store: store.list_dir(""),
        lambda store: asyncio.gather(*[store.get("k") for _ in range(100)]),
        scan,
    ],
)
def test_each_operation_takes_the_latency_once(scenario: Callable[[Store], Awaitable[Any]]) -> None:
    assert seconds_of(scenario) == 2


def test_reads_and_writes_share_the_bandwidth() -> None:
    async def several(store: Store) -> None:
        await asyncio.gather(store.get("k"), store.fetch("k"), store.set("other", bytes(2000)))

    assert seconds_of(lambda store: store.get("k"), bytes_per_second=500) == pytest.approx(4)
    assert seconds_of(several, bytes_per_second=500) == pytest.approx(10)
    assert seconds_of(lambda store: store.stat("k"), bytes_per_second=500) == 2


def test_a_big_value_does_not_block_a_small_one() -> None:
    async def main() -> list[float]:
        inner = MemoryStore()
        await inner.set("big", bytes(100_000))
        await inner.set("small", bytes(1000))
        store = LatencyStore(inner, 0, bytes_per_second=1000)
        loop, ends = asyncio.get_running_loop(), []

        async def read(key: str) -> None:
            await store.get(key)
            ends.append(loop.time())

        await asyncio.gather(read("big"), read("small"))
        return ends

    small, big = run_virtual(main())
    assert small < 3
    assert big == pytest.approx(101)


@in_virtual_time
async def test_a_write_that_is_cancelled_while_it_waits_is_not_sent() -> None:
    inner = FakeStore(latency=0)
    store = LatencyStore(inner, 10)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5):
            await store.set("k", b"1")
    assert inner.count == 0
    assert asyncio.get_running_loop().time() == 5


def test_each_loop_has_a_line_of_its_own() -> None:
    inner = MemoryStore()
    store = LatencyStore(inner, 0, bytes_per_second=1000)

    async def main() -> float:
        await store.set("k", bytes(5000))
        return asyncio.get_running_loop().time()

    assert [run_virtual(main()) for _ in range(2)] == [pytest.approx(5)] * 2


@pytest.mark.parametrize(("seconds", "bandwidth"), [(-1, None), (math.nan, None), (math.inf, None), (0, 0), (0, -1)])
def test_invalid_latencies_and_bandwidths_are_refused(seconds: float, bandwidth: float | None) -> None:
    with pytest.raises(ValueError, match=r"at least 0|more than 0"):
        LatencyStore(MemoryStore(), seconds, bytes_per_second=bandwidth)
