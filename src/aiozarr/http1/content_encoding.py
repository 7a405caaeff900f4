"""Decoding of bodies with a Content-Encoding, piece by piece, with a check that they are complete."""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import Any, Protocol

from aiozarr.errors import ShortReadError, StoreError


class Decoder(Protocol):
    """Decodes the parts of one body, in their order."""

    def decode(self, part: bytes, max_bytes: int) -> bytes:
        """Return the decoded bytes of `part`, cut a little beyond `max_bytes` if there are more."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the body may end here."""
        ...


def decoder_for(encoding: str) -> Decoder | None:
    """Return a decoder for bodies with this `Content-Encoding`, or None if it is unknown or its package is missing."""
    match encoding.strip().lower():
        case "gzip" | "x-gzip":
            return _ZlibMembers(31)
        case "deflate":
            return _ZlibMembers(0)
        case "zstd":
            return _zstd("compression.zstd") or _zstd("backports.zstd")
        case "br":
            return _brotli("brotli") or _brotli("brotlicffi")
        case _:
            return None


def decode(decoder: Decoder, part: bytes, max_bytes: int) -> bytes:
    """Return the decoded bytes of `part`.

    Raises:
        StoreError: it is not valid in its encoding.
    """
    try:
        return decoder.decode(part, max_bytes)
    except Exception as error:  # each package has its own
        raise StoreError("the server's response cannot be decoded by its Content-Encoding", retryable=True) from error


def check_end(decoder: Decoder) -> None:
    """Check that the encoded body is complete. A body that was cut before it was sent has the announced length.

    Raises:
        ShortReadError: its end is missing.
    """
    if not decoder.ended:
        raise ShortReadError("the encoded body is cut off")


class _ZlibMembers:
    """Streams of zlib, or concatenated ones of gzip; an empty body decodes to no bytes."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._inner: Any = None

    @property
    def ended(self) -> bool:
        return self._inner is None or bool(self._inner.eof)

    def decode(self, part: bytes, max_bytes: int) -> bytes:
        out = b""
        while part and len(out) < max_bytes:
            if self.ended:
                self._inner = zlib.decompressobj(self._wbits or (15 if part[0] & 15 == 8 else -15))
            out += self._inner.decompress(part, max_bytes - len(out))
            part = self._inner.unused_data
        return out


class _Zstd:
    """A decoder of zstd with a bounded output."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.ended = True

    def decode(self, part: bytes, max_bytes: int) -> bytes:
        out: bytes = self._inner.decompress(part, max_bytes)
        self.ended = self._inner.eof
        return out


class _Brotli:
    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.ended = True

    def decode(self, part: bytes, max_bytes: int) -> bytes:
        out: bytes = self._inner.process(part, output_buffer_limit=max_bytes)
        self.ended = self._inner.is_finished()
        return out


def _zstd(package: str) -> Decoder | None:
    try:
        return _Zstd(import_module(package).ZstdDecompressor())
    except ImportError:
        return None


def _brotli(package: str) -> Decoder | None:
    try:
        return _Brotli(import_module(package).Decompressor())
    except ImportError:
        return None
