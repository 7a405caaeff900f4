"""The codec `packbits`: elements of any number of bits, packed across byte boundaries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, get_args

import numpy as np
from typing_extensions import Buffer

from aiozarr.codecs.bytes import bits_used, storage_type
from aiozarr.codecs.codec import JSON, AnyArray, ArrayBytesCodec, ArraySpec, byte_array
from aiozarr.codecs.registry import check_members, integer, invalid, one_of, register_codec, unsupported
from aiozarr.errors import CodecError

_BLOCK = 1 << 15
"""Components that are expanded to one byte per bit at a time. A multiple of 8, so that blocks end with a byte."""

_MAX_BITS = 64


PaddingByte: TypeAlias = Literal["none", "first_byte", "last_byte"]
"""The byte that counts the unused bits."""


@register_codec
@dataclass(frozen=True)
class PackbitsCodec(ArrayBytesCodec):
    """The codec `packbits` (registry of extensions). The first bit of a byte is the least significant one.

    The content of padding bits is ignored. Their stored number is checked.

    Attributes:
        padding_encoding: the position of the byte that holds the number of padding bits.
        first_bit: the least significant stored bit; None means 0.
        last_bit: the most significant stored bit; None means the highest bit of the type.
    """

    name = "packbits"
    padding_encoding: PaddingByte = "none"
    first_bit: int | None = None
    last_bit: int | None = None

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("padding_encoding", "first_bit", "last_bit"), name=cls.name)
        place: PaddingByte = one_of(configuration, "padding_encoding", get_args(PaddingByte), "none")
        first, last = (
            None if configuration.get(key) is None else integer(configuration, key, 0, _MAX_BITS - 1)
            for key in ("first_bit", "last_bit")
        )
        if last is not None and last < (first or 0):
            raise invalid("last_bit", "it must not be less than first_bit")
        return cls(place, first, last)

    def to_json(self) -> dict[str, JSON]:
        members = {
            "padding_encoding": None if self.padding_encoding == "none" else self.padding_encoding,
            "first_bit": self.first_bit,
            "last_bit": self.last_bit,
        }
        return {key: value for key, value in members.items() if value is not None}

    def resolve(self, spec: ArraySpec) -> None:
        dtype = spec.dtype
        if spec.is_variable or dtype.names is not None or dtype.type is np.void or dtype.kind in "SU":
            raise unsupported(f"codec 'packbits' encodes numbers, not {dtype}", self.name)
        bits = _component(dtype)[1]
        for key, bit in (("first_bit", self.first_bit), ("last_bit", self.last_bit)):
            if bit is not None and bit >= bits:
                raise invalid(key, f"the type {dtype} has {bits} bits")

    def encode(self, array: AnyArray, spec: ArraySpec) -> Buffer:
        components, bits = self._as_bytes(array, spec)
        first, count = self._kept(bits)
        blocks = [
            # Booleans already have one byte per bit.
            np.packbits(block if bits == 1 else _spread(block)[:, first : first + count].reshape(-1), bitorder="little")
            for block in (components[i : i + _BLOCK] for i in range(0, len(components), _BLOCK))
        ]
        padding = bytes([-count * len(components) % 8])
        head, tail = self.padding_encoding == "first_byte", self.padding_encoding == "last_byte"
        return b"".join([padding * head, *(block.tobytes() for block in blocks), padding * tail])

    def decode(self, data: Buffer, spec: ArraySpec, *, out: AnyArray | None = None) -> AnyArray:
        packed = self._content(byte_array(data), spec)
        unsigned, bits = _component(spec.dtype)
        first, count = self._kept(bits)
        if bits == 1:
            # Booleans are bytes of 0 and 1.
            return np.unpackbits(packed, count=spec.size, bitorder="little").view(spec.dtype).reshape(spec.shape)
        result = np.empty(spec.shape, spec.dtype)
        flat = result.reshape(-1).view(unsigned)
        width = max(8, bits)
        for start in range(0, flat.size, _BLOCK):
            size = min(_BLOCK, flat.size - start)
            source = packed[start * count // 8 : -(-(start + size) * count // 8)]
            kept = np.unpackbits(source, count=size * count, bitorder="little").reshape(size, count)
            spread = np.zeros((size, width), np.uint8)
            spread[:, first : first + count] = kept
            if first + count < bits and _is_signed(spec.dtype):
                spread[:, first + count : bits] = kept[:, -1:]
            block = np.packbits(spread, axis=1, bitorder="little").reshape(-1)
            flat[start : start + size] = block.view(unsigned.newbyteorder("<"))
        return result

    def compute_encoded_size(self, spec: ArraySpec) -> int:
        unsigned, bits = _component(spec.dtype)
        components = spec.nbytes // unsigned.itemsize
        return -(-components * self._kept(bits)[1] // 8) + (self.padding_encoding != "none")

    def _kept(self, bits: int) -> tuple[int, int]:
        """Return the first stored bit, and the number of stored bits."""
        first = self.first_bit or 0
        return first, (bits if self.last_bit is None else self.last_bit + 1) - first

    def _as_bytes(self, array: AnyArray, spec: ArraySpec) -> tuple[AnyArray, int]:
        """Return the components as rows of bytes, least significant first, and the number of their bits."""
        unsigned, bits = _component(spec.dtype)
        plain = np.ascontiguousarray(array.view(storage_type(spec.dtype, None).plain))
        components = plain.reshape(-1).view(unsigned).astype(unsigned.newbyteorder("<"), copy=False)
        return components.view(np.uint8).reshape(-1, unsigned.itemsize), bits

    def _content(self, data: AnyArray, spec: ArraySpec) -> AnyArray:
        size = self.compute_encoded_size(spec)
        if data.size != size:
            raise CodecError(f"there are {data.size} bytes, expected {size}", codec=self.name)
        if self.padding_encoding == "none":
            return data
        at_start = self.padding_encoding == "first_byte"
        stored = int(data[0 if at_start else -1])
        unsigned, bits = _component(spec.dtype)
        expected = -self._kept(bits)[1] * (spec.nbytes // unsigned.itemsize) % 8
        if stored != expected:
            raise CodecError(f"the chunk declares {stored} padding bits, expected {expected}", codec=self.name)
        return data[1:] if at_start else data[:-1]


def _component(dtype: np.dtype[np.generic]) -> tuple[np.dtype[np.generic], int]:
    """Return the unsigned type of a component, and its number of used bits. Complex numbers have two components."""
    if dtype.kind == "b":
        return np.dtype(np.uint8), 1
    size = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    return np.dtype(f"u{size}"), 8 * size if dtype.kind == "c" else bits_used(dtype)


def _is_signed(dtype: np.dtype[np.generic]) -> bool:
    # The small integers of ml_dtypes have numpy's kind V.
    return dtype.kind in "imM" or dtype.name in ("int2", "int4")


def _spread(rows: AnyArray) -> AnyArray:
    return np.unpackbits(rows, axis=1, bitorder="little")
