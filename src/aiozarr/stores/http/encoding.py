"""Bodies that a server sends encoded although it was asked not to: decoded as they come, and known to be whole."""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import Any, Protocol

from aiozarr.errors import ShortReadError, StoreError


class Decoder(Protocol):
    """What takes the parts of one body, in their order.

    `decode` returns what a part stands for; where that is at least `most` bytes, no more than a little beyond them.
    `ended` says whether the body may end here.
    """

    def decode(self, part: bytes, most: int) -> bytes: ...

    @property
    def ended(self) -> bool: ...


def decoder_for(encoding: str) -> Decoder | None:
    """Return what decodes bodies of this `Content-Encoding`; None: nothing that is known, or installed, does."""
    match encoding.strip().lower():
        case "gzip" | "x-gzip":
            return _Members(31)
        case "deflate":
            return _Members(0)
        case "zstd":
            return _zstd("compression.zstd") or _zstd("backports.zstd")
        case "br":
            return _brotli("brotli") or _brotli("brotlicffi")
        case _:
            return None


def decode(decoder: Decoder, part: bytes, most: int) -> bytes:
    """Return what `part` stands for.

    Raises:
        StoreError: it is not what its encoding says.
    """
    try:
        return decoder.decode(part, most)
    except Exception as error:  # each package has its own
        raise StoreError("the server's answer does not decode (Content-Encoding)", retryable=True) from error


def check_end(decoder: Decoder) -> None:
    """See that nothing of the body is missing: what was cut before it was sent has the length that was announced.

    Raises:
        ShortReadError: something is.
    """
    if not decoder.ended:
        raise ShortReadError("the encoded body ends before what it holds does")


class _Members:
    """Streams of zlib, or of gzip one behind the other; an empty body holds nothing."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._inner: Any = None

    @property
    def ended(self) -> bool:
        return self._inner is None or bool(self._inner.eof)

    def decode(self, part: bytes, most: int) -> bytes:
        out = b""
        while part and len(out) < most:
            if self.ended:
                self._inner = zlib.decompressobj(self._wbits or (15 if part[0] & 15 == 8 else -15))
            out += self._inner.decompress(part, most - len(out))
            part = self._inner.unused_data
        return out


class _Limited:
    """A decoder of zstd, which is told how much to give."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.ended = True

    def decode(self, part: bytes, most: int) -> bytes:
        out: bytes = self._inner.decompress(part, most)
        self.ended = self._inner.eof
        return out


class _Brotli:
    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.ended = True

    def decode(self, part: bytes, most: int) -> bytes:
        out: bytes = self._inner.process(part, output_buffer_limit=most)
        self.ended = self._inner.is_finished()
        return out


def _zstd(package: str) -> Decoder | None:
    try:
        return _Limited(import_module(package).ZstdDecompressor())
    except ImportError:
        return None


def _brotli(package: str) -> Decoder | None:
    try:
        return _Brotli(import_module(package).Decompressor())
    except ImportError:
        return None
