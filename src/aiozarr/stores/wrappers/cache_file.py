"""The file format of a cached value: a head that describes it, and blocks whose checksums are verified on reading.

    magic (8 bytes) · length of the head · CRC-32 of head and table · head (JSON) · table (a CRC-32 per block) · data

Numbers have 4 bytes, little-endian. A range is read, and verified, without the rest of the file.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Final

from aiozarr.model import ByteRange, Value, Version, resolve_range
from aiozarr.stores.contract import byte_view

MAGIC: Final = b"aiozarr\x01"
BLOCK_BYTES: Final = 1 << 18
_START: Final = struct.Struct("<8sII")
_MAX_HEAD_BYTES: Final = 1 << 16


class CorruptFileError(Exception):
    """The file is damaged, or of another format."""


@dataclass(frozen=True, slots=True)
class CacheFileHead:
    """The description of a cached value in its file.

    Attributes:
        store: the name of the store.
        key: the key.
        version: version of the value.
        size: size of the whole value in bytes.
        length: number of its bytes in the file.
    """

    store: str
    key: str
    version: Version | None
    size: int | None
    length: int


def encode(store: str, key: str, value: Value) -> list[memoryview]:
    """Return the bytes of the file, in pieces."""
    data = byte_view(value.data)
    version = value.version
    head = {
        "store": store,
        "key": key,
        "etag": None if version is None else version.etag,
        "generation": None if version is None else version.generation,
        "size": value.size,
        "length": len(data),
    }
    text = json.dumps(head).encode()
    table = b"".join(_checksum(data[at : at + BLOCK_BYTES]) for at in range(0, len(data), BLOCK_BYTES))
    start = _START.pack(MAGIC, len(text), zlib.crc32(text + table))
    return [memoryview(start + text + table), data]


def read_head(descriptor: int) -> tuple[CacheFileHead, bytes, int]:
    """Return the head of an open file, its table, and the offset of its data.

    Raises:
        CorruptFileError: the file is damaged, or of another format or length.
        OSError: it could not be read.
    """
    first = os.pread(descriptor, _START.size, 0)
    if len(first) < _START.size:
        raise CorruptFileError
    magic, text_length, checksum = _START.unpack(first)
    if magic != MAGIC or text_length > _MAX_HEAD_BYTES:
        raise CorruptFileError
    try:
        text = _read_exactly(descriptor, _START.size, text_length)
        head = _parse_head(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptFileError from error
    blocks = -(-head.length // BLOCK_BYTES)
    at = _START.size + text_length
    if os.fstat(descriptor).st_size != at + 4 * blocks + head.length:
        raise CorruptFileError
    table = _read_exactly(descriptor, at, 4 * blocks)
    if zlib.crc32(text + table) != checksum:
        raise CorruptFileError
    return head, table, at + len(table)


def read_value(descriptor: int, byte_range: ByteRange | None) -> Value:
    """Return the bytes `byte_range` of the data in an open file.

    Raises:
        CorruptFileError: the file is damaged, or of another format.
        OSError: it could not be read.
    """
    head, table, origin = read_head(descriptor)
    start, stop = resolve_range(head.length, byte_range)
    if start >= stop:
        return Value(b"", head.version, head.size)
    first = start // BLOCK_BYTES
    begin, end = first * BLOCK_BYTES, min(-(-stop // BLOCK_BYTES) * BLOCK_BYTES, head.length)
    data = memoryview(_read_exactly(descriptor, origin + begin, end - begin))
    for number, at in enumerate(range(0, len(data), BLOCK_BYTES), first):
        if _checksum(data[at : at + BLOCK_BYTES]) != table[4 * number : 4 * number + 4]:
            raise CorruptFileError
    return Value(data[start - begin : stop - begin], head.version, head.size)


def _parse_head(head: dict[str, Any]) -> CacheFileHead:
    etag, generation = head["etag"], head["generation"]
    version = None if etag is None and generation is None else Version(etag, generation)
    size, length = head["size"], head["length"]
    if not isinstance(length, int) or length < 0 or not isinstance(size, int | None):
        raise ValueError
    return CacheFileHead(str(head["store"]), str(head["key"]), version, size, length)


def _read_exactly(descriptor: int, at: int, length: int) -> bytes:
    data = os.pread(descriptor, length, at)
    while len(data) < length:  # one call returns at most 2 GiB
        more = os.pread(descriptor, length - len(data), at + len(data))
        if not more:
            raise CorruptFileError
        data += more
    return data


def _checksum(block: memoryview) -> bytes:
    return zlib.crc32(block).to_bytes(4, "little")
