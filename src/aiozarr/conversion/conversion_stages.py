"""Chooses the stages of a conversion: directly, or over intermediate arrays. Pure arithmetic.

The chunk shapes of intermediate arrays follow the published algorithm of the package rechunker. Reads are consolidated
to the largest multiple of source chunks that fits into memory, and writes to the largest multiple of chunks of the
result. An intermediate array has the elementwise minimum of both, and several have geometric means between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

from aiozarr.conversion.regions import ChunkAxis, RegionGrid, choose_regions

MAX_STAGES = 6
REQUEST_COST_BYTES = 256 << 10
"""Bytes that could be transferred in the time that one more request takes: it decides between numbers of stages."""


def choose_stages(
    source: Sequence[ChunkAxis],
    destination: Sequence[ChunkAxis],
    item_size: int,
    max_bytes: int,
    max_amplification: float,
) -> list[RegionGrid]:
    """Return the passes of a conversion, each as its regions: one, or several over intermediate arrays.

    Args:
        source: the units of reading of the source.
        destination: the stored objects of the result.
        item_size: bytes of an element.
        max_bytes: bytes of a region at most.
        max_amplification: the amplification that one pass may have. More passes are chosen only above it, and only if
            they transfer less.
    """
    direct = [choose_regions(destination, source, item_size, max_bytes)]
    if not direct[0].count or direct[0].amplification <= max_amplification:
        return direct
    shape = [axis.length for axis in destination]
    candidates = [direct]
    for count in range(2, MAX_STAGES + 1):
        chunks = intermediate_chunks(
            shape, [axis.chunk for axis in source], [axis.chunk for axis in destination], item_size, max_bytes, count
        )
        grids: list[RegionGrid] = []
        units = list(source)
        for lengths in chunks:
            axes = [ChunkAxis.of(length, chunk) for length, chunk in zip(shape, lengths, strict=True)]
            grids.append(choose_regions(axes, units, item_size, max_bytes))
            units = axes
        grids.append(choose_regions(destination, units, item_size, max_bytes))
        candidates.append(grids)
    return min(candidates, key=lambda grids: _cost(grids, item_size))


def intermediate_chunks(
    shape: Sequence[int], source: Sequence[int], destination: Sequence[int], item_size: int, max_bytes: int, stages: int
) -> list[tuple[int, ...]]:
    """Return the chunk shapes of the `stages - 1` intermediate arrays."""
    limits = [max(chunk, wanted) for chunk, wanted in zip(source, destination, strict=True)]
    read = consolidated(shape, source, item_size, max_bytes, limits)
    written = consolidated(shape, destination, item_size, max_bytes, shape)
    # `stages - 1` passes lie between the shapes that are read and written; neighbours share their minimum.
    steps = [
        tuple(
            [
                int(one ** (1 - i / (stages - 1)) * other ** (i / (stages - 1)))
                for one, other in zip(read, written, strict=True)
            ]
        )
        for i in range(1, stages - 1)
    ]
    passes = [read, *steps, written]
    return [
        tuple([max(1, min(one, other)) for one, other in zip(before, after, strict=True)])
        for before, after in itertools.pairwise(passes)
    ]


def consolidated(
    shape: Sequence[int], chunks: Sequence[int], item_size: int, max_bytes: int, limits: Sequence[int]
) -> tuple[int, ...]:
    """Return the largest multiples of `chunks` of at most `max_bytes`, the last dimensions first.

    Args:
        shape: lengths of the dimensions, which end the growth.
        chunks: the chunks to multiply.
        item_size: bytes of an element.
        max_bytes: bytes of the result at most, if one chunk is not larger.
        limits: lengths at which a dimension is long enough.
    """
    found = [max(1, min(chunk, length)) for chunk, length in zip(chunks, shape, strict=True)]
    for axis in reversed(range(len(shape))):
        room = max_bytes // (prod(found) * item_size)
        wanted = -(-min(shape[axis], max(limits[axis], found[axis])) // found[axis])
        if room > 1 and wanted > 1:
            found[axis] = min(found[axis] * min(room, wanted), shape[axis])
    return tuple(found)


def _cost(grids: Sequence[RegionGrid], item_size: int) -> int:
    """Return the bytes that all passes transfer, with their requests as bytes."""
    size = prod([axis.chunks.length for axis in grids[-1].axes]) * item_size
    moved = sum([grid.elements_read * item_size + size for grid in grids])
    return moved + REQUEST_COST_BYTES * sum([grid.units_read + grid.objects_written for grid in grids])
