"""Chunks that lie side by side in an output, as one view of it: what is copied there together is copied faster."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

from numpy.typing import NDArray

from aiozarr.grid.projection import ChunkProjection, Part

LEAST = 4
"""Fewer are copied faster one by one: numpy goes through a row of chunks piece by piece."""


def window_of_run(
    parts: Sequence[Part], at: int, stop: int, out: NDArray[Any], shape: tuple[int, ...]
) -> NDArray[Any] | None:
    """Return the places in `out` of number `at` of `parts`, and of those behind it that lie next to it, as one view.

    None from number `stop` on is looked at. The view has the shape `(n, *shape)` for `n` chunks of `shape`, each of
    which is selected whole and in its order. None: the first is not, or nobody has looked.
    """
    first = parts[at]
    if type(first) is not ChunkProjection:
        return None
    window = first.whole_window(out, shape)
    if window is None:
        return None
    count, dimension = _count(parts, at, stop)
    if not count:
        return window[None]
    places = list(first.out_selection)
    start, side = places[dimension].start, shape[dimension]
    places[dimension] = slice(start, start + count * side)
    split = (*shape[:dimension], count, *shape[dimension:])
    return out[tuple(places)].reshape(split).transpose(_to_front(dimension, len(split)))


def _count(parts: Sequence[Part], at: int, stop: int) -> tuple[int, int]:
    """Return how many lie in one line, from number `at` on, which is whole, and along which dimension.

    0: fewer than `LEAST`. They are parts of one selection, so what they have in common of a dimension is one object.
    """
    first = parts[at]
    if stop - at < LEAST or type(first) is not ChunkProjection:
        return 0, 0
    # That the last of so few is in line rules out most of what is not, such as inner chunks in Morton order.
    line = _differing(first, parts[at + LEAST - 1])
    if line is None:
        return 0, 0
    shared = len(first) - 1
    begin = first[line]
    taken = behind = begin.taken
    if begin.step != 1 and taken > 1:
        return 0, 0
    behind += begin.offset
    count = 1
    for number in range(at + 1, stop):
        part = parts[number]
        if type(part) is not ChunkProjection or sum(map(is_, first, part)) != shared:
            break
        place = part[line]
        if place.offset != behind or place.taken != taken or (place.step != 1 and taken > 1):
            break
        behind += taken
        count += 1
    return (count, line) if count >= LEAST else (0, 0)


def _differing(one: Part, other: Part) -> int | None:
    """Return the only dimension in which two parts differ; None where there are more."""
    if type(one) is not ChunkProjection or type(other) is not ChunkProjection:
        return None
    found = [dimension for dimension, (mine, its) in enumerate(zip(one, other, strict=True)) if mine is not its]
    return found[0] if len(found) == 1 else None


def _to_front(dimension: int, count: int) -> tuple[int, ...]:
    return (dimension, *range(dimension), *range(dimension + 1, count))
