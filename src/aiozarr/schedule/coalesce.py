"""Merges near byte ranges of one object by the cost of a request, and splits large ones.

Both are pure functions of the ranges and the limits. The estimate is made from the time to the first byte and the
bandwidth of an origin.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from aiozarr.model import Range
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store


class MergeLimits(NamedTuple):
    """How far byte ranges of one object are merged.

    Attributes:
        gap: the most unwanted bytes between two ranges of one request.
        max_over_read: the most bytes fetched per byte wanted, of all requests for ranges that are merged together.
        max_request_bytes: the largest size of a merged request. A single range may be larger.
    """

    gap: int
    max_over_read: float = 1.5
    max_request_bytes: int = 16 << 20


@lru_cache(64)
def merge_limits(gap: int, max_over_read: float, max_request_bytes: int) -> MergeLimits:
    """Return the one record of these limits: each read has one, and few differ."""
    return MergeLimits(gap, max_over_read, max_request_bytes)


class MergedRange(NamedTuple):
    """One request: bytes from `start` to `stop`, and the positions in the input of the ranges that it serves."""

    start: int
    stop: int
    members: list[int]

    @property
    def length(self) -> int:
        """Number of bytes that the request fetches."""
        return self.stop - self.start


def coalesce(ranges: Sequence[tuple[int, int]], limits: MergeLimits) -> list[MergedRange]:
    """Return the requests that fetch all `ranges`, pairs of (start, length) in any order, which may overlap.

    Neighbours are merged while the gap between them and the size of the request stay within `limits`. If the unwanted
    bytes of all gaps are too many, the smallest gaps are read over. Every range is within one request. The result is
    sorted by start.
    """
    order = sorted(range(len(ranges)), key=ranges.__getitem__)
    read_over = _gaps_to_read_over([ranges[position] for position in order], limits)
    requests: list[MergedRange] = []
    start = stop = 0
    members: list[int] = []
    for number, position in enumerate(order):
        first, length = ranges[position]
        last = max(stop, first + length)
        if members and (first <= stop or number in read_over) and last - start <= limits.max_request_bytes:
            stop = last
            members.append(position)
            continue
        if members:
            requests.append(MergedRange(start, stop, members))
        start, stop, members = first, first + length, [position]
    if members:
        requests.append(MergedRange(start, stop, members))
    return requests


def _gaps_to_read_over(ranges: Sequence[tuple[int, int]], limits: MergeLimits) -> set[int]:
    """Return the numbers of the sorted `ranges` that are merged with the previous one over a gap."""
    gaps: list[tuple[int, int]] = []
    stop = wanted = unwanted = 0
    for number, (first, length) in enumerate(ranges):
        last = first + length
        if number and 0 < first - stop <= limits.gap:
            gaps.append((first - stop, number))
            unwanted += first - stop
        if last > stop:
            # Overlapping bytes count once.
            wanted += last - max(first, stop)
            stop = last
    allowed = (limits.max_over_read - 1) * wanted
    if unwanted > allowed:
        gaps.sort()
        while gaps and unwanted > allowed:
            unwanted -= gaps.pop()[0]
    return {number for _, number in gaps}


MIN_PART_BYTES = 1 << 20
"""The smallest limit of a part, whatever `Settings.max_request_bytes` says: each part costs a request."""

NO_SPLIT = sys.maxsize


def split_limit(store: Store, settings: Settings) -> int:
    """Return the size in bytes above which an object of `store` is fetched in parts.

    Without versions, a replacement of the object between two parts would go unnoticed.
    """
    supports = store.supports
    return (
        max(MIN_PART_BYTES, settings.max_request_bytes)
        if supports.partial_reads and supports.conditional_reads
        else NO_SPLIT
    )


def first_part(known: int | None, limit: int) -> int:
    """Return the length of the first part of an object; `known` is its size in bytes, if that is known."""
    if known is None or known <= limit:
        return limit
    return -(-known // -(-known // limit))


def split_range(start: int, stop: int, limit: int) -> list[Range]:
    """Return the bytes from `start` to `stop` as the fewest parts of at most `limit` bytes, of about equal length."""
    total = stop - start
    if total <= 0:
        return []
    count = -(-total // limit)
    edges = [start + total * number // count for number in range(count + 1)]
    return [Range(edge, edges[number + 1] - edge) for number, edge in enumerate(edges[:-1])]


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
        self._updated: float | None = None  # before the first read

    def observe(self, seconds: float, nbytes: int) -> None:
        """Take into account that a response of `nbytes` took `seconds`."""
        if nbytes <= MAX_LATENCY_BYTES:
            mean = self._first_byte
            self._first_byte = seconds if mean is None else mean + WEIGHT * (seconds - mean)
        elif nbytes >= MIN_BANDWIDTH_BYTES and self._first_byte is not None:
            bandwidth = nbytes / max(seconds - self._first_byte, 1e-3)
            mean = self._bandwidth
            self._bandwidth = bandwidth if mean is None else mean + WEIGHT * (bandwidth - mean)

    def gap(self, now: float) -> int:
        """Return how many unwanted bytes cost as much as one more request. `now` is the time in seconds."""
        if self._updated is None:
            self._updated = now
        elif self._first_byte is not None and self._bandwidth is not None and now - self._updated > UPDATE_SECONDS:
            self._updated = now
            self._gap = quantise(self._first_byte * self._bandwidth)
        return self._gap


def quantise(size: float) -> int:
    """Return `size` rounded down to 16 KiB times a power of four, at least 16 KiB and at most 1 MiB."""
    gap = MIN_GAP
    while gap * 4 <= min(size, MAX_GAP):
        gap *= 4
    return gap
