"""What a read will ask of its store, in numbers: bounds from the metadata alone, exact figures once sizes are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from aiozarr.codecs import ShardIndex
from aiozarr.engine.layout import ArrayLayout
from aiozarr.errors import LimitError
from aiozarr.grid.axes import Map, RegularAxis
from aiozarr.grid.projection import ChunkProjection, Projection, within
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


def plan_bounds(layout: ArrayLayout, maps: Sequence[Map]) -> Plan:
    """Return bounds on what reading `maps` asks of the store; pure, in time independent of the number of chunks."""
    objects = prod([axis.count(each) for axis, each in zip(layout.axes, maps, strict=True)])
    if layout.shard is None:
        size = objects * layout.pipeline.max_encoded_size
        return Plan(objects, objects, objects, objects, size, size, exact=False)
    # Inner chunks divide shards, so over the whole array they are a regular grid too.
    inner_axes = [
        RegularAxis(length, axis.extent) for length, axis in zip(layout.shard.inner_shape, layout.axes, strict=True)
    ]
    inner = prod([axis.count(each) for axis, each in zip(inner_axes, maps, strict=True)])
    size = objects * layout.shard.index_nbytes + inner * layout.shard.inner.max_encoded_size
    return Plan(objects, inner, objects + inner, objects, size, size, exact=False)


def check_size(layout: ArrayLayout, maps: Sequence[Map], settings: Settings) -> None:
    """Raise `LimitError` where an operation on `maps` would touch more chunks than `settings` allow."""
    touched = plan_bounds(layout, maps).inner_chunks
    if touched > settings.max_chunks:
        raise LimitError(
            f"the selection touches {touched} chunks; Settings.max_chunks allows {settings.max_chunks}",
            limit="max_chunks",
            value=touched,
            allowed=settings.max_chunks,
        )


def keyed_projections(layout: ArrayLayout, maps: Sequence[Map], prefix: str) -> Iterator[tuple[str, ChunkProjection]]:
    """Yield the key of every stored object that `maps` touches, with what is wanted of it."""
    for projection in Projection(layout.axes, maps):
        yield prefix + layout.key_encoding.encode(projection.coords), projection


def inner_parts(layout: ArrayLayout, projection: ChunkProjection) -> Iterator[tuple[int, ChunkProjection]]:
    """Yield the linear index of every inner chunk that the projection of a shard touches, with what is wanted of it."""
    assert layout.shard is not None
    inner = within(layout.inner_axes, projection)
    strides = _strides(layout.shard.grid_shape)
    offsets = [
        [chunk * stride for chunk in chunks]
        for chunks, stride in zip(inner.chunks_by_dimension(), strides, strict=True)
    ]
    return zip(map(sum, product(*offsets)), inner, strict=True)


def wanted_ranges(layout: ArrayLayout, index: ShardIndex, projection: ChunkProjection) -> list[tuple[int, int]]:
    """Return (start, length) of every stored inner chunk that the projection of a shard touches."""
    located = [index.locate(position) for position, _ in inner_parts(layout, projection)]
    return [(each.start, each.length or 0) for each in located if each is not None]


def _strides(shape: Sequence[int]) -> list[int]:
    strides = [1]
    for length in reversed(shape[1:]):
        strides.append(strides[-1] * length)
    return strides[::-1] if shape else []
