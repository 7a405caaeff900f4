"""Retries: the decision whether a request is sent again, and how often the statuses of responses are repeated."""

import asyncio
from pathlib import Path

import pytest

from aiozarr.errors import PermissionDeniedError, ShortReadError, StoreError, StoreTimeoutError, ThrottledError
from aiozarr.schedule.requests import RetryPolicy, ScheduledRequest, retry
from aiozarr.settings import Settings
from aiozarr.stores.http.object_client import error_for
from aiozarr.testing.virtual_time import in_virtual_time

POLICY = RetryPolicy(retries=5, seconds=20.0)
REPEATED_STATUSES = (408, 429, 500, 502, 503, 504)
PAGE = Path(__file__).parents[3] / "docs/how-to/timeouts.md"


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


class Stalled(ScheduledRequest):
    """A request whose first attempts make no progress for longer than the policy has time."""

    def __init__(self, failures: list[StoreError]) -> None:
        super().__init__(RetryPolicy(retries=5, seconds=10.0), 0)
        self.failures = failures

    async def send(self) -> None:
        if self.failures:
            error = self.failures.pop(0)
            await asyncio.sleep(30 if isinstance(error, StoreTimeoutError) else 0)
            raise error

    def completed(self, error: BaseException | None) -> None:
        raise AssertionError("no queue sends it")


@pytest.mark.parametrize("refused_first", [True, False])
@in_virtual_time
async def test_the_first_attempt_without_progress_is_repeated_however_long_it_took(refused_first: bool) -> None:
    refusals: list[StoreError] = [ThrottledError("busy", retryable=True)] * refused_first
    clock = asyncio.get_running_loop().time
    request = Stalled([*refusals, StoreTimeoutError("stalled")])
    await retry(request, request.send, clock)
    assert request.attempts == 2 + refused_first
    for last in (StoreTimeoutError("stalled"), ThrottledError("busy", retryable=True)):
        request = Stalled([*refusals, StoreTimeoutError("stalled"), last])
        with pytest.raises(type(last)):
            await retry(request, request.send, clock)
        assert request.attempts == 2 + refused_first


def test_by_default_there_is_more_time_for_repetitions_than_for_progress() -> None:
    assert Settings().retry_seconds > Settings().idle_timeout
    assert RetryPolicy() == RetryPolicy(Settings().retries, Settings().retry_seconds)


class Refused(ScheduledRequest):
    """A request that always gets a response with the same status, whose document has the code of a store."""

    def __init__(self, status: int, retries: int) -> None:
        super().__init__(RetryPolicy(retries, Settings().retry_seconds), 0)
        self.status = status

    async def send(self) -> None:
        raise error_for(self.status, {}, b"<Error><Code>Refused</Code></Error>")

    def completed(self, error: BaseException | None) -> None:
        raise AssertionError("no queue sends it")


async def repetitions_of(status: int, retries: int) -> int:
    request = Refused(status, retries)
    with pytest.raises(StoreError) as caught:
        await retry(request, request.send, asyncio.get_running_loop().time)
    assert caught.value.status == status
    return request.attempts - 1


@pytest.mark.parametrize("retries", [0, 1, 2, Settings().retries])
@in_virtual_time
async def test_six_statuses_are_repeated_as_often_as_the_settings_allow_and_all_others_never(retries: int) -> None:
    repetitions = {status: await repetitions_of(status, retries) for status in range(300, 600)}
    expected = dict.fromkeys(range(300, 600), 0) | dict.fromkeys(REPEATED_STATUSES, retries)
    assert repetitions == expected


def test_the_page_about_retries_has_the_statuses_and_the_number_of_repetitions() -> None:
    statuses = ", ".join(map(str, REPEATED_STATUSES))
    assert f"| status {statuses} | `retries` ({Settings().retries}) |" in PAGE.read_text("utf-8")
