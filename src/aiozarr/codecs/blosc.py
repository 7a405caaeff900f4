"""The codec `blosc`: chunks of the Blosc 1 format, whose header is checked before native code sees it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Self

import numpy as np
from numcodecs import blosc as _native  # pyright: ignore[reportAttributeAccessIssue]  # compiled, without stubs
from typing_extensions import Buffer

from aiozarr.codecs import blosc_snappy
from aiozarr.codecs._buffers import byte_view
from aiozarr.codecs._configuration import check_members, integer, one_of
from aiozarr.codecs.base import JSON, BytesBytesCodec
from aiozarr.codecs.registry import register
from aiozarr.errors import CodecError

_COMPRESSORS = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}
_FORMAT_NAMES = ("blosclz", "lz4", "snappy", "zlib", "zstd")
_MAX_SIZE = 2**31 - 1
_HEADER = Struct("<BBBBIII")
_FORMAT_VERSION = 2
_COPIED = 0x02
_HAS_SNAPPY = "snappy" in _native.list_compressors()


@register
@dataclass(frozen=True)
class BloscCodec(BytesBytesCodec):
    """The codec `blosc` (codec specification "blosc").

    Attributes:
        cname: the compressor inside.
        clevel: 0 to 9.
        shuffle: how bytes of neighbouring elements are regrouped first.
        typesize: bytes of an element for the shuffle; None only with "noshuffle".
        blocksize: bytes of a block; 0: Blosc chooses.
    """

    name = "blosc"
    cname: str
    clevel: int
    shuffle: str
    typesize: int | None
    blocksize: int

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("cname", "clevel", "shuffle", "typesize", "blocksize"), name=cls.name)
        shuffle = one_of(configuration, "shuffle", _SHUFFLES)
        untyped = shuffle == "noshuffle" and "typesize" not in configuration
        return cls(
            cname=one_of(configuration, "cname", _COMPRESSORS),
            clevel=integer(configuration, "clevel", 0, 9),
            shuffle=shuffle,
            typesize=None if untyped else integer(configuration, "typesize", 1, _MAX_SIZE),
            blocksize=integer(configuration, "blocksize", 0, _MAX_SIZE),
        )

    def to_json(self) -> dict[str, JSON]:
        typed = {} if self.typesize is None else {"typesize": self.typesize}
        members = {"cname": self.cname, "clevel": self.clevel, "shuffle": self.shuffle}
        return {**members, **typed, "blocksize": self.blocksize}

    def encode(self, data: Buffer) -> Buffer:
        size = memoryview(data).nbytes
        if size > _MAX_SIZE - _native.MAX_OVERHEAD:
            raise CodecError(f"blosc takes less than 2 GiB, not {size} bytes", codec=self.name)
        shuffle, typesize = _SHUFFLES[self.shuffle], self.typesize or 1
        try:
            encoded: bytes = _native.compress(data, self.cname.encode(), self.clevel, shuffle, self.blocksize, typesize)
        except (RuntimeError, ValueError) as error:
            raise CodecError(f"cannot compress: {error}", codec=self.name) from error
        return encoded

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        size = self._check_header(memoryview(data), max_size)
        if size == 0:
            # The decoder takes a size of zero for an error.
            return b""
        if _needs_snappy(memoryview(data)):
            try:
                return blosc_snappy.decompress(memoryview(data).cast("B"))
            except (ValueError, struct.error) as error:
                raise CodecError(f"cannot decompress: {error}", codec=self.name) from error
        result = out if out is not None and len(out) == size else byte_view(np.empty(size, np.uint8))
        try:
            _native.decompress(data, result)
        except (RuntimeError, ValueError) as error:
            raise CodecError(f"cannot decompress: {error}", codec=self.name) from error
        return result

    def compute_encoded_size(self, size: int) -> None:
        return None

    def _check_header(self, view: memoryview, max_size: int) -> int:
        """Return the number of decoded bytes. What the C library takes on trust is checked here."""
        length = view.nbytes
        if length < _HEADER.size:
            raise CodecError(f"{length} bytes are too few for a blosc header", codec=self.name)
        version, _, flags, typesize, nbytes, blocksize, cbytes = _HEADER.unpack_from(view)
        if version != _FORMAT_VERSION:
            raise CodecError(f"the blosc format has version {version}, not {_FORMAT_VERSION}", codec=self.name)
        if nbytes > max_size:
            raise CodecError(f"it decodes to {nbytes} bytes, of at most {max_size}", codec=self.name)
        if cbytes != length:
            raise CodecError(f"the blosc header tells {cbytes} bytes, there are {length}", codec=self.name)
        if typesize < 1 or (nbytes and not 1 <= blocksize <= nbytes):
            raise CodecError(
                f"a blosc header with typesize {typesize}, blocksize {blocksize} and {nbytes} bytes", codec=self.name
            )
        if flags & _COPIED:
            fits = cbytes == nbytes + _HEADER.size
        else:
            fits = nbytes == 0 or cbytes >= _HEADER.size + 4 * -(-nbytes // blocksize)
        if not fits or flags >> 5 >= len(_FORMAT_NAMES):
            raise CodecError(f"a blosc header with flags {flags:#04x} for {cbytes} bytes", codec=self.name)
        return int(nbytes)


def _needs_snappy(view: memoryview) -> bool:
    """Return whether the library was built without what a chunk of this header needs."""
    flags = view.cast("B")[2]
    return not _HAS_SNAPPY and flags >> 5 == blosc_snappy.FORMAT and not flags & _COPIED
