"""Merging of byte ranges into requests."""

from hypothesis import given
from hypothesis import strategies as st

from aiozarr.schedule.coalesce import MergeLimits, coalesce

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
            wanted = len({byte for member in request.members for byte in range(*_ends(ranges[member]))})
            assert request.length <= merge_limits.max_request_bytes or request.length == max(
                ranges[member][1] for member in request.members
            )
            assert request.length <= merge_limits.max_over_read * wanted


def _ends(byte_range: tuple[int, int]) -> tuple[int, int]:
    return byte_range[0], byte_range[0] + byte_range[1]
