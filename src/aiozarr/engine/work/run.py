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

MOST_CHUNKS = 1024
"""However small they are."""


class Places:
    """Where chunks that are decoded together go.

    Attributes:
        count: how many chunks those are.
    """

    __slots__ = ("_groups", "_out", "count")

    def __init__(self, out: NDArray[Any]) -> None:
        self.count = 0
        self._out = out
        self._groups: list[tuple[int, NDArray[Any] | None, Part]] = []

    def add(self, part: Part, window: NDArray[Any] | None) -> None:
        """Add the next chunk by what is wanted of it, or with a window of shape `(n, *shape)` the next `n`, whole."""
        count = 1 if window is None else len(window)
        self._groups.append((count, window, part))
        self.count += count

    @property
    def block(self) -> NDArray[Any] | None:
        """The places themselves, where they are contiguous."""
        _, window, _ = self._groups[0]
        return window if window is not None and len(self._groups) == 1 and window.flags.c_contiguous else None

    def scatter(self, block: NDArray[Any], row: np.dtype[Any] | None) -> None:
        """Put the chunks in `block` where they go; `row` is the type by which their rows travel, if they do."""
        rows = block if row is None else block.view(row)
        at = 0
        for count, window, part in self._groups:
            if window is None:
                part.scatter(self._out, part.gather(block[at, ...]))
            elif row is not None and window.strides[-1] == block.itemsize:
                window.view(row)[...] = rows[at : at + count]
            else:
                assign(window, block[at : at + count])
            at += count


class Run:
    """One thread's memory for chunks of one pipeline that are decoded together.

    Attributes:
        count: how many chunks there is room for.
    """

    __slots__ = (
        "_block",
        "_decode",
        "_dtype",
        "_memory",
        "_nbytes",
        "_room",
        "_row",
        "_shape",
        "_takes_parts",
        "count",
    )

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], decode: RunDecoder, *, takes_parts: bool) -> None:
        """Take shape and type of a chunk, what decodes several of them, and whether for a part that is the way too."""
        self._shape = shape
        self._dtype = dtype
        self._nbytes = prod(shape) * dtype.itemsize
        self._row = row_type(shape, dtype)
        self._decode = decode
        self._takes_parts = takes_parts
        self.count = min(MOST_CHUNKS, RUN_BYTES // self._nbytes)
        self._block = np.empty((self.count, *shape), dtype)
        self._memory = byte_view(self._block)
        self._room: memoryview | None = None

    @property
    def room(self) -> memoryview:
        """Memory for the encoded bytes of as many chunks, if they are not much larger than what they decode to."""
        if self._room is None:
            self._room = memoryview(bytearray(RUN_BYTES))
        return self._room

    def places(self, out: NDArray[Any], parts: Sequence[Part], at: int, stop: int) -> Places | None:
        """Return where chunks go in `out`, from number `at` of `parts` on, as far as they may be decoded together.

        Those from number `stop` on are left alone, whatever they are. None: number `at` is to be decoded by itself.
        """
        places = Places(out)
        # Of other kinds of arrays, such as masked ones, a view is not just the memory.
        windowed = type(out) is np.ndarray and out.dtype == self._dtype
        stop = min(stop, at + self.count)
        while at < stop:
            window = window_of_run(parts, at, stop, out, self._shape) if windowed else None
            if window is None and not self._takes_parts:
                break
            places.add(parts[at], window)
            at += 1 if window is None else len(window)
        return places if places.count > 1 else None

    def decode(self, data: memoryview, starts: Sequence[int], places: Places) -> bool:
        """Decode the chunks that begin at `starts` of `data`, one behind the other, and put them where they go.

        False: that is not how they can be decoded; one by one tells what is wrong with which of them. What is in their
        places is left open then.
        """
        count = len(starts)
        block = places.block
        memory = self._memory[: count * self._nbytes] if block is None else byte_view(block)
        decoded = self._decode(data, starts, memory)
        if decoded is None:
            return False
        if decoded is not memory:
            places.scatter(array_over(decoded, (count, *self._shape), self._dtype), self._row)
        elif block is None:
            places.scatter(self._block, self._row)
        return True


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
    if decode is None:
        return None
    return Run(spec.shape, spec.dtype, decode, takes_parts=not regions.decodes_parts)
