"""A target: how its inputs are drawn, and how one is used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from random import Random
from typing import Any, ClassVar

from tests.fuzz.watchdog import CPU_SECONDS


class Target(ABC):
    """One kind of input. Used as an async context manager, around any number of inputs.

    An input depends on the seed, the target and its number only: all of them can be drawn again.

    Attributes:
        name: names it on the command line.
        quick: number of inputs in the daily tests.
        cpu_seconds: what one input may take of the processor.
    """

    name: ClassVar[str]
    quick: ClassVar[int] = 100
    cpu_seconds: ClassVar[float] = CPU_SECONDS

    async def __aenter__(self) -> Target:
        self.resources = await AsyncExitStack().__aenter__()
        await self.prepare()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.resources.aclose()

    @abstractmethod
    async def prepare(self) -> None:
        """Make the corpus, and what all inputs share; `resources` are closed at the end."""

    @abstractmethod
    def draw(self, rng: Random) -> Any:
        """Return an input, whose `repr` can be pasted into a test."""

    @abstractmethod
    async def run(self, value: Any) -> None:
        """Use an input; raise whatever is not allowed."""

    def input(self, seed: int, number: int) -> Any:
        """Return the input of this number."""
        return self.draw(Random(f"{seed}/{self.name}/{number}"))
