"""A request as an operation writes it: what it does by default, and how it is sent again."""

from __future__ import annotations

import asyncio

import pytest

from aiozarr.errors import StoreError, ThrottledError
from aiozarr.schedule.requests import BASE_DELAY, RequestSource, RetryPolicy, ScheduledRequest, retry
from aiozarr.settings import Settings
from aiozarr.testing.virtual_time import in_virtual_time

POLICY = RetryPolicy(retries=5, seconds=20.0)


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
    assert (made.held, made.attempts, made.cancelled) == (5, 0, False)


def test_a_source_takes_its_limits_from_settings() -> None:
    class Silent(RequestSource):
        def next(self) -> None:
            return None

        def pending(self) -> int:
            return 0

    source = Silent()
    source.limit_to(Settings(max_requests=3, max_bytes_in_flight=1 << 20))
    assert (source.max_requests, source.max_bytes) == (3, 1 << 20)
    source.limit_to(Settings())
    assert source.max_requests is None


class Sender:
    """Fails with `outcomes` in turn, None for success."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.outcomes = list(outcomes)

    def send(self, argument: str) -> str:
        error = self.outcomes.pop(0)
        if error is not None:
            raise error
        return argument

    async def send_async(self) -> str:
        await asyncio.sleep(1.0)
        return self.send("value")


def test_the_last_error_has_the_attempts_and_the_seconds_since_the_first() -> None:
    sent = Minimal(RetryPolicy(retries=1), 0)
    sent.started, sent.attempts = 10.0, 1
    error = StoreError("reset", retryable=True)
    assert sent.delay_after(error, 11.0, 0.0) == BASE_DELAY / 2
    assert error.elapsed is None
    sent.attempts = 2
    assert sent.delay_after(error, 12.5, 0.0) is None
    assert (error.attempts, error.elapsed, sent.seconds) == (2, 2.5, 2.5)


@in_virtual_time
async def test_a_coroutine_retries_until_it_succeeds() -> None:
    clock = asyncio.get_running_loop().time
    failures: list[tuple[float, float]] = []
    sender = Sender(ThrottledError("slow", retry_after=2.0), ThrottledError("slow", retry_after=3.0), None)
    sent = Minimal(POLICY, 0)
    result = await retry(
        sent, sender.send_async, clock, on_failure=lambda _, sent_at, now: failures.append((sent_at, now))
    )
    assert (result, sent.attempts, sent.started, sent.seconds) == ("value", 3, 0.0, 8.0)
    assert failures == [(0.0, 1.0), (3.0, 4.0)]


@in_virtual_time
async def test_a_coroutine_goes_on_after_a_first_attempt_of_others() -> None:
    clock = asyncio.get_running_loop().time
    sent = Minimal(POLICY, 0)
    sent.attempts = 1
    sender = Sender(None)
    await retry(sent, sender.send_async, clock, ThrottledError("slow", retry_after=2.0))
    assert (sent.attempts, sent.seconds) == (2, 3.0)


@in_virtual_time
async def test_a_coroutine_raises_the_error_of_the_last_attempt() -> None:
    clock = asyncio.get_running_loop().time
    errors = [StoreError(str(number), retryable=True) for number in range(3)]
    with pytest.raises(StoreError) as raised:
        await retry(Minimal(RetryPolicy(retries=2), 0), Sender(*errors).send_async, clock)
    assert raised.value is errors[-1]
    assert raised.value.attempts == 3
