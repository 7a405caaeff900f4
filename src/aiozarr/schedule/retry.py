"""Retries: the decision whether a failed request is sent again.

Stores say whether a request may be repeated (`StoreError.retryable`): for HTTP, `stores.http.errors` reads it from the
status. Resumable uploads to Google Cloud (`stores.gcs.upload`) resume within one attempt, under limits of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from aiozarr.common.concurrency import random_jitter
from aiozarr.errors import StoreError, StoreTimeoutError, ThrottledError
from aiozarr.settings import Settings

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


def retry_delay(error: BaseException, settings: Settings) -> float | None:
    """Return the seconds to wait after a first attempt that failed outside of a queue; None: there is no next one."""
    policy = retry_policy(settings.retries, settings.retry_seconds)
    return policy.delay(error, attempt=1, elapsed=0.0, jitter=random_jitter())


def is_overload(error: BaseException) -> bool:
    """Return whether `error` is a sign that fewer requests should be in flight."""
    return isinstance(error, ThrottledError | StoreTimeoutError)
