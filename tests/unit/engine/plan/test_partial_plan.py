"""Which ranges of an uncompressed chunk are fetched, and which shards whole: pure, so counted without a store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.chunk_layouts import ShardLayout
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.engine.partial_plan import MIN_REQUEST_COST, PartialChunkPlanner, Ranges, whole_bound, whole_request
from aiozarr.grid.axes import regular_axes
from aiozarr.grid.chunk_grid import project
from aiozarr.grid.transform import IndexTransform
from aiozarr.schedule.coalesce import MergeLimits
from tests.support.engine_samples import RAW as RAW_CODECS
from tests.support.engine_samples import layout_of

KIB = 1 << 10
MIB = 1 << 20
RAW: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
FORTRAN: dict[str, Any] = {"name": "transpose", "configuration": {"order": [1, 0]}}


def pipeline(*codecs: dict[str, Any], shape: tuple[int, ...] = (1024, 1024), dtype: str = "i4") -> CodecPipeline:
    return CodecPipeline.resolve(list(codecs), ArraySpec(shape, np.dtype(dtype), np.zeros((), dtype)))


def ranges(
    codecs: CodecPipeline,
    *selection: Any,
    merge_limits: MergeLimits | None = None,
    blocking: bool = False,
    versioned: bool = True,
) -> Ranges | None:
    shape = codecs.spec.shape
    (part,) = project(regular_axes(shape, shape), IndexTransform.identity(shape).select(selection).maps)
    plan = PartialChunkPlanner(merge_limits or MergeLimits(128 * KIB), blocking=blocking)
    found = plan.ranges(part, codecs, versioned=versioned)
    assert plan.ranges(part, codecs, versioned=versioned) == found
    return found


def test_rows_are_one_range_and_columns_make_the_chunk_come_whole() -> None:
    chunk = pipeline(RAW)
    assert ranges(chunk, slice(3, 5)) == ((3 * 4096, 8192),)
    assert ranges(chunk, 7, slice(2, 4)) == ((7 * 4096 + 8, 8),)
    assert ranges(chunk, slice(None), 3) is None
    # In Fortran's order it is the other way round.
    chunk = pipeline(FORTRAN, RAW)
    assert ranges(chunk, slice(None), slice(3, 5)) == ((3 * 4096, 8192),)
    assert ranges(chunk, 3) is None


def test_runs_far_from_each_other_are_ranges_of_their_own_and_near_ones_are_merged() -> None:
    chunk = pipeline(RAW)
    assert ranges(chunk, slice(None, None, 512)) == ((0, 4096), (512 * 4096, 4096))
    assert ranges(chunk, slice(0, 20, 10), merge_limits=MergeLimits(128 * KIB, max_over_read=9.0)) == ((0, 11 * 4096),)
    assert ranges(chunk, slice(0, 20, 10)) == ((0, 4096), (10 * 4096, 4096))


def test_a_chunk_is_fetched_whole_if_a_part_saves_less_than_the_cost_of_a_request() -> None:
    chunk = pipeline(RAW)
    assert ranges(chunk, slice(0, 900)) == ((0, 900 * 4096),)
    assert ranges(chunk, slice(0, 1000)) is None
    assert ranges(chunk, ...) is None
    small = pipeline(RAW, shape=(32, 1024))
    assert ranges(small, 0) is None
    assert ranges(small, 0, merge_limits=MergeLimits(0)) == ((0, 4096),)
    # However little a gap is said to cost, a request has a head.
    assert ranges(pipeline(RAW, shape=(MIN_REQUEST_COST // 4,)), 0, merge_limits=MergeLimits(0)) is None


def test_long_ranges_are_cut_up_to_travel_side_by_side() -> None:
    chunk = pipeline(RAW, shape=(16, MIB))
    assert ranges(chunk, slice(1, 5), merge_limits=MergeLimits(128 * KIB, max_request_bytes=8 * MIB)) == (
        (4 * MIB, 8 * MIB),
        (12 * MIB, 8 * MIB),
    )
    assert ranges(chunk, slice(1, 5), merge_limits=MergeLimits(32 * KIB, max_request_bytes=MIB), blocking=True) == (
        (4 * MIB, 16 * MIB),
    )


def test_without_versions_one_range_must_do() -> None:
    chunk = pipeline(RAW)
    assert ranges(chunk, slice(3, 5), versioned=False) == ((3 * 4096, 8192),)
    assert ranges(chunk, slice(None, None, 512), versioned=False) is None


def test_more_than_half_of_a_file_is_read_whole() -> None:
    chunk = pipeline(RAW)
    assert ranges(chunk, slice(0, 513), blocking=True) is None
    assert ranges(chunk, slice(0, 512), blocking=True) is not None


@pytest.mark.parametrize(
    "codecs",
    [
        [RAW, {"name": "crc32c"}],
        [RAW, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
        [{"name": "bitround", "configuration": {"keepbits": 3}}, RAW],
    ],
)
def test_compressed_checked_or_changed_chunks_are_not_read_in_part(codecs: list[dict[str, Any]]) -> None:
    assert ranges(pipeline(*codecs, dtype="f4"), 3) is None


def test_more_than_a_few_thousand_runs_are_not_examined() -> None:
    chunk = pipeline(RAW, shape=(100_000, 1000))
    assert ranges(chunk, slice(None), 0) is None
    assert ranges(chunk, slice(None, None, 2), 0, merge_limits=MergeLimits(0)) is None


INDEX = 16 * 16 + 4
SIZE = 256 * 4 + INDEX
"""Bytes of the shards here: 16 inner chunks of (4, 4)."""
CHECKED: list[dict[str, Any]] = [*RAW_CODECS, {"name": "crc32c"}]


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
    zstd = [*RAW_CODECS, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}]
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


@pytest.mark.parametrize(("codecs", "whole"), [(RAW_CODECS, False), (CHECKED, True)])
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
