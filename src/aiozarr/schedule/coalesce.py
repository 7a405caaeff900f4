"""Coalescing of byte ranges of one object into requests: a pure function of the ranges and the limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class MergeLimits:
    """How far byte ranges of one object are merged.

    Attributes:
        gap: the most unwanted bytes between two ranges of one request.
        max_over_read: the most bytes fetched per byte wanted, of one request.
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

    Neighbours are merged while the gap between them, the share of unwanted bytes and the size of the request stay
    within `limits`. Every range is within one request. The result is sorted by start.
    """
    order = sorted(range(len(ranges)), key=ranges.__getitem__)
    requests: list[MergedRange] = []
    start = stop = wanted = 0
    members: list[int] = []
    for position in order:
        first, length = ranges[position]
        last = max(stop, first + length)
        # Overlapping bytes count once.
        fresh = max(0, first + length - max(first, stop))
        if (
            members
            and first - stop <= limits.gap
            and last - start <= limits.max_request_bytes
            and last - start <= limits.max_over_read * (wanted + fresh)
        ):
            stop = last
            wanted += fresh
            members.append(position)
            continue
        if members:
            requests.append(MergedRange(start, stop, members))
        start, stop, wanted, members = first, first + length, length, [position]
    if members:
        requests.append(MergedRange(start, stop, members))
    return requests
