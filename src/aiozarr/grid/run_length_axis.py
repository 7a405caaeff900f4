"""A grid dimension whose chunk lengths differ, run-length encoded: costs grow with runs, not with chunks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiozarr.grid.axes import AxisSelection, BasicMap, Indices
from aiozarr.grid.transform import Constant, Strided


class RunLengthAxis:
    """One dimension of a grid whose chunks differ in length.

    Args:
        runs: (length, count) of the runs of equal chunks in order, each number at least 1. Their sum is at least
            `extent`. Chunks that begin at or after `extent` are left out.
        extent: length of the array along the dimension, less than 2^63.

    Raises:
        ValueError: the chunks end before the array.
    """

    __slots__ = ("_arrays", "_firsts", "_lengths", "_starts", "chunks", "extent")

    def __init__(self, runs: Iterable[tuple[int, int]], extent: int) -> None:
        self.extent = extent
        self._lengths: list[int] = []
        self._starts: list[int] = []
        self._firsts: list[int] = []
        start = first = 0
        for length, count in runs:
            if start >= extent:
                break
            # The end of chunks past the array may exceed the 64 bits of an index.
            count = min(count, -(-(extent - start) // length))
            if not self._lengths or self._lengths[-1] != length:
                self._lengths.append(length)
                self._starts.append(start)
                self._firsts.append(first)
            start += length * count
            first += count
        if start < extent:
            raise ValueError(f"the chunks end at {start}, the array at {extent}")
        self.chunks = first
        self._arrays: tuple[Indices, Indices, Indices] | None = None

    @property
    def is_uniform(self) -> bool:
        """True if all chunks have the same length."""
        return len(self._lengths) <= 1

    @property
    def lengths(self) -> list[int]:
        """Chunk length of each run; adjacent runs differ."""
        return self._lengths

    @property
    def end(self) -> int:
        """End of the last chunk, at or past the end of the array."""
        return self.chunk_start(self.chunks)

    def longest(self, selected: Any = None) -> int:
        """Return the length of the longest chunk that `selected` touches, or of all; 1 if there are no chunks."""
        lengths = self._lengths
        if isinstance(selected, Constant):
            return lengths[self._run_of(selected.index)]
        if isinstance(selected, Strided) and selected.count:
            _, _, touched = self._touched(selected)
            return int(self._as_arrays()[0][touched].max())
        return max(lengths, default=1)

    def count(self, selected: BasicMap) -> int:
        """Return the number of chunks that `selected` touches."""
        if isinstance(selected, Constant):
            return 1
        if selected.count == 0:
            return 0
        before, before_end, touched = self._touched(selected)
        lengths, starts, _ = (each[touched] for each in self._as_arrays())
        start, step, _ = _ascending(selected)
        first = start + step * before[touched] - starts
        last = start + step * (before_end[touched] - 1) - starts
        # A step of at least the chunk length never touches a chunk twice.
        counts = np.where(step >= lengths, (before_end - before)[touched], last // lengths - first // lengths + 1)
        return int(counts.sum())

    def split(self, selected: BasicMap, offset: int = 0) -> Iterator[AxisSelection]:
        """Yield the selection in each touched chunk, in the order of the output, from output position `offset` on."""
        if isinstance(selected, Constant):
            run = self._run_of(selected.index)
            chunk, inner, _, extent = self._locate_one(run, selected.index)
            yield AxisSelection(chunk, inner, None, inner, 1, 1, offset, extent)
            return
        start, step, count = selected.start, selected.step, selected.count
        done = 0
        run, low, high = 0, 0, -1
        while done < count:
            position = start + step * done
            if not low <= position < high:
                run = self._run_of(position)
                low, high = self._starts[run], self._run_end(run)
            chunk, first, length, extent = self._locate_one(run, position)
            piece = AxisSelection.from_progression(
                chunk, first, step, count - done, offset + done, length=length, extent=extent
            )
            yield piece
            done += piece.taken

    def locate(self, indices: Indices) -> tuple[Indices, Indices]:
        """Return the chunk of each index, and the position of the index in that chunk."""
        lengths, starts, firsts = self._as_arrays()
        if not len(lengths):
            return indices, indices
        runs = np.searchsorted(starts, indices, side="right") - 1
        chunks, inner = np.divmod(indices - starts[runs], lengths[runs])
        return chunks + firsts[runs], inner

    def chunks_of(self, indices: Indices) -> Indices:
        """Return the chunk of each index; all indices lie inside the array."""
        return self.locate(indices)[0]

    def chunk_start(self, chunk: int) -> int:
        """Return the array index of the first element of a chunk. `chunk_start(chunks)` is the end of the last."""
        if not self._lengths:
            return 0
        run = bisect_right(self._firsts, chunk) - 1
        return self._starts[run] + (chunk - self._firsts[run]) * self._lengths[run]

    def chunk_length(self, chunk: int) -> int:
        """Return the length of a chunk; the last chunk may extend past the end of the array."""
        return self._lengths[bisect_right(self._firsts, chunk) - 1]

    def chunk_extent(self, chunk: int) -> int:
        """Return the number of elements of a chunk that lie inside the array."""
        return min(self.chunk_length(chunk), self.extent - self.chunk_start(chunk))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunLengthAxis):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.extent, self.chunks, len(self._lengths)))

    def __repr__(self) -> str:
        return f"RunLengthAxis({self.chunks} chunks in {len(self._lengths)} runs over {self.extent})"

    # --- helpers -------------------------------------------------------------------------------------------------

    def _key(self) -> tuple[object, ...]:
        return self.extent, self.chunks, self._lengths, self._firsts

    def _run_of(self, index: int) -> int:
        return bisect_right(self._starts, index) - 1

    def _run_end(self, run: int) -> int:
        return self._starts[run + 1] if run + 1 < len(self._starts) else self.extent

    def _locate_one(self, run: int, index: int) -> tuple[int, int, int, int]:
        """Return the chunk of an index, the position in the chunk, and the length and extent of the chunk."""
        length, start = self._lengths[run], self._starts[run]
        chunk, inner = divmod(index - start, length)
        return self._firsts[run] + chunk, inner, length, min(length, self.extent - start - chunk * length)

    def _touched(self, selected: Strided) -> tuple[Indices, Indices, NDArray[np.bool_]]:
        """Return, per run, the number of selected indices before its start and before its end, and if it has any."""
        start, step, count = _ascending(selected)
        _, starts, _ = self._as_arrays()
        ends = np.append(starts[1:], self.extent)
        before = np.clip(-((start - starts) // step), 0, count)
        before_end = np.clip(-((start - ends) // step), 0, count)
        return before, before_end, before_end > before

    def _as_arrays(self) -> tuple[Indices, Indices, Indices]:
        """Return the lengths, starts and first chunks of the runs as arrays."""
        if self._arrays is None:
            lengths = np.array(self._lengths, np.int64)
            self._arrays = (lengths, np.array(self._starts, np.int64), np.array(self._firsts, np.int64))
        return self._arrays


def _ascending(selected: Strided) -> tuple[int, int, int]:
    """Return start, step and count of the indices in ascending order."""
    start, step, count = selected.start, selected.step, selected.count
    return (start, step, count) if step > 0 else (start + step * (count - 1), -step, count)
