"""Plans of faults for `FakeStore` and `FaultyStore`: which calls fail, and how.

A plan is called with each `Call` before it runs and returns its fault: None (no fault), an exception (raised instead of
the call), or one of the actions below. It may have side effects, such as replacing an object:

    FakeStore(values, faults=first(2, ThrottledError("slow down")))
    FakeStore(values, faults=any_of(nth(3, Delay(60)), on_key("c/0/0", ChangedError("replaced"))))
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import TypeAlias

from aiozarr.model import ByteRange, Value

__all__ = [
    "Action",
    "Call",
    "Corrupt",
    "Delay",
    "Hang",
    "LoseResponse",
    "Plan",
    "any_of",
    "before",
    "every",
    "first",
    "nth",
    "on_key",
    "on_operation",
    "seeded",
    "since",
]


@dataclass(slots=True)
class Call:
    """One operation that reached a store.

    Attributes:
        number: counts the calls of the store, from 1.
        operation: "fetch", "set", "erase", "list" or "stat".
        key: the key, or the prefix of a listing.
        range: the requested range, or None for a whole value and for other operations.
        started, ended: the loop's time in seconds; `ended` is None until the call has ended.
        nbytes: bytes that were read or written.
        error: the exception that it ended with, cancellations included, or None.
    """

    number: int
    operation: str
    key: str
    range: ByteRange | None
    started: float
    ended: float | None = None
    nbytes: int = 0
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Delay:
    """The call takes `seconds` longer."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LoseResponse:
    """The call takes effect and then fails, as if its response was lost."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Corrupt:
    """The value that was read is changed, for example cut short."""

    change: Callable[[Value], Value]


@dataclass(frozen=True, slots=True)
class Hang:
    """The call never ends, and is cancelled in the end.

    Attributes:
        called: called when the call hangs, for example to cancel the task that waits for it. It runs on the loop of the
            call, for arrays in the I/O thread.
        takes_effect: whether the call takes effect before it hangs.
    """

    called: Callable[[], object]
    takes_effect: bool = False

    async def hang(self) -> None:
        """Wait until the call is cancelled."""
        self.called()
        await asyncio.Event().wait()


Action: TypeAlias = Exception | Delay | LoseResponse | Corrupt | Hang | None
Plan: TypeAlias = Callable[[Call], Action]


def nth(number: int, action: Action) -> Plan:
    """Apply `action` to the call with this number (from 1)."""
    return lambda call: action if call.number == number else None


def since(number: int, action: Action) -> Plan:
    """Apply `action` to the call with this number (from 1), and to all later ones."""
    return lambda call: action if call.number >= number else None


def first(count: int, action: Action) -> Plan:
    """Apply `action` to the first `count` calls."""
    return lambda call: action if call.number <= count else None


def every(period: int, action: Action) -> Plan:
    """Apply `action` to each `period`-th call."""
    return lambda call: action if call.number % period == 0 else None


def on_key(key: str, action: Action, *, times: int | None = None) -> Plan:
    """Apply `action` to calls for `key`: to the first `times` of them, or to all."""
    return _limited(lambda call: call.key == key, action, times)


def on_operation(operations: str | Container[str], action: Action, *, times: int | None = None) -> Plan:
    """Apply `action` to calls of these operations: to the first `times` of them, or to all."""
    wanted = {operations} if isinstance(operations, str) else operations
    return _limited(lambda call: call.operation in wanted, action, times)


def seeded(seed: int, share: float, action: Action) -> Plan:
    """Apply `action` to a `share` (0 to 1) of all calls, and to the same calls for the same seed."""

    def plan(call: Call) -> Action:
        return action if random.Random(f"{seed}/{call.number}").random() < share else None

    return plan


def before(number: int, do: Callable[[], object]) -> Plan:
    """Call `do`, for example to replace an object, just before the call with this number."""

    def plan(call: Call) -> Action:
        if call.number == number:
            do()
        return None

    return plan


def any_of(*plans: Plan) -> Plan:
    """Apply the first action of `plans`; every plan is called, so each counts all calls."""

    def plan(call: Call) -> Action:
        actions = [one(call) for one in plans]
        return next((action for action in actions if action is not None), None)

    return plan


def _limited(condition: Callable[[Call], bool], action: Action, times: int | None) -> Plan:
    happened = 0

    def plan(call: Call) -> Action:
        nonlocal happened
        if not condition(call) or (times is not None and happened >= times):
            return None
        happened += 1
        return action

    return plan
