"""Whether a shard is fetched whole, in place of its index first and its inner chunks then: a pure function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from aiozarr.codecs import ShardLayout
from aiozarr.engine.layout import ObjectLayout
from aiozarr.engine.plan.part_plan import price_of
from aiozarr.grid.projection import Part
from aiozarr.model import Value
from aiozarr.schedule.coalesce import Economy
from aiozarr.stores.contract import Store

SLACK = 256
"""Bytes that a compressor adds to an inner chunk that it cannot compress, besides a thirty-second."""


def whole_bound(shard: ShardLayout) -> int | None:
    """Return how many bytes are asked for where a shard is fetched whole; None where its size is anybody's guess.

    A shard of sane codecs has no more. One that has, because of what its writer left in it, is read in two phases.
    """
    inner = shard.inner
    size = inner.encoded_size
    if size is None:
        if inner.spec.is_variable:
            return None
        plain = inner.spec.nbytes if inner.plain_size is None else inner.plain_size
        size = min(inner.max_encoded_size, plain + plain // 32 + SLACK)
    return shard.index_nbytes + shard.count * size


def whole_request(
    shard: ShardLayout, part: Part, touched: Callable[[], int], economy: Economy, *, ranges: bool
) -> int | None:
    """Return how many bytes to ask for where it is best to fetch a shard whole; None where it is not.

    Args:
        shard: how the shard is laid out.
        part: what is wanted of it.
        touched: counts the inner chunks that `part` touches.
        economy: what a request costs, how much may be read over, and how large a request may be.
        ranges: whether the store answers ranges; else every request brings the whole shard anyway.
    """
    bound = whole_bound(shard)
    if bound is None or bound > max(economy.gap, economy.max_request_bytes):
        return None
    # No larger than what a second round trip costs.
    if bound <= economy.gap or not ranges:
        return bound
    inside = prod([-(-extent // length) for extent, length in zip(part.extents, shard.inner_shape, strict=True)])
    raw = shard.inner.raw
    if raw is not None and raw.nbytes > price_of(economy) and part.size * economy.max_over_read < prod(part.extents):
        return None  # a little of each can be had
    return bound if touched() * economy.max_over_read >= inside else None


def whole_of(stored: ObjectLayout, part: Part, economy: Economy, store: Store) -> int | None:
    """As `whole_request`, for the stored object that `part` is of."""
    assert stored.shard is not None
    count = partial(_count, stored, part)
    return whole_request(stored.shard, part, count, economy, ranges=store.supports.partial_reads)


def _count(stored: ObjectLayout, part: Part) -> int:
    return len(part.within(stored.inner_axes))


def is_whole(value: Value, bound: int) -> bool:
    """Return whether an answer to a request for the first `bound` bytes of an object is all of it."""
    size = memoryview(value.data).nbytes
    return size < bound if value.size is None else size == value.size
