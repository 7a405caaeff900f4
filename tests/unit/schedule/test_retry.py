"""Retries: the decision whether a request is sent again."""

from aiozarr.errors import PermissionDeniedError, ShortReadError, StoreError, ThrottledError
from aiozarr.schedule.requests import RetryPolicy

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
