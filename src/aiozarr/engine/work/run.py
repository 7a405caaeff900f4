"""Small chunks decoded in one call and copied to their places together.

Each call that reads, decodes or copies gives the interpreter's lock away, and waits for it afterwards behind whoever
has taken it meanwhile: what is done once for many chunks is waited for once.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aiozarr.codecs import CodecPipeline
from aiozarr.codecs._buffers import array_over, byte_view
from aiozarr.codecs.region import RunDecoder
from aiozarr.grid.projection import Part
from aiozarr.grid.reorder import assign, row_type
from aiozarr.grid.side_by_side import window_of_run

RUN_BYTES = 1 << 20
"""Decoded bytes of a run: so much stays in a core's cache until it is put where it belongs."""

MOST_BYTES = 128 << 10
"""Larger chunks are worth a call each."""


class Run:
    """One thread's memory for chunks of one pipeline that are decoded together.

    Attributes:
        count: how many chunks there is room for.
    """

    __slots__ = ("_block", "_decode", "_dtype", "_itemsize", "_memory", "_nbytes", "_room", "_row", "_shape", "count")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], decode: RunDecoder) -> None:
        """Take shape and type of a chunk, and what decodes several of them."""
        self._shape = shape
        self._dtype = dtype
        self._itemsize = dtype.itemsize
        self._nbytes = prod(shape) * dtype.itemsize
        self._row = row_type(shape, dtype)
        self._decode = decode
        self.count = RUN_BYTES // self._nbytes
        self._block = np.empty((self.count, *shape), dtype)
        self._memory = byte_view(self._block)
        self._room: memoryview | None = None

    @property
    def room(self) -> memoryview:
        """Memory for the encoded bytes of as many chunks, if they are not much larger than what they decode to."""
        if self._room is None:
            self._room = memoryview(bytearray(RUN_BYTES))
        return self._room

    def windows(self, out: NDArray[Any], parts: Sequence[Part]) -> list[NDArray[Any]]:
        """Return where the first chunks of `parts` go in `out`, as far as they may be decoded together.

        Each window has the shape `(n, *shape)` for the next `n` of them. None: the first is to be decoded by itself.
        """
        windows: list[NDArray[Any]] = []
        # Of other kinds of arrays, such as masked ones, a view is not just the memory.
        if type(out) is not np.ndarray or out.dtype != self._dtype:
            return windows
        at, stop = 0, min(len(parts), self.count)
        while at < stop:
            window = window_of_run(parts[at:stop], out, self._shape)
            if window is None:
                break
            if window.flags.c_contiguous:
                # It is decoded where it belongs, and by itself.
                return windows or ([window] if len(window) > 1 else [])
            windows.append(window)
            at += len(window)
        return windows if at > 1 else []

    def decode(self, data: memoryview, starts: Sequence[int], windows: Sequence[NDArray[Any]]) -> bool:
        """Decode the chunks that begin at `starts` of `data`, one behind the other, into `windows`.

        False: that is not how they can be decoded; one by one tells what is wrong with which of them. What is in the
        windows is left open then.
        """
        count = len(starts)
        in_place = windows[0].flags.c_contiguous
        memory = byte_view(windows[0]) if in_place else self._memory[: count * self._nbytes]
        decoded = self._decode(data, starts, memory)
        if decoded is None:
            return False
        if decoded is not memory:
            self._scatter(array_over(decoded, (count, *self._shape), self._dtype), windows)
        elif not in_place:
            self._scatter(self._block, windows)
        return True

    def _scatter(self, block: NDArray[Any], windows: Sequence[NDArray[Any]]) -> None:
        row = self._row if windows[0].strides[-1] == self._itemsize else None
        if row is not None:
            block = block.view(row)
        at = 0
        for window in windows:
            chunks = block[at : at + len(window)]
            at += len(window)
            if row is None:
                assign(window, chunks)
            else:
                window.view(row)[...] = chunks


class _Kept(threading.local):
    pipeline: CodecPipeline | None = None
    run: Run | None = None


_kept = _Kept()


def run_for(pipeline: CodecPipeline) -> Run | None:
    """Return the calling thread's memory for runs of `pipeline`'s chunks; None where runs are no use."""
    if _kept.pipeline is not pipeline:
        _kept.pipeline = pipeline
        _kept.run = _make(pipeline)
    return _kept.run


def _make(pipeline: CodecPipeline) -> Run | None:
    spec, regions = pipeline.spec, pipeline.regions
    if regions is None or not 0 < spec.nbytes <= MOST_BYTES:
        return None
    decode = regions.run_decoder()
    return None if decode is None else Run(spec.shape, spec.dtype, decode)
