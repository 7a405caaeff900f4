"""The codec contract: plain synchronous functions between arrays and bytes (v3 core specification, "Codecs")."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.model import ByteRange

if TYPE_CHECKING:
    from aiozarr.codecs.shard_layout import ShardLayout

JSON: TypeAlias = Any
AnyArray: TypeAlias = NDArray[Any]
Region: TypeAlias = tuple[slice, ...]
Span: TypeAlias = tuple[int, int]
"""Positions of bytes: the first, and the one behind the last."""
ReadBytes: TypeAlias = Callable[[ByteRange | None], Buffer]
"""How `partial_decode` asks for a part of the encoded representation; None asks for all of it."""


@dataclass(frozen=True)
class ArraySpec:
    """A decoded representation: shape and numpy data type of an array, with the fill value (a 0-d array) behind it.

    `max_bytes` bounds what a decoder may produce where the type does not: elements of variable length.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fill_value: AnyArray
    max_bytes: int = 1 << 30

    @cached_property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @cached_property
    def nbytes(self) -> int:
        """Number of bytes of the elements, or of what stands for variable ones; exact at any size."""
        return self.size * self.dtype.itemsize

    @cached_property
    def is_variable(self) -> bool:
        """True where elements lie elsewhere in memory: strings, bytes and other objects, of any length."""
        return self.dtype.hasobject or self.dtype.kind == "T"


def view_region(array: AnyArray, region: Region) -> AnyArray:
    """Return a view of a region, where indexing an array without dimensions would give a scalar."""
    return array[region] if region else array


class Codec(ABC):
    """What the three kinds of codec share.

    A codec is immutable, compares by value, and is used by many threads at once.

    Third parties subclass one of the three kinds below and register the class with `aiozarr.codecs.register`.
    """

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        """Build the codec from its `configuration` member.

        Raises:
            InvalidMetadataError: with `member` naming the place below `configuration`.
        """

    @abstractmethod
    def to_json(self) -> dict[str, JSON]:
        """Return the `configuration` member; empty where the codec has none."""


class ArrayArrayCodec(Codec):
    """An array -> array codec."""

    @abstractmethod
    def resolve(self, spec: ArraySpec) -> ArraySpec:
        """Return the encoded representation (`compute_encoded_representation_type`).

        Shape and type may be others than those of `spec`, given as `dataclasses.replace(spec, ...)`: its `max_bytes`
        has to stay. The fill value of the result is the encoded fill value. Chunks that are missing are not decoded;
        inner chunks of a shard behind this codec are, from that encoded fill value.

        Raises:
            InvalidMetadataError: the codec does not take such arrays.
        """

    @abstractmethod
    def encode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        """Return the encoded array; `spec` is the decoded representation."""

    @abstractmethod
    def decode(self, array: AnyArray, spec: ArraySpec) -> AnyArray:
        """Return the decoded array, which may be a view; `spec` is the decoded representation."""

    def encode_region(self, region: Region, spec: ArraySpec) -> Region | None:
        """Return the region of the encoded array that holds `region` of the decoded one; None where there is none.

        A codec that returns regions must decode each of them by `decode` alone, given a spec of that region's shape.
        """
        return None


