"""The codec `gzip`: gzip members (RFC 1952), decompressed within a bound known beforehand."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import Buffer, Self

from aiozarr.codecs._configuration import check_members, integer
from aiozarr.codecs.base import JSON, BytesBytesCodec
from aiozarr.codecs.registry import register
from aiozarr.errors import CodecError

_GZIP = 16 + zlib.MAX_WBITS
_MAX_MEMBERS = 1 << 14


@register
@dataclass(frozen=True)
class GzipCodec(BytesBytesCodec):
    """The codec `gzip` (codec specification "gzip").

    Several members after each other are read as one value; anything else behind the last member is refused. Lengths
    and checksums of all members are checked.
    """

    name = "gzip"
    level: int = 5

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("level",), name=cls.name)
        return cls(integer(configuration, "level", 0, 9))

    def to_json(self) -> dict[str, JSON]:
        return {"level": self.level}

    def encode(self, data: Buffer) -> Buffer:
        # The header that zlib writes holds no time: equal values encode to equal bytes.
        encoder = zlib.compressobj(self.level, wbits=_GZIP)
        return encoder.compress(data) + encoder.flush()

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        try:
            parts = list(self._members(data, max_size))
        except zlib.error as error:
            raise CodecError(f"cannot decompress: {error}", codec=self.name) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def compute_encoded_size(self, size: int) -> None:
        return None

    def _members(self, data: Buffer, max_size: int) -> list[bytes]:
        parts: list[bytes] = []
        left = max_size
        rest: Buffer = data
        while True:
            decoder = zlib.decompressobj(_GZIP)
            part = decoder.decompress(rest, left + 1)
            left -= len(part)
            if left < 0:
                raise CodecError(f"it decodes to more than {max_size} bytes", codec=self.name)
            if not decoder.eof:
                raise CodecError("the gzip data is cut short", codec=self.name)
            parts.append(part)
            if not decoder.unused_data:
                return parts
            if len(parts) == _MAX_MEMBERS:
                raise CodecError(f"there are more than {_MAX_MEMBERS} gzip members", codec=self.name)
            rest = decoder.unused_data
