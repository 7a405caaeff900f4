"""From the bytes of one chunk to its elements in readers' arrays, by the shortest way. Pure, and run by the workers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.errors import ChecksumError, CodecError
from aiozarr.grid.box import box_around
from aiozarr.grid.projection import Part
from aiozarr.grid.reorder import assign

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


class _Scratch(threading.local):
    """One block per thread that chunks decode into before they are scattered."""

    pipeline: CodecPipeline | None = None
    array: NDArray[Any] | None = None

    def array_of(self, pipeline: CodecPipeline) -> NDArray[Any]:
        if self.pipeline is pipeline and self.array is not None:
            return self.array
        spec = pipeline.spec
        if spec.nbytes > KEPT_BYTES:
            return np.empty(spec.shape, spec.dtype)
        if self.array is None or not _same_block(self.array, spec):
            self.array = None  # not two of them at a time
            self.array = np.empty(spec.shape, spec.dtype)
        self.pipeline = pipeline
        return self.array


def _same_block(array: NDArray[Any], spec: ArraySpec) -> bool:
    return array.shape == spec.shape and array.dtype == spec.dtype


_scratch = _Scratch()


def decode_into(pipeline: CodecPipeline, data: Buffer, sinks: Sequence[Target]) -> None:
    """Decode one chunk and put its elements where the sinks want them, from the decoder itself where it can."""
    spec, regions = pipeline.spec, pipeline.regions
    window, box, whole = None, None, False
    if len(sinks) == 1:
        sink = sinks[0]
        projection = sink.projection
        window = projection.window(sink.out)
        if window is not None:
            whole = window.shape == spec.shape and window.dtype == spec.dtype and projection.straight
            if whole and window.flags.c_contiguous and (regions is None or not regions.reorders):
                chunk = pipeline.decode(data, out=window)
                if chunk is not window:
                    window[...] = chunk
                return
    if regions is not None:
        if regions.decodes_parts and not whole and len(sinks) <= MAX_BOXES:
            box = box_around([sink.projection for sink in sinks])
        chunk = regions.decode(data, _scratch.array_of(pipeline), box)
    else:
        # Strings and other objects would be kept alive by the block, and are made anew anyway.
        chunk = pipeline.decode(data, out=None if spec.is_variable else _scratch.array_of(pipeline))
    if window is not None:
        assign(window, chunk if whole else sinks[0].projection.gather(chunk))
        return
    for sink in sinks:
        sink.projection.scatter(sink.out, sink.projection.gather(chunk))


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
