"""One view of the output over several chunks that are adjacent in it: one copy for all is faster than one for each."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

from numpy.typing import NDArray

from aiozarr.grid.projection import ChunkProjection, ChunkSelection

MIN_ADJACENT_CHUNKS = 4
"""Fewer adjacent chunks are copied faster one by one: numpy iterates over the pieces of a row of chunks."""


def adjacent_window(
    selections: Sequence[ChunkSelection], at: int, stop: int, out: NDArray[Any], shape: tuple[int, ...]
) -> NDArray[Any] | None:
    """Return one view of `out` over the chunk of `selections[at]` and those of the following selections adjacent to it.

    Args:
        selections: selections of one projection.
        at: number of the first chunk.
        stop: number of the first chunk that is not considered.
        out: the output, of the core shape.
        shape: shape of every chunk.

    Returns: a view of shape `(n, *shape)` for `n` completely selected chunks, or None if the first chunk is not
        completely selected in its own order.
    """
    first = selections[at]
    if type(first) is not ChunkProjection:
        return None
    window = first.whole_window(out, shape)
    if window is None:
        return None
    count, dimension = _count_adjacent(selections, at, stop)
    if not count:
        return window[None]
    places = list(first.out_selection)
    start, side = places[dimension].start, shape[dimension]
    places[dimension] = slice(start, start + count * side)
    split = (*shape[:dimension], count, *shape[dimension:])
    return out[tuple(places)].reshape(split).transpose(_to_front(dimension, len(split)))


def _count_adjacent(selections: Sequence[ChunkSelection], at: int, stop: int) -> tuple[int, int]:
    """Return the number of adjacent chunks from the complete chunk `at` on, and the dimension along which they lie.

    Axis selections of one projection are shared objects, so identity compares them.

    Returns: (0, 0) for fewer than `MIN_ADJACENT_CHUNKS` chunks.
    """
    first = selections[at]
    if stop - at < MIN_ADJACENT_CHUNKS or type(first) is not ChunkProjection:
        return 0, 0
    # One comparison excludes most chunks that are not adjacent, such as inner chunks in Morton order.
    dimension = _differing(first, selections[at + MIN_ADJACENT_CHUNKS - 1])
    if dimension is None:
        return 0, 0
    shared = len(first) - 1
    begin = first[dimension]
    taken = end = begin.taken
    if begin.step != 1 and taken > 1:
        return 0, 0
    end += begin.offset
    count = 1
    for number in range(at + 1, stop):
        selection = selections[number]
        if type(selection) is not ChunkProjection or sum(map(is_, first, selection)) != shared:
            break
        place = selection[dimension]
        if place.offset != end or place.taken != taken or (place.step != 1 and taken > 1):
            break
        end += taken
        count += 1
    return (count, dimension) if count >= MIN_ADJACENT_CHUNKS else (0, 0)


def _differing(one: ChunkSelection, other: ChunkSelection) -> int | None:
    """Return the only dimension in which two selections differ, or None if several differ."""
    if type(one) is not ChunkProjection or type(other) is not ChunkProjection:
        return None
    found = [dimension for dimension, (mine, its) in enumerate(zip(one, other, strict=True)) if mine is not its]
    return found[0] if len(found) == 1 else None


def _to_front(dimension: int, count: int) -> tuple[int, ...]:
    return (dimension, *range(dimension), *range(dimension + 1, count))
