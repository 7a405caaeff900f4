"""The codec `zstd`: Zstandard frames (RFC 8878), decompressed within a known bound.

The headers of frames are parsed without decompressing (RFC 8878, section 3).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np
import zstandard

from aiozarr.codecs.codec import JSON, BytesBytesCodec, FramedCodec, Span, byte_view, codec_errors
from aiozarr.codecs.registry import FieldsCodec, boolean, check_members, integer, register_codec
from aiozarr.errors import CodecError
from aiozarr.memory import thread_memory

if TYPE_CHECKING:
    from typing_extensions import Buffer

_HEAD_BYTES = 18
_STREAM_SLACK = 1 << 20

_SMALL = 128 << 10
"""Up to this size making a coder takes longer than using it. Each thread keeps one, with a few MiB of memory."""

_LARGE = 4 << 20
_SLICED = (bytes, bytearray, memoryview)


@cache
def _native() -> Any:
    """Return the coder of numcodecs, which small chunks do not need, because its import takes 50 ms."""
    from numcodecs import zstd  # pyright: ignore[reportAttributeAccessIssue]  # compiled, without stubs

    return zstd


_decoded_chunks = 0

MAX_CHUNKS_WITHOUT_NATIVE = 2048
"""Small chunks of a process that are decoded together without numcodecs. That takes up to 4 µs longer for each."""


def _is_native_used(chunks: int) -> bool:
    """Return whether small chunks, `chunks` more, are decoded by numcodecs, all of a batch in one call."""
    global _decoded_chunks
    _decoded_chunks += chunks
    return _decoded_chunks > MAX_CHUNKS_WITHOUT_NATIVE or "numcodecs.zstd" in sys.modules


def _compressor(level: int, checksum: bool) -> Callable[[bytes], bytes]:
    """Return the calling thread's compressor of small chunks."""
    return thread_memory.latest("zstd compressor", (level, checksum), _make_compressor)


def _make_compressor(options: tuple[int, bool]) -> Callable[[bytes], bytes]:
    level, checksum = options
    return zstandard.ZstdCompressor(level=level, write_checksum=checksum).compress


def _decompressor() -> zstandard.ZstdDecompressor:
    """Return the calling thread's decompressor."""
    return thread_memory.latest("zstd decompressor", None, _make_decompressor)


def _make_decompressor(_: None) -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor()


