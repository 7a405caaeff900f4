"""The compressors of numcodecs as v3 codecs, with its parameters.

`numcodecs.blosc`, `zstd` and `gzip` have the bytes and checks of the v3 codecs. `zlib`, `bz2` and `lzma` decompress in
pieces within a bound. `lz4` is an LZ4 block after four bytes with its decoded size, which is checked first. Unknown
members are tolerated, because the compressed bytes contain all parameters of decoding.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numcodecs import lz4 as _native  # pyright: ignore[reportAttributeAccessIssue]  # compiled, without stubs
from typing_extensions import Buffer

from aiozarr.codecs.blosc import BloscCodec
from aiozarr.codecs.codec import JSON, BytesBytesCodec, FramedCodec, Span, byte_view, codec_errors
from aiozarr.codecs.gzip import ZLIB, Decompressor, GzipCodec, InflateStream, StreamCodec
from aiozarr.codecs.numcodecs_objects import any_level, flag
from aiozarr.codecs.registry import FieldsCodec, integer, invalid, one_of, register_codec
from aiozarr.codecs.zstd import ZstdCodec
from aiozarr.common.checks import is_integer
from aiozarr.common.formatting import shown
from aiozarr.errors import CodecError

MAX_DICTIONARY = 128 << 20
"""The largest accepted LZMA dictionary. The highest preset has 64 MiB."""

_XZ_MAGIC = b"\xfd7"
_LZMA_MEMORY = MAX_DICTIONARY + (16 << 20)
_LZMA_FILTERS = {
    **dict.fromkeys((lzma.FILTER_LZMA1, lzma.FILTER_LZMA2), "lzma"),
    lzma.FILTER_DELTA: "delta",
    **dict.fromkeys((lzma.FILTER_X86, lzma.FILTER_IA64, lzma.FILTER_ARM, lzma.FILTER_ARMTHUMB), "bcj"),
    **dict.fromkeys((lzma.FILTER_POWERPC, lzma.FILTER_SPARC), "bcj"),
}
_LZMA_OPTIONS = {
    "lzma": ("preset", "dict_size", "lc", "lp", "pb", "mode", "nice_len", "mf", "depth"),
    "delta": ("dist",),
    "bcj": ("start_offset",),
}


@register_codec
@dataclass(frozen=True)
class NumcodecsZlibCodec(FieldsCodec, StreamCodec):
    """The codec `numcodecs.zlib`: one zlib stream (RFC 1950). Level -1 is zlib's default."""

    name = "numcodecs.zlib"
    _max_streams = 1
    level: int = 1

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        return cls(integer(configuration, "level", -1, 9, 1))

    def encode(self, data: Buffer) -> Buffer:
        return zlib.compress(data, self.level)

    def _decompressor(self) -> Decompressor:
        return InflateStream(ZLIB)


@register_codec
@dataclass(frozen=True)
class NumcodecsBz2Codec(FieldsCodec, StreamCodec):
    """The codec `numcodecs.bz2`: bzip2 streams."""

    name = "numcodecs.bz2"
    level: int = 1

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        return cls(integer(configuration, "level", 1, 9, 1))

    def encode(self, data: Buffer) -> Buffer:
        return bz2.compress(data, self.level)

    def _decompressor(self) -> Decompressor:
        return bz2.BZ2Decompressor()


@register_codec
@dataclass(frozen=True)
class NumcodecsLzmaCodec(StreamCodec):
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
        container = integer(given, "format", 0, 3, lzma.FORMAT_XZ)
        if container == lzma.FORMAT_RAW and filters is None:
            raise invalid("filters", "the raw format requires filters")
        if filters is not None and "preset" in given:
            raise invalid("preset", "it must be null if there are filters")
        return cls(
            format=container,
            check=integer(given, "check", -1, 15, -1),
            preset=integer(given, "preset", 0, 2**32 - 1) if "preset" in given else None,
            filters=filters,
            delta=integer(given, "delta", 1, 256) if "delta" in given else None,
        )

    def to_json(self) -> dict[str, JSON]:
        members = {"format": self.format, "check": self.check, "preset": self.preset, "filters": self._chain()}
        return members if self.delta is None else {**members, "delta": self.delta}

    def encode(self, data: Buffer) -> Buffer:
        container = self.format or lzma.FORMAT_XZ
        preset, filters = self.preset, self._chain()
        if self.delta is not None and filters is None and container == lzma.FORMAT_XZ:
            main = {"id": lzma.FILTER_LZMA2, "preset": lzma.PRESET_DEFAULT if preset is None else preset}
            preset, filters = None, [{"id": lzma.FILTER_DELTA, "dist": self.delta}, main]
        with codec_errors("compress", self.name, lzma.LZMAError, ValueError, TypeError, OverflowError, MemoryError):
            return lzma.compress(data, container, self.check, preset, filters)

    def _is_excess(self, view: memoryview, position: int) -> bool:
        # Raw streams, and the older ones, may begin with any bytes.
        return view[:2] == _XZ_MAGIC and super()._is_excess(view, position)

    def _decompressor(self) -> Decompressor:
        if self.format == lzma.FORMAT_RAW:
            return lzma.LZMADecompressor(lzma.FORMAT_RAW, None, self._chain())
        return lzma.LZMADecompressor(self.format, _LZMA_MEMORY)

    def _chain(self) -> list[dict[str, Any]] | None:
        return None if self.filters is None else [dict(options) for options in self.filters]


