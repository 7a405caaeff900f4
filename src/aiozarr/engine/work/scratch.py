"""Memory that a worker thread uses again for every chunk that it encodes, and the shortest way from there to bytes.

Fresh memory of a chunk's size comes from the system, page by page, and goes back; that takes longer than to copy the
chunk, and threads wait for each other meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.codecs import CodecPipeline
from aiozarr.codecs._buffers import byte_array
from aiozarr.grid.reorder import assign, row_type

AnyArray = NDArray[Any]

MAX_BYTES = 4 << 20
"""Larger chunks have memory of their own: threads keep theirs for good."""


class Scratch:
    """One thread's memory for chunks of one pipeline.

    Attributes:
        pipeline: the codecs.
        shape, dtype: of a chunk.
        memory: what the block lies in; None where each chunk has memory of its own.
    """

    __slots__ = ("_block", "_encode", "_itemsize", "_row", "_rows", "dtype", "memory", "pipeline", "shape")

    def __init__(self, pipeline: CodecPipeline, memory: NDArray[np.uint8] | None) -> None:
        spec = pipeline.spec
        self.pipeline = pipeline
        self.memory = memory
        self.shape = spec.shape
        self.dtype = spec.dtype
        self._itemsize = spec.dtype.itemsize
        self._block: AnyArray | None = None
        self._encode: Callable[[], Buffer]
        self._row = spec.dtype
        self._rows: AnyArray | None = None
        if memory is not None:
            self._block = block = np.ndarray(spec.shape, spec.dtype, buffer=memory.data)
            self._encode = pipeline.encoder(block)
            row = row_type(spec.shape, spec.dtype)
            if row is not None:
                self._row, self._rows = row, block.view(row)

    def block(self) -> AnyArray:
        """Return an array for one chunk, C-contiguous, with anything in it, to be used until the next is encoded."""
        return np.empty(self.shape, self.dtype) if self._block is None else self._block

    def encode(self, values: AnyArray) -> Buffer:
        """Return the encoding of a chunk's values, of its shape and type and any strides; none of it lies in `memory`.

        Raises:
            CodecError: a codec cannot encode these values.
        """
        if self._rows is not None and values.strides[-1] == self._itemsize:
            self._rows[...] = values.view(self._row)
        else:
            block = self.block()
            assign(block, values)
            if self._block is None:
                return self.pipeline.encode(block)
        encoded = self._encode()
        return encoded if type(encoded) is bytes else self.detached(encoded)

    def encode_block(self, block: AnyArray) -> Buffer:
        """Return the encoding of what `block` has returned, with values in it; none of it lies in `memory`."""
        return self.detached(self.pipeline.encode(block))

    def detached(self, encoded: Buffer) -> Buffer:
        """Return `encoded`, or a copy where it lies in `memory`: codecs that make no new bytes give theirs on."""
        if isinstance(encoded, bytes) or self._block is None or not memoryview(encoded).nbytes:
            return encoded
        return bytes(encoded) if np.may_share_memory(byte_array(encoded), self._block) else encoded


class _Held(threading.local):
    scratch: Scratch | None = None


_held = _Held()


def scratch_for(pipeline: CodecPipeline) -> Scratch:
    """Return the calling thread's memory for chunks of `pipeline`."""
    scratch = _held.scratch
    if scratch is None or scratch.pipeline is not pipeline:
        spec = pipeline.spec
        memory = None if scratch is None else scratch.memory
        if spec.nbytes > MAX_BYTES or spec.dtype.hasobject or spec.dtype.kind == "T":
            return Scratch(pipeline, None)
        if memory is None or memory.nbytes < spec.nbytes:
            memory = np.empty(max(spec.nbytes, 1), np.uint8)
        scratch = _held.scratch = Scratch(pipeline, memory)
    return scratch
