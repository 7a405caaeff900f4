"""The codec `crc32c`: the bytes as they are, followed by their CRC-32C checksum in four bytes, little-endian."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import Buffer

from aiozarr.codecs._checksum import ChecksumCodec, crc32c
from aiozarr.codecs._unconfigured import UnconfiguredCodec
from aiozarr.codecs.registry import register


@register
@dataclass(frozen=True)
class Crc32cCodec(UnconfiguredCodec, ChecksumCodec):
    """The codec `crc32c` (codec specification "crc32c").

    It decodes to a view of its input. There is no partial decoding: a part cannot be checked without the whole.
    """

    name = "crc32c"

    def _checksum(self, content: Buffer) -> int:
        return crc32c(content)
