"""Which codec class a name in a metadata document means."""

from __future__ import annotations

from typing import TypeVar

from aiozarr.codecs.base import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec, Codec
from aiozarr.plugins import check_class, load_class, unknown

CodecClass = TypeVar("CodecClass", bound=type[Codec])

_KINDS = (ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec)

_codecs: dict[str, type[Codec]] = {}

_ZARRS = "https://codec.zarrs.dev/"

_aliases = {
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
"""Names that drafts, and early writers of what is registered now, gave to codecs; read, never written."""


def register(codec_class: CodecClass) -> CodecClass:
    """Make `codec_class` the codec of its `name`, in this process; also a class decorator.

    A name that is taken is replaced: the last registration holds, for arrays opened after it.

    Raises:
        TypeError: it is no concrete subclass of `ArrayArrayCodec`, `ArrayBytesCodec` or `BytesBytesCodec` with a name.
    """
    check_class(codec_class, *_KINDS)
    _codecs[codec_class.name] = codec_class
    return codec_class


def get_codec(name: str) -> type[Codec]:
    """Return the codec class of `name`: one registered here, or else announced by an installed package.

    Raises:
        UnsupportedMetadataError: there is no such codec, or its package cannot be used.
    """
    codec_class = _codecs.get(_aliases.get(name, name))
    if codec_class is None:
        codec_class = load_class("codec", name, *_KINDS)
    if codec_class is None:
        raise unknown("codec", name, _codecs, member="name")
    return codec_class
