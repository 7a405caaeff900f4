"""Worker pools that do what a test tells them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiozarr.engine import InlinePool
from aiozarr.engine.work.pool import Work


class HeldPool(InlinePool):
    """Workers that begin when they are told to."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Work] = []

    def submit(self, work: Work, line: object = None) -> None:
        self.held.append(work)

    def submit_batch(self, batch: Sequence[Work]) -> None:
        self.held += batch

    def go_on(self, takes: Callable[[Work], bool] = lambda work: True) -> None:
        """Do what is held, or what of it the test takes."""
        held, self.held = self.held, []
        self.held = [work for work in held if not takes(work)]
        super().submit_batch([work for work in held if takes(work)])
