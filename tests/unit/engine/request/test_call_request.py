"""A call as a request of a queue: its result, its repetition, its turn, and its cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from aiozarr.engine.call_requests import CallRequest, SingleRequestSource
from aiozarr.errors import StoreError
from aiozarr.schedule.executor import RequestExecutor
from aiozarr.schedule.requests import RetryPolicy
from aiozarr.settings import Settings
from aiozarr.testing.virtual_time import in_virtual_time

ONE = Settings(max_requests=1)


def enqueued(
    queue: RequestExecutor, function: Callable[[int], Awaitable[int]], settings: Settings = ONE
) -> tuple[CallRequest[int], SingleRequestSource]:
    request = CallRequest(queue, RetryPolicy(settings.retries, settings.retry_seconds), function, 5)
    source = SingleRequestSource(request, settings)
    queue.register(source)
    queue.wake(source)
    return request, source


async def slow(attempt: int) -> int:
    await asyncio.sleep(1.0)
    return attempt


@in_virtual_time
async def test_a_call_is_repeated_with_the_number_of_the_attempt() -> None:
    async def fail_once(attempt: int) -> int:
        if attempt == 1:
            raise StoreError("busy", retryable=True)
        return attempt

    request, _ = enqueued(RequestExecutor(), fail_once)
    assert await request.future == request.result == 2
    assert (request.error, request.is_completed) == (None, True)


@in_virtual_time
async def test_the_last_error_of_a_call_is_raised_and_recorded() -> None:
    async def fail(attempt: int) -> int:
        raise StoreError(f"attempt {attempt}", retryable=True)

    request, _ = enqueued(RequestExecutor(), fail, replace(ONE, retries=2))
    with pytest.raises(StoreError, match="attempt 3") as caught:
        await request.future
    assert request.error is caught.value


@in_virtual_time
async def test_a_source_has_one_request_that_can_be_dropped_until_the_queue_takes_it() -> None:
    queue = RequestExecutor()
    sent, taken = enqueued(queue, slow)
    waits, waiting = enqueued(queue, slow)
    await asyncio.sleep(0.5)
    assert (taken.pending(), waiting.pending()) == (0, 1)
    assert not taken.drop()
    assert waiting.drop()
    assert await sent.future == 1
    await asyncio.sleep(2.0)
    assert (waits.attempts, waits.is_completed) == (0, False)


@in_virtual_time
async def test_a_cancelled_call_has_ended_when_the_wait_for_it_ends() -> None:
    ended: list[str] = []

    async def tidy(attempt: int) -> int:
        try:
            return await slow(attempt)
        finally:
            await asyncio.sleep(0.25)
            ended.append("tidied")

    request = CallRequest(RequestExecutor(), RetryPolicy(0, 1.0), tidy, 5)
    waiter = asyncio.ensure_future(request.run(ONE))
    await asyncio.sleep(0.5)
    waiter.cancel()
    await asyncio.sleep(0.1)
    waiter.cancel()  # it waits nevertheless
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert ended == ["tidied"]
    assert request.is_completed
    assert isinstance(request.error, asyncio.CancelledError)
