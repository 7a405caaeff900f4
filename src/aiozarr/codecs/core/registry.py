"""Finds the codec class of a name in a metadata document."""

from __future__ import annotations

from typing import TypeVar

from aiozarr.codecs.core.codec import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec, Codec
from aiozarr.codecs.core.codec_list import listed
from aiozarr.plugins import ClassRegistry

CodecClass = TypeVar("CodecClass", bound=type[Codec])

_KINDS = (ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec)

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
    "codec", *_KINDS, package="aiozarr.codecs", modules=listed(0), aliases=_ALIASES
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
