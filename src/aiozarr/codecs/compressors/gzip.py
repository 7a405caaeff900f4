"""The codec `gzip`: gzip members (RFC 1952), decompressed within a known bound."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from typing_extensions import Buffer

from aiozarr.codecs.compressors.inflate import GZIP, inflate_errors, inflater
from aiozarr.codecs.core.codec import JSON, BytesBytesCodec
from aiozarr.codecs.core.configuration import check_members, integer
from aiozarr.codecs.core.registry import register
from aiozarr.errors import CodecError

_MAX_MEMBERS = 1 << 16
_PIECE = 16 << 10


@register
@dataclass(frozen=True)
class GzipCodec(BytesBytesCodec):
    """The codec `gzip` (codec specification "gzip").

    Adjacent members are read as one value. Other bytes after the last member are refused. Lengths and checksums of all
    members are checked.
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
        # The header that zlib writes has no time stamp, so equal values encode to equal bytes.
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
        # There is nearly always one member. If more follow, the decoder gets small pieces: it copies its unused input,
        # which would be quadratic for thousands of members.
        step = len(view)
        for _ in range(_MAX_MEMBERS):
            decoder = inflater(GZIP)
            while not decoder.eof:
                piece = view[position : position + step]
                if not piece:
                    raise CodecError("the gzip data is truncated", codec=self.name)
                part = decoder.decompress(piece, min(left + 1, sys.maxsize))
                left -= len(part)
                if left < 0:
                    raise CodecError(f"it decodes to more than {max_size} bytes", codec=self.name)
                parts.append(part)
                position += len(piece) - len(decoder.unused_data)
            if position == len(view):
                return parts
            step = _PIECE
        raise CodecError(f"there are more than {_MAX_MEMBERS} gzip members", codec=self.name)
