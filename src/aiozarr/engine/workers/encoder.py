"""Encodes values to the bytes of one stored object, in a worker: whole chunks, changed chunks, shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.codecs import CodecPipeline, ShardIndex
from aiozarr.codecs.core.codec import byte_array
from aiozarr.codecs.serializers.storage_type import has_bools, holds_valid_bools, make_bools_valid
from aiozarr.engine.layout import ObjectLayout
from aiozarr.grid.projection import ChunkProjection, ChunkSelection, assign, row_type
from aiozarr.memory.per_thread import thread_memory
from aiozarr.model import Suffix

AnyArray = NDArray[Any]

MAX_BLOCK_BYTES = 4 << 20
"""Larger chunks are encoded from new memory, because threads keep their block as long as the process lives."""


@dataclass(frozen=True, eq=False)
class StoredShard:
    """A stored shard."""

    data: memoryview
    index: ShardIndex

    def chunk(self, position: int) -> memoryview | None:
        """Return the encoded inner chunk at a linear index, or None if it is empty."""
        located = self.index.locate(position)
        if located is None:
            return None
        assert located.length is not None
        return self.data[located.start : located.start + located.length]


@dataclass(frozen=True, eq=False)
class ChangedShard:
    """A stored shard, or None if there is none, and its newly encoded inner chunks."""

    stored: StoredShard | None
    changed: dict[int, Buffer | None]

    def chunk(self, position: int) -> Buffer | None:
        """Return the encoded inner chunk at a linear index, or None if it is empty."""
        if position in self.changed:
            return self.changed[position]
        return None if self.stored is None else self.stored.chunk(position)


class ChunkEncoder:
    """One thread's encoder of one pipeline's chunks. Get it from `thread_encoder`, for use in the same thread.

    Attributes:
        pipeline: the codecs.
        shape: the shape of a chunk.
        dtype: its type.
        has_bools: True if its elements or fields are bools.
    """

    __slots__ = ("_block", "_encode", "_itemsize", "_row", "_rows", "dtype", "has_bools", "pipeline", "shape")

    def __init__(self, pipeline: CodecPipeline) -> None:
        spec = pipeline.spec
        self.pipeline = pipeline
        self.shape = spec.shape
        self.dtype = spec.dtype
        self.has_bools = has_bools(spec.dtype)
        self._itemsize = spec.dtype.itemsize
        self._block: AnyArray | None = None
        self._encode: Callable[[], Buffer]
        self._row = spec.dtype
        self._rows: AnyArray | None = None
        if spec.nbytes <= MAX_BLOCK_BYTES and not spec.is_variable:
            memory = thread_memory.scratch(spec.nbytes).data
            self._block = block = np.ndarray(spec.shape, spec.dtype, buffer=memory)
            self._encode = pipeline.encoder(block)
            row = row_type(spec.shape, spec.dtype)
            if row is not None:
                self._row, self._rows = row, block.view(row)

    def block(self) -> AnyArray:
        """Return a C-contiguous array for one chunk, with any content, for use until the next chunk is encoded."""
        return np.empty(self.shape, self.dtype) if self._block is None else self._block

    def encode(self, values: AnyArray) -> Buffer:
        """Return the encoding of a chunk's values, of its shape and type and any strides, in memory of its own.

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
        return encoded if type(encoded) is bytes else self._detached(encoded)

    def encode_block(self, block: AnyArray) -> Buffer:
        """Return the encoding of the values in `block()`, in memory of its own."""
        return self._detached(self.pipeline.encode(block))

    def _detached(self, encoded: Buffer) -> Buffer:
        """Return `encoded`, or a copy if it shares memory with the block: some codecs return their input."""
        if isinstance(encoded, bytes) or self._block is None or not memoryview(encoded).nbytes:
            return encoded
        return bytes(encoded) if np.may_share_memory(byte_array(encoded), self._block) else encoded


def thread_encoder(pipeline: CodecPipeline) -> ChunkEncoder:
    """Return the calling thread's encoder of `pipeline`'s chunks."""
    return thread_memory.latest("chunk encoder", pipeline, ChunkEncoder)


def encode_chunk(
    pipeline: CodecPipeline,
    values: AnyArray,
    projection: ChunkSelection,
    stored: Buffer | None,
    *,
    keep: bool = False,
) -> Buffer | None:
    """Return the encoding of a chunk after `values` were written to it.

    Args:
        pipeline: the chunk's codecs.
        values: of the write's core shape.
        projection: their places in the chunk.
        stored: the chunk's stored encoding, or None if it is not stored or every element is overwritten.
        keep: also encode a chunk of fill values.

    Returns:
        The encoded bytes, or None if all elements have the fill value and `keep` is false.
    """
    encoder = thread_encoder(pipeline)
    whole = projection.whole_window(values, encoder.shape)
    if whole is not None and whole.dtype == encoder.dtype:
        if encoder.has_bools and not holds_valid_bools(whole):
            whole = whole.copy()
            make_bools_valid(whole)
        if not keep and pipeline.is_fill(whole):
            return None
        flags = whole.flags
        if flags.c_contiguous or flags.f_contiguous:
            return pipeline.encode(whole)
        return encoder.encode(whole)
    spec = pipeline.spec
    part = projection.take(values)
    block = encoder.block()
    # The sizes prove nothing if index arrays repeat an element, or if the selection has only some fields.
    if not (isinstance(projection, ChunkProjection) and projection.size == spec.size):
        if stored is not None and not (projection.is_complete and projection.extents == spec.shape):
            decoded = pipeline.decode(stored, block)
            if decoded is not block:
                block[...] = decoded
        else:
            block[...] = spec.fill_value
    projection.put(block, part)
    if encoder.has_bools:
        make_bools_valid(block)
    return None if not keep and pipeline.is_fill(block) else encoder.encode_block(block)


def open_shard(layout: ObjectLayout, data: Buffer) -> StoredShard:
    """Return the stored shard in `data`, with its index checked."""
    assert layout.shard is not None
    view = memoryview(data).cast("B")
    length = layout.shard.index_nbytes
    at_end = isinstance(layout.shard.index_range, Suffix)
    index = view[max(0, len(view) - length) :] if at_end else view[:length]
    return StoredShard(view, layout.shard.parse_index(index, len(view)))


def encode_inner(
    layout: ObjectLayout,
    values: AnyArray,
    parts: Sequence[tuple[int, ChunkSelection]],
    stored: ChangedShard,
    *,
    keep: bool = False,
) -> list[tuple[int, Buffer | None]]:
    """Return the encodings of inner chunks after `values` were written to them, by linear index.

    With `keep`, inner chunks of fill values are encoded too.
    """
    assert layout.shard is not None
    pipeline = layout.shard.inner
    return [
        (position, encode_chunk(pipeline, values, part, stored.chunk(position), keep=keep)) for position, part in parts
    ]


def assemble_shard(
    layout: ObjectLayout,
    changed: Mapping[int, Buffer | None],
    stored: StoredShard | None,
    *,
    keep: bool = False,
) -> Buffer | None:
    """Return the encoded shard of the `changed` inner chunks and the other stored ones.

    Returns:
        The encoded bytes, or None if all inner chunks are empty and `keep` is false.
    """
    assert layout.shard is not None
    chunks: dict[int, Buffer] = {}
    if stored is not None:
        for position in range(layout.shard.count):
            encoded = stored.chunk(position)
            if encoded is not None:
                chunks[position] = encoded
    for position, data in changed.items():
        if data is None:
            chunks.pop(position, None)
        else:
            chunks[position] = data
    return layout.shard.assemble(chunks) if chunks or keep else None
