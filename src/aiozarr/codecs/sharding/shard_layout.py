"""The layout of the inner chunks and the index in a shard (codec specification "sharding-indexed")."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np
from typing_extensions import Buffer

from aiozarr.codecs.core.codec import ArrayBytesCodec, ArraySpec
from aiozarr.codecs.sharding.shard_index import EMPTY, NAME, Bounds, ShardIndex, check_entries
from aiozarr.errors import CodecError
from aiozarr.model import ByteRange, Range, Suffix

if TYPE_CHECKING:
    from aiozarr.codecs.pipeline.codec_pipeline import CodecPipeline

_MAX_SIZE = 2**62


@dataclass(frozen=True, eq=False)
class ShardLayout:
    """The division of a shard into inner chunks. The linear index counts inner chunks in C order.

    Attributes:
        shard_shape: shape of the shard in elements.
        inner_shape: shape of an inner chunk in elements.
        grid_shape: inner chunks along each dimension.
        inner: the codecs of an inner chunk.
        index: the codecs of the index, for a uint64 array of the grid's shape and two.
        index_location: the end of the shard that holds the index.
    """

    shard_shape: tuple[int, ...]
    inner_shape: tuple[int, ...]
    grid_shape: tuple[int, ...]
    inner: CodecPipeline
    index: CodecPipeline
    index_location: Literal["start", "end"]

    @property
    def count(self) -> int:
        """Number of inner chunks, empty ones included."""
        return prod(self.grid_shape)

    @property
    def index_nbytes(self) -> int:
        """Number of bytes of the encoded index."""
        return self.index.max_encoded_size

    @property
    def index_range(self) -> ByteRange:
        """The byte range of the encoded index in a shard."""
        return Range(0, self.index_nbytes) if self.index_location == "start" else Suffix(self.index_nbytes)

    @property
    def max_encoded_size(self) -> int:
        """The most bytes that a shard encodes to."""
        return self.index_nbytes + self.count * self.inner.max_encoded_size

    def parse_index(self, data: Buffer, object_size: int | None, *, strict: bool = False) -> ShardIndex:
        """Return the decoded and checked index of a shard.

        Args:
            data: the bytes of `index_range`.
            object_size: bytes of the whole stored shard, or None if unknown. Without it, an entry after the end of the
                shard is found only when it is read.
            strict: refuse inner chunks that overlap. Otherwise they may overlap, up to a total of four times the
                shard's size.

        Raises:
            ChecksumError: the checksum of the index does not match.
            CodecError: the shard is shorter than its index, or an entry is invalid (see `check_entries`).
        """
        length = memoryview(data).nbytes
        if length != self.index_nbytes or (object_size is not None and object_size < length):
            size = length if object_size is None else object_size
            raise CodecError(f"a shard of {size} bytes is shorter than its index of {self.index_nbytes}", codec=NAME)
        entries = self.index.decode(data).reshape(-1, 2)
        return check_entries(entries, self._bounds(object_size), strict=strict)

    def assemble(self, parts: Mapping[int, Buffer]) -> Buffer:
        """Return a whole shard of the encoded inner chunks in `parts`, by linear index. The others are empty."""
        order = sorted(parts)
        if order and not 0 <= order[0] <= order[-1] < self.count:
            raise ValueError(f"the shard has {self.count} inner chunks, numbered from 0; not {order[0]} to {order[-1]}")
        lengths = np.fromiter((memoryview(parts[i]).nbytes for i in order), np.uint64, len(order))
        entries = np.full((self.count, 2), EMPTY, np.uint64)
        first = self.index_nbytes if self.index_location == "start" else 0
        entries[order, 0] = np.uint64(first) + lengths.cumsum(dtype=np.uint64) - lengths
        entries[order, 1] = lengths
        index = self.index.encode(entries.reshape(self.index.spec.shape))
        chunks = [parts[i] for i in order]
        return b"".join([index, *chunks] if self.index_location == "start" else [*chunks, index])

    def _bounds(self, object_size: int | None) -> Bounds:
        at_start = self.index_location == "start"
        if object_size is None:
            stop = _MAX_SIZE
        else:
            stop = object_size if at_start else object_size - self.index_nbytes
        most = min(self.inner.max_encoded_size, _MAX_SIZE)
        return Bounds(self.index_nbytes if at_start else 0, stop, most, object_size)


class ShardedArrayBytesCodec(ArrayBytesCodec):
    """An array -> bytes codec with separately encoded inner chunks, which are read by ranges."""

    @abstractmethod
    def shard_layout(self, spec: ArraySpec) -> ShardLayout:
        """Return the layout of the inner chunks in arrays of `spec`.

        Raises:
            InvalidMetadataError: the codec does not support such arrays.
        """
