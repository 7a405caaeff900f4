"""Parses the headers of zstd frames without decompressing (RFC 8878, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from typing_extensions import Buffer

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


@dataclass(frozen=True, slots=True)
class Content:
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
    view = memoryview(data).cast("B")
    size: int | None = 0
    bound = position = blocks = 0
    try:
        while position < len(view):
            if is_skippable(view[position : position + 4]):
                position += 8 + int.from_bytes(view[position + 4 : position + 8], "little")
                continue
            if view[position : position + 4] != MAGIC:
                raise FrameError(f"no zstd frame at byte {position}")
            told, window, checksum, start = _parse_header(view, position)
            position, most, count = _walk_blocks(view, start, min(window, _MAX_BLOCK), max_blocks - blocks)
            position += 4 * checksum
            blocks += count
            size = None if told is None or size is None else size + told
            bound += most if told is None else told
    except IndexError:
        raise FrameError("the zstd frame is truncated") from None
    if position != len(view):
        raise FrameError("the zstd frame is truncated")
    return Content(size, bound)


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
