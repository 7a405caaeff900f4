"""Merging of byte ranges into requests, and the estimated cost of a request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.schedule.coalesce import (
    DEFAULT_GAP,
    MAX_GAP,
    MIN_GAP,
    UPDATE_SECONDS,
    MergeLimits,
    RequestCostEstimator,
    coalesce,
    quantise,
)

RANGES = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 500)), max_size=60)
ECONOMIES = st.builds(
    MergeLimits,
    gap=st.integers(0, 2_000),
    max_over_read=st.floats(1.0, 4.0),
    max_request_bytes=st.integers(1, 5_000),
)


def spans(ranges: list[tuple[int, int]], merge_limits: MergeLimits) -> list[tuple[int, int, list[int]]]:
    return [(each.start, each.stop, each.members) for each in coalesce(ranges, merge_limits)]


def test_neighbours_without_a_gap_are_one_request() -> None:
    assert spans([(0, 10), (10, 10), (20, 5)], MergeLimits(gap=0)) == [(0, 25, [0, 1, 2])]


def test_a_gap_larger_than_allowed_is_skipped() -> None:
    assert spans([(0, 10), (15, 10)], MergeLimits(gap=4)) == [(0, 10, [0]), (15, 25, [1])]


def test_a_gap_is_read_over_where_it_is_small_enough() -> None:
    assert spans([(0, 10), (14, 10)], MergeLimits(gap=4)) == [(0, 24, [0, 1])]


def test_over_read_is_capped_whatever_the_gap() -> None:
    assert spans([(0, 10), (100, 10)], MergeLimits(gap=1000, max_over_read=1.5)) == [(0, 10, [0]), (100, 110, [1])]


def test_the_smallest_gaps_are_read_over_where_not_all_may_be() -> None:
    ranges = [(0, 10), (16, 10), (30, 10), (45, 10)]  # gaps of 6, 4 and 5
    assert spans(ranges, MergeLimits(gap=100, max_over_read=1.25)) == [(0, 10, [0]), (16, 55, [1, 2, 3])]
    assert spans(ranges, MergeLimits(gap=100, max_over_read=1.2)) == [(0, 10, [0]), (16, 40, [1, 2]), (45, 55, [3])]


def test_a_request_stays_within_its_size() -> None:
    ranges = [(at, 10) for at in range(0, 100, 10)]
    assert [stop - start for start, stop, _ in spans(ranges, MergeLimits(gap=0, max_request_bytes=30))] == [
        30,
        30,
        30,
        10,
    ]


def test_a_single_range_larger_than_a_request_goes_alone() -> None:
    assert spans([(0, 100), (100, 5)], MergeLimits(gap=0, max_request_bytes=30)) == [(0, 100, [0]), (100, 105, [1])]


def test_overlapping_and_equal_ranges_are_fetched_once() -> None:
    assert spans([(5, 10), (5, 10), (0, 20)], MergeLimits(gap=0)) == [(0, 20, [2, 0, 1])]


def test_no_ranges_are_no_requests() -> None:
    assert coalesce([], MergeLimits(gap=100)) == []


@given(RANGES, ECONOMIES)
def test_every_range_is_in_exactly_one_request_and_every_limit_holds(
    ranges: list[tuple[int, int]], merge_limits: MergeLimits
) -> None:
    requests = coalesce(ranges, merge_limits)
    assert sorted(member for each in requests for member in each.members) == list(range(len(ranges)))
    for request in requests:
        for member in request.members:
            start, length = ranges[member]
            assert request.start <= start
            assert start + length <= request.stop
        if len(request.members) > 1:
            assert request.length <= merge_limits.max_request_bytes or request.length == max(
                ranges[member][1] for member in request.members
            )
    wanted = {byte for each in ranges for byte in range(*_ends(each))}
    fetched = {byte for request in requests for byte in range(request.start, request.stop)}
    assert len(fetched) <= merge_limits.max_over_read * len(wanted) + 1e-6


def _ends(byte_range: tuple[int, int]) -> tuple[int, int]:
    return byte_range[0], byte_range[0] + byte_range[1]


SMALL, LARGE = 1 << 10, 8 << 20


def observe(estimator: RequestCostEstimator, *, latency: float, bandwidth: float) -> None:
    estimator.observe(latency, SMALL)
    estimator.observe(latency + LARGE / bandwidth, LARGE)


def new_estimator() -> RequestCostEstimator:
    """An estimator whose first read begins at 0 s."""
    estimator = RequestCostEstimator()
    assert estimator.gap(0.0) == DEFAULT_GAP
    return estimator


def test_the_default_holds_until_both_latency_and_bandwidth_were_measured() -> None:
    estimator = new_estimator()
    assert estimator.gap(10 * UPDATE_SECONDS) == DEFAULT_GAP
    estimator.observe(1.0, LARGE)  # without a latency it says nothing of the bandwidth
    estimator.observe(0.01, SMALL)
    assert estimator.gap(20 * UPDATE_SECONDS) == DEFAULT_GAP


def test_the_gap_is_what_arrives_during_the_latency() -> None:
    estimator = new_estimator()
    observe(estimator, latency=0.02, bandwidth=20e6)  # 400 kB
    assert estimator.gap(UPDATE_SECONDS + 0.1) == 256 << 10


def test_the_estimate_changes_at_most_every_two_seconds() -> None:
    estimator = new_estimator()
    observe(estimator, latency=0.02, bandwidth=1e9)
    assert estimator.gap(UPDATE_SECONDS / 2) == DEFAULT_GAP
    assert estimator.gap(1.5 * UPDATE_SECONDS) == MAX_GAP
    for _ in range(100):
        observe(estimator, latency=0.0001, bandwidth=1e6)
    assert estimator.gap(1.5 * UPDATE_SECONDS) == MAX_GAP
    assert estimator.gap(2.5 * UPDATE_SECONDS + 0.1) == MIN_GAP


def test_one_slow_response_hardly_moves_the_estimate() -> None:
    estimator = new_estimator()
    for _ in range(50):
        observe(estimator, latency=0.02, bandwidth=20e6)
    estimator.observe(0.1, SMALL)
    assert estimator.gap(UPDATE_SECONDS + 0.1) == 256 << 10


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
