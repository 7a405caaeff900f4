"""Which library inflates: isal where it is installed, which takes about half the time of zlib, else zlib.

It is for reading alone. The levels of isal are others than those of zlib, and what it writes is larger.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from types import ModuleType
from typing import Protocol

from typing_extensions import Buffer

GZIP = 16 + zlib.MAX_WBITS
ZLIB = zlib.MAX_WBITS

_library: ModuleType | None = None


class Inflater(Protocol):
    """What the decompressors of both libraries have."""

    @property
    def eof(self) -> bool:
        """True when the end of the stream was reached, and its checksum was right."""
        ...

    @property
    def unused_data(self) -> bytes:
        """Bytes behind the end."""
        ...

    @property
    def unconsumed_tail(self) -> bytes:
        """Bytes that were not taken because of the limit."""
        ...

    def decompress(self, data: Buffer, max_length: int, /) -> bytes:
        """Return at most `max_length` bytes."""
        ...


def inflater(container: int) -> Inflater:
    """Return a decompressor of one stream in the container `GZIP` or `ZLIB`."""
    made: Inflater = _load().decompressobj(container)
    return made


def inflate_errors() -> tuple[type[Exception], ...]:
    """Return what decompressors raise about data that are damaged."""
    error: type[Exception] = _load().error
    return (error, zlib.error)


def crc32(data: Buffer) -> int:
    """Return the CRC-32 of zlib; isal takes a tenth of the time."""
    value: int = _load().crc32(data)
    return value


def adler32(data: Buffer) -> int:
    """Return the Adler-32 of zlib; isal takes a fifth of the time."""
    value: int = _load().adler32(data)
    return value


def _load() -> ModuleType:
    global _library
    if _library is None:
        try:
            _library = import_module("isal.isal_zlib")
        except ImportError:
            _library = zlib
    return _library
