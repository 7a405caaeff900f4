"""How a stage is measured: CPU time, the least of several runs, because other work can only add to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One line of the table: a measurement, and its cost per unit."""

    stage: str
    what: str
    value: float
    unit: str

    def row(self) -> tuple[str, str, str]:
        """The line."""
        return (
            f"{self.stage}: {self.what}",
            f"{self.value:,.3g}" if self.value < 100 else f"{self.value:,.0f}",
            self.unit,
        )


def least_cpu(function: Callable[[], object], runs: int) -> float:
    """Return the CPU seconds of the process, all its threads, in the cheapest of `runs` calls."""
    return least(function, runs, time.process_time)


def least(function: Callable[[], object], runs: int, clock: Callable[[], float]) -> float:
    """Return the seconds by `clock` of the cheapest of `runs` calls."""
    found = []
    for _ in range(runs):
        begun = clock()
        function()
        found.append(clock() - begun)
    return min(found)
