"""Which requests bring an object that is too large for one: a pure function of its size and the limit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from aiozarr.model import Range
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.codecs import CodecPipeline

MIN_PART_BYTES = 1 << 20
"""The smallest limit of a part, whatever `Settings.max_request_bytes` says: each part costs a request."""

NO_SPLIT = sys.maxsize


def split_limit(store: Store, settings: Settings) -> int:
    """Return the size in bytes above which an object of `store` is fetched in parts.

    Without versions, a replacement of the object between two parts would go unnoticed.
    """
    supports = store.supports
    return (
        max(MIN_PART_BYTES, settings.max_request_bytes)
        if supports.partial_reads and supports.conditional_reads
        else NO_SPLIT
    )


def first_part(known: int | None, limit: int) -> int:
    """Return the length of the first part of an object; `known` is its size in bytes, if that is known."""
    if known is None or known <= limit:
        return limit
    return -(-known // -(-known // limit))


def split_range(start: int, stop: int, limit: int) -> list[Range]:
    """Return the bytes from `start` to `stop` as the fewest parts of at most `limit` bytes, of about equal length."""
    total = stop - start
    if total <= 0:
        return []
    count = -(-total // limit)
    edges = [start + total * number // count for number in range(count + 1)]
    return [Range(edge, edges[number + 1] - edge) for number, edge in enumerate(edges[:-1])]


def count_parts(pipeline: CodecPipeline, size: int, limit: int) -> int:
    """Return how many requests bring a whole chunk of `size` bytes that `pipeline` decodes."""
    if pipeline.spec.nbytes <= limit:
        return 1
    return 1 + max(0, -(-(size - first_part(pipeline.encoded_size, limit)) // limit))
