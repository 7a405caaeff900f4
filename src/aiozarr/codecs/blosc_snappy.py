"""Decodes Blosc chunks whose blocks are compressed by snappy, which most builds of the library lack.

The layout is that of c-blosc 1: a header and the starts of the blocks. A block has one part, or one for each byte of an
item. The format of snappy is described in google/snappy, "format_description.txt".
"""

from __future__ import annotations

from struct import Struct

import numpy as np

from aiozarr.codecs.codec import AnyArray

FORMAT = 2
"""The number of snappy in a Blosc header."""

_HEADER = Struct("<BBBBIII")
_LENGTH = Struct("<I")
_SHUFFLED, _BITSHUFFLED, _UNSPLIT = 0x01, 0x04, 0x10
_MAX_PARTS = 16
_MIN_PART_BYTES = 128
_LITERAL, _COPY_1, _COPY_2 = 0, 1, 2
_LONG_LITERAL = 60


def decompress(view: memoryview) -> bytes:
    """Return the bytes of a blosc chunk whose header has been checked.

    Raises:
        ValueError: the chunk is damaged.
    """
    _, _, flags, typesize, nbytes, blocksize, _ = _HEADER.unpack_from(view)
    blocks: list[bytes] = []
    for number, offset in enumerate(range(0, nbytes, blocksize)):
        (start,) = _LENGTH.unpack_from(view, _HEADER.size + 4 * number)
        size = min(blocksize, nbytes - offset)
        whole = size == blocksize
        split = whole and not flags & _UNSPLIT and typesize <= _MAX_PARTS and blocksize // typesize >= _MIN_PART_BYTES
        block = _block(view, start, size, typesize if split else 1)
        blocks.append(_restore(block, flags, typesize))
    return b"".join(blocks)


def _block(view: memoryview, start: int, size: int, parts: int) -> bytes:
    each = size // parts
    decoded: list[bytes] = []
    for _ in range(parts):
        if start + _LENGTH.size > len(view):
            raise ValueError("a block extends past the end")
        (length,) = _LENGTH.unpack_from(view, start)
        start += _LENGTH.size
        part = bytes(view[start : start + length])
        if len(part) != length:
            raise ValueError("a block extends past the end")
        decoded.append(part if length == each else snappy_decompress(part, each))
        start += length
    return b"".join(decoded)


def _restore(block: bytes, flags: int, typesize: int) -> bytes:
    """Undo the shuffle of a block."""
    items = len(block) // typesize
    if flags & _SHUFFLED and typesize > 1:
        whole = items * typesize
        planes: AnyArray = np.frombuffer(block, np.uint8, whole).reshape(typesize, items)
        return planes.T.tobytes() + block[whole:]
    if flags & _BITSHUFFLED and items % 8 == 0 and items:
        whole = items * typesize
        bits = np.unpackbits(np.frombuffer(block, np.uint8, whole), bitorder="little").reshape(typesize * 8, items)
        return np.packbits(bits.T.reshape(-1), bitorder="little").tobytes() + block[whole:]
    return block


def snappy_decompress(data: bytes, size: int) -> bytes:
    """Return the `size` bytes that a snappy block decodes to.

    Raises:
        ValueError: the block is damaged, or decodes to another number of bytes.
    """
    try:
        told, position = _varint(data)
        if told != size:
            raise ValueError(f"a snappy block declares {told} bytes, expected {size}")
        out = bytearray()
        while position < len(data):
            position = _element(data, position, out, size)
    except IndexError:
        raise ValueError("a snappy block is cut short") from None
    if len(out) != size:
        raise ValueError(f"a snappy block decodes to {len(out)} bytes, expected {size}")
    return bytes(out)


def _varint(data: bytes) -> tuple[int, int]:
    value = 0
    for position in range(5):
        value |= (data[position] & 0x7F) << 7 * position
        if not data[position] & 0x80:
            return value, position + 1
    raise ValueError("a snappy block without its length")


def _element(data: bytes, position: int, out: bytearray, size: int) -> int:
    """Append the decoded bytes of one element, and return the position of the next element."""
    tag = data[position]
    kind = tag & 3
    position += 1
    if kind == _LITERAL:
        length = (tag >> 2) + 1
        if length > _LONG_LITERAL:
            extra = length - _LONG_LITERAL
            length = int.from_bytes(data[position : position + extra], "little") + 1
            position += extra
        if position + length > len(data) or len(out) + length > size:
            raise ValueError("a literal is too long")
        out += data[position : position + length]
        return position + length
    if kind == _COPY_1:
        length, distance = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | data[position]
        position += 1
    else:
        width = 2 if kind == _COPY_2 else 4
        length, distance = (tag >> 2) + 1, int.from_bytes(data[position : position + width], "little")
        position += width
    start = len(out) - distance
    if position > len(data) or distance == 0 or start < 0 or len(out) + length > size:
        raise ValueError("a copy is out of bounds")
    piece = out[start : start + length]
    out += piece if len(piece) == length else (piece * (length // distance + 1))[:length]
    return position
