"""Compare-and-swap: read, change and write under a precondition, and again if another writer came first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from aiozarr.common.concurrency import random_jitter
from aiozarr.errors import PreconditionFailedError

T = TypeVar("T")

MAX_SWAPS = 100
"""A writer gives up after this many attempts in which another writer of the object came first."""

BASE_DELAY = 0.01
MAX_DELAY = 0.1
"""Seconds between attempts; the delay doubles, with full jitter."""


async def compare_and_swap(
    swap: Callable[[], Awaitable[T]], *, max_swaps: int = MAX_SWAPS, max_delay: float = MAX_DELAY
) -> T:
    """Await `swap()` until no other writer comes first.

    Args:
        swap: reads, changes and writes a state, on condition that it is unchanged.
        max_swaps: the number of attempts, at least 1.
        max_delay: the longest delay between two attempts, in seconds.

    Raises:
        PreconditionFailedError: other writers came first `max_swaps` times.
    """
    pauses = delays(max_swaps, max_delay)
    for _ in range(1, max_swaps):
        try:
            return await swap()
        except PreconditionFailedError:
            pass
        await asyncio.sleep(next(pauses))
    return await swap()


def compare_and_swap_blocking(swap: Callable[[], T]) -> T:
    """As `compare_and_swap`, in the calling thread."""
    pauses = delays(MAX_SWAPS, MAX_DELAY)
    for _ in range(1, MAX_SWAPS):
        try:
            return swap()
        except PreconditionFailedError:
            pass
        time.sleep(next(pauses))
    return swap()


def delays(max_swaps: int, max_delay: float, jitter: Callable[[], float] = random_jitter) -> Iterator[float]:
    """Iterate over the seconds to wait after each attempt but the last. `jitter` returns a number in [0, 1)."""
    step = BASE_DELAY
    for _ in range(1, max_swaps):
        yield jitter() * min(step, max_delay)
        step = min(2 * step, max_delay)
