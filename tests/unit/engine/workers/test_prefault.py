"""Prefaulting of the pages of outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from aiozarr.engine import prefault
from aiozarr.engine.prefault import MIN_OUTPUT_BYTES, OutputPrefaulter
from aiozarr.engine.worker_pool import WorkerPool, WorkItem, complete_all, run_all
from aiozarr.memory import PIECE_BYTES


class HandPool(WorkerPool):
    """Runs a batch when the test says so."""

    threads = 2

    def __init__(self) -> None:
        self.batches: list[Sequence[WorkItem]] = []

    def submit(self, work: WorkItem, fairness_key: object = None) -> None:
        self.submit_batch([work])

    def submit_batch(self, batch: Sequence[WorkItem]) -> None:
        self.batches.append(batch)

    def flush(self) -> None:
        pass

    def do_one(self) -> None:
        batch = self.batches.pop(0)
        run_all(batch)
        complete_all(batch)

    def close(self) -> None:
        pass


class Pieces:
    """Stands in for `PagePrefaulter`: returns numbered pieces."""

    made: list[int]

    def __init__(self, array: np.ndarray) -> None:
        self.left = array.nbytes // PIECE_BYTES
        Pieces.made = []

    def next(self) -> Callable[[], None] | None:
        if not self.left:
            return None
        self.left -= 1
        number = self.left
        return lambda: Pieces.made.append(number)


def prefaulter_of(pool: HandPool, nbytes: int, extent: int = 0) -> OutputPrefaulter:
    return OutputPrefaulter(pool, [np.empty(nbytes, np.uint8)], extent)


def test_each_thread_prefaults_one_piece_at_a_time(monkeypatch) -> None:
    monkeypatch.setattr(prefault, "PagePrefaulter", Pieces)
    pool, ends = HandPool(), []
    each = prefaulter_of(pool, 5 * PIECE_BYTES)
    each.begin(on_done=lambda: ends.append("done"), on_head_ready=lambda: ends.append("head ready"))
    most = 0
    while pool.batches:
        assert not each.delays_reads
        most = max(most, each.under_way)
        pool.do_one()
    assert (most, Pieces.made, each.under_way, ends) == (2, [4, 3, 2, 1, 0], 0, ["done"])


@pytest.mark.parametrize(
    ("extent", "waits"), [(1, 0), (PIECE_BYTES, 1), (3 * PIECE_BYTES + 1, 3), (9 * PIECE_BYTES, 5)]
)
def test_reads_are_delayed_until_the_head_is_present(monkeypatch, extent: int, waits: int) -> None:
    monkeypatch.setattr(prefault, "PagePrefaulter", Pieces)
    pool, ends = HandPool(), []
    each = prefaulter_of(pool, 5 * PIECE_BYTES, extent)
    each.begin(
        on_done=lambda: ends.append("done"), on_head_ready=lambda: ends.append(f"head ready after {len(Pieces.made)}")
    )
    while pool.batches:
        assert each.delays_reads == (len(Pieces.made) < waits)
        pool.do_one()
    assert ends == ([f"head ready after {waits}"] if waits else []) + ["done"]


def test_after_a_stop_no_more_pieces_are_submitted(monkeypatch) -> None:
    monkeypatch.setattr(prefault, "PagePrefaulter", Pieces)
    pool = HandPool()
    each = prefaulter_of(pool, 5 * PIECE_BYTES, 5 * PIECE_BYTES)
    each.begin(on_done=lambda: None, on_head_ready=lambda: None)
    each.stop()
    while pool.batches:
        pool.do_one()
    assert (Pieces.made, each.under_way, each.delays_reads) == ([4, 3], 0, False)


def test_small_outputs_are_not_prefaulted() -> None:
    pool = HandPool()
    each = prefaulter_of(pool, MIN_OUTPUT_BYTES - 1)
    each.begin(on_done=lambda: None, on_head_ready=lambda: None)
    assert not pool.batches
    assert not each.delays_reads
