"""Whether an object is fetched in part or whole: pure functions, by the cost of a request.

Of an uncompressed chunk the wanted ranges are fetched, or all if that is as cheap. A shard is fetched whole, or its
index first and its inner chunks then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from math import prod
from typing import TypeAlias

import numpy as np

from aiozarr.codecs import CodecPipeline, ShardLayout
from aiozarr.codecs.chunk_layouts import RawLayout
from aiozarr.engine.layout import ObjectLayout
from aiozarr.grid.byte_runs import ByteRuns, ElementLayout, byte_runs, byte_runs_key
from aiozarr.grid.fields import FieldProjection
from aiozarr.grid.projection import ChunkSelection
from aiozarr.model import Value
from aiozarr.schedule.coalesce import MergeLimits, coalesce
from aiozarr.stores.contract import Store

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of (start, length) in a chunk, ascending and apart."""

MIN_REQUEST_COST = 16 << 10
"""A request costs at least as much as this many bytes, whatever `Settings.merge_gap_bytes` is."""

MAX_RUNS = 1 << 12
"""A chunk with more wanted runs than this is fetched whole: finding out costs more than it could save."""

MAX_CACHED_CHOICES = 1 << 10


def request_cost_bytes(merge_limits: MergeLimits) -> int:
    """Return how many bytes cost as much as a request."""
    return max(merge_limits.gap, MIN_REQUEST_COST)


class PartialChunkPlanner:
    """Chooses the ranges of chunks for reads with equal limits. Equal parts of equal chunks are planned once.

    Args:
        merge_limits: what a request costs, and how far ranges are merged.
        blocking: whether ranges are system calls. Those of any length cost the same, and more than half of a chunk
            is not worth the trouble.
    """

    def __init__(self, merge_limits: MergeLimits, *, blocking: bool) -> None:
        self._merge_limits = merge_limits
        self._blocking = blocking
        self._kept: dict[object, Ranges | None] = {}

    def ranges(self, part: ChunkSelection, pipeline: CodecPipeline, *, versioned: bool) -> Ranges | None:
        """Return the ranges to fetch of a chunk of which `part` is wanted; None: it is fetched whole.

        `versioned`: several ranges can be told to be of one state of the chunk. Else one range must do.
        """
        raw = pipeline.raw
        if raw is None or raw.nbytes <= request_cost_bytes(self._merge_limits) or part.size >= pipeline.spec.size:
            return None
        slices = byte_runs_key(part)
        if slices is None:
            return self._choose(part, raw, versioned)
        key = (raw, slices, versioned)
        # Workers look here too: what one of them drops or makes twice costs only time.
        found: Ranges | None = self._kept.get(key, ())
        if found == ():
            if len(self._kept) >= MAX_CACHED_CHOICES:
                self._kept.clear()
            found = self._kept[key] = self._choose(part, raw, versioned)
        return found

    def _choose(self, part: ChunkSelection, raw: RawLayout, versioned: bool) -> Ranges | None:
        if isinstance(part, FieldProjection) and not raw.is_memory:
            return None
        runs = byte_runs(part, ElementLayout(raw.shape, raw.strides, raw.order, raw.item_size), MAX_RUNS)
        if runs is None:
            return None
        ranges = cheap_ranges(runs, raw.nbytes, self._merge_limits, split=versioned and not self._blocking)
        if ranges is None or (len(ranges) > 1 and not versioned):
            return None
        if self._blocking and 2 * sum([length for _, length in ranges]) > raw.nbytes:
            return None
        return ranges


@lru_cache(64)
def partial_planner(merge_limits: MergeLimits, blocking: bool) -> PartialChunkPlanner:
    """Return the planner of these limits: the windows of a service share one."""
    return PartialChunkPlanner(merge_limits, blocking=blocking)


