"""Finds the codec class of a name in a metadata document."""

from __future__ import annotations

from typing import TypeVar

from aiozarr.codecs.core.codec import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec, Codec
from aiozarr.plugins import ClassRegistry

CodecClass = TypeVar("CodecClass", bound=type[Codec])

_KINDS = (ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec)

_MODULES = {
    "compressors.blosc": "blosc",
    "compressors.crc32c": "crc32c",
    "compressors.gzip": "gzip",
    "compressors.zstd": "zstd",
    "dimensions": "reshape singleton_dim transpose zarrs.squeeze",
    "numcodecs.arrays": (
        "numcodecs.astype numcodecs.bitround numcodecs.delta numcodecs.fixedscaleoffset numcodecs.packbits "
        "numcodecs.quantize"
    ),
    "numcodecs.byte_filters": (
        "numcodecs.adler32 numcodecs.base64 numcodecs.crc32 numcodecs.crc32c numcodecs.fletcher32 "
        "numcodecs.jenkins_lookup3 numcodecs.shuffle"
    ),
    "numcodecs.compressors": (
        "numcodecs.blosc numcodecs.bz2 numcodecs.gzip numcodecs.lz4 numcodecs.lzma numcodecs.zlib numcodecs.zstd"
    ),
    "numcodecs.numbers": "numcodecs.pcodec numcodecs.zfpy",
    "numeric.bitround": "bitround",
    "numeric.cast_value": "cast_value",
    "numeric.scale_offset": "scale_offset",
    "serializers.bytes": "bytes",
    "serializers.n5_default": "n5_default",
    "serializers.packbits": "packbits",
    "serializers.sharding": "sharding_indexed",
    "serializers.vlen": "vlen-bytes vlen-utf8",
    "serializers.zfp": "zfp",
    "v2.elements": "v2_elements",
}

_ZARRS = "https://codec.zarrs.dev/"

_ALIASES = {
    "endian": "bytes",
    "zarrs.bitround": "bitround",
    f"{_ZARRS}array_to_array/bitround": "bitround",
    f"{_ZARRS}array_to_bytes/bitround": "bitround",
    f"{_ZARRS}array_to_array/squeeze": "zarrs.squeeze",
    "zarrs.zfp": "zfp",
    f"{_ZARRS}array_to_bytes/zfp": "zfp",
    f"{_ZARRS}array_to_bytes/zfpy": "numcodecs.zfpy",
    f"{_ZARRS}array_to_bytes/pcodec": "numcodecs.pcodec",
    f"{_ZARRS}bytes_to_bytes/bz2": "numcodecs.bz2",
    f"{_ZARRS}bytes_to_bytes/fletcher32": "numcodecs.fletcher32",
}
"""Earlier names of registered codecs, from drafts and early writers. They are read and never written."""

_registry: ClassRegistry[Codec] = ClassRegistry(
    "codec", *_KINDS, package="aiozarr.codecs", modules=_MODULES, aliases=_ALIASES
)


def register(codec_class: CodecClass) -> CodecClass:
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
