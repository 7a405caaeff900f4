"""The plan of a read: requests and bytes, as bounds from the metadata alone, or exact once sizes are known.

The bounds cover parts of chunks and whole shards, whose number of requests depends on the stored objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from math import prod
from typing import Any

import numpy as np

from aiozarr.codecs.chunk_layouts import RawLayout, ShardIndex, ShardLayout
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.common.formatting import format_count, preformatted, printable
from aiozarr.engine.layout import ArrayLayout, ObjectLayout, inner_parts
from aiozarr.engine.partial_plan import MAX_RUNS, MIN_REQUEST_COST, Ranges, whole_bound
from aiozarr.grid.axes import Axis, RegularAxis
from aiozarr.grid.chunk_grid import count_chunks, is_expensive, project
from aiozarr.grid.projection import ChunkProjection, ChunkSelection
from aiozarr.grid.transform import Constant, DimensionMap, Indexed, Strided
from aiozarr.model import ByteRange, Range, Suffix
from aiozarr.schedule.coalesce import LOCAL_GAP, MAX_GAP, MIN_GAP, NO_SPLIT, first_part, split_range
from aiozarr.settings import Settings
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.capabilities import LocatingStore
from aiozarr.stores.contract import Store


@dataclass(frozen=True)
class MergeLimitBounds:
    """Bounds on the limits of merging that a read will have.

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
        """Return the limits of merging in reads of `store`, as far as they are known."""
        least, most = (LOCAL_GAP, LOCAL_GAP) if isinstance(store, BlockingStore) else (MIN_GAP, MAX_GAP)
        if settings.merge_gap_bytes != "auto":
            least = most = settings.merge_gap_bytes
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

    `axes` belong to the shards, and `shard` is the largest.
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


ROWS = 10
"""Requests that a table shows."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One request of a plan; of a plan of bounds, all requests for the chunks of one shard.

    Attributes:
        round: 1 for requests known in advance, 2 for those that depend on a shard index.
        key: the stored object.
        range: the bytes of the object; None: all of it or, in the second round of a plan of bounds, unknown bytes.
        chunks: chunks that they hold of those that are read; 0 for an index.
        bytes: how many bytes come; an upper bound in a plan of bounds.
        bytes_wanted: the bytes that the read needs.
        requests: how many requests that is; an upper bound in a plan of bounds.
        stored: whether there is such an object; None in a plan of bounds, which does not know.
    """

    round: int
    key: str
    range: ByteRange | None
    chunks: int
    bytes: int
    bytes_wanted: int
    requests: int = 1
    stored: bool | None = None


@dataclass(frozen=True)
class Plan:
    """Requests and bytes of one read; `print(plan)` shows them, and the first requests, as a table.

    Attributes:
        chunks: stored objects that the read touches.
        inner_chunks: inner chunks of shards that it touches; equal to `chunks` without shards.
        requests: requests to the store; an upper bound unless `exact`.
        min_requests: a lower bound that assumes no cached shard index; equal to `requests` where `exact`.
        bytes: bytes that are fetched; an upper bound unless `exact`.
        bytes_wanted: the bytes that the read needs; the other bytes are in gaps between merged ranges.
        exact: True once indexes and sizes have been looked up.
        sharded: whether the stored objects are shards.
        missing: how many of these objects are not stored; None unless `exact`.
        array: the array's URL.
        shape: the shape of the selection.
        first: a function that returns `rows`.
    """

    chunks: int
    inner_chunks: int
    requests: int
    min_requests: int
    bytes: int
    bytes_wanted: int
    exact: bool
    sharded: bool = False
    missing: int | None = None
    array: str = ""
    shape: tuple[int, ...] | None = None
    first: Callable[[], tuple[PlanRow, ...]] | None = field(default=None, repr=False, compare=False)

    @property
    def over_read(self) -> int:
        """Bytes that are fetched but not needed; 0 unless `exact`."""
        return self.bytes - self.bytes_wanted

    @property
    def rows(self) -> tuple[PlanRow, ...]:
        """The first requests, at most ten; empty if index arrays are long."""
        return () if self.first is None else self.first()

    def __str__(self) -> str:
        return table(self, self.rows)

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    def __getstate__(self) -> dict[str, Any]:
        # The rows travel, and not the array's layout that they are listed from.
        return {**self.__dict__, "first": FixedRows(self.rows)}


@dataclass(frozen=True)
class FixedRows:
    """Rows that are known already."""

    rows: tuple[PlanRow, ...]

    def __call__(self) -> tuple[PlanRow, ...]:
        return self.rows


NO_READ = Plan(0, 0, 0, 0, 0, 0, exact=True, missing=0)
"""The plan of a view without elements."""