def _lzma_filters(value: object) -> tuple[tuple[tuple[str, int], ...], ...]:
    if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= 4:
        raise invalid("filters", f"it must be a list of one to four filters, not {shown(value)}")
    return tuple(_lzma_filter(item) for item in value)


def _lzma_filter(item: object) -> tuple[tuple[str, int], ...]:
    kind = _LZMA_FILTERS.get(item.get("id", 0)) if isinstance(item, Mapping) and is_integer(item.get("id")) else None
    if kind is None or not isinstance(item, Mapping):
        raise invalid("filters", f"{shown(item)} is not a filter of lzma")
    for key, option in item.items():
        if (key != "id" and key not in _LZMA_OPTIONS[kind]) or not is_integer(option) or not 0 <= option < 2**64:
            raise invalid("filters", f"{shown(key)}: {shown(option)} is not an option of this filter")
    if item.get("dict_size", 0) > MAX_DICTIONARY or item.get("preset", 0) & 0x1F > 9:
        raise invalid("filters", f"the dictionary has more than {MAX_DICTIONARY} bytes")
    return tuple((str(key), int(option)) for key, option in item.items())


_PREFIX_BYTES = 4
_MAX_INPUT = 0x7E000000
_EMPTY_BLOCK = b"\x00"
_MAX_EXPANSION = 255


@register_codec
@dataclass(frozen=True)
class NumcodecsLz4Codec(FieldsCodec, BytesBytesCodec):
    """The codec `numcodecs.lz4`. An `acceleration` below 1 means 1."""

    name = "numcodecs.lz4"
    acceleration: int = 1

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        return cls(integer(configuration, "acceleration", -(2**31), 2**31 - 1, 1))

    def encode(self, data: Buffer) -> Buffer:
        size = memoryview(data).nbytes
        if size > _MAX_INPUT:
            raise CodecError(f"lz4 takes at most {_MAX_INPUT} bytes, not {size}", codec=self.name)
        with codec_errors("compress", self.name, RuntimeError, ValueError):
            encoded: bytes = _native.compress(data, self.acceleration)
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
        with codec_errors("decompress", self.name, RuntimeError, ValueError):
            _native.decompress(view, result)
        return result


_COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")
_AUTOSHUFFLE = -1
_MAX_SIZE = 2**31 - 1


class _Blosc(BloscCodec):
    name = "numcodecs.blosc"


_DECODERS = [_Blosc("lz4", 5, "noshuffle", None, 0, _is_strict=_is_strict) for _is_strict in (False, True)]


@register_codec
@dataclass(frozen=True)
class NumcodecsBloscCodec(FieldsCodec, FramedCodec, BytesBytesCodec):
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
            cname=one_of(configuration, "cname", _COMPRESSORS, "lz4"),
            clevel=integer(configuration, "clevel", 0, 9, 5),
            shuffle=integer(configuration, "shuffle", _AUTOSHUFFLE, 2, 1),
            blocksize=integer(configuration, "blocksize", 0, _MAX_SIZE, 0),
            typesize=None if untyped else integer(configuration, "typesize", 1, _MAX_SIZE, 1),
        )

    def for_items(self, item_size: int) -> Self:
        return replace(self, item_size=max(1, item_size))

    def encode(self, data: Buffer) -> Buffer:
        typesize = self.item_size if self.typesize is None else self.typesize
        kind = self.shuffle if self.shuffle != _AUTOSHUFFLE else 2 if typesize == 1 else 1
        return _Blosc(self.cname, self.clevel, _SHUFFLES[kind], typesize, self.blocksize).encode(data)

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        return _DECODERS[self._is_strict].decode(data, max_size=max_size, out=out)

    def decode_spans(self, data: Buffer, spans: Sequence[Span], *, max_size: int, out: memoryview) -> Buffer | None:
        return _DECODERS[self._is_strict].decode_spans(data, spans, max_size=max_size, out=out)


@register_codec
@dataclass(frozen=True)
class NumcodecsZstdCodec(ZstdCodec):
    """The codec `numcodecs.zstd`. Levels above the highest mean the highest. `checksum` may be "YES" or "NO"."""

    name = "numcodecs.zstd"
    default_configuration = BytesBytesCodec.default_configuration

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        return cls(any_level(configuration, "level", 0, -131072, 22), flag(configuration, "checksum", default=False))


@register_codec
@dataclass(frozen=True)
class NumcodecsGzipCodec(GzipCodec):
    """The codec `numcodecs.gzip`. Level -1 is zlib's default."""

    name = "numcodecs.gzip"
    default_configuration = BytesBytesCodec.default_configuration
    level: int = 1

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        return cls(integer(configuration, "level", -1, 9, 1))
