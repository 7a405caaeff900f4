"""Processes that read and write one store at random moments, in virtual time: they are cancelled, fail, and are killed.

A failure prints its seed and what happened. `pytest tests/cancellation/test_interleavings.py -k seed-17-` repeats it.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.history import Change, History, Observation
from tests.support.rounds import rounds
from tests.support.simulation import Simulation

pytestmark = pytest.mark.filterwarnings("ignore::aiozarr.UnsafeWriteWarning")
SEEDS = 100
FIRST, SECOND = (slice(0, 1),), (slice(0, 2),)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Draw the same seeds every day, and others of each seed of `make test-long`."""
    if "seed" in metafunc.fixturenames:
        first = int(metafunc.config.getoption("--hypothesis-seed", None) or 0)
        seeds = range(first, first + rounds(SEEDS))
        metafunc.parametrize("seed", seeds, ids=[f"seed-{seed}-" for seed in seeds])


def test_every_read_of_a_schedule_returns_what_was_written_and_no_acknowledged_change_is_lost(seed: int) -> None:
    Simulation(seed).run()


@pytest.mark.parametrize("again", [1, 2, 3])
def test_a_schedule_is_repeated_by_its_seed(again: int) -> None:
    first, second = Simulation(again), Simulation(again)
    first.run()
    second.run()
    assert first.trace == second.trace


# --- the checker of histories -----------------------------------------------------------------------------------------


def write(value: int, started: int, ended: int, *, region: tuple[slice, ...] = FIRST, lost: bool = False) -> Change:
    return Change(region, value, started, ended, is_acknowledged=not lost)


def read(values: list[int], started: int, ended: int) -> Observation:
    return Observation((slice(0, len(values)),), np.array(values), started, ended)


@pytest.mark.parametrize(
    ("changes", "reads"),
    [
        pytest.param([write(1, 0, 1), write(2, 2, 3)], [read([2], 4, 5)], id="one after the other"),
        pytest.param([write(1, 0, 9)], [read([0], 1, 2), read([1], 3, 4)], id="during a write"),
        pytest.param([write(1, 0, 1, lost=True)], [read([0], 2, 3)], id="an error without an effect"),
        pytest.param([write(1, 0, 1, lost=True)], [read([1], 2, 3)], id="an error after the effect"),
        pytest.param([write(1, 0, 9), write(2, 1, 8)], [read([1], 10, 11)], id="two at the same time"),
        pytest.param([write(1, 0, 1), write(0, 2, 3)], [read([0], 4, 5)], id="the fill value"),
    ],
)
def test_a_possible_history_passes(changes: list[Change], reads: list[Observation]) -> None:
    History((2,), changes, reads).check()


@pytest.mark.parametrize(
    ("changes", "reads", "message"),
    [
        ([write(1, 0, 1)], [read([0], 2, 3)], "overwritten by 1"),
        ([write(1, 4, 5)], [read([1], 2, 3)], "never written"),
        ([write(1, 0, 1), write(2, 2, 3)], [read([1], 4, 5)], "overwritten by 2"),
        ([write(1, 0, 1), write(0, 2, 3)], [read([1], 4, 5)], "overwritten by 0"),
        ([write(1, 0, 1), write(2, 2, 3, lost=True)], [read([2], 4, 5), read([1], 6, 7)], "overwritten by 2"),
        ([write(1, 0, 9), write(2, 0, 9)], [read([1], 1, 2), read([2], 3, 4), read([1], 5, 6)], "1, then 2, then 1"),
        (
            [write(1, 0, 20), write(2, 0, 20)],
            [read([1], 1, 2), read([2], 3, 4), read([1], 5, 6), read([2], 7, 8)],
            "in turn",
        ),
        ([write(1, 0, 1, region=SECOND), write(2, 2, 9, region=SECOND)], [read([1, 2], 3, 4)], "has replaced it"),
    ],
)
def test_an_impossible_history_is_found(changes: list[Change], reads: list[Observation], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        History((2,), changes, reads).check()
