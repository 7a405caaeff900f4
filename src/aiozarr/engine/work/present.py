"""Workers make the memory of new outputs present, while the first bytes are on their way and ahead of decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from aiozarr.engine.work.pool import BATCH_BYTES, Work, WorkerPool
from aiozarr.grid.projection import Parts
from aiozarr.memory import PIECE, Presence

LEAST = 2 * PIECE
"""A smaller output is written to sooner than it could be made present."""


class Presenting:
    """The new outputs of one job. Lives on the loop; as many pieces are under way as there are threads."""

    def __init__(self, pool: WorkerPool, outputs: list[NDArray[Any]], extent: int = 0) -> None:
        """Take the outputs, in the order in which they are written to, and over how many bytes that begins."""
        self._pool = pool
        self._missing = extent // PIECE
        self._outputs = [Presence(each) for each in outputs if each.nbytes >= LEAST]
        self._over: Callable[[], object] | None = None
        self._led: Callable[[], object] | None = None
        self.under_way = 0

    def begin(self, over: Callable[[], object], led: Callable[[], object]) -> None:
        """Send the first pieces to the workers.

        `over` is called once nothing is under way any more, and `led`, if it `leads`, once it does not.
        """
        for _ in range(self._pool.threads):
            self.advance()
        if self.under_way:
            self._over = over
            self._led = led if self._missing else None

    @property
    def leads(self) -> bool:
        """True as long as what the first chunks are scattered over is not present.

        Then it would come to them page by page, which takes longer: who has their bytes at hand waits.
        """
        return self._led is not None

    def advance(self) -> None:
        """Send one piece more."""
        while self._outputs:
            populate = self._outputs[0].next()
            if populate is not None:
                self.under_way += 1
                self._pool.submit_batch([_Populate(self, populate)])
                return
            del self._outputs[0]

    def stop(self) -> None:
        """Send no more."""
        self._outputs.clear()

    def done(self) -> None:
        """A piece is present."""
        self.under_way -= 1
        self._missing -= 1
        self.advance()
        if self._led is not None and (self._missing <= 0 or not self.under_way):
            led, self._led = self._led, None
            led()
        if not self.under_way and self._over is not None:
            over, self._over = self._over, None
            over()


class _Populate(Work):
    __slots__ = ("owner", "populate")

    def __init__(self, owner: Presenting, populate: Callable[[], None]) -> None:
        super().__init__(BATCH_BYTES)
        self.owner = owner
        self.populate = populate

    def run(self) -> None:
        self.populate()

    def finished(self) -> None:
        self.owner.done()


def extent_of(out: NDArray[Any], parts: Parts) -> int:
    """Return from where to where, in bytes, the first of `parts` goes in `out`; 0 where that is no regular place."""
    first = next(iter(parts), None)
    window = None if first is None else first.window(out)
    if window is None or not window.size:
        return 0
    return sum([(length - 1) * abs(stride) for length, stride in zip(window.shape, window.strides, strict=True)])
