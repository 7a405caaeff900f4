"""Which codec class a name in a metadata document means."""

from __future__ import annotations

import inspect
from typing import TypeVar

from aiozarr.codecs.base import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec, Codec
from aiozarr.errors import UnsupportedMetadataError

CodecClass = TypeVar("CodecClass", bound=type[Codec])

_KINDS = (ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec)

_codecs: dict[str, type[Codec]] = {}

_aliases = {"endian": "bytes"}
"""Names that drafts of the specification gave to codecs; read, never written."""


def register(codec_class: CodecClass) -> CodecClass:
    """Make `codec_class` the codec of its `name`, in this process; also a class decorator.

    A name that is taken is replaced: the last registration holds, for arrays opened after it.

    Raises:
        TypeError: it is no concrete subclass of `ArrayArrayCodec`, `ArrayBytesCodec` or `BytesBytesCodec` with a name.
    """
    given: object = codec_class
    if not isinstance(given, type) or not issubclass(given, _KINDS):
        raise TypeError(f"a codec is a subclass of one of the three kinds in aiozarr.codecs, not {codec_class!r}")
    if inspect.isabstract(codec_class):
        missing = ", ".join(sorted(codec_class.__abstractmethods__))
        raise TypeError(f"{codec_class.__name__} is abstract: it lacks {missing}")
    name = getattr(codec_class, "name", None)
    if not isinstance(name, str) or not name:
        raise TypeError(f"{codec_class.__name__} needs a class attribute `name`, a non-empty str")
    _codecs[name] = codec_class
    return codec_class


def get_codec(name: str) -> type[Codec]:
    """Return the codec class of `name`.

    Raises:
        UnsupportedMetadataError: no such codec is registered.
    """
    codec_class = _codecs.get(_aliases.get(name, name))
    if codec_class is None:
        known = ", ".join(sorted(_codecs))
        raise UnsupportedMetadataError(
            f"unknown codec {name[:200]!r}; the known codecs are {known}", member="name", point="codec", name=name
        )
    return codec_class