def cheap_ranges(runs: ByteRuns, nbytes: int, merge_limits: MergeLimits, *, split: bool) -> Ranges | None:
    """Return the ranges that hold `runs` of a chunk of `nbytes`; None where they save less than a request costs.

    `split`: ranges above the size limit of a merged request are cut up, to travel side by side.
    """
    request_cost = request_cost_bytes(merge_limits)
    wanted = int((runs.stops - runs.starts).sum())
    if wanted + _fewest(runs, wanted, merge_limits) * request_cost >= nbytes:
        return None
    merged = coalesce(list(zip(runs.starts.tolist(), (runs.stops - runs.starts).tolist(), strict=True)), merge_limits)
    if sum([each.length for each in merged]) + len(merged) * request_cost >= nbytes:
        return None
    if not split:
        return tuple([(each.start, each.length) for each in merged])
    most = merge_limits.max_request_bytes
    return tuple(
        [(start, min(most, each.stop - start)) for each in merged for start in range(each.start, each.stop, most)]
    )


def _fewest(runs: ByteRuns, wanted: int, merge_limits: MergeLimits) -> int:
    """Return how many requests merging leaves at least, without a look at each run."""
    gaps = runs.starts[1:] - runs.stops[:-1]
    read_over = np.cumsum(np.sort(gaps[gaps <= merge_limits.gap]))
    return len(gaps) + 1 - int(np.searchsorted(read_over, (merge_limits.max_over_read - 1) * wanted, side="right"))


INCOMPRESSIBLE_SLACK = 256
"""Bytes that a compressor adds to an inner chunk that it cannot compress, in addition to a thirty-second."""


def whole_bound(shard: ShardLayout) -> int | None:
    """Return how many bytes are requested if a shard is fetched whole; None if its size cannot be bounded.

    A shard without unused bytes has no more. A larger one is read by its index.
    """
    inner = shard.inner
    size = inner.encoded_size
    if size is None:
        if inner.spec.is_variable:
            return None
        plain = inner.spec.nbytes if inner.plain_size is None else inner.plain_size
        size = min(inner.max_encoded_size, plain + plain // 32 + INCOMPRESSIBLE_SLACK)
    return shard.index_nbytes + shard.count * size


def whole_request(
    shard: ShardLayout, part: ChunkSelection, touched: Callable[[], int], merge_limits: MergeLimits, *, ranges: bool
) -> int | None:
    """Return how many bytes to request if it is best to fetch a shard whole; None if it is not.

    Args:
        shard: how the shard is laid out.
        part: the selected elements of the shard.
        touched: counts the inner chunks that `part` touches.
        merge_limits: the cost of a request, the bound on over-read, and the largest request.
        ranges: whether the store serves byte ranges; otherwise every request downloads the whole shard.
    """
    bound = whole_bound(shard)
    if bound is None or bound > max(merge_limits.gap, merge_limits.max_request_bytes):
        return None
    # No larger than what a second round trip costs.
    if bound <= merge_limits.gap or not ranges:
        return bound
    inside = prod([-(-extent // length) for extent, length in zip(part.extents, shard.inner_shape, strict=True)])
    raw = shard.inner.raw
    if (
        raw is not None
        and raw.nbytes > request_cost_bytes(merge_limits)
        and part.size * merge_limits.max_over_read < prod(part.extents)
    ):
        return None  # a little of each can be had
    return bound if touched() * merge_limits.max_over_read >= inside else None


def whole_of(stored: ObjectLayout, part: ChunkSelection, merge_limits: MergeLimits, store: Store) -> int | None:
    """As `whole_request`, for the stored object that `part` is of."""
    assert stored.shard is not None
    count = partial(_count, stored, part)
    return whole_request(stored.shard, part, count, merge_limits, ranges=store.supports.partial_reads)


def _count(stored: ObjectLayout, part: ChunkSelection) -> int:
    return len(part.inner_chunks(stored.inner_axes))


def is_whole(value: Value, bound: int) -> bool:
    """Return whether the response to a request for the first `bound` bytes of an object is all of it."""
    size = memoryview(value.data).nbytes
    return size < bound if value.size is None else size == value.size
