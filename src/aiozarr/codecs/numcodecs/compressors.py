"""The compressors of numcodecs as v3 codecs, with its parameters.

`numcodecs.blosc`, `zstd` and `gzip` have the bytes and checks of the v3 codecs. `zlib`, `bz2` and `lzma` decompress in
pieces within a bound. `lz4` is an LZ4 block after four bytes with its decoded size, which is checked first. Unknown
members are tolerated, because the compressed bytes contain all parameters of decoding.
"""

from __future__ import annotations

import bz2
import lzma
import sys
import zlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
from numcodecs import lz4 as _native  # pyright: ignore[reportAttributeAccessIssue]  # compiled, without stubs
from typing_extensions import Buffer

from aiozarr.codecs.compressors.blosc import BloscCodec
from aiozarr.codecs.compressors.gzip import GzipCodec
from aiozarr.codecs.compressors.inflate import ZLIB, inflate_errors, inflater
from aiozarr.codecs.compressors.zstd import ZstdCodec
from aiozarr.codecs.core.codec import JSON, BytesBytesCodec, Span, byte_view
from aiozarr.codecs.core.configuration import integer, invalid, is_integer, short
from aiozarr.codecs.core.registry import register
from aiozarr.codecs.numcodecs.parameters import any_level, flag, optional_choice, optional_integer
from aiozarr.errors import CodecError

MAX_DICTIONARY = 128 << 20
"""The largest accepted LZMA dictionary. The highest preset has 64 MiB."""

_MAX_STREAMS = 1 << 12
_PIECE = 16 << 10
_LZMA_MEMORY = MAX_DICTIONARY + (16 << 20)
_ERRORS: tuple[type[Exception], ...] = (lzma.LZMAError, OSError, ValueError, EOFError, MemoryError)
_LZMA_FILTERS = {
    lzma.FILTER_LZMA1: "lzma",
    lzma.FILTER_LZMA2: "lzma",
    lzma.FILTER_DELTA: "delta",
    lzma.FILTER_X86: "bcj",
    lzma.FILTER_IA64: "bcj",
    lzma.FILTER_ARM: "bcj",
    lzma.FILTER_ARMTHUMB: "bcj",
    lzma.FILTER_POWERPC: "bcj",
    lzma.FILTER_SPARC: "bcj",
}
_LZMA_OPTIONS = {
    "lzma": ("preset", "dict_size", "lc", "lp", "pb", "mode", "nice_len", "mf", "depth"),
    "delta": ("dist",),
    "bcj": ("start_offset",),
}


class _Decompressor(Protocol):
    """A decompressor of the standard library."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: Buffer, max_length: int, /) -> bytes: ...


class _StreamCodec(BytesBytesCodec):
    """One or more streams that mark their own end. Other bytes after the last stream are refused."""

    streams_follow = True

    @abstractmethod
    def decompressor(self) -> _Decompressor:
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
        for _ in range(_MAX_STREAMS if self.streams_follow else 1):
            decoder = self.decompressor()
            while True:
                piece = view[position : position + step] if decoder.needs_input else view[:0]
                part = decoder.decompress(piece, min(left + 1, sys.maxsize))
                position += len(piece)
                left -= len(part)
                if left < 0:
                    raise CodecError(f"it decodes to more than {max_size} bytes", codec=self.name)
                parts.append(part)
                if decoder.eof:
                    break
                if not piece and not part:
                    raise CodecError("the compressed data is truncated", codec=self.name)
            position -= len(decoder.unused_data)
            if position == len(view):
                return parts
            step = _PIECE
        raise CodecError(f"{len(view) - position} bytes follow the compressed data", codec=self.name)

    def compute_encoded_size(self, size: int) -> None:
        return None


class _Zlib:
    """An inflater that keeps the input which it has not consumed."""

    def __init__(self) -> None:
        self._decoder = inflater(ZLIB)

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


@register
@dataclass(frozen=True)
class NumcodecsZlibCodec(_StreamCodec):
    """The codec `numcodecs.zlib`: one zlib stream (RFC 1950). Level -1 is zlib's default."""

    name = "numcodecs.zlib"
    streams_follow = False
    level: int = 1

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        return cls(optional_integer(configuration, "level", 1, -1, 9))

    def to_json(self) -> dict[str, JSON]:
        return {"level": self.level}

    def encode(self, data: Buffer) -> Buffer:
        return zlib.compress(data, self.level)

    def decompressor(self) -> _Decompressor:
        return _Zlib()


@register
@dataclass(frozen=True)
class NumcodecsBz2Codec(_StreamCodec):
    """The codec `numcodecs.bz2`: bzip2 streams."""

    name = "numcodecs.bz2"
    level: int = 1

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        return cls(optional_integer(configuration, "level", 1, 1, 9))

    def to_json(self) -> dict[str, JSON]:
        return {"level": self.level}

    def encode(self, data: Buffer) -> Buffer:
        return bz2.compress(data, self.level)

    def decompressor(self) -> _Decompressor:
        return bz2.BZ2Decompressor()


