"""Bounds the size of the stored objects of a pipeline. A longer body is refused before it is received."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiozarr.codecs.pipeline.codec_pipeline import CodecPipeline
    from aiozarr.codecs.sharding.shard_layout import ShardLayout

MAX_PADDING_FACTOR = 4
"""A compressed object may be so many times larger than the codecs' own bound."""

DIAGNOSED_BYTES = 1 << 16
"""An object that is by so little too long is accepted: its codecs, which have its bytes, say best what is wrong."""


def max_stored_size(pipeline: CodecPipeline) -> int | None:
    """Return a bound on the bytes of every object that `pipeline` decodes. `CodecPipeline.max_stored_size` has it.

    Each codec's `max_encoded_size` is its promise: a compressor's includes room for headers and for data that do not
    compress. Streams of other writers may have more: padding, empty members, blocks of a few bytes. The formats do not
    bound that, so four times as much is accepted. An index of inner chunks refuses longer ones by the promise itself.

    Returns:
        The bound, or None for shards and for filters that another package has registered. A shard may have any number
        of unused bytes between its inner chunks (codec specification "sharding-indexed").
    """
    if not pipeline._is_bounded:
        return None
    size = pipeline.max_encoded_size
    # The bound of elements of variable length is that of a setting, not of the values: it has room enough.
    is_padded = pipeline._is_compressed and pipeline.encoded_size is None and not pipeline.spec.is_variable
    return (MAX_PADDING_FACTOR * size if is_padded else size) + DIAGNOSED_BYTES


def max_stored_index_size(layout: ShardLayout) -> int:
    """Return the bytes of the encoded index of a shard; all indexes of one layout have the same size."""
    return layout.index_nbytes
