"""The parts of an object that is too large for one request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.schedule.coalesce import MIN_PART_BYTES, NO_SPLIT, first_part, split_limit, split_range
from aiozarr.settings import Settings
from aiozarr.testing.fakes import FakeStore


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 30), st.integers(1, 1 << 30))
def test_the_parts_are_the_fewest_within_the_limit_and_of_about_equal_length(
    start: int, total: int, limit: int
) -> None:
    limit = max(limit, total // 500)
    parts = split_range(start, start + total, limit)
    assert len(parts) == -(-total // limit)
    assert [part.start for part in parts] == [start, *[part.start + part.length for part in parts[:-1]]]
    assert sum(part.length for part in parts) == total
    lengths = {part.length for part in parts}
    assert max(lengths) <= limit
    assert max(lengths) - min(lengths) <= 1


@given(st.integers(1, 1 << 30), st.integers(1, 1 << 30))
def test_the_first_part_of_an_object_of_known_size_is_as_long_as_the_others(size: int, limit: int) -> None:
    limit = max(limit, size // 500)
    first = first_part(size, limit)
    parts = 1 + len(split_range(first, size, limit))
    assert first <= limit
    assert parts == -(-size // limit) or size <= limit


def test_the_first_part_of_an_object_of_unknown_size_is_the_limit() -> None:
    assert first_part(None, 100) == 100


@pytest.mark.parametrize("total", [0, -5])
def test_no_bytes_are_no_parts(total: int) -> None:
    assert split_range(10, 10 + total, 4) == []


def test_objects_are_split_only_where_ranges_and_versions_are_served() -> None:
    store, settings = FakeStore(), Settings(max_request_bytes=8 << 20)
    assert split_limit(store, settings) == 8 << 20
    assert split_limit(store, Settings(max_request_bytes=1000)) == MIN_PART_BYTES
    for lacking in ({"partial_reads": False}, {"conditional_reads": False}):
        store.supports = replace(FakeStore().supports, **lacking)
        assert split_limit(store, settings) == NO_SPLIT
