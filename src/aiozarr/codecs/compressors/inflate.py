"""Chooses the library that inflates: isal if it is installed, otherwise zlib. isal takes about half the time.

aiozarr compresses with zlib only: isal has other levels, and its output is larger.
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
    """A decompressor of either library."""

    @property
    def eof(self) -> bool:
        """True after the end of the stream, if its checksum matches."""
        ...

    @property
    def unused_data(self) -> bytes:
        """The bytes after the end of the stream."""
        ...

    @property
    def unconsumed_tail(self) -> bytes:
        """The input that was not consumed because of the limit."""
        ...

    def decompress(self, data: Buffer, max_length: int, /) -> bytes:
        """Return at most `max_length` bytes."""
        ...


def inflater(container: int) -> Inflater:
    """Return a decompressor of one stream in the container `GZIP` or `ZLIB`."""
    made: Inflater = _load().decompressobj(container)
    return made


def inflate_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that decompressors raise for damaged data."""
    error: type[Exception] = _load().error
    return (error, zlib.error)


def crc32(data: Buffer) -> int:
    """Return the CRC-32 of `data`. isal takes a tenth of the time of zlib."""
    value: int = _load().crc32(data)
    return value


def adler32(data: Buffer) -> int:
    """Return the Adler-32 of `data`. isal takes a fifth of the time of zlib."""
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
