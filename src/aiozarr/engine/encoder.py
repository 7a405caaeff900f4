"""Encodes the stored objects that a write changes: chunks in a worker, inner chunks of shards in several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.codecs.bytes import has_bools, holds_valid_bools, make_bools_valid
from aiozarr.codecs.chunk_layouts import ShardIndex
from aiozarr.codecs.codec import byte_array
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.common.concurrency import gather_all
from aiozarr.engine.layout import ArrayLayout, ObjectLayout, inner_parts
from aiozarr.errors import ChecksumError, CodecError
from aiozarr.grid.chunk_grid import LARGE_POINT_COUNT
from aiozarr.grid.projection import ChunkProjection, ChunkSelection, assign, row_type
from aiozarr.memory import thread_memory
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


INNER_GROUP_BYTES = 2 << 20
"""The inner chunks of a shard are encoded in groups of this size, each in one worker."""


class ObjectEncoder:
    """Encodes the objects of one write. It knows no store: its errors do not name the object.

    Attributes:
        layout: the array.
        values: of the write's core shape.
        keep: True if objects of fill values are stored.
    """

    __slots__ = ("keep", "layout", "values")

    def __init__(self, layout: ArrayLayout, values: NDArray[Any], *, stores_empty: bool | None) -> None:
        self.layout = layout
        self.values = values
        # Without a fill value in the metadata a missing chunk has undefined values: each chunk is stored.
        self.keep = not layout.metadata.has_fill_value if stores_empty is None else stores_empty

    def keeps(self, data: Buffer | None, *, can_erase: bool) -> bool:
        """Return whether fill values are stored in place of the stored object `data`."""
        return self.keep or (data is not None and not can_erase)

    # --- in a worker -----------------------------------------------------------------------------------------------

    def encode_chunk(
        self, stored: ObjectLayout, projection: ChunkSelection, data: Buffer | None, *, can_erase: bool = False
    ) -> Buffer | None:
        """Return the encoding of the stored chunk `data` after the values were written to it.

        Returns: None if it holds fill values only, and nothing is stored or `can_erase`.
        """
        keep = self.keeps(data, can_erase=can_erase)
        try:
            return encode_chunk(stored.pipeline, self.values, projection, data, keep=keep)
        except ChecksumError:
            raise
        except CodecError:
            padded = None if data is None else self._padded(stored, projection, data)
            if padded is None:
                raise
            return encode_chunk(stored.pipeline, self.values, projection, padded, keep=keep)

    def _padded(self, stored: ObjectLayout, projection: ChunkSelection, data: Buffer) -> Buffer | None:
        """Complete a chunk at the array's end that was stored without its part outside the array.

        Some writers store such chunks.

        Returns: the encoding of the complete chunk, or None if `data` is none of such a chunk.
        """
        cropped = self.layout.unpadded(projection)
        try:
            values = None if cropped is None else cropped.decode(data)
        except CodecError:
            values = None
        if values is None:
            return None
        spec = stored.spec
        block = np.full(spec.shape, spec.fill_value, spec.dtype)
        block[tuple([slice(length) for length in values.shape])] = values
        return stored.pipeline.encode(block)

    # --- on the loop -----------------------------------------------------------------------------------------------

    async def encode_inner_chunks(
        self,
        stored: ObjectLayout,
        projection: ChunkSelection,
        shard: ChangedShard,
        call: Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]],
        limit: asyncio.Semaphore,
    ) -> list[tuple[int, Buffer | None]]:
        """Encode the inner chunks that the write changes: many of them in groups, in all workers, within `limit`."""
        assert stored.shard is not None
        if projection.point_count < LARGE_POINT_COUNT:
            parts = list(inner_parts(stored, projection))
        else:
            parts = await call(lambda: list(inner_parts(stored, projection)))
        size = max(1, INNER_GROUP_BYTES // max(1, stored.shard.inner.spec.nbytes))
        groups = [parts[at : at + size] for at in range(0, len(parts), size)]
        encoded: list[list[tuple[int, Buffer | None]]]
        if len(groups) <= 1:
            encoded = [await call(partial(encode_inner, stored, self.values, parts, shard, keep=self.keep))]
            return encoded[0]
        async with limit:
            encoded = await gather_all(
                call(partial(encode_inner, stored, self.values, group, shard, keep=self.keep)) for group in groups
            )
        return [part for group in encoded for part in group]
