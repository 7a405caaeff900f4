"""The cost of a request at one origin, in bytes: estimated from the time to the first byte and the bandwidth."""

from __future__ import annotations

from time import monotonic

MAX_LATENCY_BYTES = 64 << 10
"""The time of responses up to this size counts as time to the first byte."""

MIN_BANDWIDTH_BYTES = 512 << 10
"""Responses from this size up measure the bandwidth."""

DEFAULT_GAP = 128 << 10
MIN_GAP = 16 << 10
MAX_GAP = 1 << 20
LOCAL_GAP = 32 << 10
"""A system call costs about what reading this many cached bytes costs."""

UPDATE_SECONDS = 2.0
WEIGHT = 0.1


class RequestCostEstimator:
    """Running means of the times of small responses and the bandwidth of large ones.

    The estimate is a power of four and changes at most every two seconds. So a plan and the read that follows it
    merge ranges alike.
    """

    def __init__(self) -> None:
        self._first_byte: float | None = None
        self._bandwidth: float | None = None
        self._gap = DEFAULT_GAP
        self._updated = monotonic()

    def observe(self, seconds: float, nbytes: int) -> None:
        """A response of `nbytes` took `seconds`."""
        if nbytes <= MAX_LATENCY_BYTES:
            mean = self._first_byte
            self._first_byte = seconds if mean is None else mean + WEIGHT * (seconds - mean)
        elif nbytes >= MIN_BANDWIDTH_BYTES and self._first_byte is not None:
            bandwidth = nbytes / max(seconds - self._first_byte, 1e-3)
            mean = self._bandwidth
            self._bandwidth = bandwidth if mean is None else mean + WEIGHT * (bandwidth - mean)

    def gap(self) -> int:
        """Return how many unwanted bytes cost as much as one more request."""
        now = monotonic()
        if self._first_byte is not None and self._bandwidth is not None and now - self._updated > UPDATE_SECONDS:
            self._updated = now
            self._gap = quantise(self._first_byte * self._bandwidth)
        return self._gap


def quantise(size: float) -> int:
    """Return `size` rounded down to 16 KiB times a power of four, at least 16 KiB and at most 1 MiB."""
    gap = MIN_GAP
    while gap * 4 <= min(size, MAX_GAP):
        gap *= 4
    return gap