@register
@dataclass(frozen=True)
class NumcodecsLzmaCodec(_StreamCodec):
    """The codec `numcodecs.lzma`: xz, lzma or raw streams, with dictionaries of at most `MAX_DICTIONARY` bytes.

    Attributes:
        format: the container: 0 any (reading only), 1 xz, 2 lzma, 3 raw.
        check: the checksum of xz; -1 means the format's default.
        preset: 0 to 9. None means 6, or the parameters of the filters.
        filters: the chain of filters, or None for the preset alone.
        delta: the distance in bytes of a delta filter before the preset, as GDAL writes it, or None.
    """

    name = "numcodecs.lzma"
    format: int = lzma.FORMAT_XZ
    check: int = -1
    preset: int | None = None
    filters: tuple[tuple[tuple[str, int], ...], ...] | None = None
    delta: int | None = None

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        given = {key: value for key, value in configuration.items() if value is not None}
        filters = _lzma_filters(given["filters"]) if "filters" in given else None
        container = optional_integer(given, "format", lzma.FORMAT_XZ, 0, 3)
        if container == lzma.FORMAT_RAW and filters is None:
            raise invalid("filters", "the raw format requires filters")
        if filters is not None and "preset" in given:
            raise invalid("preset", "it must be null if there are filters")
        return cls(
            format=container,
            check=optional_integer(given, "check", -1, -1, 15),
            preset=integer(given, "preset", 0, 2**32 - 1) if "preset" in given else None,
            filters=filters,
            delta=integer(given, "delta", 1, 256) if "delta" in given else None,
        )

    def to_json(self) -> dict[str, JSON]:
        filters = None if self.filters is None else [dict(options) for options in self.filters]
        members = {"format": self.format, "check": self.check, "preset": self.preset, "filters": filters}
        return members if self.delta is None else {**members, "delta": self.delta}

    def encode(self, data: Buffer) -> Buffer:
        container = self.format or lzma.FORMAT_XZ
        preset, filters = self.preset, self._chain()
        if self.delta is not None and filters is None and container == lzma.FORMAT_XZ:
            main = {"id": lzma.FILTER_LZMA2, "preset": lzma.PRESET_DEFAULT if preset is None else preset}
            preset, filters = None, [{"id": lzma.FILTER_DELTA, "dist": self.delta}, main]
        try:
            return lzma.compress(data, container, self.check, preset, filters)
        except (lzma.LZMAError, ValueError, TypeError, OverflowError, MemoryError) as error:
            raise CodecError(f"cannot compress: {error}", codec=self.name) from error

    def decompressor(self) -> _Decompressor:
        if self.format == lzma.FORMAT_RAW:
            return lzma.LZMADecompressor(lzma.FORMAT_RAW, None, self._chain())
        return lzma.LZMADecompressor(self.format, _LZMA_MEMORY)

    def _chain(self) -> list[dict[str, Any]] | None:
        return None if self.filters is None else [dict(options) for options in self.filters]


def _lzma_filters(value: object) -> tuple[tuple[tuple[str, int], ...], ...]:
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= 4:
        raise invalid("filters", f"it must be a list of one to four filters, not {short(value)}")
    return tuple(_lzma_filter(item) for item in value)


def _lzma_filter(item: object) -> tuple[tuple[str, int], ...]:
    kind = _LZMA_FILTERS.get(item.get("id", 0)) if isinstance(item, Mapping) and is_integer(item.get("id")) else None
    if kind is None or not isinstance(item, Mapping):
        raise invalid("filters", f"{short(item)} is not a filter of lzma")
    for key, option in item.items():
        if (key != "id" and key not in _LZMA_OPTIONS[kind]) or not is_integer(option) or not 0 <= option < 2**64:
            raise invalid("filters", f"{short(key)}: {short(option)} is not an option of this filter")
    if item.get("dict_size", 0) > MAX_DICTIONARY or item.get("preset", 0) & 0x1F > 9:
        raise invalid("filters", f"the dictionary has more than {MAX_DICTIONARY} bytes")
    return tuple((str(key), int(option)) for key, option in item.items())


_PREFIX_BYTES = 4
_MAX_INPUT = 0x7E000000
_EMPTY_BLOCK = b"\x00"
_MAX_EXPANSION = 255


