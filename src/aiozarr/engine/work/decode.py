"""From the bytes of one chunk to its elements in readers' arrays, by the shortest way. Pure, and run by the workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.codecs import CodecPipeline
from aiozarr.errors import ChecksumError, CodecError
from aiozarr.grid.box import box_around
from aiozarr.grid.projection import Part
from aiozarr.grid.reorder import assign, row_type

MAX_BOXES = 16
"""Readers of one chunk beyond whom it is not looked for what they want of it: it will be most of it."""

KEPT_BYTES = 64 << 20
"""Threads live as long as the process, and so does what they keep: larger blocks are made anew for each chunk."""


class Target(Protocol):
    """Where elements of a chunk go."""

    @property
    def out(self) -> NDArray[Any]:
        """The array they go to."""
        ...

    @property
    def projection(self) -> Part:
        """Which elements, and where in `out`."""
        ...


class _Way:
    """The way from the bytes of one pipeline's chunks to elements, by a block that one thread uses again and again.

    Attributes:
        pipeline: the codecs.
        shape, dtype: of a chunk.
        block: where chunks are decoded; None where each has memory of its own.
        fills: whether a contiguous place in a reader's array serves as well as the block.
        row: the type by which rows of a chunk travel to a place that is not contiguous; None: as its elements.
        decode: returns a chunk, valid until the thread decodes the next.
    """

    __slots__ = ("block", "decode", "dtype", "fills", "itemsize", "pipeline", "regions", "row", "shape")

    def __init__(self, pipeline: CodecPipeline, block: NDArray[Any] | None) -> None:
        spec, regions = pipeline.spec, pipeline.regions
        self.pipeline = pipeline
        self.regions = regions
        self.shape = spec.shape
        self.dtype = spec.dtype
        self.itemsize = spec.dtype.itemsize
        self.block = block
        self.fills = regions is None or not regions.reorders
        self.row = None if regions is None or regions.reorders else row_type(spec.shape, spec.dtype)
        self.decode: Callable[[Buffer], NDArray[Any]]
        if block is None:
            self.decode = self._decode_apart
        elif regions is not None:
            self.decode = regions.decoder(block)
        else:
            self.decode = partial(pipeline.decode, out=block)

    def _decode_apart(self, data: Buffer) -> NDArray[Any]:
        return self.pipeline.decode(data)

    def decode_box(self, data: Buffer, parts: Sequence[Part]) -> NDArray[Any]:
        """As `decode`, as far as `parts` of the chunk are concerned."""
        regions = self.regions
        if self.block is None or regions is None or not regions.decodes_parts:
            return self.decode(data)
        return regions.decode(data, self.block, box_around(parts))


class _Kept(threading.local):
    way: _Way | None = None


_kept = _Kept()


def _way_of(pipeline: CodecPipeline) -> _Way:
    """Return the calling thread's way for chunks of `pipeline`."""
    way = _kept.way
    if way is None or way.pipeline is not pipeline:
        block = None if way is None else way.block
        spec = pipeline.spec
        # Strings and other objects would be kept alive by the block, and are made anew anyway.
        if spec.nbytes > KEPT_BYTES or spec.is_variable:
            block = None
        elif block is None or block.shape != spec.shape or block.dtype != spec.dtype:
            _kept.way = way = block = None  # not two of them at a time
            block = np.empty(spec.shape, spec.dtype)
        way = _kept.way = _Way(pipeline, block)
    return way


def decode_into(pipeline: CodecPipeline, data: Buffer, sinks: Sequence[Target]) -> None:
    """Decode one chunk and put its elements where the sinks want them, from the decoder itself where it can."""
    if len(sinks) == 1:
        decode_to(pipeline, data, sinks[0].out, sinks[0].projection)
        return
    way = _way_of(pipeline)
    chunk = way.decode_box(data, [sink.projection for sink in sinks]) if len(sinks) <= MAX_BOXES else way.decode(data)
    for sink in sinks:
        sink.projection.scatter(sink.out, sink.projection.gather(chunk))


def decode_to(pipeline: CodecPipeline, data: Buffer, out: NDArray[Any], projection: Part) -> None:
    """As `decode_into`, for one reader."""
    way = _kept.way
    if way is None or way.pipeline is not pipeline:
        way = _way_of(pipeline)
    window = projection.whole_window(out, way.shape)
    if window is None or window.dtype != way.dtype:
        part = projection.gather(way.decode_box(data, (projection,)))
        projection.scatter(out, part)
    elif way.fills and window.flags.c_contiguous:
        chunk = pipeline.decode(data, out=window)
        if chunk is not window:
            window[...] = chunk
    elif way.row is not None and window.strides[-1] == way.itemsize and type(window) is np.ndarray:
        window.view(way.row)[...] = way.decode(data).view(way.row)
    else:
        assign(window, way.decode(data))


def decode_apart(pipeline: CodecPipeline, data: Buffer, sinks: Sequence[Target]) -> NDArray[Any]:
    """Decode one chunk into memory of its own, as `decode_into` otherwise; return it, read-only."""
    spec = pipeline.spec
    block = np.empty(spec.shape, spec.dtype)
    chunk = pipeline.decode(data, out=block)
    if chunk is not block:
        # What the codecs have returned may be a part of something larger.
        assign(block, chunk)
    block.flags.writeable = False
    for sink in sinks:
        sink.projection.scatter(sink.out, sink.projection.gather(block))
    return block


def decode_unpadded(pipeline: CodecPipeline | None, error: CodecError, data: Buffer, sinks: Sequence[Target]) -> bool:
    """Decode a chunk whose decoding has failed with `error` by `pipeline`, for its part inside the array alone.

    Some writers do not store what of a chunk lies behind the array's end. Returns False where that does not explain it.
    """
    if pipeline is None or isinstance(error, ChecksumError):
        return False
    try:
        decode_into(pipeline, data, sinks)
    except CodecError:
        return False
    return True
