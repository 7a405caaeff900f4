"""Whether a shard is fetched whole: by its size, the share that is wanted, and the cost of a request."""

from __future__ import annotations

from typing import Any

import pytest

from aiozarr.codecs import ShardLayout
from aiozarr.engine.plan.whole_shard import whole_bound, whole_request
from aiozarr.grid import IndexTransform
from aiozarr.grid.axes import regular_axes
from aiozarr.grid.chunk_counting import project
from aiozarr.schedule.coalesce import MergeLimits
from tests.support.engine_samples import RAW, layout_of

INDEX = 16 * 16 + 4
SIZE = 256 * 4 + INDEX
"""Bytes of the shards here: 16 inner chunks of (4, 4)."""
CHECKED: list[dict[str, Any]] = [*RAW, {"name": "crc32c"}]


def layout(inner: tuple[int, ...] = (4, 4), **more: Any) -> ShardLayout:
    found = layout_of((32, 16), (16, 16), inner=inner, **more).shard
    assert found is not None
    return found


def chosen(shard: ShardLayout, merge_limits: MergeLimits, *selection: Any, ranges: bool = True) -> int | None:
    (part,) = project(regular_axes((16, 16), (16, 16)), IndexTransform.identity((16, 16)).select(selection).maps)
    touched = len(part.inner_chunks(regular_axes(shard.inner_shape, shard.shard_shape)))
    return whole_request(shard, part, lambda: touched, merge_limits, ranges=ranges)


def test_the_bound_is_the_largest_size_that_codecs_produce() -> None:
    assert whole_bound(layout()) == SIZE
    zstd = [*RAW, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}]
    bound = whole_bound(layout(codecs=zstd))
    assert bound is not None
    assert SIZE < bound < SIZE + 16 * 300
    assert whole_bound(layout(codecs=[{"name": "vlen-utf8"}], dtype="string", fill_value="")) is None


def test_the_choice_depends_on_size_share_and_cost_of_a_request() -> None:
    shard = layout()
    assert chosen(shard, MergeLimits(0), ...) == SIZE
    assert chosen(shard, MergeLimits(0, max_request_bytes=SIZE), ...) == SIZE
    assert chosen(shard, MergeLimits(0, max_request_bytes=SIZE - 1), ...) is None
    assert chosen(shard, MergeLimits(0), slice(12)) == SIZE
    assert chosen(shard, MergeLimits(0), slice(8)) is None
    assert chosen(shard, MergeLimits(0, max_over_read=2.0), slice(8)) == SIZE
    # All inner chunks are touched, and of such small ones all is fetched.
    assert chosen(shard, MergeLimits(0), slice(None, None, 4)) == SIZE
    assert chosen(shard, MergeLimits(SIZE), 3, 3) == SIZE
    assert chosen(shard, MergeLimits(SIZE, max_request_bytes=1), 3, 3) == SIZE
    assert chosen(shard, MergeLimits(SIZE - 1), 3, 3) is None
    assert chosen(shard, MergeLimits(0), 3, 3, ranges=False) == SIZE


@pytest.mark.parametrize(("codecs", "whole"), [(RAW, False), (CHECKED, True)])
def test_the_wanted_elements_count_if_inner_chunks_can_be_read_in_part(
    codecs: list[dict[str, Any]], whole: bool
) -> None:
    shard = layout_of((64, 4096), (64, 4096), inner=(16, 4096), codecs=codecs).shard
    assert shard is not None
    (part,) = project(
        regular_axes((64, 4096), (64, 4096)), IndexTransform.identity((64, 4096)).select((slice(3, 64, 16),)).maps
    )
    assert (whole_request(shard, part, lambda: 4, MergeLimits(0), ranges=True) is not None) == whole


def test_only_the_elements_inside_the_array_count_for_a_shard_at_the_edge() -> None:
    shard = layout()
    (part,) = project(regular_axes((16, 16), (5, 7)), IndexTransform.identity((5, 7)).select(...).maps)
    assert whole_request(shard, part, lambda: 4, MergeLimits(0), ranges=True) == SIZE
    assert whole_request(shard, part, lambda: 2, MergeLimits(0), ranges=True) is None
