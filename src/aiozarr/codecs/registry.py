"""A list of the names and classes of aiozarr's codecs by module, which does not import them.

The codec class of a name in a metadata document is found here, and the members of its configuration are checked. Each
error names the member.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any, Self, TypeVar

from aiozarr.codecs.codec import JSON, ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec, Codec
from aiozarr.common.checks import Checks
from aiozarr.common.formatting import shown
from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.plugins import ClassRegistry
from aiozarr.plugins import check_members as check_extension_members

CODECS = {
    "blosc": "blosc:BloscCodec",
    "crc32c": "crc32c:Crc32cCodec",
    "gzip": "gzip:GzipCodec",
    "zstd": "zstd:ZstdCodec",
    "dimensions": "reshape:ReshapeCodec transpose:TransposeCodec",
    "numcodecs_filters": (
        "numcodecs.astype:NumcodecsAsTypeCodec numcodecs.bitround:NumcodecsBitRoundCodec "
        "numcodecs.delta:NumcodecsDeltaCodec numcodecs.fixedscaleoffset:NumcodecsFixedScaleOffsetCodec "
        "numcodecs.packbits:NumcodecsPackBitsCodec numcodecs.quantize:NumcodecsQuantizeCodec"
    ),
    "numcodecs_bytes": (
        "numcodecs.adler32:NumcodecsAdler32Codec numcodecs.base64:NumcodecsBase64Codec "
        "numcodecs.crc32:NumcodecsCrc32Codec numcodecs.crc32c:NumcodecsCrc32cCodec "
        "numcodecs.fletcher32:NumcodecsFletcher32Codec "
        "numcodecs.jenkins_lookup3:NumcodecsJenkinsLookup3Codec numcodecs.shuffle:NumcodecsShuffleCodec"
    ),
    "numcodecs_compressors": (
        "numcodecs.blosc:NumcodecsBloscCodec numcodecs.bz2:NumcodecsBz2Codec "
        "numcodecs.gzip:NumcodecsGzipCodec numcodecs.lz4:NumcodecsLz4Codec numcodecs.lzma:NumcodecsLzmaCodec "
        "numcodecs.zlib:NumcodecsZlibCodec numcodecs.zstd:NumcodecsZstdCodec"
    ),
    "numcodecs_numbers": "numcodecs.pcodec:NumcodecsPcodecCodec numcodecs.zfpy:NumcodecsZfpyCodec",
    "cast_value": "cast_value:CastValueCodec",
    "number_filters": "bitround:BitroundCodec scale_offset:ScaleOffsetCodec",
    "bytes": "bytes:BytesCodec",
    "n5_default": "n5_default:N5DefaultCodec",
    "packbits": "packbits:PackbitsCodec",
    "sharding": "sharding_indexed:ShardingCodec",
    "vlen": "vlen-bytes:VlenBytesCodec vlen-utf8:VlenUtf8Codec",
    "zfp": "zfp:ZfpCodec",
    "v2_elements": "v2_elements:V2ElementsCodec",
}
"""By module: the name in documents and the class of each codec."""


def listed(part: int) -> dict[str, str]:
    """Return the names (`part` 0) or classes (1) of each module, separated by spaces."""
    return {module: " ".join([pair.split(":")[part] for pair in pairs.split()]) for module, pairs in CODECS.items()}


CodecClass = TypeVar("CodecClass", bound=type[Codec])

_KINDS = (ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec)

_ZARRS = "https://codec.zarrs.dev/"

_ALIASES = {
    "endian": "bytes",
    "zarrs.bitround": "bitround",
    f"{_ZARRS}array_to_array/bitround": "bitround",
    f"{_ZARRS}array_to_bytes/bitround": "bitround",
    "zarrs.zfp": "zfp",
    f"{_ZARRS}array_to_bytes/zfp": "zfp",
    f"{_ZARRS}array_to_bytes/zfpy": "numcodecs.zfpy",
    f"{_ZARRS}array_to_bytes/pcodec": "numcodecs.pcodec",
    f"{_ZARRS}bytes_to_bytes/bz2": "numcodecs.bz2",
    f"{_ZARRS}bytes_to_bytes/fletcher32": "numcodecs.fletcher32",
}
"""Earlier names of registered codecs, from drafts and early writers. They are read and never written."""

_registry: ClassRegistry[Codec] = ClassRegistry(
    "codec", *_KINDS, package="aiozarr.codecs", modules=listed(0), aliases=_ALIASES
)


def register_codec(codec_class: CodecClass) -> CodecClass:
    """Register `codec_class` under its `name`, in this process. It can be used as a class decorator.

    The last registration of a name is used for arrays that are opened after it.

    Raises:
        TypeError: `codec_class` has no name, is abstract, or is not a subclass of `ArrayArrayCodec`,
            `ArrayBytesCodec` or `BytesBytesCodec`.
    """
    return _registry.register(codec_class)


def get_codec(name: str) -> type[Codec]:
    """Return the codec class of `name`: a registered class, or else the entry point of an installed package.

    Raises:
        UnsupportedMetadataError: no package provides this codec, or its package cannot be imported.
    """
    return _registry.resolve(name, member="name")


Choice = TypeVar("Choice")


def check_members(configuration: Mapping[str, Any], known: Collection[str], *, name: str) -> None:
    """Check that `configuration` has no unknown member that must be understood.

    Raises:
        UnsupportedMetadataError: a member is not in `known` and does not say `"must_understand": false`.
    """
    check_extension_members(configuration, known, point="codec", name=name, member="configuration")


def required(configuration: Mapping[str, Any], key: str) -> Any:
    """Return the required member `key`."""
    if key not in configuration:
        raise invalid(key, "it is required")
    return configuration[key]


def member(configuration: Mapping[str, Any], key: str, default: object) -> Any:
    """Return the member `key`, or `default` if it is absent. It is required if `default` is None."""
    return required(configuration, key) if default is None else configuration.get(key, default)


def integer(configuration: Mapping[str, Any], key: str, low: int, high: int, default: int | None = None) -> int:
    """Return the member `key`, an integer from `low` to `high`. It is required without a default."""
    return CHECKS.integer(member(configuration, key, default), key, low, high)


def number(configuration: Mapping[str, Any], key: str, default: float | None = None) -> float:
    """Return the member `key`, a number. It is required without a default. Integers stay integers."""
    value = member(configuration, key, default)
    return CHECKS.number(value, key, accepts=lambda number: type(number) is float or abs(number) <= 2**64)


def boolean(configuration: Mapping[str, Any], key: str, default: bool) -> bool:
    """Return the member `key`, true or false."""
    return CHECKS.boolean(configuration.get(key, default), key)


def one_of(
    configuration: Mapping[str, Any], key: str, allowed: Collection[Choice], default: Choice | None = None
) -> Choice:
    """Return the member `key`, one of `allowed`. It is required without a default."""
    return CHECKS.one_of(member(configuration, key, default), key, allowed)


def integers(configuration: Mapping[str, Any], key: str, low: int, high: int) -> tuple[int, ...]:
    """Return the required member `key`, a list of integers from `low` to `high`."""
    return CHECKS.integers(required(configuration, key), key, low, high)


def invalid(key: str, reason: str) -> InvalidMetadataError:
    """Return the error for an invalid member `key`."""
    return InvalidMetadataError(f"not a valid codec configuration: {reason}", member=f"configuration.{key}")


def unsupported(reason: str, name: str, *, member: str | None = None) -> UnsupportedMetadataError:
    """Return the error for a feature of the codec `name` that aiozarr lacks."""
    return UnsupportedMetadataError(reason, member=member, point="codec", name=name)


def import_library(codec: Any, *, name: str | None = None, member: str = "name") -> Any:
    """Import the optional package that a codec needs.

    Args:
        codec: the codec or its class, with the members `library`, the package, and `extra`, which installs it.
        name: the name of the codec in the message; None: its own.
        member: the member of the document that names the codec.

    Raises:
        UnsupportedMetadataError: it is not installed.
    """
    try:
        return import_module(codec.library)
    except ImportError as error:
        name = name or str(codec.name)
        reason = f"codec {name!r} needs the package {codec.library}; install aiozarr[{codec.extra}]"
        raise unsupported(reason, name, member=member) from error


CHECKS = Checks(lambda key, expected, value, _: invalid(key, f"it must be {expected}, not {shown(value)}"))


class FieldsCodec(Codec):
    """A dataclass codec whose configuration has its compared fields as members, except those that are None.

    List it before the codec's kind among the bases of a class.
    """

    def to_json(self) -> dict[str, JSON]:
        members = {each.name: getattr(self, each.name) for each in fields(self) if each.compare}  # type: ignore[arg-type]
        return {name: value for name, value in members.items() if value is not None}


class UnconfiguredCodec(Codec):
    """A codec without a configuration. List it before the codec's kind among the bases of a class."""

    @classmethod
    def from_json(cls, configuration: Mapping[str, JSON]) -> Self:
        check_members(configuration, (), name=cls.name)
        return cls()

    def to_json(self) -> dict[str, JSON]:
        return {}
