"""Spreads many short pieces of work over turns of an event loop, so that its other tasks are not kept waiting."""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

MAX_IMMEDIATE_READS_PER_TURN = 16
"""Reads from memory that a caller's loop does in one turn. One takes 0.05 to 0.15 ms, so that others wait 2 ms."""


class TurnGate:
    """Lets so many callers pass in one turn of a loop, first come, first served.

    Args:
        max_per_turn: callers that pass in one turn; the others wait for later turns.
    """

    def __init__(self, max_per_turn: int) -> None:
        self._max_per_turn = max_per_turn
        self._passed = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_enter(self) -> bool:
        """Pass if that needs no wait; return whether the caller has passed."""
        if self._waiting or self._passed >= self._max_per_turn:
            return False
        if not self._passed:
            asyncio.get_running_loop().call_soon(self._next_turn)
        self._passed += 1
        return True

    async def enter(self) -> None:
        """Wait for a turn of the loop in which another caller may pass."""
        if not self.try_enter():
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def _next_turn(self) -> None:
        self._passed = 0
        while self._waiting and self._passed < self._max_per_turn:
            future = self._waiting.popleft()
            if not future.done():  # its caller was cancelled
                self._passed += 1
                future.set_result(None)
        if self._passed:
            asyncio.get_running_loop().call_soon(self._next_turn)


_read_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, TurnGate] = WeakKeyDictionary()


def read_gate() -> TurnGate:
    """Return the one gate of the immediate reads of the running loop."""
    loop = asyncio.get_running_loop()
    gate = _read_gates.get(loop)
    if gate is None:
        gate = _read_gates[loop] = TurnGate(MAX_IMMEDIATE_READS_PER_TURN)
    return gate
