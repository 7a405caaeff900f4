"""The queue of blocking stores: prepaid requests, and the protocol that both queues implement."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from aiozarr.engine.blocking_queue import BATCHES_PER_THREAD, BlockingQueue
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
