"""Worker pools that a test controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiozarr.engine import InlinePool
from aiozarr.engine.worker_pool import WorkItem


class HeldPool(InlinePool):
    """Workers that hold their work until the test releases it."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[WorkItem] = []

    def submit(self, work: WorkItem, line: object = None) -> None:
        self.held.append(work)

    def submit_batch(self, batch: Sequence[WorkItem]) -> None:
        self.held += batch

    def go_on(self, takes: Callable[[WorkItem], bool] = lambda work: True) -> None:
        """Run the held work items that `takes` accepts."""
        held, self.held = self.held, []
        self.held = [work for work in held if not takes(work)]
        super().submit_batch([work for work in held if takes(work)])
