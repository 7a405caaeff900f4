"""The codec `crc32c`, and the base class of all codecs that store a checksum of 32 bits beside the bytes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import google_crc32c
from typing_extensions import Buffer

from aiozarr.codecs.codec import BytesBytesCodec, byte_array
from aiozarr.codecs.registry import UnconfiguredCodec, register_codec
from aiozarr.errors import ChecksumError, CodecError

CHECKSUM_BYTES = 4


class ChecksumCodec(BytesBytesCodec):
    """The unchanged bytes with a little-endian checksum of 32 bits at their end or start.

    Decoding returns a view of the input.
    """

    @property
    def _at_start(self) -> bool:
        """True if the checksum precedes the content."""
        return False

    @abstractmethod
    def _checksum(self, content: Buffer) -> int:
        """Return the checksum of `content`, below 2**32."""

    def encode(self, data: Buffer) -> Buffer:
        checksum = self._checksum(data).to_bytes(CHECKSUM_BYTES, "little")
        return b"".join((checksum, data) if self._at_start else (data, checksum))

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        view = memoryview(data).cast("B")
        size = len(view) - CHECKSUM_BYTES
        if size < 0:
            raise CodecError(f"{len(view)} bytes are too few to hold a checksum", codec=self.name)
        if size > max_size:
            raise CodecError(f"there are {size} bytes, of at most {max_size}", codec=self.name)
        if self._at_start:
            checksum, content = view[:CHECKSUM_BYTES], view[CHECKSUM_BYTES:]
        else:
            content, checksum = view[:size], view[size:]
        stored, actual = int.from_bytes(checksum, "little"), self._checksum(content)
        if stored != actual:
            raise ChecksumError(f"stored checksum {stored:08x}, but the bytes have {actual:08x}", codec=self.name)
        return content

    def compute_encoded_size(self, size: int) -> int:
        return size + CHECKSUM_BYTES


def crc32c(content: Buffer) -> int:
    """Return the CRC-32C (Castagnoli) of `content`."""
    # The library accepts bytes and arrays, but no memoryviews.
    return int(google_crc32c.value(byte_array(content)))


@register_codec
@dataclass(frozen=True)
class Crc32cCodec(UnconfiguredCodec, ChecksumCodec):
    """The codec `crc32c` (codec specification "crc32c"). Decoding returns a view of the input."""

    name = "crc32c"

    def _checksum(self, content: Buffer) -> int:
        return crc32c(content)
