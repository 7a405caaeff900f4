"""What a read will ask of its store, in numbers: bounds from the metadata alone, exact figures once sizes are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from aiozarr.codecs import ShardIndex
from aiozarr.engine.layout import ArrayLayout, ObjectLayout
from aiozarr.engine.plan.bounds import ANY, Thrift, may_be_whole, most_ranges
from aiozarr.engine.plan.part_plan import Ranges
from aiozarr.engine.plan.split_plan import NEVER, count_parts, cut
from aiozarr.engine.plan.table import PlanRow, table
from aiozarr.errors import LimitError
from aiozarr.grid import DimensionMap, Fields
from aiozarr.grid.axes import Axis, RegularAxis
from aiozarr.grid.projection import Part, Parts
from aiozarr.grid.touched import count_chunks, most_chunks, project
from aiozarr.settings import Settings


@dataclass(frozen=True)
class Plan:
    """Requests and bytes of one read; `print(plan)` shows them, and the first requests, as a table.

    Attributes:
        chunks: stored objects that the read touches.
        inner_chunks: inner chunks of shards that it touches; equal to `chunks` without shards.
        requests: requests to the store; an upper bound unless `exact`.
        min_requests: a lower bound, as far as no shard index is at hand already; equal to `requests` where `exact`.
        bytes: bytes that are fetched; an upper bound unless `exact`.
        bytes_wanted: those of them that are needed; the others are read over between merged ranges.
        exact: True once indexes and sizes have been looked up.
        sharded: whether the stored objects are shards.
        missing: how many of the stored objects are not there; None unless `exact`.
        array: the array's URL.
        shape: the shape of what is read.
        first: gives `rows`.
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
        """Bytes that are fetched and not needed; 0 unless `exact`."""
        return self.bytes - self.bytes_wanted

    @property
    def rows(self) -> tuple[PlanRow, ...]:
        """The first requests, ten at most; none where index arrays are long."""
        return () if self.first is None else self.first()

    def __str__(self) -> str:
        return table(self, self.rows)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __getstate__(self) -> dict[str, Any]:
        # The rows travel, and not the array's layout that they are listed from.
        return {**self.__dict__, "first": GivenRows(self.rows)}


@dataclass(frozen=True)
class GivenRows:
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
    split_limit: int = NEVER,
    thrift: Thrift = ANY,
) -> Plan:
    """Return bounds on what reading `maps` asks of the store; pure, in time independent of the number of chunks.

    Args:
        layout: the array's.
        maps: what is read of each dimension.
        suffix_reads: whether the store answers suffix ranges; else the size of each shard may have to be asked for.
        split_limit: the most bytes of one request; what has more comes in parts.
        thrift: what is known of how requests are merged.
    """
    objects = count_chunks(layout.axes, maps)
    if layout.shard is None:
        size = objects * layout.largest.pipeline.max_encoded_size
        requests = objects * most_requests(layout, maps, split_limit, thrift)
        return Plan(objects, objects, requests, objects, size, size, exact=False)
    shard = layout.shard
    inner = count_chunks(_inner_axes(layout), maps)
    index, data = objects * shard.index_nbytes, inner * shard.inner.max_encoded_size
    size = index + data
    if thrift.most_gap:  # gaps are read over, but no more than there is
        stored = objects * shard.count * shard.inner.max_encoded_size
        size = index + max(data, min(int(data * thrift.max_over_read), stored))
    if (whole := may_be_whole(shard, layout.axes, maps, thrift)) is not None:
        size = max(size, objects * whole)
    inner_requests = inner * most_requests(layout, maps, split_limit, thrift)
    lookups = 0 if suffix_reads or layout.shard.index_location == "start" else objects
    requests = objects + inner_requests + lookups
    return Plan(objects, inner, requests, objects, size, index + data, exact=False, sharded=True)


def most_requests(layout: ArrayLayout, maps: Sequence[DimensionMap], split_limit: int, thrift: Thrift) -> int:
    """Return how many requests bring one chunk, or inner chunk, of those that `maps` touch, at most."""
    if layout.shard is None:
        pipeline = layout.largest.pipeline
        whole = count_parts(pipeline, pipeline.max_encoded_size, split_limit)
    else:
        pipeline = layout.shard.inner
        whole = len(cut(0, pipeline.max_encoded_size, split_limit))
    return whole if pipeline.raw is None else max(whole, most_ranges(pipeline.raw, _inner_axes(layout), maps, thrift))


def surely_fits(layout: ArrayLayout, maps: Sequence[DimensionMap], settings: Settings) -> bool:
    """Return whether `check_size` raises nothing, where that is clear without a look at what index arrays hold."""
    return most_chunks(_inner_axes(layout), maps) <= settings.max_chunks


def check_size(layout: ArrayLayout, maps: Sequence[DimensionMap], settings: Settings) -> None:
    """Raise `LimitError` where an operation on `maps` would touch more chunks than `settings` allow."""
    if surely_fits(layout, maps, settings):
        return
    touched = count_chunks(_inner_axes(layout), maps)
    if touched > settings.max_chunks:
        raise LimitError(
            f"the selection touches {touched} chunks; Settings.max_chunks allows {settings.max_chunks}",
            limit="max_chunks",
            value=touched,
            allowed=settings.max_chunks,
        )


def _inner_axes(layout: ArrayLayout) -> Sequence[Axis]:
    """Return the dimensions of the grid of the smallest units that can be read."""
    if layout.shard is None:
        return layout.axes
    # Inner chunks divide shards, of whatever lengths, so over the whole array they are a regular grid.
    pairs = zip(layout.shard.inner_shape, layout.axes, strict=True)
    return [RegularAxis(length, axis.extent) for length, axis in pairs]


def parts_of(layout: ArrayLayout, maps: Sequence[DimensionMap], fields: Fields | None = None) -> Parts:
    """Return the stored objects that `maps` touch, with what is wanted of each."""
    return project(layout.axes, maps, fields)


def keyed_projections(layout: ArrayLayout, parts: Parts, prefix: str) -> Iterator[tuple[str, Part]]:
    """Yield the key of each of the stored objects `parts`, with what is wanted of it."""
    for projection in parts:
        yield prefix + layout.key_encoding.encode(projection.coords), projection


def inner_parts(stored: ObjectLayout, projection: Part) -> Iterator[tuple[int, Part]]:
    """Yield the linear index of every inner chunk that the projection of a shard touches, with what is wanted of it."""
    assert stored.shard is not None
    return projection.within(stored.inner_axes).numbered(stored.shard.grid_shape)


def wanted_ranges(
    stored: ObjectLayout,
    index: ShardIndex,
    projection: Part,
    *,
    kept: Callable[[int], bool] | None = None,
    runs: Callable[[Part], Ranges | None] | None = None,
) -> list[tuple[int, int]]:
    """Return (start, length) of every stored inner chunk that a shard's projection touches, without those `kept`.

    `runs` gives the ranges to fetch of an inner chunk that is not compressed; None: all of it.
    """
    assert stored.shard is not None
    raw = stored.shard.inner.raw
    ranges: list[tuple[int, int]] = []
    for position, part in inner_parts(stored, projection):
        located = None if kept is not None and kept(position) else index.locate(position)
        if located is None:
            continue
        inside = runs(part) if runs is not None and raw is not None and located.length == raw.nbytes else None
        if inside is None:
            ranges.append((located.start, located.length or 0))
        else:
            ranges += [(located.start + start, length) for start, length in inside]
    return ranges
