"""Finds the blocks of a Blosc chunk that hold given bytes, and cuts them out as a chunk.

A chunk of the Blosc 1 format consists of a header, the offset of each block, and the separately compressed blocks. A
header and the offsets of some blocks make a smaller chunk, which Blosc decodes directly to the place of these blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from operator import lt
from struct import Struct, unpack_from
from typing import NamedTuple, TypeAlias

FORMAT = Struct("<BBBBIII")
COPIED = 0x02
"""The flag of a chunk that is stored without compression."""

RUN_BYTES = 64 << 10
"""The cost of one more run of blocks, in decoded bytes: about 10 microseconds."""

Span: TypeAlias = tuple[int, int]
"""A first position and the one after the last, of bytes or of blocks."""


class Header(NamedTuple):
    """The header of a chunk.

    Attributes:
        version: the version of the format.
        versionlz: the version of the compressor's format.
        flags: the shuffle and the compressor.
        typesize: bytes of an item.
        nbytes: decoded bytes.
        blocksize: decoded bytes of each block; the last block may be shorter.
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
        """Return the span of the decoded bytes of `blocks`."""
        return blocks[0] * self.blocksize, min(blocks[1] * self.blocksize, self.nbytes)


def find_blocks(header: Header, spans: Iterable[Span]) -> list[Span] | None:
    """Return the runs of blocks that hold the decoded bytes of `spans`, which ascend.

    A shorter last block is never a run alone, because a chunk is not smaller than its block size.

    Returns:
        The runs, or None if decoding the whole chunk is cheaper.
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
    """Return a chunk that consists of a run of blocks, or None if the offsets are not inside of the chunk `view`."""
    count = run[1] - run[0]
    places = _places(view, header, run)
    if not all([FORMAT.size <= start <= stop <= header.cbytes for start, stop in places]):
        return None
    # In a damaged chunk many blocks may begin at one position, each as long as the chunk.
    if sum([stop - start for start, stop in places]) > header.cbytes:
        return None
    base = FORMAT.size + 4 * count
    if len(places) < count:
        # One piece: it may include other blocks, which are not decoded.
        first = places[0][0]
        moved = [base + offset - first for offset in _offsets(view, run[0], count)]
    else:
        moved = list(accumulate([stop - start for start, stop in places[:-1]], initial=base))
    parts = [view[start:stop] for start, stop in places]
    low, high = header.bounds(run)
    told = header._replace(nbytes=high - low, cbytes=base + sum(map(len, parts)))
    return b"".join((FORMAT.pack(*told), Struct(f"<{count}I").pack(*moved), *parts))


def _places(view: memoryview, header: Header, run: Span) -> list[Span]:
    """Return the span of each block of a run in the chunk, or one span if they are adjacent."""
    first, behind = run
    if behind < header.blocks:
        offsets = _offsets(view, first, behind - first + 1)
    else:
        offsets = (*_offsets(view, first, behind - first), header.cbytes)
    if all(map(lt, offsets, offsets[1:])):
        return [(offsets[0], offsets[-1])]
    # Several threads wrote the blocks in any order: each block ends where the next one in the chunk begins.
    ordered = sorted(_offsets(view, 0, header.blocks))
    ends = dict(zip(ordered, [*ordered[1:], header.cbytes], strict=True))
    return [(offset, ends[offset]) for offset in _offsets(view, first, behind - first)]


def _offsets(view: memoryview, first: int, count: int) -> tuple[int, ...]:
    return unpack_from(f"<{count}I", view, FORMAT.size + 4 * first)
