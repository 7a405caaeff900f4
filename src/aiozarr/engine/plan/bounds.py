"""Bounds on what is fetched where parts of chunks, or whole shards, are: from the metadata alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from aiozarr.codecs import ShardLayout
from aiozarr.codecs.pipeline.raw_layout import RawLayout
from aiozarr.engine.plan.partial_plan import MAX_RUNS, MIN_REQUEST_COST, whole_bound
from aiozarr.grid.axes import Axis, RegularAxis
from aiozarr.grid.transform import Constant, DimensionMap, Indexed, Strided
from aiozarr.schedule.coalesce import LOCAL_GAP, MAX_GAP, MIN_GAP
from aiozarr.settings import Settings
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.capabilities import LocatingStore
from aiozarr.stores.contract import Store


@dataclass(frozen=True)
class MergeLimitBounds:
    """What may be known beforehand of the economy that a read will find.

    Attributes:
        least_gap, most_gap: bytes that a request costs, at least and at most.
        max_over_read: bytes fetched / bytes wanted that merging may reach.
        max_request_bytes: size limit of a merged request.
        ranges: whether the store serves ranges.
        merges_objects: whether several stored objects may come in one request, because they are ranges of another.
    """

    least_gap: int
    most_gap: int
    max_over_read: float
    max_request_bytes: int
    ranges: bool
    merges_objects: bool = False

    @classmethod
    def of(cls, store: Store, settings: Settings) -> MergeLimitBounds:
        """Return what is known of reads of `store`."""
        least, most = (LOCAL_GAP, LOCAL_GAP) if isinstance(store, BlockingStore) else (MIN_GAP, MAX_GAP)
        if settings.gap != "auto":
            least = most = settings.gap
        ranges = store.supports.partial_reads
        merges = isinstance(store, LocatingStore)
        return cls(least, most, settings.max_over_read, settings.max_request_bytes, ranges, merges)


UNKNOWN_LIMITS = MergeLimitBounds(MIN_GAP, MAX_GAP, 1.5, 16 << 20, ranges=True)
"""Of a store and settings that are not known."""


def most_ranges(
    raw: RawLayout, axes: Sequence[Axis], maps: Sequence[DimensionMap], merge_bounds: MergeLimitBounds
) -> int:
    """Return how many ranges of one uncompressed chunk are fetched at most, where `maps` are wanted of the array."""
    request_cost = max(merge_bounds.least_gap, MIN_REQUEST_COST)
    if raw.nbytes <= request_cost or not merge_bounds.ranges:
        return 1
    runs, joined = 1, True
    for dim in reversed(raw.order):
        axis, selected, length = axes[dim], maps[dim], raw.shape[dim]
        together = isinstance(selected, Constant) or (isinstance(selected, Strided) and abs(selected.step) == 1)
        if not (joined and together):
            runs *= min(length, _count(selected))
            joined = False
        elif not axis.is_uniform or _count(selected) < axis.extent or axis.extent % length:
            joined = length == 1
    more = (raw.nbytes - 1) // merge_bounds.max_request_bytes  # long ones are cut up
    return min(runs, MAX_RUNS, raw.nbytes // request_cost) + more


def may_be_whole(
    shard: ShardLayout, axes: Sequence[Axis], maps: Sequence[DimensionMap], merge_bounds: MergeLimitBounds
) -> int | None:
    """Return how many bytes are asked for at most where shards are fetched whole; None where none of them is.

    `axes` are those of the shards, and `shard` is the largest.
    """
    bound, most = whole_bound(shard), max(merge_bounds.most_gap, merge_bounds.max_request_bytes)
    if bound is None:
        return None
    if not all([axis.is_uniform for axis in axes]):
        return min(bound, most)
    if bound > most:
        return None
    if bound <= merge_bounds.most_gap or not merge_bounds.ranges:
        return bound
    touched, fewest = 1, 1
    for axis, selected, inner, count in zip(axes, maps, shard.inner_shape, shard.grid_shape, strict=False):
        chunks = _count(selected) if isinstance(selected, Indexed) else RegularAxis(inner, axis.extent).count(selected)
        touched *= min(count, chunks)
        last = int(axis.chunks_of(np.array([_last(selected)]))[0])
        fewest *= -(-axis.chunk_extent(last) // inner)
    return bound if touched * merge_bounds.max_over_read >= fewest else None


def _last(selected: DimensionMap) -> int:
    """Return the largest index that `selected` takes."""
    if isinstance(selected, Constant):
        return selected.index
    if isinstance(selected, Indexed):
        return int(selected.indices.max(initial=0))
    return max(selected.start, selected.start + selected.step * (selected.count - 1))


def _count(selected: DimensionMap) -> int:
    """Return how many indices `selected` takes at most."""
    if isinstance(selected, Constant):
        return 1
    return prod(selected.indices.shape) if isinstance(selected, Indexed) else selected.count
