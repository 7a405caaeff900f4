"""Resizing arrays: the new metadata, erasing chunks outside, and stale data of an earlier, larger shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import prod
from os import urandom

import numpy as np

from aiozarr.common.concurrency import for_each
from aiozarr.engine import ArrayLayout, Read, Write
from aiozarr.errors import CodecError, StoreError
from aiozarr.grid.chunk_grid import resolve_grid
from aiozarr.grid.transform import Strided
from aiozarr.hierarchy.node_access import NodeAccess
from aiozarr.metadata.records import ArrayMetadata, NamedConfig

MIN_LISTED_CHUNKS = 1000
"""Up to this number of chunks outside, each key is erased blindly. Above, a listing finds the stored ones."""
MAX_PROBED_CHUNKS = 500
"""Gained chunks that are probed for stale data, beginning at the old end, where such data begin."""
MAX_READ_CHUNKS = 64
MAX_READ_BYTES = 64 << 20
"""Chunks across the old edge that are read for stale data, because a resize must not cost as much as a full read."""

MARK_BITS = 32

Maps = tuple[Strided, ...]


def resized_metadata(layout: ArrayLayout, shape: Sequence[int]) -> ArrayMetadata:
    """Return the metadata of the array after a resize to `shape`.

    The chunks keep their positions. If a rectilinear grid grows beyond its last chunk, chunks are added.

    Raises:
        ValueError: another number of dimensions, or a negative length.
        UnsupportedMetadataError: the chunk lengths change more often than a grid allows.
    """
    changed = layout.metadata.with_shape(shape)
    before = layout.grid
    after = before.with_shape(changed.shape, layout.largest.pipeline.required_divisor())
    configuration = after.to_json()
    if configuration == before.to_json():
        return changed  # The chunk grid keeps its spelling.
    changed = replace(changed, chunk_grid=NamedConfig(after.name, configuration))
    # Metadata that could not be opened again must not be stored.
    resolve_grid(changed.chunk_grid, changed.shape)
    return changed


def append_mark() -> bytes:
    """Return random white space for the end of the document that an append stores.

    Two writers who append as many elements at the same time store the same metadata. A writer whose response was lost
    would mistake the other's document for its own, and both would write to one region.
    """
    bits = int.from_bytes(urandom(MARK_BITS // 8), "big")
    return bytes([b" \n"[bits >> bit & 1] for bit in range(MARK_BITS)])


def coordinates_outside(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield lazily the coordinates inside a grid of shape `old` and outside of one of shape `new`, each once."""
    for axis in range(len(old)):
        # Coordinates that are inside along the dimensions before this axis, outside along it, and any along those after
        # it.
        inside = [range(min(a, b)) for a, b in zip(old[:axis], new[:axis], strict=True)]
        anywhere = [range(length) for length in old[axis + 1 :]]
        for index in range(new[axis], old[axis]):
            yield from (
                (*before, index, *after) for before in _lazy_product(inside) for after in _lazy_product(anywhere)
            )


def count_outside(old: Sequence[int], new: Sequence[int]) -> int:
    """Return the number of coordinates that `coordinates_outside` yields."""
    return prod(old) - prod([min(a, b) for a, b in zip(old, new, strict=True)])


async def erase_outside(access: NodeAccess, old: ArrayLayout, new: ArrayLayout) -> None:
    """Erase the chunks of `old` that are wholly outside of `new`, with as few requests as the store allows.

    For equal shapes a listing finds the chunks that an interrupted call has left.
    """
    if old.metadata.shape == new.metadata.shape:
        keys: Iterator[str] | list[str] = await _stored_outside(access, new) if access.store.supports.listable else []
    elif count_outside(old.grid.shape, new.grid.shape) <= MIN_LISTED_CHUNKS or not access.store.supports.listable:
        coordinates = coordinates_outside(old.grid.shape, new.grid.shape)
        keys = (access.prefix + old.key_encoding.encode(coords) for coords in coordinates)
    else:
        keys = await _stored_outside(access, new)
    await for_each(access.scheduled.erase, keys)


async def has_stale_data(access: NodeAccess, old: ArrayLayout, new: ArrayLayout) -> bool:
    """Return whether a bounded search finds values in the area that `new` has gained."""
    if any([after > before for before, after in zip(old.metadata.shape, new.metadata.shape, strict=True)]):
        return await _has_stored_chunks(access, old, new) or await _has_values(access, old, new)
    return False


