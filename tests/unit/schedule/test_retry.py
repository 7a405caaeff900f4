"""Retries: the decision, and the coroutine that sends requests again."""

import asyncio

import pytest

from aiozarr.errors import PermissionDeniedError, ShortReadError, StoreError, ThrottledError
from aiozarr.schedule.retry import BASE_DELAY, Attempts, RetryPolicy, retry
from aiozarr.testing.virtual_time import in_virtual_time

POLICY = RetryPolicy(retries=5, seconds=20.0)


def delay(error: BaseException, attempt: int = 1, elapsed: float = 0.0) -> float | None:
    return POLICY.delay(error, attempt=attempt, elapsed=elapsed, jitter=0.5)


def test_errors_that_are_not_retryable_are_not_retried() -> None:
    assert delay(PermissionDeniedError("no")) is None
    assert delay(ValueError("no")) is None


def test_retryable_errors_are_retried_after_growing_pauses() -> None:
    pauses = [delay(ShortReadError("short"), attempt=attempt) for attempt in range(1, 6)]
    assert all(pause is not None for pause in pauses)
    assert pauses == sorted(pauses)  # type: ignore[type-var]  # none is None


def test_there_are_at_most_six_attempts() -> None:
    assert delay(ShortReadError("short"), attempt=5) is not None
    assert delay(ShortReadError("short"), attempt=6) is None


def test_the_server_is_given_the_time_it_asks_for() -> None:
    assert delay(ThrottledError("slow down", retry_after=7.0)) == 7.0


def test_no_attempt_begins_after_the_deadline() -> None:
    assert delay(ThrottledError("slow down", retry_after=19.0), elapsed=2.0) is None
    assert delay(StoreError("reset", retryable=True), elapsed=19.99) is None


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
    attempts = Attempts(RetryPolicy(retries=1))
    attempts.started, attempts.attempts = 10.0, 1
    error = StoreError("reset", retryable=True)
    assert attempts.delay_after(error, 11.0, 0.0) == BASE_DELAY / 2
    assert error.elapsed is None
    attempts.attempts = 2
    assert attempts.delay_after(error, 12.5, 0.0) is None
    assert (error.attempts, error.elapsed, attempts.seconds) == (2, 2.5, 2.5)


@in_virtual_time
async def test_a_coroutine_retries_until_it_succeeds() -> None:
    clock = asyncio.get_running_loop().time
    failures: list[tuple[float, float]] = []
    sender = Sender(ThrottledError("slow", retry_after=2.0), ThrottledError("slow", retry_after=3.0), None)
    attempts = Attempts(POLICY)
    result = await retry(
        attempts, sender.send_async, clock, on_failure=lambda _, sent_at, now: failures.append((sent_at, now))
    )
    assert (result, attempts.attempts, attempts.started, attempts.seconds) == ("value", 3, 0.0, 8.0)
    assert failures == [(0.0, 1.0), (3.0, 4.0)]


@in_virtual_time
async def test_a_coroutine_goes_on_after_a_first_attempt_of_others() -> None:
    clock = asyncio.get_running_loop().time
    attempts = Attempts(POLICY)
    attempts.attempts = 1
    sender = Sender(None)
    await retry(attempts, sender.send_async, clock, ThrottledError("slow", retry_after=2.0))
    assert (attempts.attempts, attempts.seconds) == (2, 3.0)


@in_virtual_time
async def test_a_coroutine_raises_the_error_of_the_last_attempt() -> None:
    clock = asyncio.get_running_loop().time
    errors = [StoreError(str(number), retryable=True) for number in range(3)]
    with pytest.raises(StoreError) as raised:
        await retry(Attempts(RetryPolicy(retries=2)), Sender(*errors).send_async, clock)
    assert raised.value is errors[-1]
    assert raised.value.attempts == 3
