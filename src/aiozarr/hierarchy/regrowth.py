"""What a grown array shows again of an earlier, larger shape: found, so that it can be said, or cleared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import prod

import numpy as np

from aiozarr.engine import ArrayLayout, Read, Write
from aiozarr.errors import CodecError, StoreError
from aiozarr.grid import Strided
from aiozarr.hierarchy.documents import Place
from aiozarr.hierarchy.reshaping import erase_outside, outside
from aiozarr.stores.tasks import each_bounded

LOOK_AT = 500
"""Chunks of the gained area that are looked for, beginning behind the old end: old data begin there."""
READ_CHUNKS = 64
READ_BYTES = 64 << 20
"""How many cut chunks are read, and how much of them: a resize must not cost as much as a read of the array."""

Maps = tuple[Strided, ...]


async def shows_old_data(place: Place, old: ArrayLayout, new: ArrayLayout) -> bool:
    """Return whether values lie in what `new` has gained, as far as a bounded search finds them."""
    if any([after > before for before, after in zip(old.metadata.shape, new.metadata.shape, strict=True)]):
        return await _finds_chunks(place, old, new) or await _finds_values(place, old, new)
    return False


async def clear_gained(place: Place, old: ArrayLayout, new: ArrayLayout) -> None:
    """Erase the chunks of what `new` has gained, and write the fill value into the gained part of the others."""
    await erase_outside(place, new, old)
    settings = place.settings
    writes = [
        Write(new, place.store, place.prefix, maps, np.broadcast_to(new.spec.fill_value, [m.count for m in maps]))
        for maps in _strips(old, new)
    ]
    for write in writes:
        # One after the other: they overlap where the array has grown along several dimensions.
        await place.engine.write([write], settings=settings, recorder=place.recorder)


async def _finds_chunks(place: Place, old: ArrayLayout, new: ArrayLayout) -> bool:
    found: list[str] = []

    async def look(key: str) -> None:
        if not found and await place.session.stat(key) is not None:
            found.append(key)

    gained = islice(outside(new.grid.shape, old.grid.shape), LOOK_AT)
    await each_bounded(look, [place.prefix + new.key_encoding.encode(coords) for coords in gained])
    return bool(found)


async def _finds_values(place: Place, old: ArrayLayout, new: ArrayLayout) -> bool:
    settings = replace(place.settings, missing="fill", on_event=None, chunk_cache_bytes=0)
    for maps in _strips(old, new):
        first = _beginning(new, maps)
        out = np.empty([each.count for each in first], new.spec.dtype)
        read = Read(new, place.store, place.prefix, first, out)
        try:
            await place.engine.read([read], settings=settings, recorder=place.recorder)
        except (CodecError, StoreError):
            continue  # What cannot be read shows nothing, and the array has its new shape already.
        if not new.largest.pipeline.is_fill(out):
            return True
    return False


def _strips(old: ArrayLayout, new: ArrayLayout) -> Iterator[Maps]:
    """Yield, for each dimension that has grown, what is gained of the chunks that the old end has cut."""
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


def _beginning(layout: ArrayLayout, maps: Sequence[Strided]) -> Maps:
    """Return the part of `maps` that lies in its first chunks: few of them, and of bounded size."""
    lengths = [min(axis.longest(each), each.count) for axis, each in zip(layout.axes, maps, strict=True)]
    room = max(1, min(READ_CHUNKS, READ_BYTES // max(1, prod(lengths) * layout.spec.dtype.itemsize)))
    kept: list[Strided] = []
    for axis, each in zip(layout.axes, maps, strict=True):
        touched = min(axis.count(each), room)
        room //= touched
        first = int(axis.locate(np.array([each.start]))[0][0])
        stop = axis.chunk_start(first + touched - 1) + axis.chunk_length(first + touched - 1)
        kept.append(Strided(each.start, 1, min(each.count, stop - each.start)))
    return tuple(kept)
