"""The stored objects and inner chunks that a selection touches, and whether they are too many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from aiozarr.engine.layout import ArrayLayout, ObjectLayout
from aiozarr.errors import LimitError
from aiozarr.grid.chunk_counting import chunk_count_bound, count_chunks, project
from aiozarr.grid.projection import ChunkSelection, ChunkSelections
from aiozarr.grid.transform import DimensionMap
from aiozarr.settings import Settings

if TYPE_CHECKING:
    from aiozarr.grid.fields import Fields


def fits_upper_bound(layout: ArrayLayout, maps: Sequence[DimensionMap], settings: Settings) -> bool:
    """Return whether `check_size` raises nothing, where that is clear without a look at what index arrays hold."""
    most = settings.max_chunks
    return layout.inner_count <= most or chunk_count_bound(layout.inner_axes, maps) <= most


def check_size(layout: ArrayLayout, maps: Sequence[DimensionMap], settings: Settings) -> None:
    """Raise `LimitError` where an operation on `maps` would touch more chunks than `settings` allow."""
    if fits_upper_bound(layout, maps, settings):
        return
    touched = count_chunks(layout.inner_axes, maps)
    if touched > settings.max_chunks:
        raise LimitError(
            f"the selection touches {touched} chunks; Settings.max_chunks allows {settings.max_chunks}",
            limit="max_chunks",
            value=touched,
            allowed=settings.max_chunks,
        )


def parts_of(layout: ArrayLayout, maps: Sequence[DimensionMap], fields: Fields | None = None) -> ChunkSelections:
    """Return the stored objects that `maps` touch, with what is wanted of each."""
    return project(layout.axes, maps, fields)


def keyed_projections(
    layout: ArrayLayout, parts: Iterable[ChunkSelection], prefix: str
) -> Iterator[tuple[str, ChunkSelection]]:
    """Yield the key of each of the stored objects `parts`, with what is wanted of it."""
    for projection in parts:
        yield prefix + layout.key_of(projection), projection


def inner_parts(stored: ObjectLayout, projection: ChunkSelection) -> Iterator[tuple[int, ChunkSelection]]:
    """Yield the linear index of every inner chunk that the projection of a shard touches, with what is wanted of it."""
    assert stored.shard is not None
    return projection.inner_chunks(stored.inner_axes).numbered(stored.shard.grid_shape)
