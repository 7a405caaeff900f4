"""The codec `gzip`, and the base class of all codecs of streams that are decompressed within a known bound.

isal decompresses if it is installed, in about half the time of zlib. Only zlib compresses, because isal has other
levels and a larger output.
"""

from __future__ import annotations

import lzma
import sys
import zlib
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import ClassVar, Protocol, Self

from typing_extensions import Buffer

from aiozarr.codecs.codec import JSON, BytesBytesCodec, FramedCodec
from aiozarr.codecs.registry import FieldsCodec, check_members, integer, register_codec
from aiozarr.errors import CodecError

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


_PIECE = 16 << 10
_MAGIC_BYTES = 2
_ERRORS: tuple[type[Exception], ...] = (lzma.LZMAError, OSError, ValueError, EOFError, MemoryError)


class Decompressor(Protocol):
    """A decompressor of one stream, as those of the standard library for bzip2 and lzma."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: Buffer, max_length: int, /) -> bytes: ...


class InflateStream:
    """An inflater that keeps the input which it has not consumed. `container` is `GZIP` or `ZLIB`."""

    def __init__(self, container: int) -> None:
        self._decoder = inflater(container)

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def needs_input(self) -> bool:
        return not self._decoder.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decompress(self, data: Buffer, max_length: int, /) -> bytes:
        return self._decoder.decompress(self._decoder.unconsumed_tail or data, max_length)


class StreamCodec(FramedCodec, BytesBytesCodec):
    """Up to `_max_streams` adjacent streams that mark their own end."""

    _max_streams: ClassVar[int] = 1 << 12

    @abstractmethod
    def _decompressor(self) -> Decompressor:
        """Return a decompressor for one stream."""

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        try:
            parts = self._streams(memoryview(data).cast("B"), max_size)
        except inflate_errors() + _ERRORS as error:
            raise CodecError(f"cannot decompress: {error}", codec=self.name) from error
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _streams(self, view: memoryview, max_size: int) -> list[bytes]:
        parts: list[bytes] = []
        position, left = 0, max_size
        # There is nearly always one stream. If more follow, the decoder gets small pieces: it copies its unused input,
        # which would be quadratic for thousands of streams.
        step = max(1, len(view))
        for _ in range(self._max_streams):
            decoder = self._decompressor()
            while not decoder.eof:
                piece = view[position : position + step] if decoder.needs_input else view[:0]
                part = decoder.decompress(piece, min(left + 1, sys.maxsize))
                position += len(piece)
                left -= len(part)
                if left < 0:
                    raise CodecError(f"it decodes to more than {max_size} bytes", codec=self.name)
                if not piece and not part:
                    raise CodecError("the compressed data is truncated", codec=self.name)
                parts.append(part)
            position -= len(decoder.unused_data)
            if position == len(view) or self._is_excess(view, position):
                return parts
            step = _PIECE
        if self._is_strict or self._max_streams > 1:
            raise CodecError(f"{len(view) - position} bytes follow the compressed data", codec=self.name)
        return parts

    def _is_excess(self, view: memoryview, position: int) -> bool:
        """Return whether the bytes from `position` are to be ignored: they do not begin as a stream does."""
        return not self._is_strict and view[position : position + _MAGIC_BYTES] != view[:_MAGIC_BYTES]


@register_codec
@dataclass(frozen=True)
class GzipCodec(FieldsCodec, StreamCodec):
    """The codec `gzip` (codec specification "gzip").

    Adjacent members (RFC 1952) are read as one value. Lengths and checksums of all members are checked.
    """

    name = "gzip"
    default_configuration: ClassVar[Mapping[str, JSON]] = {"level": 5}
    _max_streams = 1 << 16
    level: int = 5

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("level",), name=cls.name)
        return cls(integer(configuration, "level", 0, 9))

    def encode(self, data: Buffer) -> Buffer:
        # The header that zlib writes has no time stamp, so equal values encode to equal bytes.
        return zlib.compress(data, self.level, wbits=GZIP)

    def _decompressor(self) -> Decompressor:
        return InflateStream(GZIP)
