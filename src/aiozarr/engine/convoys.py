"""Partial writes of one stored object take turns, and whoever's turn it is takes along those who wait.

So an object that many tasks fill piece by piece is read and written a few times, not once for each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import Generic, Protocol, Self, TypeVar

from aiozarr.engine.key_locks import KeyLocks


class Traveller(Protocol):
    """A change of one object."""

    def fits(self, other: Self) -> bool:
        """Return whether `other` can be taken along."""
        ...


T = TypeVar("T", bound=Traveller)


MAX_RIDES = 5
"""Turns of others that a change may be in vain in: where nothing can be stored, each of many would make all of them."""


class _Seat(Generic[T]):
    """Who waits: `taken` is there while another one's turn covers the change, `arrived` once it has.

    `rides` counts the turns that covered it.
    """

    def __init__(self, who: T) -> None:
        self.who = who
        self.taken: asyncio.Future[None] | None = None
        self.arrived = False
        self.rides = 0

    def release(self) -> None:
        """The turn that covers the change is over."""
        if self.taken is not None:
            self.taken.set_result(None)
            self.taken = None


class Convoys(Generic[T]):
    """Who waits to change which object. Lives on one loop.

    Args:
        locks: whose turn it is; others may hold them too.
    """

    def __init__(self, locks: KeyLocks) -> None:
        self._locks = locks
        self._waiting: dict[Hashable, list[_Seat[T]]] = {}

    @asynccontextmanager
    async def join(self, place: Hashable, who: T) -> AsyncIterator[list[T]]:
        """Wait for the turn at `place`, and give all whose changes are to be made in it, in the order of their coming.

        None are given where another one's turn has made the change. Who is taken out of the list, and all where the
        turn ends with an error, wait on; one that is cancelled meanwhile waits for this turn's end.
        """
        seat = _Seat(who)
        waiting = self._waiting.setdefault(place, [])
        waiting.append(seat)
        try:
            async with self._locks.hold(place):
                if seat.arrived:
                    yield []
                    return
                group = [each for each in waiting if each is seat or (each.rides < MAX_RIDES and who.fits(each.who))]
                for each in group:
                    waiting.remove(each)
                    each.rides += 1
                    each.taken = asyncio.get_running_loop().create_future()
                made = [each.who for each in group]
                try:
                    yield made
                except BaseException:
                    made.clear()
                    raise
                finally:
                    for each in group:
                        each.arrived = any(each.who is who for who in made)
                        if not each.arrived and each is not seat:
                            waiting.append(each)
                        each.release()
        except asyncio.CancelledError:
            while seat.taken is not None:
                try:
                    await asyncio.shield(seat.taken)
                except asyncio.CancelledError:
                    continue
            raise
        finally:
            if seat in waiting:
                waiting.remove(seat)
            if not waiting and self._waiting.get(place) is waiting:
                del self._waiting[place]
