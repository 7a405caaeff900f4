"""The layouts of stored chunks that can be read in part: uncompressed chunks, and shards.

An uncompressed chunk has its elements at positions that follow from its shape. A shard has an index with offset and
length of each inner chunk (codec specification "sharding-indexed"), which are checked against damaged and hostile
entries.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from aiozarr.codecs.codec import AnyArray, ArrayBytesCodec, ArraySpec, byte_view
from aiozarr.errors import CodecError
from aiozarr.model import ByteRange, Range

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from aiozarr.codecs.chain import CodecChain
    from aiozarr.codecs.codec_pipeline import CodecPipeline


@dataclass(frozen=True, eq=False)
class RawLayout:
    """An encoding that consists of the elements one after the other, each of the same size.

    Attributes:
        shape: the decoded shape.
        strides: bytes from an element to the next along each dimension of the decoded array.
        order: the decoded dimensions in stored order, the slowest first.
        item_size: bytes of an element.
        nbytes: bytes of the chunk.
        is_memory: True if stored elements equal those in memory.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    order: tuple[int, ...]
    item_size: int
    nbytes: int
    is_memory: bool
    _codec: ArrayBytesCodec
    _spec: ArraySpec
    _stored: np.dtype[Any]

    @classmethod
    def of(cls, chain: CodecChain, specs: list[ArraySpec]) -> RawLayout | None:
        """Return the layout of the elements that `chain` encodes.

        `specs` are the array representations before each array -> array codec, and before the array -> bytes codec.

        Returns:
            The layout, or None if the elements have no fixed positions.
        """
        stored = chain.array_bytes.stored_type(specs[-1])
        if stored is None or chain.bytes_bytes or stored.itemsize == 0:
            return None
        order = tuple(range(len(specs[0].shape)))
        for codec in chain.array_array:
            if codec._permutation is None:
                return None
            order = tuple([order[dim] for dim in codec._permutation])
        strides = [0] * len(order)
        size = stored.itemsize
        for dim in reversed(order):
            strides[dim] = size
            size *= specs[0].shape[dim]
        encoder, spec = chain.array_bytes, specs[0]
        memory = encoder.stores_memory(specs[-1])
        return cls(spec.shape, tuple(strides), order, stored.itemsize, size, memory, encoder, spec, stored)

    def array_over(self, data: Buffer) -> AnyArray:
        """Return a view of the chunk's bytes as elements of the stored type, in the decoded shape."""
        dtype = self._spec.dtype if self.is_memory else self._stored
        return np.ndarray(self.shape, dtype, cast("bytes", data), strides=self.strides)

    def load(self, stored: AnyArray) -> AnyArray:
        """Convert elements of `array_over` to the decoded type.

        Raises:
            CodecError: the bytes are not valid elements.
        """
        if self.is_memory:
            return stored
        # A 0-d array becomes 1-d here: only its bytes matter.
        elements = np.ascontiguousarray(stored)
        return self._codec.decode(byte_view(elements), replace(self._spec, shape=stored.shape))


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
        index_nbytes: number of bytes of the encoded index.
        index_range: the byte range of the encoded index in a shard.
        count: number of inner chunks, empty ones included.
    """

    shard_shape: tuple[int, ...]
    inner_shape: tuple[int, ...]
    grid_shape: tuple[int, ...]
    inner: CodecPipeline
    index: CodecPipeline
    index_location: Literal["start", "end"]
    index_nbytes: int
    index_range: ByteRange
    count: int

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
        at_start = self.index_location == "start"
        if object_size is None:
            stop = _MAX_SIZE
        else:
            stop = object_size if at_start else object_size - self.index_nbytes
        most = min(self.inner.max_encoded_size, _MAX_SIZE)
        bounds = Bounds(self.index_nbytes if at_start else 0, stop, most, object_size)
        return check_entries(self.index.decode(data).reshape(-1, 2), bounds, strict=strict)

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


class ShardedArrayBytesCodec(ArrayBytesCodec):
    """An array -> bytes codec with separately encoded inner chunks, which are read by ranges."""

    @abstractmethod
    def shard_layout(self, spec: ArraySpec) -> ShardLayout:
        """Return the layout of the inner chunks in arrays of `spec`.

        Raises:
            InvalidMetadataError: the codec does not support such arrays.
        """


EMPTY = 2**64 - 1
"""Offset and length of an inner chunk that is not stored."""

MAX_AMPLIFICATION = 4
"""The lengths of all entries may add up to this many times the size of the shard. This bounds overlapping entries."""

NAME = "sharding_indexed"

_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True, eq=False)
class ShardIndex:
    """Offset and length of each inner chunk in C order, as read-only uint64 arrays.

    Both are 2^64 - 1 for an empty inner chunk (codec specification "sharding-indexed").
    """

    offsets: NDArray[np.uint64]
    lengths: NDArray[np.uint64]

    def locate(self, linear_index: int) -> Range | None:
        """Return the byte range of an inner chunk in its shard, or None if it is empty."""
        start = self.offsets.item(linear_index)
        return None if start == EMPTY else Range(start, self.lengths.item(linear_index))

    def locate_all(self, linear_indices: list[int]) -> tuple[list[int], list[int]]:
        """Return the first bytes of inner chunks in their shard, and their lengths; both are `EMPTY` for empty ones."""
        return self.offsets[linear_indices].tolist(), self.lengths[linear_indices].tolist()

    @property
    def nbytes(self) -> int:
        """Size of the index in memory, in bytes."""
        return self.offsets.nbytes + self.lengths.nbytes


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits that an index is checked against.

    Attributes:
        first: the first byte that an inner chunk may have.
        stop: the byte after the last one that an inner chunk may have, at most 2^62.
        most: the most bytes that one inner chunk encodes to, at most 2^62.
        shard_nbytes: the size of the stored shard in bytes, or None if it is unknown.
    """

    first: int
    stop: int
    most: int
    shard_nbytes: int | None