def plan_bounds(
    layout: ArrayLayout,
    maps: Sequence[DimensionMap],
    *,
    suffix_reads: bool = True,
    split_limit: int = NO_SPLIT,
    merge_bounds: MergeLimitBounds = UNKNOWN_LIMITS,
) -> Plan:
    """Return bounds on what reading `maps` asks of the store; pure, in time independent of the number of chunks.

    Args:
        layout: the array's.
        maps: the selected indices of each dimension.
        suffix_reads: whether the store serves suffix ranges; else the size of each shard may have to be requested.
        split_limit: the most bytes of one request; what has more comes in parts.
        merge_bounds: the limits of merging, as far as they are known.
    """
    objects = count_chunks(layout.axes, maps)
    least = min(objects, 1) if merge_bounds.merges_objects else objects
    if layout.shard is None:
        size = objects * layout.largest.pipeline.max_encoded_size
        requests = objects * most_requests(layout, maps, split_limit, merge_bounds)
        fetched = int(size * merge_bounds.max_over_read) if merge_bounds.merges_objects else size
        return Plan(objects, objects, requests, least, fetched, size, exact=False)
    shard = layout.shard
    inner = count_chunks(layout.inner_axes, maps)
    index, data = objects * shard.index_nbytes, inner * shard.inner.max_encoded_size
    size = index + data
    if merge_bounds.most_gap:  # gaps are read over, but no more than there is
        stored = objects * shard.count * shard.inner.max_encoded_size
        most = int(data * merge_bounds.max_over_read)
        size = index + max(data, most if merge_bounds.merges_objects else min(most, stored))
    if (whole := may_be_whole(shard, layout.axes, maps, merge_bounds)) is not None:
        size = max(size, objects * whole)
    inner_requests = inner * most_requests(layout, maps, split_limit, merge_bounds)
    lookups = 0 if suffix_reads or layout.shard.index_location == "start" else objects
    requests = objects + inner_requests + lookups
    return Plan(objects, inner, requests, least, size, index + data, exact=False, sharded=True)


def most_requests(
    layout: ArrayLayout, maps: Sequence[DimensionMap], split_limit: int, merge_bounds: MergeLimitBounds
) -> int:
    """Return how many requests bring one chunk, or inner chunk, of those that `maps` touch, at most."""
    if layout.shard is None:
        pipeline = layout.largest.pipeline
        whole = count_parts(pipeline, pipeline.max_encoded_size, split_limit)
    else:
        pipeline = layout.shard.inner
        whole = len(split_range(0, pipeline.max_encoded_size, split_limit))
    return (
        whole if pipeline.raw is None else max(whole, most_ranges(pipeline.raw, layout.inner_axes, maps, merge_bounds))
    )


