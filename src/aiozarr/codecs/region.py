"""Decoding for a reader who takes a box of a chunk's elements out at once, and needs no array of his own.

What he gets may be a view of the encoded bytes or of a block that is used again and again, its elements in the order of
dimensions and bytes in which they are stored: to take them out and to put them where they belong is one pass then. What
a compressor keeps in pieces is decompressed as far as the box needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np
from typing_extensions import Buffer

from aiozarr.codecs._buffers import array_over, byte_view, fast_byte_view, has_fast_view
from aiozarr.codecs.base import AnyArray, ArrayBytesCodec, ArraySpec, BytesBytesCodec, Region, Span
from aiozarr.codecs.bytes import BytesCodec
from aiozarr.codecs.chain import CodecChain
from aiozarr.codecs.storage_type import storage_type
from aiozarr.codecs.transpose import TransposeCodec
from aiozarr.errors import CodecError

GAP_BYTES = 64 << 10
"""What lies between two runs of bytes is decoded too where that is less: a run costs about as much by itself."""


RunDecoder: TypeAlias = Callable[[memoryview, Sequence[int], memoryview], memoryview | None]
"""Decodes chunks that follow each other without a gap: their encodings, where each of them starts, and a buffer.

What it returns, that buffer or another, holds the elements of all of them. None: it does not decode these.
"""


class RegionDecoder:
    """Decodes chunks of one pipeline whose elements are numbers in some order of dimensions and bytes.

    Args:
        chain: the codecs.
        specs: the array representation before each array -> array codec, and the one that becomes bytes.
        stored: the type of the elements in the bytes: that in memory, in either byte order.
        bounds: how many bytes there are at most before each bytes -> bytes codec.

    Attributes:
        decodes_parts: whether it matters to tell a box.
        reorders: whether results have dimensions or bytes in another order than in memory.
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
        # Which dimension of the elements each dimension in the bytes is, and the other way around.
        order = list(range(len(inner.shape)))
        for codec in chain.array_array:
            assert isinstance(codec, TransposeCodec)
            order = [order[dim] for dim in codec.order]
        self._order = tuple(order)
        self._back = None if order == sorted(order) else tuple(np.argsort(order).tolist())
        self.reorders = self._back is not None or stored != inner.dtype

    @classmethod
    def of(cls, chain: CodecChain, specs: Sequence[ArraySpec], bounds: Sequence[int]) -> RegionDecoder | None:
        """Return the decoder of a chain; None where more than the order of dimensions and bytes differs."""
        stored = _stored_type(chain.array_bytes, specs[-1])
        if stored is None or not all([isinstance(codec, TransposeCodec) for codec in chain.array_array]):
            return None
        return cls(chain, specs, stored, bounds)

    def decode(self, data: Buffer, block: AnyArray, box: Region | None = None) -> AnyArray:
        """Return an array of the chunk's shape, and its type in either byte order, whose elements in `box` are decoded.

        Args:
            data: the encoded bytes.
            block: a writable C-contiguous array of the chunk's shape and type, which the result may be a view of.
            box: slices of step 1 with no negative numbers, one for each dimension; None: all elements.

        Raises:
            CodecError: `data` is no such array's encoding.
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
            # It is for the codec to say what is wrong.
            array = self._array_bytes.decode(data, inner)
        return array if self._back is None else array.transpose(self._back)

    def decoder(self, block: AnyArray) -> Callable[[Buffer], AnyArray]:
        """Return `decode` of all elements into `block`, for many calls of one thread."""
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
                # It is for the codec to say what is wrong.
                array = whole(data, inner)
            return array if back is None else array.transpose(back)

        return decode_chunk

    def run_decoder(self) -> RunDecoder | None:
        """Return what decodes several chunks together; None where each has to be decoded by itself."""
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
            return None  # a chunk that is damaged, or has another size
        return out

    def _spans(self, box: Region) -> list[Span] | None:
        inner = self._inner
        return spans_of(inner.shape, inner.dtype.itemsize, [box[dim] for dim in self._order], GAP_BYTES)


def spans_of(shape: Sequence[int], item_size: int, box: Sequence[slice], gap: int) -> list[Span] | None:
    """Return which bytes of a C-contiguous array hold a box of its elements; None where that is nearly all of them.

    Spans that are no further apart than `gap` bytes are one. The slices have step 1 and are inside of the array.
    """
    total = prod(shape) * item_size
    lengths = [part.stop - part.start for part in box]
    if 0 in lengths or total <= gap:
        return None
    start, extent, stride = 0, item_size, item_size
    # From the last dimension on, as long as what lies between an index and the next is not worth a span of its own.
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
    """Return the type of which the encoding is an array, where that is the type in memory but for the byte order."""
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
