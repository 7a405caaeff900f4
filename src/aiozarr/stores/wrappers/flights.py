"""One request for all who ask for the same at the same time."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from aiozarr.errors import AiozarrError
from aiozarr.stores.lock import Lock
from aiozarr.stores.wrappers.shelf import Place, is_below

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Flight:
    task: asyncio.Task[Any]
    waiting: int = 0
    raised: bool = False


class Flights:
    """Requests under way, each in a task of its own on the loop of those who wait for it.

    Whoever is cancelled leaves the others their request; the last one takes it along, and waits for its end.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_place: dict[Place, dict[Hashable, _Flight]] = {}

    async def join(self, place: Place, what: Hashable, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what the request `what` for `place` brings: the one that is under way, or a new one."""
        token = (asyncio.get_running_loop(), what)
        with self._lock:
            flights = self._by_place.setdefault(place, {})
            flight = flights.get(token)
            if flight is None or flight.task.done():
                flight = flights[token] = _Flight(asyncio.create_task(start()))
                flight.task.add_done_callback(_heard)
            flight.waiting += 1
        try:
            await asyncio.wait([flight.task])
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                self._remove(place, token, flight)
                await _end(flight.task)
        result: T = _result(flight)
        return result

    def forget(self, place: Place) -> None:
        """Let later requests for `place` be new ones: what is under way may bring what was replaced since."""
        with self._lock:
            self._by_place.pop(place, None)

    def forget_below(self, store: Hashable, prefix: str) -> None:
        """As `forget`, for all keys of a store that start with `prefix`."""
        with self._lock:
            for place in [place for place in self._by_place if is_below(place, store, prefix)]:
                del self._by_place[place]

    def _remove(self, place: Place, token: Hashable, flight: _Flight) -> None:
        with self._lock:
            flights = self._by_place.get(place, {})
            if flights.get(token) is flight:
                del flights[token]
                if not flights:
                    del self._by_place[place]


async def _end(task: asyncio.Task[Any]) -> None:
    if not task.done():
        task.cancel()
        await asyncio.wait([task])


def _heard(task: asyncio.Task[Any]) -> None:
    """Take note of an error that nobody may be left to be told of."""
    if not task.cancelled():
        task.exception()


def _result(flight: _Flight) -> Any:
    """Return or raise what the request ended with: errors get their place on the way up, so each waiter has its own."""
    error = None if flight.task.cancelled() else flight.task.exception()
    if not isinstance(error, AiozarrError) or not flight.raised:
        flight.raised = True
        return flight.task.result()
    mine = copy.copy(error)
    mine.__cause__ = error.__cause__
    raise mine
