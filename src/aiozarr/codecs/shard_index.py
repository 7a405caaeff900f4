"""Where the inner chunks of one shard lie, decoded and checked against everything that a stranger may have written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aiozarr.errors import CodecError
from aiozarr.model import Range

EMPTY = 2**64 - 1
"""Offset and length of an inner chunk that is not stored."""

MAX_AMPLIFICATION = 4
"""How many times the size of a shard its entries may add up to: overlapping entries are read, but only so many."""

NAME = "sharding_indexed"


@dataclass(frozen=True, slots=True, eq=False)
class ShardIndex:
    """Offset and length of each inner chunk in C order, as read-only uint64 arrays; both are 2^64 - 1 where it is empty."""

    offsets: NDArray[np.uint64]
    lengths: NDArray[np.uint64]

    def locate(self, linear_index: int) -> Range | None:
        """Return the byte range of an inner chunk in its shard; None where it is empty."""
        start = self.offsets.item(linear_index)
        return None if start == EMPTY else Range(start, self.lengths.item(linear_index))

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the index holds."""
        return self.offsets.nbytes + self.lengths.nbytes


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an index is checked against.

    Attributes:
        first: the first byte that an inner chunk may have: behind an index at the start.
        stop: the byte behind the last one that an inner chunk may have; None where the size of the shard is not known.
        shard_nbytes: size of the stored shard; None where it is not known.
        chunk_nbytes: the most that one inner chunk encodes to.
    """

    first: int
    stop: int | None
    shard_nbytes: int | None
    chunk_nbytes: int


def check_entries(entries: NDArray[np.uint64], bounds: Bounds) -> ShardIndex:
    """Return the index of `entries`, (offset, length) pairs in rows.

    Raises:
        CodecError: an entry is half empty, lies outside of the shard or inside its index, is longer than an inner chunk
            can be, or all together are longer than `MAX_AMPLIFICATION` shards.
    """
    offsets, lengths = np.ascontiguousarray(entries[:, 0]), np.ascontiguousarray(entries[:, 1])
    empty = offsets == EMPTY
    _refuse(empty & (lengths != EMPTY), offsets, lengths, "is half of the marker of an empty one")
    stored = ~empty
    most = bounds.chunk_nbytes if bounds.stop is None else min(bounds.chunk_nbytes, max(0, bounds.stop - bounds.first))
    _refuse(stored & (lengths > most), offsets, lengths, f"is longer than {most} bytes")
    _refuse(stored & (offsets < bounds.first), offsets, lengths, "lies in the index")
    # No entry that is left is longer than `most`, so this difference does not wrap.
    stop = EMPTY if bounds.stop is None else bounds.stop
    _refuse(stored & (offsets > np.uint64(stop) - np.where(stored, lengths, 0)), offsets, lengths, f"ends behind byte {stop}")
    if bounds.shard_nbytes is not None:
        _check_amplification(lengths[stored], bounds.shard_nbytes)
    offsets.flags.writeable = lengths.flags.writeable = False
    return ShardIndex(offsets, lengths)


def _check_amplification(lengths: NDArray[np.uint64], shard_nbytes: int) -> None:
    # In floating point, which is exact enough for a cap and cannot wrap.
    total = float(lengths.sum(dtype=np.float64))
    if total > MAX_AMPLIFICATION * shard_nbytes:
        raise CodecError(
            f"the inner chunks of a shard of {shard_nbytes} bytes overlap: together they have {total:.0f} bytes", codec=NAME
        )


def _refuse(bad: NDArray[np.bool_], offsets: NDArray[np.uint64], lengths: NDArray[np.uint64], reason: str) -> None:
    if bad.any():
        first = int(bad.argmax())
        raise CodecError(
            f"inner chunk {first} at byte {offsets[first]} with {lengths[first]} bytes {reason}", codec=NAME
        )
