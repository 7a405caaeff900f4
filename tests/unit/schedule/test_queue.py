"""A request as a store's author or an operation writes it: how it is cancelled, and what it does by default."""

from __future__ import annotations

import asyncio

import pytest

from aiozarr.schedule.queue import ScheduledRequest
from aiozarr.schedule.retry import RetryPolicy


class Minimal(ScheduledRequest):
    """The methods that a request must have, and no others."""

    async def send(self) -> None:
        await asyncio.sleep(60)

    def completed(self, error: BaseException | None) -> None:
        pass


def request() -> Minimal:
    return Minimal(RetryPolicy(0, 1.0), 5)


def test_a_request_needs_a_task_and_opens_no_connections_unless_it_says_otherwise() -> None:
    made = request()
    assert made.start_nowait() is None
    assert made.pending_fetch is None
    made.preconnect(10)
    assert (made.cost, made.attempts, made.cancelled) == (5, 0, False)


def test_a_request_that_was_not_sent_is_only_marked_as_cancelled() -> None:
    made = request()
    made.cancel()
    assert made.cancelled


async def test_cancelling_a_request_cancels_its_task() -> None:
    made = request()
    made.task = asyncio.ensure_future(made.send())
    await asyncio.sleep(0)
    made.cancel()
    with pytest.raises(asyncio.CancelledError):
        await made.task
    assert made.cancelled
