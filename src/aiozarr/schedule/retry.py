"""When a failed request is sent again: a pure decision; the scheduler carries it out, and no other layer repeats."""

from __future__ import annotations

from dataclasses import dataclass

from aiozarr.errors import StoreError, StoreTimeoutError, ThrottledError

BASE_DELAY = 0.1
MAX_DELAY = 5.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `retries` repetitions, none of which begins later than `seconds` after the first try."""

    retries: int = 5
    seconds: float = 20.0

    def delay(self, error: BaseException, *, attempt: int, elapsed: float, jitter: float) -> float | None:
        """Return the seconds to wait before the next try, or None where there is none.

        Args:
            error: what the try ended with.
            attempt: how many tries there were.
            elapsed: seconds since the first try began.
            jitter: a random number in [0, 1).
        """
        if not isinstance(error, StoreError) or not error.retryable or attempt > self.retries:
            return None
        # Full jitter between half and all of the exponential step: callers that failed together do not return together.
        delay = min(MAX_DELAY, BASE_DELAY * 2 ** (attempt - 1)) * (0.5 + jitter / 2)
        if error.retry_after is not None:
            delay = max(delay, error.retry_after)
        return delay if elapsed + delay <= self.seconds else None


def overload(error: BaseException) -> bool:
    """Return whether `error` is a sign that fewer requests should be in flight."""
    return isinstance(error, ThrottledError | StoreTimeoutError)
