"""The estimated cost of a request: latency times bandwidth, rounded, and changed seldom."""

from __future__ import annotations

import pytest

from aiozarr.schedule import cost_estimator
from aiozarr.schedule.cost_estimator import (
    DEFAULT_GAP,
    MAX_GAP,
    MIN_GAP,
    UPDATE_SECONDS,
    RequestCostEstimator,
    quantise,
)

SMALL, LARGE = 1 << 10, 8 << 20


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the estimator."""
    clock = Clock()
    monkeypatch.setattr(cost_estimator, "monotonic", clock)
    return clock


def observe(estimator: RequestCostEstimator, *, latency: float, bandwidth: float) -> None:
    estimator.observe(latency, SMALL)
    estimator.observe(latency + LARGE / bandwidth, LARGE)


def test_the_default_holds_until_both_latency_and_bandwidth_were_measured(clock: Clock) -> None:
    estimator = RequestCostEstimator()
    clock.time += 10 * UPDATE_SECONDS
    assert estimator.gap() == DEFAULT_GAP
    estimator.observe(1.0, LARGE)  # without a latency it says nothing of the bandwidth
    estimator.observe(0.01, SMALL)
    assert estimator.gap() == DEFAULT_GAP


def test_the_gap_is_what_arrives_during_the_latency(clock: Clock) -> None:
    estimator = RequestCostEstimator()
    observe(estimator, latency=0.02, bandwidth=20e6)  # 400 kB
    clock.time += UPDATE_SECONDS + 0.1
    assert estimator.gap() == 256 << 10


def test_the_estimate_changes_at_most_every_two_seconds(clock: Clock) -> None:
    estimator = RequestCostEstimator()
    observe(estimator, latency=0.02, bandwidth=1e9)
    clock.time += UPDATE_SECONDS / 2
    assert estimator.gap() == DEFAULT_GAP
    clock.time += UPDATE_SECONDS
    assert estimator.gap() == MAX_GAP
    for _ in range(100):
        observe(estimator, latency=0.0001, bandwidth=1e6)
    assert estimator.gap() == MAX_GAP
    clock.time += UPDATE_SECONDS + 0.1
    assert estimator.gap() == MIN_GAP


def test_one_slow_response_hardly_moves_the_estimate(clock: Clock) -> None:
    estimator = RequestCostEstimator()
    for _ in range(50):
        observe(estimator, latency=0.02, bandwidth=20e6)
    estimator.observe(0.1, SMALL)
    clock.time += UPDATE_SECONDS + 0.1
    assert estimator.gap() == 256 << 10


@pytest.mark.parametrize(
    ("size", "gap"),
    [
        (0, MIN_GAP),
        ((64 << 10) - 1, MIN_GAP),
        (64 << 10, 64 << 10),
        (300 << 10, 256 << 10),
        (1 << 20, MAX_GAP),
        (1e12, MAX_GAP),
    ],
)
def test_gaps_are_powers_of_four_within_their_bounds(size: float, gap: int) -> None:
    assert quantise(size) == gap
