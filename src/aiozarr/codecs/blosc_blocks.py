"""Blosc chunks block by block: which blocks hold given bytes, and these blocks as a chunk of their own.

A chunk of the Blosc 1 format is a header, the offset of each block, and the blocks, each compressed by itself. A header
and the offsets of some blocks make a chunk of these, which decodes straight to where they belong.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from operator import lt
from struct import Struct, unpack_from
from typing import NamedTuple, TypeAlias

FORMAT = Struct("<BBBBIII")
COPIED = 0x02
"""The flag of a chunk that is stored as it was."""

RUN_BYTES = 64 << 10
"""To cut out a run of blocks and to decode it takes about 10 microseconds besides its bytes: as long as these take."""

Span: TypeAlias = tuple[int, int]
"""A first position and the one behind the last, of bytes or of blocks."""


class Header(NamedTuple):
    """The header of a chunk.

    Attributes:
        version, versionlz: of the format, and of the compressor's own format.
        flags: how the bytes are regrouped, and by what they are compressed.
        typesize: bytes of an item.
        nbytes: decoded bytes.
        blocksize: decoded bytes of each block but the last, which may have less.
        cbytes: bytes of the chunk.
    """

    version: int
    versionlz: int
    flags: int
    typesize: int
    nbytes: int
    blocksize: int
    cbytes: int

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return -(-self.nbytes // self.blocksize)

    def bounds(self, blocks: Span) -> Span:
        """Return which decoded bytes some blocks hold."""
        return blocks[0] * self.blocksize, min(blocks[1] * self.blocksize, self.nbytes)


def find_blocks(header: Header, spans: Iterable[Span]) -> list[Span] | None:
    """Return the runs of blocks that hold the decoded bytes of `spans`, which ascend; None where all would be cheaper.

    A run is never the last block alone, where that is shorter than the others: no chunk is smaller than its blocks.
    """
    size, blocks, nbytes = header.blocksize, header.blocks, header.nbytes
    if blocks < 2:
        return None
    runs: list[Span] = []
    for start, stop in spans:
        first, behind = start // size, -(-stop // size)
        if first == blocks - 1 and nbytes % size:
            first -= 1
        if runs and (first - runs[-1][1]) * size <= RUN_BYTES:
            runs[-1] = (runs[-1][0], max(behind, runs[-1][1]))
        else:
            runs.append((first, behind))
    cost = sum([(behind - first) * size + RUN_BYTES for first, behind in runs])
    return runs if cost < nbytes else None


def cut_blocks(view: memoryview, header: Header, run: Span) -> bytes | None:
    """Return a chunk of a run of blocks alone; None where their offsets are not inside the chunk that `view` is."""
    count = run[1] - run[0]
    places = _places(view, header, run)
    if not all([FORMAT.size <= start <= stop <= header.cbytes for start, stop in places]):
        return None
    # Blocks of a damaged chunk may begin at one place, and each of them be as long as all of it.
    if sum([stop - start for start, stop in places]) > header.cbytes:
        return None
    base = FORMAT.size + 4 * count
    if len(places) < count:
        # One piece: where other blocks lie between the wanted ones they come along, and are not looked at.
        first = places[0][0]
        moved = [base + offset - first for offset in _offsets(view, run[0], count)]
    else:
        moved = list(accumulate([stop - start for start, stop in places[:-1]], initial=base))
    parts = [view[start:stop] for start, stop in places]
    low, high = header.bounds(run)
    told = header._replace(nbytes=high - low, cbytes=base + sum(map(len, parts)))
    return b"".join((FORMAT.pack(*told), Struct(f"<{count}I").pack(*moved), *parts))


def _places(view: memoryview, header: Header, run: Span) -> list[Span]:
    """Return where the blocks of a run lie in the chunk: each, or all of them in one piece."""
    first, behind = run
    if behind < header.blocks:
        offsets = _offsets(view, first, behind - first + 1)
    else:
        offsets = (*_offsets(view, first, behind - first), header.cbytes)
    if all(map(lt, offsets, offsets[1:])):
        return [(offsets[0], offsets[-1])]
    # Several threads have written the blocks, each one when it was done: it ends where the next one begins.
    ordered = sorted(_offsets(view, 0, header.blocks))
    ends = dict(zip(ordered, [*ordered[1:], header.cbytes], strict=True))
    return [(offset, ends[offset]) for offset in _offsets(view, first, behind - first)]


def _offsets(view: memoryview, first: int, count: int) -> tuple[int, ...]:
    return unpack_from(f"<{count}I", view, FORMAT.size + 4 * first)
