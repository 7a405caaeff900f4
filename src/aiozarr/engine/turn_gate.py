"""Spreads many short pieces of work over turns of an event loop, so that its other tasks are not kept waiting."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import thread_time

from aiozarr.common.concurrency import PerLoop

MAX_IMMEDIATE_READS_PER_TURN = 16
"""Reads from memory that a caller's loop does in one turn, if they are as short as most: 0.05 ms."""

MAX_IMMEDIATE_SECONDS = 0.001
"""CPU seconds of one turn for reads from memory: a read of many inner chunks takes 0.2 to 0.4 ms."""


class TurnGate:
    """Lets so many callers pass in one turn of a loop, first come, first served.

    Args:
        max_per_turn: callers that pass in one turn; the others wait for later turns.
        max_seconds: as many callers pass as would fit into this time at the pace of the last turn, but at least one.
            None: the time does not count.
        clock: returns the time in seconds: that of the thread, so that waits for the interpreter's lock do not count.
    """

    def __init__(
        self, max_per_turn: int, max_seconds: float | None = None, clock: Callable[[], float] = thread_time
    ) -> None:
        self._max_per_turn = self._limit = max_per_turn
        self._max_seconds = max_seconds
        self._clock = clock
        self._turn_began = 0.0
        self._passed = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_enter(self) -> bool:
        """Pass if that needs no wait; return whether the caller has passed."""
        if self._waiting or self._passed >= self._limit:
            return False
        if not self._passed:
            self._begin_turn()
        self._passed += 1
        return True

    async def enter(self) -> None:
        """Wait for a turn of the loop in which another caller may pass."""
        if not self.try_enter():
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def _next_turn(self) -> None:
        if self._max_seconds is not None:
            fitting = self._passed * self._max_seconds / max(self._clock() - self._turn_began, 1e-9)
            self._limit = min(self._max_per_turn, max(1, int(fitting)))
        self._passed = 0
        while self._waiting and self._passed < self._limit:
            future = self._waiting.popleft()
            if not future.done():  # its caller was cancelled
                self._passed += 1
                future.set_result(None)
        if self._passed:
            self._begin_turn()

    def _begin_turn(self) -> None:
        self._turn_began = self._clock()
        asyncio.get_running_loop().call_soon(self._next_turn)


_read_gates = PerLoop(lambda _: TurnGate(MAX_IMMEDIATE_READS_PER_TURN, MAX_IMMEDIATE_SECONDS))


def read_gate() -> TurnGate:
    """Return the one gate of the immediate reads of the running loop."""
    return _read_gates.get()
