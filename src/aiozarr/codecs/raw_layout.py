"""Where the elements of an uncompressed chunk lie in its bytes, so that parts of it can be read by ranges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from typing_extensions import Buffer

from aiozarr.codecs._buffers import byte_view
from aiozarr.codecs.base import AnyArray, ArrayBytesCodec, ArraySpec
from aiozarr.codecs.transpose import TransposeCodec

if TYPE_CHECKING:
    from aiozarr.codecs.chain import CodecChain


@dataclass(frozen=True, eq=False)
class RawLayout:
    """An encoding that is the elements one after the other, each in the same number of bytes.

    Attributes:
        shape: the decoded shape.
        strides: bytes from an element to the next along each dimension of the decoded array.
        order: those dimensions in the order in which they are stored, the slowest first.
        item_size: bytes of an element.
        nbytes: bytes of the chunk.
        is_memory: True where stored elements are elements as they are in memory.
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
        """Return where the elements lie that `chain` encodes; None where they have no places of their own.

        `specs` are the array's representations before each array -> array codec, and the one that becomes bytes.
        """
        stored = chain.array_bytes.stored_type(specs[-1])
        if stored is None or chain.bytes_bytes or stored.itemsize == 0:
            return None
        order = tuple(range(len(specs[0].shape)))
        for codec in chain.array_array:
            if not isinstance(codec, TransposeCodec):
                return None
            order = tuple([order[dim] for dim in codec.order])
        strides = [0] * len(order)
        size = stored.itemsize
        for dim in reversed(order):
            strides[dim] = size
            size *= specs[0].shape[dim]
        encoder, spec = chain.array_bytes, specs[0]
        memory = encoder.stores_memory(specs[-1])
        return cls(spec.shape, tuple(strides), order, stored.itemsize, size, memory, encoder, spec, stored)

    def array_over(self, data: Buffer) -> AnyArray:
        """Return the chunk's elements, of the decoded shape, as a view of its bytes: of the type that is stored."""
        dtype = self._spec.dtype if self.is_memory else self._stored
        return np.ndarray(self.shape, dtype, cast("bytes", data), strides=self.strides)

    def load(self, stored: AnyArray) -> AnyArray:
        """Return what was taken out of `array_over`, as elements of the decoded type.

        Raises:
            CodecError: they are none.
        """
        if self.is_memory:
            return stored
        # An array without dimensions gets one here: only its bytes count.
        elements = np.ascontiguousarray(stored)
        return self._codec.decode(byte_view(elements), replace(self._spec, shape=stored.shape))
