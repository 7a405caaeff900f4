"""What a read will ask of its store, in numbers: bounds from the metadata alone, exact figures once sizes are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from aiozarr.codecs import ShardIndex
from aiozarr.engine.layout import ArrayLayout, ObjectLayout
from aiozarr.engine.plan_table import PlanRow, table
from aiozarr.engine.split_plan import NEVER, count_parts, cut
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
    layout: ArrayLayout, maps: Sequence[DimensionMap], *, suffix_reads: bool = True, split_limit: int = NEVER
) -> Plan:
    """Return bounds on what reading `maps` asks of the store; pure, in time independent of the number of chunks.

    Args:
        layout: the array's.
        maps: what is read of each dimension.
        suffix_reads: whether the store answers suffix ranges; else the size of each shard may have to be asked for.
        split_limit: the most bytes of one request; what has more comes in parts.
    """
    objects = count_chunks(layout.axes, maps)
    if layout.shard is None:
        pipeline = layout.largest.pipeline
        size = objects * pipeline.max_encoded_size
        requests = objects * count_parts(pipeline, pipeline.max_encoded_size, split_limit)
        return Plan(objects, objects, requests, objects, size, size, exact=False)
    inner = count_chunks(_inner_axes(layout), maps)
    size = objects * layout.shard.index_nbytes + inner * layout.shard.inner.max_encoded_size
    inner_requests = inner * len(cut(0, layout.shard.inner.max_encoded_size, split_limit))
    lookups = 0 if suffix_reads or layout.shard.index_location == "start" else objects
    return Plan(objects, inner, objects + inner_requests + lookups, objects, size, size, exact=False, sharded=True)


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
    stored: ObjectLayout, index: ShardIndex, projection: Part, *, kept: Callable[[int], bool] | None = None
) -> list[tuple[int, int]]:
    """Return (start, length) of every stored inner chunk that a shard's projection touches, without those `kept`."""
    positions = [position for position, _ in inner_parts(stored, projection)]
    located = [index.locate(position) for position in positions if kept is None or not kept(position)]
    return [(each.start, each.length or 0) for each in located if each is not None]
