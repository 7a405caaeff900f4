"""The codec `crc32c`: the bytes as they are, followed by their CRC-32C checksum in four bytes, little-endian."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import google_crc32c
from typing_extensions import Buffer

from aiozarr.codecs._buffers import byte_array
from aiozarr.codecs._configuration import check_members
from aiozarr.codecs.base import JSON, BytesBytesCodec
from aiozarr.codecs.registry import register
from aiozarr.errors import ChecksumError, CodecError

_CHECKSUM_BYTES = 4


@register
@dataclass(frozen=True)
class Crc32cCodec(BytesBytesCodec):
    """The codec `crc32c` (codec specification "crc32c").

    It decodes to a view of its input. There is no partial decoding: a part cannot be checked without the whole.
    """

    name = "crc32c"

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, (), name=cls.name)
        return cls()

    def to_json(self) -> dict[str, JSON]:
        return {}

    def encode(self, data: Buffer) -> Buffer:
        return b"".join((data, _checksum(data).to_bytes(_CHECKSUM_BYTES, "little")))

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        view = memoryview(data).cast("B")
        size = len(view) - _CHECKSUM_BYTES
        if size < 0:
            raise CodecError(f"{len(view)} bytes are too few to hold a checksum", codec=self.name)
        if size > max_size:
            raise CodecError(f"there are {size} bytes, of at most {max_size}", codec=self.name)
        content = view[:size]
        stored, actual = int.from_bytes(view[size:], "little"), _checksum(content)
        if stored != actual:
            raise ChecksumError(f"the checksum is {actual:08x}, stored is {stored:08x}", codec=self.name)
        return content

    def compute_encoded_size(self, size: int) -> int:
        return size + _CHECKSUM_BYTES


def _checksum(data: Buffer) -> int:
    # The library takes bytes and arrays, and refuses memoryviews.
    return int(google_crc32c.value(byte_array(data)))
