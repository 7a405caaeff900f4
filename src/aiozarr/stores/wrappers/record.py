"""A kept value as a file: a head that says what it is, and blocks whose checksums are proved on reading.

    magic (8 bytes) · length of the head · CRC-32 of head and table · head (JSON) · table (a CRC-32 per block) · data

Numbers are of 4 bytes, little-endian. A range is read without the rest of the file, and proved all the same.
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
BLOCK: Final = 1 << 18
_START: Final = struct.Struct("<8sII")
_MAX_HEAD: Final = 1 << 16


class Corrupt(Exception):
    """The file is not what was written."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a file says of its value.

    Attributes:
        store: the name of the store.
        key: the key.
        version: of the value.
        size: of the whole value, in bytes.
        length: how many bytes of it are here.
    """

    store: str
    key: str
    version: Version | None
    size: int | None
    length: int


def encode(store: str, key: str, value: Value) -> list[memoryview]:
    """Return the bytes of the file, in parts."""
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
    table = b"".join(_sum(data[at : at + BLOCK]) for at in range(0, len(data), BLOCK))
    start = _START.pack(MAGIC, len(text), zlib.crc32(text + table))
    return [memoryview(start + text + table), data]


def read_head(descriptor: int) -> tuple[Head, bytes, int]:
    """Return the head of an open file, its table, and where its data begin.

    Raises:
        Corrupt: the file is none, or damaged, or has another length than it says.
        OSError: it could not be read.
    """
    first = os.pread(descriptor, _START.size, 0)
    if len(first) < _START.size:
        raise Corrupt
    magic, text_length, checksum = _START.unpack(first)
    if magic != MAGIC or text_length > _MAX_HEAD:
        raise Corrupt
    try:
        text = _exactly(descriptor, _START.size, text_length)
        head = _parse(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Corrupt from error
    blocks = -(-head.length // BLOCK)
    at = _START.size + text_length
    if os.fstat(descriptor).st_size != at + 4 * blocks + head.length:
        raise Corrupt
    table = _exactly(descriptor, at, 4 * blocks)
    if zlib.crc32(text + table) != checksum:
        raise Corrupt
    return head, table, at + len(table)


def read_value(descriptor: int, byte_range: ByteRange | None) -> Value:
    """Return what an open file has of its value in `byte_range`, of the bytes that are here.

    Raises:
        Corrupt: the file is none, or damaged.
        OSError: it could not be read.
    """
    head, table, origin = read_head(descriptor)
    start, stop = resolve_range(head.length, byte_range)
    if start >= stop:
        return Value(b"", head.version, head.size)
    first = start // BLOCK
    begin, end = first * BLOCK, min(-(-stop // BLOCK) * BLOCK, head.length)
    data = memoryview(_exactly(descriptor, origin + begin, end - begin))
    for number, at in enumerate(range(0, len(data), BLOCK), first):
        if _sum(data[at : at + BLOCK]) != table[4 * number : 4 * number + 4]:
            raise Corrupt
    return Value(data[start - begin : stop - begin], head.version, head.size)


def _parse(head: dict[str, Any]) -> Head:
    etag, generation = head["etag"], head["generation"]
    version = None if etag is None and generation is None else Version(etag, generation)
    size, length = head["size"], head["length"]
    if not isinstance(length, int) or length < 0 or not isinstance(size, int | None):
        raise ValueError
    return Head(str(head["store"]), str(head["key"]), version, size, length)


def _exactly(descriptor: int, at: int, length: int) -> bytes:
    data = os.pread(descriptor, length, at)
    while len(data) < length:  # the kernel gives at most 2 GiB at once
        more = os.pread(descriptor, length - len(data), at + len(data))
        if not more:
            raise Corrupt
        data += more
    return data


def _sum(block: memoryview) -> bytes:
    return zlib.crc32(block).to_bytes(4, "little")