async def clear_gained_area(access: NodeAccess, old: ArrayLayout, new: ArrayLayout) -> None:
    """Erase the chunks that `new` has gained, and write the fill value into the gained part of the others."""
    if old.metadata.shape == new.metadata.shape:
        return
    await erase_outside(access, new, old)
    for maps in _gained_slabs(old, new):
        fill = np.broadcast_to(new.spec.fill_value, [m.count for m in maps])
        write = Write(new, access.store, access.prefix, maps, fill)
        # One after the other, because slabs overlap if the array has grown along several dimensions.
        await access.engine.write(write, settings=access.settings, report=access.report)


async def _stored_outside(access: NodeAccess, layout: ArrayLayout) -> list[str]:
    found: list[str] = []
    async for entry in access.scheduled.scan(access.prefix):
        coords = layout.key_encoding.decode(entry.key[len(access.prefix) :], layout.grid.ndim)
        if coords is not None and any(c >= n for c, n in zip(coords, layout.grid.shape, strict=True)):
            found.append(entry.key)
    return found


async def _has_stored_chunks(access: NodeAccess, old: ArrayLayout, new: ArrayLayout) -> bool:
    found: list[str] = []

    async def probe(key: str) -> None:
        if not found and await access.scheduled.stat(key) is not None:
            found.append(key)

    gained = islice(coordinates_outside(new.grid.shape, old.grid.shape), MAX_PROBED_CHUNKS)
    await for_each(probe, [access.prefix + new.key_encoding.encode(coords) for coords in gained])
    return bool(found)


async def _has_values(access: NodeAccess, old: ArrayLayout, new: ArrayLayout) -> bool:
    settings = replace(access.settings, missing_chunks="fill", on_event=None, chunk_cache_bytes=0)
    for maps in _gained_slabs(old, new):
        first = _first_chunks(new, maps)
        out = np.empty([each.count for each in first], new.spec.dtype)
        read = Read(new, access.store, access.prefix, first, out)
        try:
            await access.engine.read([read], settings=settings, report=access.report)
        except (CodecError, StoreError):
            continue  # An unreadable chunk must not fail the resize, because the array already has its new shape.
        if not new.largest.pipeline.is_fill(out):
            return True
    return False


def _gained_slabs(old: ArrayLayout, new: ArrayLayout) -> Iterator[Maps]:
    """Yield, for each dimension that has grown, the gained part of the chunks across the old edge."""
    shapes = list(zip(old.metadata.shape, new.metadata.shape, strict=True))
    ends = [int(old.grid.edges(dimension)[-1]) for dimension in range(len(shapes))]
    for dimension, (before, after) in enumerate(shapes):
        stop = min(ends[dimension], after)
        if before >= stop:
            continue
        counts = [min(end, length) for end, (_, length) in zip(ends, shapes, strict=True)]
        if 0 in counts:
            continue
        yield tuple(
            [
                Strided(before, 1, stop - before) if each == dimension else Strided(0, 1, count)
                for each, count in enumerate(counts)
            ]
        )


def _first_chunks(layout: ArrayLayout, maps: Sequence[Strided]) -> Maps:
    """Return the part of `maps` in its first chunks, at most `MAX_READ_CHUNKS` of them and `MAX_READ_BYTES`."""
    lengths = [min(axis.longest(each), each.count) for axis, each in zip(layout.axes, maps, strict=True)]
    remaining = max(1, min(MAX_READ_CHUNKS, MAX_READ_BYTES // max(1, prod(lengths) * layout.spec.dtype.itemsize)))
    first_maps: list[Strided] = []
    for axis, each in zip(layout.axes, maps, strict=True):
        count = min(axis.count(each), remaining)
        remaining //= count
        last = int(axis.locate(np.array([each.start]))[0][0]) + count - 1
        stop = axis.chunk_start(last) + axis.chunk_length(last)
        first_maps.append(Strided(each.start, 1, min(each.count, stop - each.start)))
    return tuple(first_maps)


def _lazy_product(ranges: Sequence[range]) -> Iterator[tuple[int, ...]]:
    # itertools.product would first make tuples of the ranges, which may be as long as the array.
    if not ranges:
        yield ()
        return
    for index in ranges[0]:
        for rest in _lazy_product(ranges[1:]) if len(ranges) > 1 else [()]:
            yield (index, *rest)
