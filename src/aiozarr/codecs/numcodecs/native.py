"""The codecs `numcodecs.blosc`, `numcodecs.zstd` and `numcodecs.gzip`: v3 codecs with the parameters of numcodecs.

Their bytes and checks are those of `blosc`, `zstd` and `gzip`. Unknown members are tolerated, because the compressed
bytes contain all parameters of decoding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from typing_extensions import Buffer

from aiozarr.codecs.compressors.blosc import BloscCodec
from aiozarr.codecs.compressors.gzip import GzipCodec
from aiozarr.codecs.compressors.zstd import ZstdCodec
from aiozarr.codecs.core.codec import JSON, BytesBytesCodec, Span
from aiozarr.codecs.core.registry import register
from aiozarr.codecs.numcodecs.parameters import any_level, flag, optional_choice, optional_integer

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
