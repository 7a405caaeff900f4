"""The codec `numcodecs.lz4`: an LZ4 block after four bytes with its decoded size, which is checked first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numcodecs import lz4 as _native  # pyright: ignore[reportAttributeAccessIssue]  # compiled, without stubs
from typing_extensions import Buffer

from aiozarr.codecs.core.buffers import byte_view
from aiozarr.codecs.core.codec import JSON, BytesBytesCodec
from aiozarr.codecs.core.registry import register
from aiozarr.codecs.numcodecs.parameters import optional_integer
from aiozarr.errors import CodecError

_PREFIX_BYTES = 4
_MAX_INPUT = 0x7E000000
_EMPTY_BLOCK = b"\x00"
_MAX_EXPANSION = 255


@register
@dataclass(frozen=True)
class NumcodecsLz4Codec(BytesBytesCodec):
    """The codec `numcodecs.lz4`. An `acceleration` below 1 means 1."""

    name = "numcodecs.lz4"
    acceleration: int = 1

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        return cls(optional_integer(configuration, "acceleration", 1, -(2**31), 2**31 - 1))

    def to_json(self) -> dict[str, JSON]:
        return {"acceleration": self.acceleration}

    def encode(self, data: Buffer) -> Buffer:
        size = memoryview(data).nbytes
        if size > _MAX_INPUT:
            raise CodecError(f"lz4 takes at most {_MAX_INPUT} bytes, not {size}", codec=self.name)
        try:
            encoded: bytes = _native.compress(data, self.acceleration)
        except (RuntimeError, ValueError) as error:
            raise CodecError(f"cannot compress: {error}", codec=self.name) from error
        return encoded

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        view = memoryview(data).cast("B")
        block = len(view) - _PREFIX_BYTES
        if block < 1:
            raise CodecError(f"{len(view)} bytes are too few for an lz4 block and its size", codec=self.name)
        size = int.from_bytes(view[:_PREFIX_BYTES], "little", signed=True)
        if not 0 <= size <= max_size:
            raise CodecError(f"it declares {size} decoded bytes, of at most {max_size}", codec=self.name)
        if size == 0 and view[_PREFIX_BYTES:] == _EMPTY_BLOCK:
            # The decoder treats a size of zero as an error.
            return b""
        if size == 0 or size > _MAX_EXPANSION * block:
            raise CodecError(f"{block} bytes cannot hold the declared {size} decoded bytes", codec=self.name)
        result = out if out is not None and len(out) == size else byte_view(np.empty(size, np.uint8))
        try:
            _native.decompress(view, result)
        except (RuntimeError, ValueError) as error:
            raise CodecError(f"cannot decompress: {error}", codec=self.name) from error
        return result

    def compute_encoded_size(self, size: int) -> None:
        return None
