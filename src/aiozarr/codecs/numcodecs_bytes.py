"""The codecs of numcodecs from bytes to as many bytes: `shuffle`, `base64`, and those that append a checksum."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numcodecs.fletcher32 import Fletcher32  # pyright: ignore[reportMissingImports]  # compiled, without stubs
from numcodecs.jenkins import jenkins_lookup3  # pyright: ignore[reportMissingImports]  # compiled, without stubs
from typing_extensions import Buffer

from aiozarr.codecs import gzip as inflate
from aiozarr.codecs.codec import JSON, AnyArray, BytesBytesCodec, FramedCodec, byte_array, byte_view, codec_errors
from aiozarr.codecs.crc32c import CHECKSUM_BYTES, ChecksumCodec, crc32c
from aiozarr.codecs.registry import (
    CHECKS,
    FieldsCodec,
    UnconfiguredCodec,
    check_members,
    integer,
    one_of,
    register_codec,
)
from aiozarr.errors import CodecError

_MAX_ITEM = 1 << 31


@register_codec
@dataclass(frozen=True)
class NumcodecsShuffleCodec(FieldsCodec, BytesBytesCodec):
    """The codec `numcodecs.shuffle`: the first bytes of all items, then their second bytes, and so on.

    Attributes:
        elementsize: bytes of an item. None means the item size of the array, as in zarr-python 3. With 0 and 1 the
            bytes do not change.
        item_size: bytes of the array's items, or 1 if unknown.
    """

    name = "numcodecs.shuffle"
    elementsize: int | None = None
    item_size: int = field(default=1, compare=False)

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("elementsize",), name=cls.name)
        if configuration.get("elementsize") is None:
            return cls()
        return cls(integer(configuration, "elementsize", 0, _MAX_ITEM, 0))

    def for_items(self, item_size: int) -> Self:
        return replace(self, item_size=max(1, item_size))

    def encode(self, data: Buffer) -> Buffer:
        size = self._element_size(data)
        return data if size == 1 else byte_view(np.ascontiguousarray(byte_array(data).reshape(-1, size).T))

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        nbytes = memoryview(data).nbytes
        if nbytes > max_size:
            raise CodecError(f"there are {nbytes} bytes, of at most {max_size}", codec=self.name)
        size = self._element_size(data)
        if size == 1:
            return data
        planes: AnyArray = byte_array(data).reshape(size, -1).T
        if out is None or len(out) != nbytes:
            return byte_view(np.ascontiguousarray(planes))
        np.copyto(np.asarray(out).reshape(planes.shape), planes)
        return out

    def compute_encoded_size(self, size: int) -> int:
        return size

    def _element_size(self, data: Buffer) -> int:
        size = self.item_size if self.elementsize is None else max(1, self.elementsize)
        nbytes = memoryview(data).nbytes
        if nbytes % size:
            raise CodecError(f"{nbytes} bytes are not a multiple of the element size {size}", codec=self.name)
        return size if nbytes else 1


@register_codec
@dataclass(frozen=True)
class NumcodecsBase64Codec(UnconfiguredCodec, FramedCodec, BytesBytesCodec):
    """The codec `numcodecs.base64`: the standard alphabet of RFC 4648, padded, without line breaks."""

    name = "numcodecs.base64"

    def encode(self, data: Buffer) -> Buffer:
        return base64.b64encode(data)

    def decode(self, data: Buffer, *, max_size: int, out: memoryview | None = None) -> Buffer:
        if not self._is_strict:
            # Padding ends the text, and zero bytes do not belong to it.
            data = bytes(data).rstrip(b"\0")
            end = data.find(b"=")
            data = data[: -(-end // 4) * 4] if end >= 0 else data
        size = memoryview(data).nbytes
        if size > self.compute_encoded_size(max_size):
            raise CodecError(f"{size} bytes decode to more than {max_size}", codec=self.name)
        with codec_errors("decode", self.name, binascii.Error, ValueError):
            decoded = base64.b64decode(data, validate=True)
        if len(decoded) > max_size:
            raise CodecError(f"it decodes to {len(decoded)} bytes, of at most {max_size}", codec=self.name)
        return decoded

    def compute_encoded_size(self, size: int) -> int:
        return -(-size // 3) * 4


@dataclass(frozen=True)
class _PlacedChecksumCodec(FieldsCodec, ChecksumCodec):
    """A checksum at the start or end of the bytes. `location` None means `usual_location`."""

    usual_location: ClassVar[str] = "start"
    location: str | None = None

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("location",), name=cls.name)
        if configuration.get("location") is None:
            return cls()
        return cls(one_of(configuration, "location", ("start", "end")))

    @property
    def _at_start(self) -> bool:
        return (self.location or self.usual_location) == "start"


@register_codec
class NumcodecsCrc32Codec(_PlacedChecksumCodec):
    """The codec `numcodecs.crc32`: the CRC-32 of zlib, at the start unless `location` is "end"."""

    name = "numcodecs.crc32"

    def _checksum(self, content: Buffer) -> int:
        return inflate.crc32(content)


@register_codec
class NumcodecsAdler32Codec(_PlacedChecksumCodec):
    """The codec `numcodecs.adler32`: the Adler-32 of zlib, at the start unless `location` is "end"."""

    name = "numcodecs.adler32"

    def _checksum(self, content: Buffer) -> int:
        return inflate.adler32(content)


@register_codec
class NumcodecsCrc32cCodec(_PlacedChecksumCodec):
    """The codec `numcodecs.crc32c`: the CRC-32C, at the end unless `location` is "start"."""

    name = "numcodecs.crc32c"
    usual_location = "end"

    def _checksum(self, content: Buffer) -> int:
        return crc32c(content)


@register_codec
@dataclass(frozen=True)
class NumcodecsFletcher32Codec(UnconfiguredCodec, ChecksumCodec):
    """The codec `numcodecs.fletcher32`: HDF5's Fletcher checksum of 16-bit words, at the end."""

    name = "numcodecs.fletcher32"

    def _checksum(self, content: Buffer) -> int:
        # numcodecs returns the checksum after a copy of the content, and refuses empty content.
        if memoryview(content).nbytes == 0:
            return 0
        encoded: bytes = Fletcher32().encode(byte_array(content))
        return int.from_bytes(encoded[-CHECKSUM_BYTES:], "little")


@register_codec
@dataclass(frozen=True)
class NumcodecsJenkinsLookup3Codec(ChecksumCodec):
    """The codec `numcodecs.jenkins_lookup3`: Bob Jenkins' lookup3 as in HDF5, at the end.

    Attributes:
        initval: the initial value of the hash.
        prefix: bytes that are hashed before the content, but not stored, or None.
    """

    name = "numcodecs.jenkins_lookup3"
    initval: int = 0
    prefix: bytes | None = None

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("initval", "prefix"), name=cls.name)
        prefix = configuration.get("prefix")
        if prefix is not None:
            prefix = bytes(CHECKS.integers(prefix, "prefix", 0, 255))
        return cls(integer(configuration, "initval", 0, 2**32 - 1, 0), prefix)

    def to_json(self) -> dict[str, JSON]:
        return {"initval": self.initval, "prefix": None if self.prefix is None else list(self.prefix)}

    def _checksum(self, content: Buffer) -> int:
        hashed = content if self.prefix is None else b"".join((self.prefix, content))
        return int(jenkins_lookup3(byte_array(hashed), self.initval))
