"""What a request costs at one origin, learnt from the requests themselves: time to first byte and bandwidth."""

from __future__ import annotations

from time import monotonic

SMALL = 64 << 10
LARGE = 512 << 10
DEFAULT_GAP = 128 << 10
MIN_GAP = 16 << 10
MAX_GAP = 1 << 20
SETTLED_SECONDS = 2.0
WEIGHT = 0.1


class Learner:
    """Running means of small answers' times and large answers' rates.

    The gap it gives is one of a few sizes and is reconsidered only now and then, so that a plan and the read that
    follows it merge alike.
    """

    def __init__(self) -> None:
        self._first_byte: float | None = None
        self._rate: float | None = None
        self._gap = DEFAULT_GAP
        self._decided = monotonic()

    def answered(self, seconds: float, size: int) -> None:
        """An answer of `size` bytes took `seconds`."""
        if size <= SMALL:
            mean = self._first_byte
            self._first_byte = seconds if mean is None else mean + WEIGHT * (seconds - mean)
        elif size >= LARGE and self._first_byte is not None:
            rate = size / max(seconds - self._first_byte, 1e-3)
            self._rate = rate if self._rate is None else self._rate + WEIGHT * (rate - self._rate)

    def gap(self) -> int:
        """Return how many unwanted bytes cost as much as one more request."""
        now = monotonic()
        if self._first_byte is not None and self._rate is not None and now - self._decided > SETTLED_SECONDS:
            self._decided = now
            self._gap = quantise(self._first_byte * self._rate)
        return self._gap


def quantise(size: float) -> int:
    """Return the power of four times 16 KiB nearest below `size`, between 16 KiB and 1 MiB."""
    gap = MIN_GAP
    while gap * 4 <= min(size, MAX_GAP):
        gap *= 4
    return gap
