"""Decodes a box of a chunk's elements for a caller that copies them to the output at once.

The result may be a view of the encoded bytes or of a reused block. Its elements have the stored order of dimensions and
the stored byte order, so that the caller converts and copies them in one pass. A compressor with blocks decompresses
only the blocks of the box.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from aiozarr.codecs.bytes import BytesCodec, storage_type
from aiozarr.codecs.chain import CodecChain
from aiozarr.codecs.codec import (
    AnyArray,
    ArrayBytesCodec,
    ArraySpec,
    BytesBytesCodec,
    Region,
    Span,
    array_over,
    byte_view,
    fast_byte_view,
    has_fast_view,
)
from aiozarr.errors import CodecError

if TYPE_CHECKING:
    from typing_extensions import Buffer

GAP_BYTES = 64 << 10
"""Two spans with a smaller gap are decoded as one: a span of its own takes about as long as this many bytes."""


RunDecoder: TypeAlias = Callable[[memoryview, Sequence[int], memoryview], memoryview | None]
"""Decodes adjacent chunks. It takes the encodings, the start of each, and a buffer for the elements of all chunks.

It returns the elements, in that buffer or another, or None if it cannot decode these chunks.
"""


class RegionDecoder:
    """Decodes chunks of one pipeline whose elements are numbers in any order of dimensions and bytes.

    Args:
        chain: the codecs.
        specs: the array representations before each array -> array codec, and before the array -> bytes codec.
        stored: the stored type of the elements: the type in memory, in either byte order.
        bounds: the most bytes before each bytes -> bytes codec.

    Attributes:
        decodes_parts: True if decoding a box may be faster than decoding the whole chunk.
        reorders: True if the dimensions or bytes of results have another order than in memory.
    """

    def __init__(
        self, chain: CodecChain, specs: Sequence[ArraySpec], stored: np.dtype[Any], bounds: Sequence[int]
    ) -> None:
        inner = specs[-1]
        self._inner = inner
        self._stored = stored
        self._array_bytes = chain.array_bytes
        steps = list(zip(chain.bytes_bytes, bounds, strict=True))
        self._outer = tuple([(codec.decode, bound) for codec, bound in reversed(steps[1:])])
        self._last = steps[0] if steps else None
        self.decodes_parts = bool(steps) and _decodes_spans(steps[0][0]) and inner.nbytes > GAP_BYTES
        self._byte_view = fast_byte_view if has_fast_view(inner.dtype) else byte_view
        # The decoded dimension of each stored dimension, and the inverse permutation.
        order = list(range(len(inner.shape)))
        for codec in chain.array_array:
            assert codec._permutation is not None
            order = [order[dim] for dim in codec._permutation]
        self._order = tuple(order)
        self._back = None if order == sorted(order) else tuple(np.argsort(order).tolist())
        self.reorders = self._back is not None or stored != inner.dtype

    @classmethod
    def of(cls, chain: CodecChain, specs: Sequence[ArraySpec], bounds: Sequence[int]) -> RegionDecoder | None:
        """Return the decoder of a chain, or None if it changes more than the order of dimensions and bytes."""
        stored = _stored_type(chain.array_bytes, specs[-1])
        if stored is None or any([codec._permutation is None for codec in chain.array_array]):
            return None
        return cls(chain, specs, stored, bounds)

    def decode(self, data: Buffer, block: AnyArray, box: Region | None = None) -> AnyArray:
        """Decode the elements in `box`.

        Args:
            data: the encoded bytes.
            block: a writable C-contiguous array of the chunk's shape and type, which the result may be a view of.
            box: slices of step 1 without negative numbers, one for each dimension, or None for all elements.

        Returns:
            An array of the chunk's shape, and of its type in either byte order. Elements outside `box` are undefined.

        Raises:
            CodecError: `data` does not encode such an array.
        """
        for decode, bound in self._outer:
            data = decode(data, max_size=bound)
        if self._last is not None:
            codec, bound = self._last
            memory = self._byte_view(block)
            some = None
            if box is not None and self.decodes_parts:
                spans = self._spans(box)
                some = None if spans is None else codec.decode_spans(data, spans, max_size=bound, out=memory)
            data = codec.decode(data, max_size=bound, out=memory) if some is None else some
        inner = self._inner
        if memoryview(data).nbytes == inner.nbytes:
            array = array_over(data, inner.shape, self._stored)
        else:
            # The codec raises the error.
            array = self._array_bytes.decode(data, inner)
        return array if self._back is None else array.transpose(self._back)

    def decoder(self, block: AnyArray) -> Callable[[Buffer], AnyArray]:
        """Return a function that decodes all elements into `block`, for many calls of one thread."""
        if self._last is None or self._outer:
            return partial(self.decode, block=block)
        codec, bound = self._last
        decode = codec.decoder(max_size=bound, out=self._byte_view(block))
        inner, stored, back, whole = self._inner, self._stored, self._back, self._array_bytes.decode
        shape, nbytes, array_of = inner.shape, inner.nbytes, np.ndarray

        def decode_chunk(data: Buffer) -> AnyArray:
            data = decode(data)
            if (len(data) if type(data) is bytes else memoryview(data).nbytes) == nbytes:
                array: AnyArray = array_of(shape, stored, data)  # type: ignore[arg-type]  # any buffer will do
            else:
                # The codec raises the error.
                array = whole(data, inner)
            return array if back is None else array.transpose(back)

        return decode_chunk

    def run_decoder(self) -> RunDecoder | None:
        """Return the decoder of adjacent chunks, or None if each has to be decoded separately."""
        if self.reorders:
            return None
        nbytes = self._inner.nbytes
        if self._last is None:
            return lambda data, starts, _: data if [*starts, len(data)] == _multiples(nbytes, len(starts)) else None
        codec, bound = self._last
        together = None if self._outer else codec.run_decoder(nbytes)
        if together is not None:
            return lambda data, starts, out: out if together(data, starts, out) else None
        return partial(self._decode_each, codec, bound)

    def _decode_each(
        self, codec: BytesBytesCodec, bound: int, data: memoryview, starts: Sequence[int], out: memoryview
    ) -> memoryview | None:
        nbytes = self._inner.nbytes
        stops = [*starts[1:], len(data)]
        try:
            for number, (start, stop) in enumerate(zip(starts, stops, strict=True)):
                place = out[number * nbytes : (number + 1) * nbytes]
                encoded: Buffer = data[start:stop]
                for decode, size in self._outer:
                    encoded = decode(encoded, max_size=size)
                decoded = codec.decode(encoded, max_size=bound, out=place)
                if decoded is not place:
                    place[:] = memoryview(decoded).cast("B")
        except (CodecError, ValueError):
            return None  # a chunk is damaged or has another size
        return out

    def _spans(self, box: Region) -> list[Span] | None:
        inner = self._inner
        return spans_of(inner.shape, inner.dtype.itemsize, [box[dim] for dim in self._order], GAP_BYTES)


def spans_of(shape: Sequence[int], item_size: int, box: Sequence[slice], gap: int) -> list[Span] | None:
    """Return the spans of bytes of a C-contiguous array that hold a box of its elements.

    Spans with a gap of at most `gap` bytes are joined. The slices have step 1 and are inside of the array.

    Returns:
        The spans in ascending order, or None if they cover nearly the whole array.
    """
    total = prod(shape) * item_size
    lengths = [part.stop - part.start for part in box]
    if 0 in lengths or total <= gap:
        return None
    start, extent, stride = 0, item_size, item_size
    # From the last dimension on, as long as the gap between two indices is not worth a span of its own.
    dim = len(shape)
    strides = [0] * dim
    joined = True
    split = 0
    for dim in reversed(range(len(shape))):
        strides[dim] = stride
        start += box[dim].start * stride
        if joined and lengths[dim] > 1 and stride - extent > gap:
            joined, split = False, dim + 1
        if joined:
            extent += (lengths[dim] - 1) * stride
        stride *= shape[dim]
    count = prod(lengths[:split])
    if count * (extent + gap) >= total:
        return None
    if count == 1:
        return [(start, start + extent)]
    steps = [range(0, length * step, step) for length, step in zip(lengths[:split], strides, strict=False)]
    starts = [start + sum(offsets) for offsets in product(*steps)]
    return [(first, first + extent) for first in starts]


def _stored_type(codec: ArrayBytesCodec, spec: ArraySpec) -> np.dtype[Any] | None:
    """Return the stored type of the elements, or None if it differs from that in memory by more than byte order."""
    if codec.stores_memory(spec):
        return spec.dtype
    if not isinstance(codec, BytesCodec) or spec.dtype.names is not None:
        return None
    storage = storage_type(spec.dtype, codec.endian)
    swapped = storage.stored.newbyteorder("=")
    if storage.has_spare_bits or storage.has_text or storage.plain != spec.dtype or swapped != spec.dtype:
        return None
    return storage.stored


def _multiples(step: int, count: int) -> list[int]:
    return list(range(0, (count + 1) * step, step))


def _decodes_spans(codec: BytesBytesCodec) -> bool:
    return type(codec).decode_spans is not BytesBytesCodec.decode_spans
