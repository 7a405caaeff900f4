"""Group commit of partial writes: an error of one write does not fail the others. Locks by key."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.engine import group_commit
from aiozarr.engine.encoder import ObjectEncoder
from aiozarr.engine.group_commit import KeyLocks
from aiozarr.errors import PermissionDeniedError, StoreError
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Action, Call, Delay, LoseResponse, on_operation
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import SETTINGS, Sample, engine, layout_of, sample


async def test_tasks_of_one_key_take_turns_and_other_keys_are_free() -> None:
    locks, order = KeyLocks(), []

    async def hold(key: str, name: str) -> None:
        async with locks.hold(key):
            order.append(name)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            order.append(name)

    await asyncio.gather(hold("a", "first"), hold("a", "second"), hold("b", "other"))
    assert [name for name in order if name != "other"] == ["first", "first", "second", "second"]
    assert order.index("other") < order.index("second")
    assert locks.is_idle


async def test_a_key_is_held_until_its_last_waiter_has_left() -> None:
    locks = KeyLocks()

    async def wait() -> None:
        async with locks.hold("a"):
            raise AssertionError("the lock was not released")

    async with locks.hold("a"):
        waiter = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        assert locks.held("a")
        assert not locks.held("b")
    assert not locks.held("a")
    assert locks.is_idle


async def test_an_error_releases_the_lock() -> None:
    locks = KeyLocks()
    with pytest.raises(RuntimeError):
        async with locks.hold("a"):
            raise RuntimeError
    assert locks.is_idle


TASKS = 40


@pytest.mark.parametrize("inner", [None, (1, 4)])
@in_virtual_time
async def test_if_every_commit_fails_each_task_encodes_for_few_others(
    inner: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            nonlocal encoded
            encoded += 1
            return function(*args, **keywords)

        return call

    for name in ("encode_chunk", "encode_inner_chunks"):
        monkeypatch.setattr(ObjectEncoder, name, counted(getattr(ObjectEncoder, name)))

    array, store, writer = await sample((TASKS, 4), (TASKS, 4), inner=inner, latency=1.0)
    encoded = 0
    store.faults = on_operation("set", PermissionDeniedError("no"))
    errors = await asyncio.gather(
        *(writer.write(array.write(0, row), settings=SETTINGS) for row in range(TASKS)), return_exceptions=True
    )
    assert {type(error) for error in errors} == {PermissionDeniedError}
    assert len({id(error) for error in errors}) == TASKS
    assert store.count == 2 * TASKS
    assert encoded <= (group_commit.MAX_GROUP_COMMITS + 1) * TASKS


@pytest.mark.parametrize("inner", [None, (2, 2)])
@in_virtual_time
async def test_values_that_cannot_be_encoded_cost_the_others_no_request(inner: tuple[int, int] | None) -> None:
    array, store, writer = await sample((4, 4), (4, 4), inner=inner, latency=1.0)
    results = await asyncio.gather(
        *(writer.write(array.write("x" if row == 2 else 100, row), settings=SETTINGS) for row in range(4)),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), type(None), ValueError, type(None)]
    # The first alone; then the others without the invalid one, which fails in a commit of its own.
    assert [call.operation for call in store.calls] == ["fetch", "set", "fetch", "set", "fetch"]
    read = array.read(...)
    await writer.read([read], settings=SETTINGS)
    expected = array.values.copy()
    expected[[0, 1, 3]] = 100
    assert np.array_equal(read.out, expected)


@given(st.integers(0, 1 << 32), st.sampled_from([None, (2, 2), (4, 4)]), st.sampled_from([0, 0.05, 0.2]))
@in_virtual_time
async def test_a_write_that_returns_is_stored_and_one_that_fails_is_stored_completely_or_not(
    seed: int, inner: tuple[int, int] | None, share: float
) -> None:
    """Pieces of 2 elements, written by two processes at random times, some cancelled, with faults of every kind."""
    chance = random.Random(seed)

    def fault(call: Call) -> Action:
        if chance.random() >= share:
            return None
        retryable = StoreError("busy", key=call.key, retryable=True)
        faults: list[Action] = [
            retryable,
            StoreError("no", key=call.key),
            LoseResponse(retryable),
            Delay(2 * chance.random()),
        ]
        return chance.choice(faults)

    array, store, writer = await sample((8, 8), (8, 8), inner=inner, latency=1.0)
    store.faults = fault
    writers = [writer, engine()]
    places = chance.sample([(row, column) for row in range(8) for column in range(0, 8, 2)], 20)

    async def write(number: int, row: int, column: int) -> None:
        await asyncio.sleep(chance.choice([0, 4 * chance.random()]))
        piece = array.write(1000 + number, row, slice(column, column + 2))
        await chance.choice(writers).write(piece, settings=replace(SETTINGS, retries=chance.choice([0, 5])))

    tasks = [asyncio.ensure_future(write(number, *place)) for number, place in enumerate(places)]
    for task in chance.sample(tasks, 5):
        asyncio.get_running_loop().call_later(8 * chance.random(), task.cancel)
    await asyncio.wait(tasks)
    store.faults = None
    read = array.read(...)
    await engine().read([read], settings=SETTINGS)
    expected = array.values.copy()
    for number, (task, (row, column)) in enumerate(zip(tasks, places, strict=True)):
        piece = read.out[row, column : column + 2].tolist()
        failed = task.cancelled() or task.exception() is not None
        allowed = [[1000 + number] * 2, *([array.values[row, column : column + 2].tolist()] if failed else [])]
        assert piece in allowed
        expected[row, column : column + 2] = piece
    assert np.array_equal(read.out, expected)
    assert_idle(store, writers)


def assert_idle(store: FakeStore, writers: list[Any]) -> None:
    assert store.in_flight == 0
    for writer in writers:
        assert writer.idle()
        assert writer.group_commit.is_idle


class Unproven(FakeStore):
    """Does not know whether it checks conditions. The first probes fail."""

    probes = 0
    failing = 0

    async def probe_conditional_writes(self) -> bool:
        self.probes += 1
        failed = self.probes <= self.failing
        await asyncio.sleep(self.latency)
        if failed:
            raise PermissionDeniedError("no")
        self.supports = replace(self.supports, conditional_writes=True)
        return True


@pytest.mark.parametrize(("failing", "probes"), [(0, 1), (1, TASKS)])
@in_virtual_time
async def test_one_of_many_first_partial_writes_probes_conditional_writes(failing: int, probes: int) -> None:
    store = Unproven(latency=1.0)
    store.supports = replace(store.supports, conditional_writes=None)
    array = Sample(layout_of((TASKS, 4), (4, 4)), store)
    store.failing = failing
    writer = engine()
    results = await asyncio.gather(
        *(writer.write(array.write(1, row), settings=SETTINGS) for row in range(TASKS)), return_exceptions=True
    )
    assert [type(result) for result in results].count(PermissionDeniedError) == failing
    # After a failed probe the others do not wait for each other.
    assert store.probes == probes
    assert_idle(store, [writer])
