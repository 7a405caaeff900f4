"""Whether a shard is fetched whole, or its index first and its inner chunks then: a pure function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from aiozarr.codecs import ShardLayout
from aiozarr.engine.layout import ObjectLayout
from aiozarr.engine.plan.partial_plan import request_cost_bytes
from aiozarr.grid.projection import ChunkSelection
from aiozarr.model import Value
from aiozarr.schedule.coalesce import MergeLimits
from aiozarr.stores.contract import Store

INCOMPRESSIBLE_SLACK = 256
"""Bytes that a compressor adds to an inner chunk that it cannot compress, besides a thirty-second."""


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
    """Return whether an answer to a request for the first `bound` bytes of an object is all of it."""
    size = memoryview(value.data).nbytes
    return size < bound if value.size is None else size == value.size
