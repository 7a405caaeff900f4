"""Bounds on requests before a read: a plan of bounds never promises fewer than the read sends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.engine.partial_plan import PartialChunkPlanner
from aiozarr.engine.plan import MergeLimitBounds, may_be_whole, most_ranges
from aiozarr.grid.axes import regular_axes
from aiozarr.grid.chunk_grid import project
from aiozarr.grid.transform import IndexTransform
from aiozarr.schedule.coalesce import LOCAL_GAP, MAX_GAP, MIN_GAP, MergeLimits
from aiozarr.settings import Settings
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore
from tests.support.engine_samples import RAW, layout_of

KIB = 1 << 10


def bounds(**changes: Any) -> MergeLimitBounds:
    return replace(MergeLimitBounds(MIN_GAP, MAX_GAP, 1.5, 16 << 20, ranges=True), **changes)


def test_the_gap_of_a_network_is_known_in_bounds_and_that_of_system_calls_exactly() -> None:
    remote = MergeLimitBounds.of(FakeStore(), Settings())
    assert (remote.least_gap, remote.most_gap) == (MIN_GAP, MAX_GAP)
    local = MergeLimitBounds.of(MemoryStore(), Settings())
    assert (local.least_gap, local.most_gap) == (LOCAL_GAP, LOCAL_GAP)
    for store in (FakeStore(), MemoryStore()):
        fixed = MergeLimitBounds.of(store, Settings(merge_gap_bytes=5000, max_over_read=3.0, max_request_bytes=1 << 20))
        assert (fixed.least_gap, fixed.most_gap, fixed.max_over_read) == (5000, 5000, 3.0)
        assert fixed.max_request_bytes == 1 << 20


@st.composite
def slices(draw: st.DrawFn, length: int) -> slice:
    start = draw(st.integers(0, length - 1))
    return slice(start, draw(st.integers(start + 1, length)), draw(st.integers(1, length)))


@given(
    st.sampled_from([(256, 256), (512, 128), (64, 1024), (16, 64, 64)]).flatmap(
        lambda shape: st.tuples(st.just(shape), st.tuples(*[slices(length) for length in shape]))
    ),
    st.sampled_from([MIN_GAP, 4 * MIN_GAP, MAX_GAP]),
)
def test_no_read_of_a_chunk_sends_more_ranges_than_the_bound(case: tuple[Any, Any], gap: int) -> None:
    shape, selection = case
    pipeline = CodecPipeline.resolve(RAW, ArraySpec(shape, np.dtype("i4"), np.zeros((), "i4")))
    assert pipeline.raw is not None
    axes = regular_axes(shape, shape)
    maps = IndexTransform.identity(shape).select(selection).maps
    (part,) = project(axes, maps)
    found = PartialChunkPlanner(MergeLimits(gap), blocking=False).ranges(part, pipeline, versioned=True)
    assert (1 if found is None else len(found)) <= most_ranges(pipeline.raw, axes, maps, bounds())


@pytest.mark.parametrize("ranges", [True, False])
def test_a_chunk_is_one_request_where_ranges_are_not_served_or_not_worth_it(ranges: bool) -> None:
    shape = (1024, 1024) if not ranges else (16, 16)
    pipeline = CodecPipeline.resolve(RAW, ArraySpec(shape, np.dtype("i4"), np.zeros((), "i4")))
    assert pipeline.raw is not None
    maps = IndexTransform.identity(shape).select((slice(None, None, 4), 3)).maps
    assert most_ranges(pipeline.raw, regular_axes(shape, shape), maps, bounds(ranges=ranges)) == 1


def test_a_shard_may_be_fetched_whole_if_it_is_small_or_enough_of_it_is_wanted() -> None:
    layout = layout_of((512, 512), (512, 512), inner=(64, 64))
    assert layout.shard is not None
    whole = IndexTransform.identity((512, 512)).maps
    corner = IndexTransform.identity((512, 512)).select((slice(0, 3), slice(0, 3))).maps
    size = 512 * 512 * 4 + 64 * 16 + 4
    small_gap = bounds(most_gap=64 * KIB)
    assert may_be_whole(layout.shard, layout.axes, whole, small_gap) == size
    assert may_be_whole(layout.shard, layout.axes, corner, small_gap) is None
    assert may_be_whole(layout.shard, layout.axes, corner, bounds(most_gap=2 << 20)) == size
    assert may_be_whole(layout.shard, layout.axes, corner, bounds(most_gap=64 * KIB, ranges=False)) == size
    assert may_be_whole(layout.shard, layout.axes, whole, bounds(most_gap=KIB, max_request_bytes=KIB)) is None
