"""The codec `gzip`: gzip members (RFC 1952), decompressed within a bound known beforehand."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from typing_extensions import Buffer

from aiozarr.codecs._configuration import check_members, integer
from aiozarr.codecs._inflate import GZIP, inflate_errors, inflater
from aiozarr.codecs.base import JSON, BytesBytesCodec
from aiozarr.codecs.registry import register
from aiozarr.errors import CodecError

_MAX_MEMBERS = 1 << 16
_PIECE = 16 << 10


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
        return zlib.compress(data, self.level, wbits=GZIP)

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        try:
            parts = self._members(memoryview(data).cast("B"), max_size)
        except inflate_errors() as error:
            raise CodecError(f"cannot decompress: {error}", codec=self.name) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def compute_encoded_size(self, size: int) -> None:
        return None

    def _members(self, view: memoryview, max_size: int) -> list[bytes]:
        parts: list[bytes] = []
        position, left = 0, max_size
        # There is nearly always one member. Where more follow, the decoder gets small pieces: it copies what it does
        # not use, which for thousands of members would be quadratic.
        step = len(view)
        for _ in range(_MAX_MEMBERS):
            decoder = inflater(GZIP)
            while not decoder.eof:
                piece = view[position : position + step]
                if not piece:
                    raise CodecError("the gzip data is cut short", codec=self.name)
                part = decoder.decompress(piece, left + 1)
                left -= len(part)
                if left < 0:
                    raise CodecError(f"it decodes to more than {max_size} bytes", codec=self.name)
                parts.append(part)
                position += len(piece) - len(decoder.unused_data)
            if position == len(view):
                return parts
            step = _PIECE
        raise CodecError(f"there are more than {_MAX_MEMBERS} gzip members", codec=self.name)
