"""Readers that join, leave and fail at random moments of one schedule, repeatable by a seed, in virtual time.

Each seed draws an array, selections, and the loop turns and seconds at which readers start and are cancelled. A failure
is repeated by its seed: `pytest tests/cancellation/test_interleavings.py -k "seed-17"`.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aiozarr.engine import Engine
from aiozarr.errors import StoreError, ThrottledError
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import any_of, nth
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import RAW, SETTINGS, Sample, sample
from tests.support.leaks import unfinished_in

SEEDS = 60
CHECKED = [*RAW, {"name": "crc32c"}]
ARRAYS: list[dict[str, Any]] = [
    {"shape": (16, 16), "chunks": (4, 4)},
    {"shape": (16, 16), "chunks": (16, 16), "codecs": RAW},
    {"shape": (16, 16), "chunks": (8, 16), "inner": (4, 4), "codecs": CHECKED},
    {"shape": (16, 16), "chunks": (16, 16), "inner": (2, 2), "codecs": CHECKED},
]
LATENCY = 0.01


class Schedule:
    """The random decisions of one run."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def selection(self, side: int) -> tuple[slice, slice]:
        """Half of the selections are small, so that readers share some chunks and not others."""
        ends = [sorted(self._random.sample(range(side + 1), 2)) for _ in range(2)]
        return (slice(None), slice(None)) if self._random.random() < 0.25 else (slice(*ends[0]), slice(*ends[1]))

    async def pause(self) -> None:
        """Let some loop turns pass, and sometimes a part of a round trip or several of them."""
        for _ in range(self._random.choice((0, 0, 1, 2, 3, 5, 8, 13))):
            await asyncio.sleep(0)
        if self._random.random() < 0.3:
            await asyncio.sleep(LATENCY * self._random.choice((0.5, 1.0, 1.5, 3.0)))


@pytest.fixture(params=[False, True], ids=["with a task", "without a task"], autouse=True)
def sends_nowait(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways in which a request is sent."""
    monkeypatch.setattr(FakeStore, "sends_nowait", request.param)


async def read(
    engine: Engine, array: Sample, selection: tuple[slice, slice], schedule: Schedule, **fields: Any
) -> None:
    await schedule.pause()
    one = array.read(*selection)
    await engine.read([one], settings=replace(SETTINGS, **fields))
    assert np.array_equal(one.out, array.values[selection])


async def leave(task: asyncio.Task[None], schedule: Schedule) -> None:
    await schedule.pause()
    task.cancel()
    if schedule.choose(True, False):
        await schedule.pause()
        task.cancel()


@pytest.mark.parametrize("seed", range(SEEDS), ids=[f"seed-{seed}" for seed in range(SEEDS)])
@in_virtual_time
async def test_readers_that_join_and_leave_at_random_moments_get_their_values_and_leave_nothing(seed: int) -> None:
    schedule = Schedule(seed)
    array, store, engine = await sample(latency=LATENCY, **schedule.choose(*ARRAYS))
    cached = schedule.choose(0, 1 << 24)
    selections = [schedule.selection(16) for _ in range(schedule.choose(2, 3, 5, 8))]
    tasks = [asyncio.create_task(read(engine, array, each, schedule, chunk_cache_bytes=cached)) for each in selections]
    leavers = [task for task in tasks if schedule.choose(True, False, False)]
    leaving = [asyncio.create_task(leave(task, schedule)) for task in leavers]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*leaving)
    others = [result for task, result in zip(tasks, results, strict=True) if task not in leavers]
    assert others == [None] * len(others)
    assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
    assert (store.in_flight, unfinished_in(engine)) == (0, [])
    await read(engine, array, (slice(None), slice(None)), schedule)


@pytest.mark.parametrize("seed", range(SEEDS), ids=[f"seed-{seed}" for seed in range(SEEDS)])
@in_virtual_time
async def test_readers_whose_requests_fail_at_random_get_their_values_or_a_typed_error(seed: int) -> None:
    schedule = Schedule(seed)
    array, store, engine = await sample(latency=LATENCY, **schedule.choose(*ARRAYS))
    fault = schedule.choose(ThrottledError("slow down"), StoreError("refused", retryable=False))
    store.faults = any_of(*[nth(schedule.choose(*range(1, 12)), fault) for _ in range(schedule.choose(1, 2, 4))])
    tasks = [
        asyncio.create_task(read(engine, array, schedule.selection(16), schedule))
        for _ in range(schedule.choose(2, 3, 5))
    ]
    leavers = [task for task in tasks if schedule.choose(True, False, False, False)]
    leaving = [asyncio.create_task(leave(task, schedule)) for task in leavers]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.gather(*leaving)
    allowed = (type(None), type(fault))
    for task, result in zip(tasks, results, strict=True):
        assert isinstance(result, (*allowed, asyncio.CancelledError) if task in leavers else allowed), result
    if isinstance(fault, ThrottledError):
        assert not any(isinstance(result, StoreError) for result in results)
    assert (store.in_flight, unfinished_in(engine)) == (0, [])
    store.faults = None
    await read(engine, array, (slice(None), slice(None)), schedule)
