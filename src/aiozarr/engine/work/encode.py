"""From values to the bytes of one stored object: whole chunks, changed chunks, shards. Pure, and run by the workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.codecs import CodecPipeline, ShardIndex
from aiozarr.engine.layout import ObjectLayout
from aiozarr.engine.work.scratch import scratch_for
from aiozarr.grid.projection import ChunkProjection, Part
from aiozarr.model import Suffix

AnyArray = NDArray[Any]


@dataclass(frozen=True, eq=False)
class StoredShard:
    """A shard as it is stored now."""

    data: memoryview
    index: ShardIndex

    def chunk(self, position: int) -> memoryview | None:
        """Return the encoded inner chunk at a linear index; None where it is empty."""
        located = self.index.locate(position)
        if located is None:
            return None
        assert located.length is not None
        return self.data[located.start : located.start + located.length]


@dataclass(frozen=True, eq=False)
class ChangedShard:
    """A shard as it is stored (None: it is not), and inner chunks that have been encoded anew since."""

    stored: StoredShard | None
    changed: dict[int, Buffer | None]

    def chunk(self, position: int) -> Buffer | None:
        """Return the encoded inner chunk at a linear index; None where it is empty."""
        if position in self.changed:
            return self.changed[position]
        return None if self.stored is None else self.stored.chunk(position)


def encode_chunk(
    pipeline: CodecPipeline,
    values: AnyArray,
    projection: Part,
    stored: Buffer | None,
    *,
    keep: bool = False,
) -> Buffer | None:
    """Return the encoding of a chunk after `values` were written to it; None where it holds nothing but the fill value.

    Args:
        pipeline: the chunk's codecs.
        values: of the write's core shape.
        projection: where in the chunk they go.
        stored: the chunk's encoding before; None where it is not stored, or every element is overwritten.
        keep: return an encoding in any case.
    """
    scratch = scratch_for(pipeline)
    whole = projection.whole_window(values, scratch.shape)
    if whole is not None and whole.dtype == scratch.dtype:
        if not keep and pipeline.is_fill(whole):
            return None
        flags = whole.flags
        if flags.c_contiguous or flags.f_contiguous:
            return pipeline.encode(whole)
        return scratch.encode(whole)
    spec = pipeline.spec
    part = projection.take(values)
    block = scratch.block()
    # Index arrays may name an element twice, and fields are parts of elements: sizes say nothing there.
    if not (isinstance(projection, ChunkProjection) and projection.size == spec.size):
        if stored is not None and not projection.whole:
            decoded = pipeline.decode(stored, block)
            if decoded is not block:
                block[...] = decoded
        else:
            block[...] = spec.fill_value
    projection.put(block, part)
    return None if not keep and pipeline.is_fill(block) else scratch.encode_block(block)


def open_shard(layout: ObjectLayout, data: Buffer) -> StoredShard:
    """Return the stored shard that `data` is, its index checked."""
    assert layout.shard is not None
    view = memoryview(data).cast("B")
    length = layout.shard.index_nbytes
    at_end = isinstance(layout.shard.index_range, Suffix)
    index = view[max(0, len(view) - length) :] if at_end else view[:length]
    return StoredShard(view, layout.shard.parse_index(index, len(view)))


def encode_inner(
    layout: ObjectLayout,
    values: AnyArray,
    parts: Sequence[tuple[int, Part]],
    stored: ChangedShard,
    *,
    keep: bool = False,
) -> list[tuple[int, Buffer | None]]:
    """Return the encodings of inner chunks after `values` were written to them, by linear index.

    With `keep` all of them have one, also those that hold nothing but the fill value.
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
    """Return the shard of all `changed` inner chunks and the stored others; None where all are empty, unless `keep`."""
    assert layout.shard is not None
    chunks: dict[int, Buffer] = {}
    if stored is not None:
        for position in range(layout.shard.count):
            kept = stored.chunk(position)
            if kept is not None:
                chunks[position] = kept
    for position, data in changed.items():
        if data is None:
            chunks.pop(position, None)
        else:
            chunks[position] = data
    return layout.shard.assemble(chunks) if chunks or keep else None