class ArrayBytesCodec(Codec):
    """The array -> bytes codec of a chain."""

    def resolve(self, spec: ArraySpec) -> None:
        """Check that the codec takes such arrays.

        Raises:
            InvalidMetadataError: it does not.
        """

    @abstractmethod
    def encode(self, array: AnyArray, spec: ArraySpec) -> Buffer:
        """Return the encoded bytes."""

    @abstractmethod
    def decode(self, data: Buffer, spec: ArraySpec, *, out: AnyArray | None = None) -> AnyArray:
        """Return an array of `spec.shape` and `spec.dtype`.

        `out`, a C-contiguous array of that shape and type, may be used for the result; the result may also be a view of
        `data`, so it is valid only as long as `data` is not changed.

        Raises:
            CodecError: `data` is not such an array's encoding.
        """

    @abstractmethod
    def compute_encoded_size(self, spec: ArraySpec) -> int | None:
        """Return the number of bytes that every such array encodes to; None where it varies."""

    def max_encoded_size(self, spec: ArraySpec) -> int:
        """Return a bound on the bytes that such an array encodes to; the decoder of the next stage stops there."""
        size = self.compute_encoded_size(spec)
        if size is not None:
            return size
        return spec.max_bytes if spec.is_variable else 2 * spec.nbytes + 65536

    def encoded_item_size(self, spec: ArraySpec) -> int:
        """Return the number of bytes of each item in the encoding; 1 where it has no items of equal size."""
        return 1 if spec.is_variable else spec.dtype.itemsize

    def stores_memory(self, spec: ArraySpec) -> bool:
        """Return whether the encoding is the array's memory in C order, so that a decompressor may fill it directly."""
        return False

    def stored_type(self, spec: ArraySpec) -> np.dtype[Any] | None:
        """Return the type of the elements of which the encoding is an array in C order; None where it is none.

        A codec that returns one must decode any such array by `decode` alone, given a spec of its shape.
        """
        return None

    def shard_layout(self, spec: ArraySpec) -> ShardLayout | None:
        """Return where the encoding keeps separately encoded inner chunks; None where it has no such parts."""
        return None

    def partial_decode(self, read: ReadBytes, spec: ArraySpec, regions: Sequence[Region]) -> list[AnyArray]:
        """Return the elements of each region, reading as little as the encoding allows (here: all of it)."""
        array = self.decode(read(None), spec)
        return [view_region(array, region) for region in regions]


class BytesBytesCodec(Codec):
    """A bytes -> bytes codec."""

    @abstractmethod
    def encode(self, data: Buffer) -> Buffer:
        """Return the encoded bytes."""

    @abstractmethod
    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        """Return the decoded bytes, of which there are at most `max_size`; no more than that is ever allocated.

        `out`, a writable contiguous block of bytes, may be used for the result where the result fills it exactly.

        Raises:
            CodecError: `data` is no valid encoding, or decodes to more than `max_size` bytes.
        """

    def decoder(self, *, max_size: int, out: memoryview) -> Callable[[Buffer], Buffer]:
        """Return `decode` with these arguments, for one thread's use: what they decide may be decided beforehand."""
        return partial(self.decode, max_size=max_size, out=out)

    def encoder(self, size: int) -> Callable[[Buffer], Buffer]:
        """Return `encode` for inputs of `size` bytes, for one thread's use: what it needs may be kept."""
        return self.encode

    def run_decoder(self, size: int) -> Callable[[memoryview, Sequence[int], memoryview], bool] | None:
        """Return a function that decodes encodings which follow each other without a gap, each to `size` bytes.

        It takes them, where each of them starts, and a buffer for all that they decode to. It returns False where it
        does not do that, and `decode` has to tell what is wrong with which of them. None: one by one is as good.
        """
        return None

    def decode_spans(self, data: Buffer, spans: Sequence[Span], *, max_size: int, out: memoryview) -> Buffer | None:
        """Return as many bytes as `decode` would, of which those of `spans` are decoded; None where that saves nothing.

        `spans` ascend and do not overlap. `out` is as in `decode`; what the other bytes of the result are is left open.
        """
        return None

    def for_items(self, item_size: int) -> BytesBytesCodec:
        """Return the codec for bytes that are items of `item_size` bytes; it has the same configuration.

        A codec that regroups bytes by items, and whose configuration leaves their size to the array, returns another.
        """
        return self

    @abstractmethod
    def compute_encoded_size(self, size: int) -> int | None:
        """Return the number of bytes that every input of `size` bytes encodes to; None where it varies."""

    def max_encoded_size(self, size: int) -> int:
        """Return a bound on the number of bytes that an input of `size` bytes encodes to."""
        exact = self.compute_encoded_size(size)
        return size + size // 4 + 65536 if exact is None else exact

    def partial_decode(self, read: ReadBytes, size: int, ranges: Sequence[ByteRange]) -> list[Buffer] | None:
        """Return decoded byte ranges, reading as little as the encoding allows; None where it allows only all of it.

        `size` is the number of decoded bytes.
        """
        return None
