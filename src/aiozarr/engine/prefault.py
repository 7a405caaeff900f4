"""Workers prefault the pages of new outputs while the first bytes are downloaded, ahead of decoding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from aiozarr.engine.worker_pool import BATCH_BYTES, WorkerPool, WorkItem
from aiozarr.grid.projection import SizedSelections
from aiozarr.memory import PIECE_BYTES, PagePrefaulter

MIN_OUTPUT_BYTES = 2 * PIECE_BYTES
"""A smaller output is written to before it could be prefaulted."""


class OutputPrefaulter:
    """Prefaults the new outputs of one operation, one piece per thread at a time. Lives on the loop.

    Attributes:
        under_way: the number of pieces that are being prefaulted.
    """

    def __init__(self, pool: WorkerPool, outputs: list[NDArray[Any]], head_bytes: int = 0) -> None:
        """Take the outputs in the order of writing, and the bytes that the first chunks are scattered over.

        Outputs below `MIN_OUTPUT_BYTES` are left alone.
        """
        self._pool = pool
        self._missing_pieces = head_bytes // PIECE_BYTES
        self._outputs = [PagePrefaulter(each) for each in outputs if each.nbytes >= MIN_OUTPUT_BYTES]
        self._on_done: Callable[[], object] | None = None
        self._on_head_ready: Callable[[], object] | None = None
        self.under_way = 0

    def begin(self, on_done: Callable[[], object], on_head_ready: Callable[[], object]) -> None:
        """Submit the first pieces.

        Args:
            on_done: called after the last piece.
            on_head_ready: called when `delays_reads` becomes false.
        """
        for _ in range(self._pool.threads):
            self.submit_next()
        if self.under_way:
            self._on_done = on_done
            self._on_head_ready = on_head_ready if self._missing_pieces else None

    @property
    def delays_reads(self) -> bool:
        """True until the pages that the first chunks are scattered over are present.

        Decoding would fault them in one by one, which takes longer. Reads from memory and local files wait for them.
        """
        return self._on_head_ready is not None

    def submit_next(self) -> None:
        """Submit one more piece."""
        while self._outputs:
            populate = self._outputs[0].next()
            if populate is not None:
                self.under_way += 1
                self._pool.submit_batch([_Prefault(self, populate)])
                return
            del self._outputs[0]

    def stop(self) -> None:
        """Submit no more pieces."""
        self._outputs.clear()

    def piece_done(self) -> None:
        """Called after each piece."""
        self.under_way -= 1
        self._missing_pieces -= 1
        self.submit_next()
        if self._on_head_ready is not None and (self._missing_pieces <= 0 or not self.under_way):
            on_head_ready, self._on_head_ready = self._on_head_ready, None
            on_head_ready()
        if not self.under_way and self._on_done is not None:
            on_done, self._on_done = self._on_done, None
            on_done()


class _Prefault(WorkItem):
    __slots__ = ("owner", "populate")

    def __init__(self, owner: OutputPrefaulter, populate: Callable[[], None]) -> None:
        super().__init__(BATCH_BYTES)
        self.owner = owner
        self.populate = populate

    def run(self) -> None:
        self.populate()

    def work_completed(self) -> None:
        self.owner.piece_done()


def head_extent(out: NDArray[Any], parts: SizedSelections) -> int:
    """Return how many bytes of `out` the elements of the first chunk are scattered over.

    Returns:
        The extent, or 0 if the elements do not form a view of `out`.
    """
    first = next(iter(parts), None)
    window = None if first is None else first.window(out)
    if window is None or not window.size:
        return 0
    return sum([(length - 1) * abs(stride) for length, stride in zip(window.shape, window.strides, strict=True)])
