"""The queue of blocking stores: prepaid requests, and the protocol that both queues implement."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest

from aiozarr.engine import blocking_queue
from aiozarr.engine.blocking_queue import (
    BATCHES_PER_THREAD,
    MAX_SLOW_TURNS,
    SECONDS_WITHOUT_TURNS,
    BlockingQueue,
    FileTurns,
)
from aiozarr.engine.worker_pool import InlinePool, WorkItem
from aiozarr.schedule.executor import RequestExecutor
from aiozarr.schedule.requests import RequestQueue, RequestSource, ScheduledRequest


class HeldPool(InlinePool):
    """Keeps its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Sequence[WorkItem]] = []

    def submit_batch(self, batch: Sequence[WorkItem]) -> None:
        self.batches.append(batch)


class Source(RequestSource):
    """Has no requests."""

    max_requests = 1
    max_bytes = 1

    def __init__(self) -> None:
        self.asked = 0

    def next(self) -> ScheduledRequest | None:
        self.asked += 1
        return None

    def pending(self) -> int:
        return 0


@pytest.mark.parametrize("queue", [BlockingQueue(HeldPool()), RequestExecutor()], ids=["blocking", "network"])
def test_both_queues_ask_a_source_that_wakes_them_and_are_idle_after_it(queue: RequestQueue) -> None:
    async def scenario() -> None:
        source = Source()
        queue.register(source)
        queue.wake(source)
        await asyncio.sleep(0)
        assert source.asked == 1
        queue.unregister(source)
        assert queue.is_idle

    asyncio.run(scenario())


def test_the_blocking_queue_inherits_from_no_other_queue() -> None:
    assert BlockingQueue.__mro__[1:] == (object,)
    assert BATCHES_PER_THREAD > 1


def test_threads_take_turns_at_files_until_these_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(blocking_queue, "monotonic", lambda: now)
    turns, alone = FileTurns(), []

    def read(seconds: float) -> bool:
        nonlocal now
        now += seconds
        alone.append(turns._lock.locked())
        return len(alone) % 2 == 0

    for seconds in (1e-4, 1.0, 1.0, 1e-4):
        assert turns.take(partial(read, seconds), 32) == (len(alone) % 2 == 0)
    for _ in range(MAX_SLOW_TURNS):
        turns.take(partial(read, 1.0), 32)
    turns.take(partial(read, SECONDS_WITHOUT_TURNS), 32)
    turns.take(partial(read, 1e-4), 32)
    assert alone == [True] * (4 + MAX_SLOW_TURNS) + [False, True]


def test_a_turn_is_not_waited_for_when_it_would_never_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocking_queue, "MAX_TURN_WAIT", 0.001)
    turns = FileTurns()
    # As a store does whose values come from another array.
    assert turns.take(lambda: turns.take(turns._lock.locked, 1), 1)
    with pytest.raises(OSError, match="gone"):
        turns.take(partial(_raise, OSError("gone")), 1)
    assert not turns._lock.locked()


def _raise(error: Exception) -> bool:
    raise error
