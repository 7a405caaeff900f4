"""Retries: one decision whether a failed request is sent again, and the coroutine that sends it again.

Stores say whether a request may be repeated (`StoreError.retryable`): for HTTP, `stores.http.errors` reads it from the
status. Resumable uploads to Google Cloud (`stores.gcs.upload`) resume within one attempt, under limits of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from aiozarr.common.concurrency import random_jitter
from aiozarr.errors import StoreError, StoreTimeoutError, ThrottledError

T = TypeVar("T")

BASE_DELAY = 0.1
MAX_DELAY = 5.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `retries` repetitions, none of which begins later than `seconds` after the first attempt."""

    retries: int = 5
    seconds: float = 20.0

    def delay(self, error: BaseException, *, attempt: int, elapsed: float, jitter: float) -> float | None:
        """Decide whether a failed request is sent again.

        Args:
            error: the error of the latest attempt.
            attempt: number of attempts so far.
            elapsed: seconds since the first attempt began.
            jitter: a random number in [0, 1).

        Returns: the seconds to wait before the next attempt, or None if there is no next attempt.
        """
        if not isinstance(error, StoreError) or not error.retryable or attempt > self.retries:
            return None
        # Jitter between half and all of the exponential step: callers that failed together do not return together.
        delay = min(MAX_DELAY, BASE_DELAY * 2 ** (attempt - 1)) * (0.5 + jitter / 2)
        if error.retry_after is not None:
            delay = max(delay, error.retry_after)
        return delay if elapsed + delay <= self.seconds else None


@lru_cache(64)
def retry_policy(retries: int, seconds: float) -> RetryPolicy:
    """Return the one policy of these limits: each operation has one, and few differ."""
    return RetryPolicy(retries, seconds)


class Attempts:
    """The attempts of one request.

    Attributes:
        policy: decides on the next attempt.
        attempts: number of attempts so far.
        started: time of the first attempt.
        seconds: from `started` to the end of the latest attempt.
        waited: seconds before `started` in which the request waited for a server that failed all others. They count as
            seconds of retries: many requests that fail one after the other share one deadline.
    """

    __slots__ = ("attempts", "policy", "seconds", "started", "waited")

    def __init__(self, policy: RetryPolicy) -> None:
        self.policy = policy
        self.attempts = 0
        self.started = self.seconds = self.waited = 0.0

    def delay_after(self, error: StoreError, now: float, jitter: float) -> float | None:
        """Record a failed attempt.

        Returns: the seconds to wait before the next attempt, or None if the caller must raise `error`. `error` then
            has the number of attempts and the seconds since the first.
        """
        self.seconds = now - self.started
        elapsed = self.seconds + self.waited
        delay = self.policy.delay(error, attempt=self.attempts, elapsed=elapsed, jitter=jitter)
        if delay is None:
            error.attempts, error.elapsed = self.attempts, self.seconds
        return delay


async def retry(
    attempts: Attempts,
    send: Callable[[], Awaitable[T]],
    clock: Callable[[], float],
    failure: StoreError | None = None,
    on_failure: Callable[[StoreError, float, float], None] | None = None,
) -> T:
    """Await `send()` until it succeeds or the policy gives up.

    Args:
        attempts: receives number and times of the attempts.
        send: makes one attempt.
        clock: returns the time in seconds.
        failure: the error of a first attempt that is recorded in `attempts` already.
        on_failure: called after each failed attempt with its error, the time of its beginning, and the present time.

    Raises:
        StoreError: the error of the last attempt, with `attempts` and `elapsed`.
    """
    sent_at = attempts.started
    if failure is None:
        sent_at = attempts.started = clock()
    while True:
        if failure is not None:
            now = clock()
            if on_failure is not None:
                on_failure(failure, sent_at, now)
            delay = attempts.delay_after(failure, now, random_jitter())
            if delay is None:
                try:
                    raise failure
                finally:
                    # The traceback of the error holds this frame, which must not refer back to the error.
                    failure = None
            failure = None
            await asyncio.sleep(delay)
            sent_at = clock()
        attempts.attempts += 1
        try:
            result = await send()
        except StoreError as error:
            failure = error
        else:
            attempts.seconds = clock() - attempts.started
            return result


def is_overload(error: BaseException) -> bool:
    """Return whether `error` is a sign that fewer requests should be in flight."""
    return isinstance(error, ThrottledError | StoreTimeoutError)