@register
@dataclass(frozen=True)
class NumcodecsLz4Codec(BytesBytesCodec):
    """The codec `numcodecs.lz4`. An `acceleration` below 1 means 1."""

    name = "numcodecs.lz4"
    acceleration: int = 1

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        return cls(optional_integer(configuration, "acceleration", 1, -(2**31), 2**31 - 1))

    def to_json(self) -> dict[str, JSON]:
        return {"acceleration": self.acceleration}

    def encode(self, data: Buffer) -> Buffer:
        size = memoryview(data).nbytes
        if size > _MAX_INPUT:
            raise CodecError(f"lz4 takes at most {_MAX_INPUT} bytes, not {size}", codec=self.name)
        try:
            encoded: bytes = _native.compress(data, self.acceleration)
        except (RuntimeError, ValueError) as error:
            raise CodecError(f"cannot compress: {error}", codec=self.name) from error
        return encoded

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        view = memoryview(data).cast("B")
        block = len(view) - _PREFIX_BYTES
        if block < 1:
            raise CodecError(f"{len(view)} bytes are too few for an lz4 block and its size", codec=self.name)
        size = int.from_bytes(view[:_PREFIX_BYTES], "little", signed=True)
        if not 0 <= size <= max_size:
            raise CodecError(f"it declares {size} decoded bytes, of at most {max_size}", codec=self.name)
        if size == 0 and view[_PREFIX_BYTES:] == _EMPTY_BLOCK:
            # The decoder treats a size of zero as an error.
            return b""
        if size == 0 or size > _MAX_EXPANSION * block:
            raise CodecError(f"{block} bytes cannot hold the declared {size} decoded bytes", codec=self.name)
        result = out if out is not None and len(out) == size else byte_view(np.empty(size, np.uint8))
        try:
            _native.decompress(view, result)
        except (RuntimeError, ValueError) as error:
            raise CodecError(f"cannot decompress: {error}", codec=self.name) from error
        return result

    def compute_encoded_size(self, size: int) -> None:
        return None


_COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
_AUTOSHUFFLE = -1
_MAX_SIZE = 2**31 - 1


class _Blosc(BloscCodec):
    name = "numcodecs.blosc"


_DECODER = _Blosc("lz4", 5, "noshuffle", None, 0)


@register
@dataclass(frozen=True)
class NumcodecsBloscCodec(BytesBytesCodec):
    """The codec `numcodecs.blosc`.

    Attributes:
        cname: the inner compressor.
        clevel: 0 to 9.
        shuffle: 0 none, 1 bytes, 2 bits, -1 bits for items of one byte and bytes for others.
        blocksize: bytes of a block, or 0 if Blosc chooses it.
        typesize: bytes of an item for the shuffle. None means `item_size`.
        item_size: bytes of the array's items.
    """

    name = "numcodecs.blosc"
    cname: str = "lz4"
    clevel: int = 5
    shuffle: int = 1
    blocksize: int = 0
    typesize: int | None = None
    item_size: int = field(default=1, compare=False)

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        shuffle = configuration.get("shuffle", 1)
        if isinstance(shuffle, str) and shuffle in _SHUFFLES:
            configuration = {**configuration, "shuffle": _SHUFFLES.index(shuffle)}
        untyped = configuration.get("typesize") is None
        return cls(
            cname=optional_choice(configuration, "cname", "lz4", _COMPRESSORS),
            clevel=optional_integer(configuration, "clevel", 5, 0, 9),
            shuffle=optional_integer(configuration, "shuffle", 1, _AUTOSHUFFLE, 2),
            blocksize=optional_integer(configuration, "blocksize", 0, 0, _MAX_SIZE),
            typesize=None if untyped else optional_integer(configuration, "typesize", 1, 1, _MAX_SIZE),
        )

    def to_json(self) -> dict[str, JSON]:
        typed = {} if self.typesize is None else {"typesize": self.typesize}
        members = {"cname": self.cname, "clevel": self.clevel, "shuffle": self.shuffle, "blocksize": self.blocksize}
        return {**members, **typed}

    def for_items(self, item_size: int) -> Self:
        return replace(self, item_size=max(1, item_size))

    def encode(self, data: Buffer) -> Buffer:
        typesize = self.item_size if self.typesize is None else self.typesize
        kind = self.shuffle if self.shuffle != _AUTOSHUFFLE else 2 if typesize == 1 else 1
        return _Blosc(self.cname, self.clevel, _SHUFFLES[kind], typesize, self.blocksize).encode(data)

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        return _DECODER.decode(data, max_size=max_size, out=out)

    def decode_spans(self, data: Buffer, spans: Sequence[Span], *, max_size: int, out: memoryview) -> Buffer | None:
        return _DECODER.decode_spans(data, spans, max_size=max_size, out=out)

    def compute_encoded_size(self, size: int) -> None:
        return None


@register
@dataclass(frozen=True)
class NumcodecsZstdCodec(ZstdCodec):
    """The codec `numcodecs.zstd`. Levels above the highest mean the highest. `checksum` may be "YES" or "NO"."""

    name = "numcodecs.zstd"

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        return cls(any_level(configuration, "level", 0, -131072, 22), flag(configuration, "checksum", default=False))


@register
@dataclass(frozen=True)
class NumcodecsGzipCodec(GzipCodec):
    """The codec `numcodecs.gzip`. Level -1 is zlib's default."""

    name = "numcodecs.gzip"
    level: int = 1

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        return cls(optional_integer(configuration, "level", 1, -1, 9))
