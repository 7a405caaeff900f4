"""Making the memory of outputs present."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from aiozarr.engine.work import present
from aiozarr.engine.work.pool import Work, WorkerPool, finish, run_all
from aiozarr.engine.work.present import LEAST, Presenting
from aiozarr.memory import PIECE


class HandPool(WorkerPool):
    """Does a batch when it is told to."""

    threads = 2

    def __init__(self) -> None:
        self.batches: list[Sequence[Work]] = []

    def submit(self, work: Work, line: object = None) -> None:
        self.submit_batch([work])

    def submit_batch(self, batch: Sequence[Work]) -> None:
        self.batches.append(batch)

    def flush(self) -> None:
        pass

    def do_one(self) -> None:
        batch = self.batches.pop(0)
        run_all(batch)
        finish(batch)

    def close(self) -> None:
        pass


class Pieces:
    """Stands for `Presence`: gives out pieces by number."""

    made: list[int]

    def __init__(self, array: np.ndarray) -> None:
        self.left = array.nbytes // PIECE
        Pieces.made = []

    def next(self) -> Callable[[], None] | None:
        if not self.left:
            return None
        self.left -= 1
        number = self.left
        return lambda: Pieces.made.append(number)


def presenting(pool: HandPool, nbytes: int, extent: int = 0) -> Presenting:
    return Presenting(pool, [np.empty(nbytes, np.uint8)], extent)


def test_as_many_pieces_are_under_way_as_there_are_threads_until_all_are_present(monkeypatch) -> None:
    monkeypatch.setattr(present, "Presence", Pieces)
    pool, ends = HandPool(), []
    each = presenting(pool, 5 * PIECE)
    each.begin(over=lambda: ends.append("over"), led=lambda: ends.append("led"))
    most = 0
    while pool.batches:
        assert not each.leads
        most = max(most, each.under_way)
        pool.do_one()
    assert (most, Pieces.made, each.under_way, ends) == (2, [4, 3, 2, 1, 0], 0, ["over"])


@pytest.mark.parametrize(("extent", "waits"), [(1, 0), (PIECE, 1), (3 * PIECE + 1, 3), (9 * PIECE, 5)])
def test_what_the_first_chunks_are_scattered_over_is_waited_for(monkeypatch, extent: int, waits: int) -> None:
    monkeypatch.setattr(present, "Presence", Pieces)
    pool, ends = HandPool(), []
    each = presenting(pool, 5 * PIECE, extent)
    each.begin(over=lambda: ends.append("over"), led=lambda: ends.append(f"led by {len(Pieces.made)}"))
    while pool.batches:
        assert each.leads == (len(Pieces.made) < waits)
        pool.do_one()
    assert ends == ([f"led by {waits}"] if waits else []) + ["over"]


def test_after_a_stop_only_what_is_under_way_is_done(monkeypatch) -> None:
    monkeypatch.setattr(present, "Presence", Pieces)
    pool = HandPool()
    each = presenting(pool, 5 * PIECE, 5 * PIECE)
    each.begin(over=lambda: None, led=lambda: None)
    each.stop()
    while pool.batches:
        pool.do_one()
    assert (Pieces.made, each.under_way, each.leads) == ([4, 3], 0, False)


def test_small_outputs_are_left_as_they_are() -> None:
    pool = HandPool()
    each = presenting(pool, LEAST - 1)
    each.begin(over=lambda: None, led=lambda: None)
    assert not pool.batches
    assert not each.leads