def count_parts(pipeline: CodecPipeline, size: int, limit: int) -> int:
    """Return how many requests bring a whole chunk of `size` bytes that `pipeline` decodes."""
    if pipeline.spec.nbytes <= limit:
        return 1
    return 1 + max(0, -(-(size - first_part(pipeline.encoded_size, limit)) // limit))


def wanted_ranges(
    stored: ObjectLayout,
    index: ShardIndex,
    projection: ChunkSelection,
    *,
    cached: Callable[[int], bool] | None = None,
    runs: Callable[[ChunkSelection], Ranges | None] | None = None,
) -> list[tuple[int, int]]:
    """Return (start, length) of every stored inner chunk that a shard's projection touches, without those `cached`.

    `runs` gives the ranges to fetch of an inner chunk that is not compressed; None: all of it.
    """
    assert stored.shard is not None
    raw = stored.shard.inner.raw
    ranges: list[tuple[int, int]] = []
    for position, part in inner_parts(stored, projection):
        located = None if cached is not None and cached(position) else index.locate(position)
        if located is None:
            continue
        inside = runs(part) if runs is not None and raw is not None and located.length == raw.nbytes else None
        if inside is None:
            ranges.append((located.start, located.length or 0))
        else:
            ranges += [(located.start + start, length) for start, length in inside]
    return ranges


# --- plans as text ----------------------------------------------------------------------------------------------


def table(plan: Plan, rows: Sequence[PlanRow]) -> str:
    """Return the plan in words and its first requests in rows."""
    lines = [_title(plan), _objects(plan), _cost(plan)]
    if not plan.chunks:
        return "\n".join([printable(lines[0]), "nothing is read: no requests"])
    if rows:
        lines += _columns(plan, rows)
    more = plan.requests - sum([row.requests for row in rows])
    if more > 0:
        what = format_count(more, "request") if plan.exact else f"at most {format_count(more, 'request')}"
        lines.append(f"... {what} more" if rows else f"... {what}, not listed here")
    return "\n".join(map(printable, lines))


def _title(plan: Plan) -> str:
    shape = "" if plan.shape is None else f" a selection of shape {plan.shape}"
    of = f" of {plan.array}" if plan.array else ""
    what = f"{shape}{of}".strip() or "a read"
    return f"{what}: {'exact' if plan.exact else 'bounds, without a look at what is stored'}"


def _objects(plan: Plan) -> str:
    if plan.sharded:
        touched = f"{format_count(plan.inner_chunks, 'chunk')} in {format_count(plan.chunks, 'shard')}"
    else:
        touched = format_count(plan.chunks, "chunk")
    if not plan.missing:
        return touched
    return f"{touched}, {plan.missing:,} of {'these shards' if plan.sharded else 'them'} not stored"


def _cost(plan: Plan) -> str:
    if plan.exact:
        over = f", {plan.over_read:,} read over gaps" if plan.over_read else ""
        cost = f"{format_count(plan.requests, 'request')}, {format_count(plan.bytes, 'byte')}"
        return f"{cost}: {plan.bytes_wanted:,} wanted{over}"
    least = "" if plan.min_requests == plan.requests else f"{plan.min_requests:,} to "
    return f"{least}{format_count(plan.requests, 'request')}, at most {format_count(plan.bytes, 'byte')}"


def _columns(plan: Plan, rows: Sequence[PlanRow]) -> list[str]:
    cells = [("round", "key", "range", "chunks", "bytes", ""), *[_cells(row, exact=plan.exact) for row in rows]]
    widths = [max([len(line[column]) for line in cells]) for column in range(5)]
    return [
        f"{number:>{widths[0]}}  {key:<{widths[1]}}  {part:<{widths[2]}}  "
        f"{chunks:>{widths[3]}}  {size:>{widths[4]}}  {note}".rstrip()
        for number, key, part, chunks, size, note in cells
    ]


def _cells(row: PlanRow, *, exact: bool) -> tuple[str, str, str, str, str, str]:
    match row.range:
        case Range(start, None):
            part = f"{start}-"
        case Range(start, int(length)):
            part = f"{start}-{start + length - 1}"
        case Suffix(length):
            part = f"last {length}"
        case _:
            part = "whole" if row.round == 1 else "by the index"
    size = f"{row.bytes:,}" if exact else f"<= {row.bytes:,}"
    note = "not stored" if row.stored is False else f"in {row.requests:,} requests" if row.requests > 1 else ""
    if note and row.stored is None:
        note = f"in at most {row.requests:,} requests"
    return str(row.round), row.key, part, f"{row.chunks:,}" if row.chunks else "index", size, note


@dataclass(frozen=True, eq=False)
class LazyRows:
    """Lists the first rows of the plan of one read when it is called, because most plans are never printed."""

    layout: ArrayLayout
    maps: Sequence[DimensionMap]
    prefix: str
    split_limit: int = NO_SPLIT
    merge_bounds: MergeLimitBounds = UNKNOWN_LIMITS

    def __call__(self) -> tuple[PlanRow, ...]:
        return tuple(islice(self._rows(), ROWS))

    def _rows(self) -> Iterator[PlanRow]:
        layout = self.layout
        requests = most_requests(layout, self.maps, self.split_limit, self.merge_bounds)
        for part in self._parts():
            key = self.prefix + layout.key_of(part)
            stored = layout.object_of(part)
            if stored.shard is None:
                size = stored.pipeline.max_encoded_size
                yield PlanRow(1, key, None, 1, size, size, requests)
                continue
            index, inner = stored.shard.index_nbytes, len(part.inner_chunks(stored.inner_axes))
            size = stored.shard.inner.max_encoded_size
            yield PlanRow(1, key, stored.shard.index_range, 0, index, index)
            yield PlanRow(2, key, None, inner, inner * size, inner * size, inner * requests)

    def _parts(self) -> Iterator[ChunkSelection]:
        """The first chunks; none where sorting the points of long index arrays would hold up the caller."""
        axes = self.layout.axes
        inside = tuple(self.maps[: len(axes)])  # behind them are the maps of fields
        if is_expensive(inside):
            return iter(())
        if any([isinstance(each, Indexed) for each in inside]):
            return islice(project(axes, inside), ROWS)
        # No more of a dimension than can be shown: it may have a million chunks.
        dims = [list(islice(axis.split(each), ROWS)) for axis, each in zip(axes, inside, strict=True)]  # type: ignore[arg-type]
        return islice(map(ChunkProjection, product(*dims)), ROWS)