def check_entries(entries: NDArray[np.uint64], bounds: Bounds, *, strict: bool) -> ShardIndex:
    """Return the index of `entries`, a row (offset, length) for each inner chunk. `strict` refuses every overlap.

    Raises:
        CodecError: an entry is half empty, is outside of the shard or inside its index, or is longer than an inner
            chunk can be. Or all entries together are longer than `MAX_AMPLIFICATION` times the shard.
    """
    offsets, lengths = np.ascontiguousarray(entries[:, 0]), np.ascontiguousarray(entries[:, 1])
    # One more than each value: empty entries wrap to 0, which changes no maximum and no sum. A valid index then takes
    # a few passes, and no selection.
    starts, sizes = offsets + _ONE, lengths + _ONE
    empty = starts == 0
    sound = (
        int(sizes.max()) <= bounds.most + 1
        and int(starts.max()) <= bounds.stop + 1
        and int(offsets.min()) >= bounds.first  # the marker of empty entries is the largest number
        and not (empty != (sizes == 0)).any()
        and int(np.add(starts, sizes, out=starts).max()) <= bounds.stop + 2
    )
    if not sound:
        raise _fault(offsets, lengths, bounds)
    if bounds.shard_nbytes is not None:
        exact = len(sizes) * (bounds.most + 1) < 2**64
        total = int(sizes.sum() if exact else sizes.sum(dtype=np.float64)) - int(np.count_nonzero(~empty))
        if total > MAX_AMPLIFICATION * bounds.shard_nbytes:
            shard = f"a shard of {bounds.shard_nbytes} bytes"
            raise CodecError(f"the inner chunks of {shard} overlap: together they have {total}", codec=NAME)
    if strict:
        _check_overlap(offsets, lengths)
    offsets.flags.writeable = lengths.flags.writeable = False
    return ShardIndex(offsets, lengths)


def _check_overlap(offsets: NDArray[np.uint64], lengths: NDArray[np.uint64]) -> None:
    stored = np.flatnonzero((offsets != EMPTY) & (lengths != 0))
    order = stored[np.argsort(offsets[stored], kind="stable")]
    overlaps = np.flatnonzero(offsets[order[:-1]] + lengths[order[:-1]] > offsets[order[1:]])
    if overlaps.size:
        first, second = order[overlaps[0]], order[overlaps[0] + 1]
        raise CodecError(f"inner chunks {first} and {second} overlap", codec=NAME)


def _fault(offsets: NDArray[np.uint64], lengths: NDArray[np.uint64], bounds: Bounds) -> CodecError:
    for position, (start, size) in enumerate(zip(offsets.tolist(), lengths.tolist(), strict=True)):
        reason = _entry_fault(start, size, bounds)
        if reason is not None:
            return CodecError(f"inner chunk {position}, at byte {start} with {size} bytes, {reason}", codec=NAME)
    raise AssertionError("the index was refused, but all its entries are valid")


def _entry_fault(start: int, size: int, bounds: Bounds) -> str | None:
    if start == EMPTY:
        return None if size == EMPTY else "has only half of the marker of an empty inner chunk"
    if start < bounds.first:
        return f"overlaps the index, which ends at byte {bounds.first}"
    if start > bounds.stop or start + size > bounds.stop:
        return f"extends past byte {bounds.stop}, where inner chunks end"
    if size > bounds.most:
        return f"is longer than the {bounds.most} bytes that an inner chunk encodes to"
    return None
