"""The codec `zstd`: Zstandard frames (RFC 8878), decompressed within a bound known beforehand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, cast

import numpy as np
import zstandard
from numcodecs import zstd as _native  # pyright: ignore[reportAttributeAccessIssue]  # compiled, without stubs
from typing_extensions import Buffer

from aiozarr.codecs import zstd_frame
from aiozarr.codecs._buffers import byte_view
from aiozarr.codecs._configuration import check_members, integer, invalid, short
from aiozarr.codecs.base import JSON, BytesBytesCodec, Span
from aiozarr.codecs.registry import register
from aiozarr.codecs.zstd_frame import FrameError
from aiozarr.errors import CodecError

_HEAD_BYTES = 18
_STREAM_SLACK = 1 << 20

_SMALL = 128 << 10
"""Up to this size, making a coder costs more than it gains: each thread keeps one, and a few MiB with it."""

_LARGE = 4 << 20
_SLICED = (bytes, bytearray, memoryview)


class _Kept(threading.local):
    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self._terms: tuple[int, bool] | None = None
        self._compress: Callable[[bytes], bytes]

    def compressor(self, level: int, checksum: bool) -> Callable[[bytes], bytes]:
        if self._terms != (level, checksum):
            self._compress = zstandard.ZstdCompressor(level=level, write_checksum=checksum).compress
            self._terms = (level, checksum)
        return self._compress


_kept = _Kept()


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
            if memoryview(data).nbytes <= _SMALL:
                return _kept.compressor(self.level, self.checksum)(cast("bytes", data))
            encoded: bytes = _native.compress(data, self.level, self.checksum)
        except (RuntimeError, ValueError, zstandard.ZstdError) as error:
            raise self._failed(error) from error
        return encoded

    def encoder(self, size: int) -> Callable[[Buffer], Buffer]:
        if size > _SMALL:
            return self.encode
        compress = _kept.compressor(self.level, self.checksum)

        def encode(data: Buffer) -> Buffer:
            try:
                return compress(cast("bytes", data))
            except zstandard.ZstdError as error:
                raise self._failed(error) from error

        return encode

    def _failed(self, error: Exception) -> CodecError:
        return CodecError(f"cannot compress: {error}", codec=self.name)

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        head = bytes(memoryview(data)[:_HEAD_BYTES])
        try:
            if out is not None and head.startswith(zstd_frame.usual_heads(len(out))):
                # The first frame fills `out`: content of further frames would be too much, which the decoder refuses.
                if len(out) <= _SMALL:
                    return _decode_small(data, out)
                _native.decompress(data, out)
                return out
            return _decode_unusual(data, head, max_size, out)
        except (RuntimeError, ValueError) as error:
            raise CodecError(f"cannot decompress: {error}", codec=self.name) from error

    def decoder(self, *, max_size: int, out: memoryview) -> Callable[[Buffer], Buffer]:
        general = super().decoder(max_size=max_size, out=out)
        if not 0 < len(out) <= _SMALL:
            return general
        heads = zstd_frame.usual_heads(len(out))
        width = len(heads[0])
        decompress = zstandard.ZstdDecompressor().decompress

        def decode(data: Buffer) -> Buffer:
            if type(data) in _SLICED and data[:width] in heads:  # type: ignore[index]  # these kinds have slices
                try:
                    return decompress(data, 0, False, False)  # type: ignore[arg-type]
                except zstandard.ZstdError:
                    pass  # damaged, or followed by frames without content
            return general(data)

        return decode

    def run_decoder(self, size: int) -> Callable[[memoryview, Sequence[int], memoryview], bool] | None:
        if not 0 < size <= _SMALL:
            return None
        heads = zstd_frame.usual_heads(size)
        width = len(heads[0])

        def decode(data: memoryview, starts: Sequence[int], out: memoryview) -> bool:
            for start in starts:
                if data[start : start + width] not in heads:
                    return False
            # One may reach over the start of the next. The decoder takes more room than there is content for, and says
            # before it begins when there is less: so it is asked twice, and what it leaves unwritten is nobody's.
            return not _decompresses(data, out[:-1]) and _decompresses(data, out)

        return decode

    def decode_spans(self, data: Buffer, spans: Sequence[Span], *, max_size: int, out: memoryview) -> Buffer | None:
        # A frame is decoded from its start on: what lies behind the last span is left out. A checksum covers all of it.
        stop, head = spans[-1][1], bytes(memoryview(data)[:_HEAD_BYTES])
        if stop > len(out) * 3 // 4:
            return None
        try:
            # Blocks are 128 KiB long, but for encoders that split them. Whether the last one is there is looked up:
            # nobody would notice the rest of a chunk that was cut.
            if zstd_frame.has_checksum(head) or zstd_frame.content_size(head) != len(out):
                return None
            if zstd_frame.scan(data, max_blocks=64 + len(out) // _SMALL * 8).size != len(out):
                return None
            # A decompressor keeps memory for all that a frame may refer back to.
            decompressor = _kept.decompressor if len(out) <= _LARGE else zstandard.ZstdDecompressor()
            with decompressor.stream_reader(cast("bytes", data)) as reader:
                return out if reader.readinto(out[:stop]) == stop else None
        except (FrameError, zstandard.ZstdError):
            return None  # decoding all tells why

    def compute_encoded_size(self, size: int) -> None:
        return None


def _decompresses(data: memoryview, out: memoryview) -> bool:
    try:
        _native.decompress(data, out)
    except (RuntimeError, ValueError):
        return False
    return True


def _decode_small(data: Buffer, out: memoryview) -> Buffer:
    try:
        return _kept.decompressor.decompress(cast("bytes", data), allow_extra_data=False)
    except zstandard.ZstdError:
        # Damaged, or followed by frames without content: the other decoder knows.
        _native.decompress(data, out)
        return out


def _decode_unusual(data: Buffer, head: bytes, max_size: int, out: memoryview | None) -> Buffer:
    if not zstd_frame.is_skippable(head):
        told = zstd_frame.content_size(head)
        if told is None and out is not None:
            # Where no size is told, the decoder takes the destination's, and refuses what does not fill it.
            _native.decompress(data, out)
            return out
        if told is not None and told > max_size:
            raise FrameError(f"the frame holds {told} bytes, of at most {max_size}")
        if told:
            result = out if out is not None and told == len(out) else byte_view(np.empty(told, np.uint8))
            try:
                _native.decompress(data, result)
            except (RuntimeError, ValueError):
                pass  # damaged, or too small because more frames follow: the frames tell
            else:
                return result
    return _decode_frames(data, max_size)


def _decode_frames(data: Buffer, max_size: int) -> Buffer:
    """Decode any number of frames, after a look at each of them."""
    content = zstd_frame.scan(data)
    size = content.size
    if size is None:
        return _decode_unsized(data, content.bound, max_size)
    if size > max_size:
        raise FrameError(f"the frames hold {size} bytes, of at most {max_size}")
    if size == 0:
        # The decoder takes a size of zero for an error.
        return b""
    result = byte_view(np.empty(size, np.uint8))
    _native.decompress(data, result)
    return result


def _decode_unsized(data: Buffer, bound: int, max_size: int) -> Buffer:
    if max_size:
        result = byte_view(np.empty(max_size, np.uint8))
        try:
            _native.decompress(data, result)
        except RuntimeError:
            pass  # it does not fill the bound exactly
        else:
            return result
    # The streaming decoder takes any size; it needs memory up to what the blocks can hold.
    if bound > 2 * max_size + _STREAM_SLACK:
        raise FrameError(f"the frames could hold {bound} bytes, of at most {max_size}")
    decoded: bytes = _native.decompress(data)
    if len(decoded) > max_size:
        raise FrameError(f"the frames hold {len(decoded)} bytes, of at most {max_size}")
    return decoded
