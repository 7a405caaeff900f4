"""Points that are walked together, sorted once by the chunk they fall into, whatever the size of the grid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.grid.axes import Axis, DimPart, Indices
from aiozarr.grid.transform import DimensionMap, Indexed

Positions: TypeAlias = slice | Indices
_MAX_RANK = 1 << 62

MARKED = 1 << 16
"""Chunks that are marked one by one where they are counted, however few the points."""

RADIX_FROM = 1 << 12
"""Points from which sorting twice by half of the bits is faster than once by all."""


class GroupPart(NamedTuple):
    """The points of one group that fall into one chunk, along the group's dimensions.

    Attributes:
        dims: the dimensions of the group.
        chunks: the chunk's index along each of them.
        inner: the points in the chunk's own coordinates, one list per dimension.
        out: their places along the group's core axis, ascending.
        taken: number of points.
        extents: how many elements of the chunk lie inside the array, along each dimension.
    """

    dims: tuple[int, ...]
    chunks: tuple[int, ...]
    inner: tuple[Indices, ...]
    out: Positions
    taken: int
    extents: tuple[int, ...]

    @property
    def whole(self) -> bool:
        """True where the points are all elements along these dimensions."""
        count = prod(self.extents)
        if self.taken < count:
            return False
        seen = np.zeros(count, bool)
        seen[np.ravel_multi_index(self.inner, self.extents)] = True
        return bool(seen.all())


AnyPart: TypeAlias = DimPart | GroupPart


def group_dims(maps: Sequence[DimensionMap], group: int) -> tuple[int, ...]:
    """Return the dimensions of a group."""
    return tuple([d for d, each in enumerate(maps) if isinstance(each, Indexed) and each.group == group])


def flat_indices(maps: Sequence[DimensionMap], dims: Iterable[int]) -> list[Indices]:
    """Return the listed indices of some dimensions, each in C order."""
    return [each.indices.reshape(-1) for each in [maps[dimension] for dimension in dims] if isinstance(each, Indexed)]


class Located(NamedTuple):
    """Points sorted by chunk: `order` sorts them stably (None: they were), chunk `i` has those from `starts[i]` on."""

    chunks: list[Indices]
    inner: list[Indices]
    order: Indices | None
    starts: NDArray[np.intp]


def locate(axes: Sequence[Axis], lists: Sequence[Indices]) -> Located:
    """Sort points by the chunk they fall into; `chunks` has one entry for each chunk, `inner` one for each point."""
    pairs = [axis.locate(indices) for axis, indices in zip(axes, lists, strict=True)]
    chunks, inner = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if not len(chunks[0]):
        return Located(chunks, inner, None, np.zeros(0, np.intp))
    key, _ = _rank(chunks)
    order = None
    if np.any(key[1:] < key[:-1]):
        order = _stable_order(key)
        key = key[order]
        inner = [each.take(order) for each in inner]
    starts = np.concatenate([[0], np.flatnonzero(key[1:] != key[:-1]) + 1])
    firsts = starts if order is None else order[starts]
    return Located([each[firsts] for each in chunks], inner, order, starts)


def count_touched(axes: Sequence[Axis], lists: Sequence[Indices]) -> int:
    """Return into how many chunks points fall: `len(locate(...).starts)`, without sorting where that can be had."""
    if not len(lists[0]):
        return 0
    key, span = _rank([axis.chunks_of(indices) for axis, indices in zip(axes, lists, strict=True)])
    if span > max(MARKED, 8 * len(key)):
        return len(np.unique(key))
    seen = np.zeros(span, bool)
    seen[key] = True
    return int(np.count_nonzero(seen))


def _stable_order(key: NDArray[Any]) -> NDArray[np.intp]:
    """Return the order that sorts `key` and leaves equal ones as they are."""
    if key.dtype != np.uint32 or len(key) < RADIX_FROM:
        return np.argsort(key, kind="stable")
    # numpy sorts numbers of 16 bits in linear time, so the two halves one after the other.
    order = np.argsort(key.astype(np.uint16), kind="stable")
    high = (key >> 16).astype(np.uint16)
    return order[np.argsort(high[order], kind="stable")]


def _rank(chunks: Sequence[Indices]) -> tuple[NDArray[Any], int]:
    """Return one number per point, in the order of their chunks (the first dimension counts most), and their bound."""
    key, span = np.zeros(1, np.int64), 1
    for each in chunks:
        least, greatest = int(each.min()), int(each.max())
        digit, width = each - least if least else each, greatest - least + 1
        if span * width >= _MAX_RANK:
            # As many numbers as there are points at most: two of them multiply without overflow.
            key, digit = np.unique(key, return_inverse=True)[1], np.unique(digit, return_inverse=True)[1]
            span, width = int(key.max()) + 1, int(digit.max()) + 1
        key, span = digit if span == 1 else key * width + digit, span * width
    if span > 1 << 32:
        return key, span
    return key.astype(np.uint16 if span <= 1 << 16 else np.uint32), span


def split_group(
    axes: Sequence[Axis], dims: tuple[int, ...], lists: Sequence[Indices], positions: Positions
) -> list[AnyPart]:
    """Return the part of a group of points in each chunk it touches, ordered by chunk."""
    located = locate(axes, lists)
    starts = located.starts.tolist()
    stops = [*starts[1:], len(lists[0])]
    parts: list[AnyPart] = []
    coords = zip(*[each.tolist() for each in located.chunks], strict=True)
    for chunks, start, stop in zip(coords, starts, stops, strict=True):
        out = _compact(_sub(positions, slice(start, stop) if located.order is None else located.order[start:stop]))
        inner = tuple([each[start:stop] for each in located.inner])
        extents = tuple([axis.chunk_extent(chunk) for axis, chunk in zip(axes, chunks, strict=True)])
        plain = _as_slice(inner[0]) if len(dims) == 1 and isinstance(out, slice) else None
        if plain is not None and isinstance(out, slice):
            first, step = plain
            count = stop - start
            end = first + step * count
            selection = slice(first, end if end >= 0 else None, step)
            parts.append(DimPart(chunks[0], selection, out, first, step, count, out.start, extents[0]))
        else:
            parts.append(GroupPart(dims, chunks, inner, out, stop - start, extents))
    return parts


def _sub(positions: Positions, taken: Positions) -> Positions:
    """Return `positions[taken]`; slices have step 1."""
    if not isinstance(positions, slice):
        return positions[taken]
    if isinstance(taken, slice):
        return slice(positions.start + taken.start, positions.start + taken.stop)
    moved: Indices = taken + positions.start
    return moved


def _compact(positions: Positions) -> Positions:
    """Return ascending positions as a slice where they leave none out."""
    if isinstance(positions, slice):
        return positions
    first, last = int(positions[0]), int(positions[-1])
    return slice(first, last + 1) if last - first + 1 == len(positions) else positions


def _as_slice(indices: Indices) -> tuple[int, int] | None:
    """Return first and step of indices that are a progression."""
    first = int(indices[0])
    if len(indices) == 1:
        return first, 1
    step = int(indices[1]) - first
    return (first, step) if step and bool((indices[1:] - indices[:-1] == step).all()) else None