@register_codec
@dataclass(frozen=True)
class ZstdCodec(FieldsCodec, FramedCodec, BytesBytesCodec):
    """The codec `zstd` (codec specification "zstd").

    Frames with or without content size, concatenated frames and skippable frames are read. A window above 128 MiB is
    refused, and so is content that could exceed the bound.

    Attributes:
        level: from -131072 to 22; 0 is zstd's own default.
        checksum: whether written frames have a checksum. A frame that is read declares it itself.
    """

    name = "zstd"
    default_configuration: ClassVar[Mapping[str, JSON]] = {"level": 3, "checksum": False}
    level: int = 0
    checksum: bool = False

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("level", "checksum"), name=cls.name)
        return cls(integer(configuration, "level", -131072, 22), boolean(configuration, "checksum", default=False))

    def encode(self, data: Buffer) -> Buffer:
        try:
            if memoryview(data).nbytes <= _SMALL:
                return _compressor(self.level, self.checksum)(cast("bytes", data))
            encoded: bytes = _native().compress(data, self.level, self.checksum)
        except (RuntimeError, ValueError, zstandard.ZstdError) as error:
            raise self._failed(error) from error
        return encoded

    def encoder(self, size: int) -> Callable[[Buffer], Buffer]:
        if size > _SMALL:
            return self.encode
        compress = _compressor(self.level, self.checksum)

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
            with codec_errors("decompress", self.name, RuntimeError, ValueError):
                if out is not None and head.startswith(standard_headers(len(out))):
                    # The first frame fills `out`. The decoder refuses the content of further frames.
                    if len(out) <= _SMALL:
                        return _decode_small(data, out)
                    _native().decompress(data, out)
                    return out
                return _decode_unusual(data, head, max_size, out)
        except CodecError:
            end = memoryview(data).nbytes if self._is_strict else find_end(data)
            if end == memoryview(data).nbytes:
                raise
        # Bytes that are not a frame follow the frames. TensorStore ignores them.
        return self.decode(memoryview(data).cast("B")[:end], max_size=max_size, out=out)

    def decoder(self, *, max_size: int, out: memoryview) -> Callable[[Buffer], Buffer]:
        general = super().decoder(max_size=max_size, out=out)
        if not 0 < len(out) <= _SMALL:
            return general
        heads = standard_headers(len(out))
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
        heads = standard_headers(size)
        width = len(heads[0])

        def decode(data: memoryview, starts: Sequence[int], out: memoryview) -> bool:
            for start in starts:
                if data[start : start + width] not in heads:
                    return False
            if not _is_native_used(len(starts)):
                return _decompresses_each(data, starts, out)
            # The buffer of one span may reach over the start of the next: the decoder accepts more space than it
            # needs, and refuses less before it begins. The bytes that it does not write are undefined.
            return not _decompresses(data, out[:-1]) and _decompresses(data, out)

        return decode

    def decode_spans(self, data: Buffer, spans: Sequence[Span], *, max_size: int, out: memoryview) -> Buffer | None:
        # A frame is decoded from its start, up to the end of the last span. A checksum needs the whole frame.
        stop, head = spans[-1][1], bytes(memoryview(data)[:_HEAD_BYTES])
        if stop > len(out) * 3 // 4:
            return None
        try:
            # Blocks have 128 KiB, except those of encoders that split them. The last block must be present: otherwise
            # a truncated chunk would go unnoticed.
            if has_checksum(head) or content_size(head) != len(out):
                return None
            if scan(data, max_blocks=64 + len(out) // _SMALL * 8).size != len(out):
                return None
            # A decompressor allocates memory for the whole window of a frame.
            decompressor = _decompressor() if len(out) <= _LARGE else zstandard.ZstdDecompressor()
            with decompressor.stream_reader(cast("bytes", data)) as reader:
                return out if reader.readinto(out[:stop]) == stop else None
        except (FrameError, zstandard.ZstdError):
            return None  # decoding the whole frame raises the error


def _decompresses(data: memoryview, out: memoryview) -> bool:
    try:
        _native().decompress(data, out)
    except (RuntimeError, ValueError):
        return False
    return True


def _decompresses_each(data: memoryview, starts: Sequence[int], out: memoryview) -> bool:
    """Decompress adjacent frames of equal content sizes, which fill `out`; return False if one is damaged."""
    decompress, at, size = _decompressor().decompress, 0, len(out) // len(starts)
    try:
        for start, stop in zip(starts, [*starts[1:], len(data)], strict=True):
            out[at : at + size] = decompress(data[start:stop], 0, False, False)
            at += size
    except zstandard.ZstdError:
        return False
    return True


def _decode_small(data: Buffer, out: memoryview) -> Buffer:
    try:
        return _decompressor().decompress(cast("bytes", data), allow_extra_data=False)
    except zstandard.ZstdError:
        # The data are damaged or followed by frames without content. The other decoder decides.
        _native().decompress(data, out)
        return out


def _decode_unusual(data: Buffer, head: bytes, max_size: int, out: memoryview | None) -> Buffer:
    if not is_skippable(head):
        told = content_size(head)
        if told is None and out is not None:
            # Without a declared size the decoder assumes the size of the destination, and refuses other content.
            _native().decompress(data, out)
            return out
        if told is not None and told > max_size:
            raise FrameError(f"the frame holds {told} bytes, of at most {max_size}")
        if told:
            result = out if out is not None and told == len(out) else byte_view(np.empty(told, np.uint8))
            try:
                _native().decompress(data, result)
            except (RuntimeError, ValueError):
                pass  # damaged, or too small because more frames follow: the scan of the frames decides
            else:
                return result
    return _decode_frames(data, max_size)


def _decode_frames(data: Buffer, max_size: int) -> Buffer:
    """Decode any number of frames, after a scan of their headers."""
    content = scan(data)
    size = content.size
    if size is None:
        return _decode_unsized(data, content.bound, max_size)
    if size > max_size:
        raise FrameError(f"the frames hold {size} bytes, of at most {max_size}")
    if size == 0:
        # The decoder treats a size of zero as an error.
        return b""
    result = byte_view(np.empty(size, np.uint8))
    _native().decompress(data, result)
    return result


def _decode_unsized(data: Buffer, bound: int, max_size: int) -> Buffer:
    if max_size:
        result = byte_view(np.empty(max_size, np.uint8))
        try:
            _native().decompress(data, result)
        except RuntimeError:
            pass  # the content does not fill the bound exactly
        else:
            return result
    # The streaming decoder accepts any size. It allocates up to the bound on the content of the blocks.
    if bound > 2 * max_size + _STREAM_SLACK:
        raise FrameError(f"the frames could hold {bound} bytes, of at most {max_size}")
    decoded: bytes = _native().decompress(data)
    if len(decoded) > max_size:
        raise FrameError(f"the frames hold {len(decoded)} bytes, of at most {max_size}")
    return decoded


MAGIC = b"\x28\xb5\x2f\xfd"
MAX_WINDOW_LOG = 27
"""Frames with larger windows are refused. 128 MiB is the window of encoders at their highest ordinary level."""

_MAX_WINDOW = 1 << MAX_WINDOW_LOG
_MAX_BLOCK = 128 << 10
_MAX_BLOCKS = 1 << 20
_DICTIONARY_ID_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_SINGLE_SEGMENT = ((1, 0, 255), (2, 1, 65535 + 256), (4, 2, 2**32 - 1), (8, 3, 2**64 - 1))
"""Width of the content size in bytes, its code, and the largest size that encoders write with it."""


class FrameError(ValueError):
    """The bytes are not zstd frames, or the frames exceed a limit."""


class Content(NamedTuple):
    """The decoded size of the frames of one value: `size` in bytes, or None if a frame omits it, and a `bound`."""

    size: int | None
    bound: int


def content_size(head: bytes) -> int | None:
    """Return the content size in the header of a frame, or None if the header omits it.

    `head` is the start of the frame: 18 bytes, or the whole frame if it is shorter.

    Raises:
        FrameError: the bytes are not a frame, or its window exceeds `MAX_WINDOW_LOG`.
    """
    if head[:4] != MAGIC:
        raise FrameError("the bytes do not start with a zstd frame")
    try:
        return _parse_header(head, 0)[0]
    except IndexError:
        raise FrameError("the zstd frame is truncated") from None


def scan(data: Buffer, *, max_blocks: int = _MAX_BLOCKS) -> Content:
    """Walk over all frames and their blocks, and add up their decoded sizes.

    Raises:
        FrameError: the frames are truncated or invalid, or have too many blocks.
    """
    content, end = _scan(data, max_blocks)
    if end != memoryview(data).nbytes:
        raise FrameError(f"no zstd frame at byte {end}")
    return content


def find_end(data: Buffer) -> int:
    """Return the end of the last of the frames that `data` starts with; the end of `data` if they are damaged."""
    try:
        return _scan(data, _MAX_BLOCKS)[1] or memoryview(data).nbytes
    except FrameError:
        return memoryview(data).nbytes


def _scan(data: Buffer, max_blocks: int) -> tuple[Content, int]:
    """Return the decoded size of all frames, and the position of the first byte that does not belong to a frame."""
    view = memoryview(data).cast("B")
    size: int | None = 0
    bound = position = blocks = 0
    try:
        while position < len(view):
            if is_skippable(view[position : position + 4]):
                position += 8 + int.from_bytes(view[position + 4 : position + 8], "little")
                continue
            if view[position : position + 4] != MAGIC:
                break
            told, window, checksum, start = _parse_header(view, position)
            position, most, count = _walk_blocks(view, start, min(window, _MAX_BLOCK), max_blocks - blocks)
            position += 4 * checksum
            blocks += count
            size = None if told is None or size is None else size + told
            bound += most if told is None else told
    except IndexError:
        raise FrameError("the zstd frame is truncated") from None
    if position > len(view):
        raise FrameError("the zstd frame is truncated")
    return Content(size, bound), position


@lru_cache(maxsize=256)
def standard_headers(size: int) -> tuple[bytes, ...]:
    """Return the usual headers of frames of `size` bytes: without a window, with and without a checksum."""
    width, code = next((width, code) for width, code, most in _SINGLE_SEGMENT if size <= most)
    told = (size - 256 if width == 2 else size).to_bytes(width, "little")
    return tuple(MAGIC + bytes([code << 6 | 0x20 | checksum << 2]) + told for checksum in (0, 1))


def has_checksum(head: bytes) -> bool:
    """Return whether the frame that starts here ends with a checksum of its content."""
    return len(head) > 4 and bool(head[4] & 4)


def is_skippable(head: bytes | memoryview) -> bool:
    """Return whether a skippable frame starts here."""
    return len(head) >= 4 and head[0] & 0xF0 == 0x50 and head[1:4] == b"\x2a\x4d\x18"


def _parse_header(data: bytes | memoryview, start: int) -> tuple[int | None, int, bool, int]:
    """Return content size, window size, whether a checksum follows the blocks, and the start of the first block."""
    descriptor = data[start + 4]
    single_segment = descriptor & 0x20
    position = start + 5
    window = 0
    if not single_segment:
        exponent, mantissa = data[position] >> 3, data[position] & 7
        window = (8 + mantissa) << (7 + exponent)
        position += 1
        if window > _MAX_WINDOW:
            raise FrameError(f"the zstd frame asks for a window of {window} bytes; {_MAX_WINDOW} are allowed")
    position += _DICTIONARY_ID_BYTES[descriptor & 3]
    width = _CONTENT_SIZE_BYTES[descriptor >> 6] or (1 if single_segment else 0)
    field = data[position : position + width]
    if len(field) < width:
        raise IndexError
    told = int.from_bytes(field, "little") + (256 if width == 2 else 0) if width else None
    if single_segment:
        window = told or 0
    return told, window, bool(descriptor & 4), position + width


def _walk_blocks(view: memoryview, position: int, most_per_block: int, most_blocks: int) -> tuple[int, int, int]:
    """Return the end of the last block, a bound on the decoded bytes of the blocks, and their number."""
    bound = 0
    for count in range(1, most_blocks + 1):
        header = view[position] | view[position + 1] << 8 | view[position + 2] << 16
        kind, length = header >> 1 & 3, header >> 3
        if kind == 3:
            raise FrameError("a zstd block of the reserved type")
        position += 3 + (1 if kind == 1 else length)
        bound += most_per_block if kind == 2 else length
        if header & 1:
            return position, bound, count
    raise FrameError(f"the zstd frames have more than {_MAX_BLOCKS} blocks")
