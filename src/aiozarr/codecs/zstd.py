"""The codec `zstd`: Zstandard frames (RFC 8878), decompressed within a bound known beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numcodecs import zstd as _native
from typing_extensions import Buffer, Self

from aiozarr.codecs import zstd_frame
from aiozarr.codecs._configuration import check_members, integer, invalid, short
from aiozarr.codecs.base import JSON, BytesBytesCodec
from aiozarr.codecs.registry import register
from aiozarr.codecs.zstd_frame import FrameError
from aiozarr.errors import CodecError

_HEAD_BYTES = 18
_STREAM_SLACK = 1 << 20


@register
@dataclass(frozen=True)
class ZstdCodec(BytesBytesCodec):
    """The codec `zstd` (codec specification "zstd").

    Frames with or without content size, concatenated frames and skippable frames are read. A window above 128 MiB is
    refused, and so is content that could exceed the bound.

    Attributes:
        level: from -131072 to 22; 0 is zstd's own default.
        checksum: whether frames that are written carry a checksum; on reading, a frame itself says so.
    """

    name = "zstd"
    level: int = 0
    checksum: bool = False

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("level", "checksum"), name=cls.name)
        checksum = configuration.get("checksum", False)
        if not isinstance(checksum, bool):
            raise invalid("checksum", f"it must be true or false, not {short(checksum)}")
        return cls(integer(configuration, "level", -131072, 22), checksum)

    def to_json(self) -> dict[str, JSON]:
        return {"level": self.level, "checksum": self.checksum}

    def encode(self, data: Buffer) -> Buffer:
        try:
            encoded: bytes = _native.compress(data, self.level, self.checksum)
        except (RuntimeError, ValueError) as error:
            raise CodecError(f"cannot compress: {error}", codec=self.name) from error
        return encoded

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        try:
            told = zstd_frame.content_size(bytes(memoryview(data)[:_HEAD_BYTES]))
            if out is not None and (told is None or told == len(out)):
                # Either the first frame fills `out`, and then the decoder refuses any more content after it,
                # or no size is told, and then it refuses what does not fill `out` exactly.
                _native.decompress(data, out)
                return out
            return _decode_unexpected(data, max_size)
        except (RuntimeError, ValueError) as error:
            raise CodecError(f"cannot decompress: {error}", codec=self.name) from error

    def compute_encoded_size(self, size: int) -> None:
        return None


def _decode_unexpected(data: Buffer, max_size: int) -> Buffer:
    """Decode what is not the one frame of the expected size: its frames are looked at one by one first."""
    content = zstd_frame.scan(data)
    size = content.size
    if size is None:
        return _decode_unsized(data, content.bound, max_size)
    if size > max_size:
        raise FrameError(f"the frames hold {size} bytes, of at most {max_size}")
    if size == 0:
        # The decoder takes a size of zero for an error.
        return b""
    result = np.empty(size, np.uint8)
    _native.decompress(data, result)
    return memoryview(result)


def _decode_unsized(data: Buffer, bound: int, max_size: int) -> Buffer:
    result = memoryview(np.empty(max_size, np.uint8))
    try:
        _native.decompress(data, result)
    except RuntimeError:
        # It does not fill the bound exactly. The streaming decoder takes any size, and memory up to the blocks' bound.
        if bound > 2 * max_size + _STREAM_SLACK:
            raise
    else:
        return result
    decoded: bytes = _native.decompress(data)
    if len(decoded) > max_size:
        raise FrameError(f"the frames hold {len(decoded)} bytes, of at most {max_size}")
    return decoded
