"""The fake store: its counters, its delays in virtual time, and its faults."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from aiozarr.errors import ChangedError, StoreError, ThrottledError
from aiozarr.model import Range
from aiozarr.stores import MemoryStore, Store
from aiozarr.testing.fakes import FakeStore, FaultyStore
from aiozarr.testing.faults import (
    Call,
    Corrupt,
    Delay,
    Hang,
    LoseResponse,
    Plan,
    any_of,
    before,
    every,
    first,
    nth,
    on_key,
    on_operation,
    seeded,
    since,
)
from aiozarr.testing.virtual_time import in_virtual_time, run_virtual


async def read_all(store: FakeStore, count: int, workers: int) -> float:
    keys = iter(range(count))

    async def work() -> None:
        for number in keys:
            await store.fetch(f"c/{number}")

    await asyncio.gather(*(work() for _ in range(workers)))
    return asyncio.get_running_loop().time()


def test_calls_in_flight_and_rounds_are_counted() -> None:
    store = FakeStore({f"c/{number}": b"x" * 10 for number in range(512)}, latency=0.05)
    assert run_virtual(read_all(store, 512, 64)) == 0.4
    assert (store.count, store.max_in_flight, store.rounds, store.nbytes) == (512, 64, 8, 5120)
    assert store.in_flight == 0


def test_bytes_take_their_time() -> None:
    store = FakeStore({"c/0": b"x" * 1000}, latency=1.0, bandwidth=100.0)
    assert run_virtual(read_all(store, 1, 1)) == 11.0
    call = store.calls[0]
    assert (call.operation, call.key, call.range, call.started, call.ended) == ("fetch", "c/0", None, 0.0, 11.0)


def test_a_cancelled_call_is_logged_as_such_and_no_longer_in_flight() -> None:
    store = FakeStore({"a": b"1"}, latency=10)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await store.fetch("a", Range(0, 1))

    run_virtual(main())
    assert store.in_flight == 0
    assert isinstance(store.calls[0].error, asyncio.CancelledError)
    assert store.log() == [("a", Range(0, 1))]
    store.reset()
    assert store.count == 0


def test_a_fault_plan_selects_the_calls_that_fail() -> None:
    error = ThrottledError("slow down")
    store = FakeStore({"a": b"1"}, faults=any_of(nth(2, error), on_key("b", error), every(5, Delay(60))))

    async def main() -> list[object]:
        found: list[object] = []
        for key in ("a", "a", "a", "b", "a"):
            try:
                value = await store.fetch(key)
                found.append(value and bytes(memoryview(value.data)))
            except ThrottledError as caught:
                found.append(str(caught))
        assert asyncio.get_running_loop().time() == pytest.approx(60.05)
        return found

    assert run_virtual(main()) == [b"1", "slow down", b"1", "slow down", b"1"]


@in_virtual_time
async def test_a_lost_response_and_a_corrupt_value_are_faults_after_the_call() -> None:
    store = FakeStore(faults=on_operation("set", LoseResponse(StoreError("reset")), times=1))

    with pytest.raises(StoreError, match="reset"):
        await store.set("a", b"12345")
    await store.set("b", b"1")
    store.faults = first(1000, Corrupt(lambda value: replace(value, data=bytes(memoryview(value.data))[:2])))
    assert await store.get("a") == b"12"


@in_virtual_time
async def test_an_object_can_be_replaced_between_two_calls() -> None:
    store = FakeStore({"a": b"old!"})
    store.faults = before(2, lambda: store.memory.set_now("a", b"new!"))

    value = await store.fetch("a", Range(0, 2))
    assert value is not None
    with pytest.raises(ChangedError):
        await store.fetch("a", Range(2, 2), if_match=value.version)


def test_a_seed_chooses_the_same_calls_each_time() -> None:
    def chosen(seed: int) -> list[int]:
        plan = seeded(seed, 0.3, Delay(1))
        return [number for number in range(1, 200) if plan(Call(number, "fetch", "a", None, 0.0)) is not None]

    assert chosen(1) == chosen(1)
    assert chosen(1) != chosen(2)
    assert 30 < len(chosen(1)) < 90


@in_virtual_time
async def test_each_call_of_an_operation_around_any_store_can_be_made_to_fail_in_turn() -> None:
    async def move(store: Store) -> None:
        value = await store.fetch("old")
        assert value is not None
        await store.set("new", value.data)
        await store.erase_values(["old", "older"])

    async def left_by(plan: Plan, error: type[BaseException] = ThrottledError) -> list[str]:
        store = FaultyStore(MemoryStore())
        for key in ("old", "older"):
            await store.store.set(key, b"1")
        store.faults = plan
        with pytest.raises(error):
            async with asyncio.timeout(1):
                await move(store)
        assert (store.in_flight, store.calls[-1].ended is None) == (0, False)
        return await store.store.list()

    no = ThrottledError("no")
    both = ["old", "older"]
    assert [await left_by(nth(number, no)) for number in (1, 2, 3, 4)] == [both, both, [*both, "new"], ["older", "new"]]
    assert await left_by(nth(3, LoseResponse(no))) == ["older", "new"]
    assert await left_by(since(2, LoseResponse(no))) == [*both, "new"]
    hung: list[int] = []
    assert await left_by(nth(2, Hang(lambda: hung.append(2))), TimeoutError) == both
    assert await left_by(nth(2, Hang(lambda: hung.append(2), takes_effect=True)), TimeoutError) == [*both, "new"]
    assert hung == [2, 2]


async def test_stores_around_one_store_are_those_of_different_processes() -> None:
    inner = MemoryStore()
    one, other = FaultyStore(inner), FaultyStore(inner)
    assert one.identity != other.identity
    assert one.object_identity("a") != other.object_identity("a")
    await one.set("a/b", b"1")
    assert [entry.key async for entry in other.scan()] == ["a/b"]
    assert await other.list_dir("") == ([], ["a/"])
    assert (await other.stat("a/b")) == (await one.stat("a/b"))
    await one.aclose()
    await other.erase_prefix("a/")
    assert await one.list() == []
    assert [call.operation for call in other.calls] == ["list", "list", "stat", "list", "erase"]
