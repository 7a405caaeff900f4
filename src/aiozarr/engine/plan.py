"""What a read will ask of its store, in numbers: bounds from the metadata alone, exact figures once sizes are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aiozarr.codecs import ShardIndex
from aiozarr.engine.layout import ArrayLayout, ObjectLayout
from aiozarr.errors import LimitError
from aiozarr.grid import DimensionMap, Fields
from aiozarr.grid.axes import Axis, RegularAxis
from aiozarr.grid.projection import Part, Parts
from aiozarr.grid.touched import count_chunks, most_chunks, project
from aiozarr.settings import Settings


@dataclass(frozen=True)
class Plan:
    """Requests and bytes of one read.

    Attributes:
        chunks: stored objects that the read touches.
        inner_chunks: inner chunks of shards that it touches; equal to `chunks` without shards.
        requests: requests to the store; an upper bound unless `exact`.
        min_requests: a lower bound, as far as no shard index is at hand already; equal to `requests` where `exact`.
        bytes: bytes that are fetched; an upper bound unless `exact`.
        bytes_wanted: those of them that are needed; the others are read over between merged ranges.
        exact: True once indexes and sizes have been looked up.
    """

    chunks: int
    inner_chunks: int
    requests: int
    min_requests: int
    bytes: int
    bytes_wanted: int
    exact: bool

    def __str__(self) -> str:
        about = "" if self.exact else "at most "
        return (
            f"{self.requests} requests, {self.bytes} bytes ({about}{self.bytes_wanted} wanted), "
            f"{self.chunks} stored objects, {self.inner_chunks} chunks" + ("" if self.exact else ", bounds")
        )


NO_READ = Plan(0, 0, 0, 0, 0, 0, exact=True)
"""The plan of a view without elements."""


def plan_bounds(layout: ArrayLayout, maps: Sequence[DimensionMap], *, suffix_reads: bool = True) -> Plan:
    """Return bounds on what reading `maps` asks of the store; pure, in time independent of the number of chunks.

    Args:
        layout: the array's.
        maps: what is read of each dimension.
        suffix_reads: whether the store answers suffix ranges; else the size of each shard may have to be asked for.
    """
    objects = count_chunks(layout.axes, maps)
    if layout.shard is None:
        size = objects * layout.largest.pipeline.max_encoded_size
        return Plan(objects, objects, objects, objects, size, size, exact=False)
    inner = count_chunks(_inner_axes(layout), maps)
    size = objects * layout.shard.index_nbytes + inner * layout.shard.inner.max_encoded_size
    lookups = 0 if suffix_reads or layout.shard.index_location == "start" else objects
    return Plan(objects, inner, objects + inner + lookups, objects, size, size, exact=False)


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


def wanted_ranges(stored: ObjectLayout, index: ShardIndex, projection: Part) -> list[tuple[int, int]]:
    """Return (start, length) of every stored inner chunk that the projection of a shard touches."""
    located = [index.locate(position) for position, _ in inner_parts(stored, projection)]
    return [(each.start, each.length or 0) for each in located if each is not None]
