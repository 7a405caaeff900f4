"""Positions of the elements in the bytes of an uncompressed chunk, for reading parts of it by ranges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aiozarr.codecs.core.codec import AnyArray, ArrayBytesCodec, ArraySpec, byte_view

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from aiozarr.codecs.core.chain import CodecChain


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
