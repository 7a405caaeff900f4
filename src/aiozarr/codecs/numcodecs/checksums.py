"""The codecs `numcodecs.crc32`, `crc32c`, `adler32`, `fletcher32` and `jenkins_lookup3`: bytes with their checksum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from numcodecs.fletcher32 import Fletcher32  # pyright: ignore[reportMissingImports]  # compiled, without stubs
from numcodecs.jenkins import jenkins_lookup3  # pyright: ignore[reportMissingImports]  # compiled, without stubs
from typing_extensions import Buffer

from aiozarr.codecs.compressors import inflate
from aiozarr.codecs.compressors.crc32c import CHECKSUM_BYTES, ChecksumCodec, crc32c
from aiozarr.codecs.core.buffers import byte_array
from aiozarr.codecs.core.codec import JSON
from aiozarr.codecs.core.configuration import UnconfiguredCodec, check_members, invalid, is_integer, short
from aiozarr.codecs.core.registry import register
from aiozarr.codecs.numcodecs.parameters import optional_choice, optional_integer


@dataclass(frozen=True)
class _PlacedChecksumCodec(ChecksumCodec):
    """A checksum at the start or end of the bytes. `location` None means `usual_location`."""

    usual_location: ClassVar[str] = "start"
    location: str | None = None

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, ("location",), name=cls.name)
        if configuration.get("location") is None:
            return cls()
        return cls(optional_choice(configuration, "location", cls.usual_location, ("start", "end")))

    def to_json(self) -> dict[str, JSON]:
        return {} if self.location is None else {"location": self.location}

    @property
    def _at_start(self) -> bool:
        return (self.location or self.usual_location) == "start"


@register
class NumcodecsCrc32Codec(_PlacedChecksumCodec):
    """The codec `numcodecs.crc32`: the CRC-32 of zlib, at the start unless `location` is "end"."""

    name = "numcodecs.crc32"

    def _checksum(self, content: Buffer) -> int:
        return inflate.crc32(content)


@register
class NumcodecsAdler32Codec(_PlacedChecksumCodec):
    """The codec `numcodecs.adler32`: the Adler-32 of zlib, at the start unless `location` is "end"."""

    name = "numcodecs.adler32"

    def _checksum(self, content: Buffer) -> int:
        return inflate.adler32(content)


@register
class NumcodecsCrc32cCodec(_PlacedChecksumCodec):
    """The codec `numcodecs.crc32c`: the CRC-32C, at the end unless `location` is "start"."""

    name = "numcodecs.crc32c"
    usual_location = "end"

    def _checksum(self, content: Buffer) -> int:
        return crc32c(content)


@register
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


@register
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
            if not isinstance(prefix, list) or not all(is_integer(byte) and 0 <= byte < 256 for byte in prefix):
                raise invalid("prefix", f"it must be null or a list of bytes, not {short(prefix)}")
            prefix = bytes(prefix)
        return cls(optional_integer(configuration, "initval", 0, 0, 2**32 - 1), prefix)

    def to_json(self) -> dict[str, JSON]:
        return {"initval": self.initval, "prefix": None if self.prefix is None else list(self.prefix)}

    def _checksum(self, content: Buffer) -> int:
        hashed = content if self.prefix is None else b"".join((self.prefix, content))
        return int(jenkins_lookup3(byte_array(hashed), self.initval))
