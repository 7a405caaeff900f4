"""Connections for requests that a clean round trip will make room for, opened while the first answers are awaited."""

from __future__ import annotations

from collections.abc import Callable

from aiozarr.schedule.budget import Budget
from aiozarr.schedule.call import Call


class Ahead:
    """What one origin was asked to make ready for."""

    def __init__(self) -> None:
        self._requests = 0

    def forget(self) -> None:
        """Nothing is under way: what was made ready may be gone before it is needed."""
        self._requests = 0

    def look(self, budget: Budget, call: Call, pending: Callable[[int], int]) -> None:
        """If all room is taken, make ready for those that will have it next, as `call` did.

        `pending` tells how many calls are still to be sent, as far as there are so many.
        """
        if budget.in_flight < budget.limit or self._requests >= budget.limit + budget.headroom:
            return
        requests = budget.limit + min(budget.headroom, pending(budget.headroom))
        if requests > max(self._requests, budget.limit):
            self._requests = requests
            call.prepare(requests)
