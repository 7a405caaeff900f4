"""Finds the stage of a numcodecs configuration in a v2 document: a built-in one, or one that a package registered."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, cast

from numcodecs import get_codec as get_numcodec
from numcodecs.registry import codec_registry

from aiozarr.codecs.core.codec import JSON, BytesBytesCodec
from aiozarr.codecs.core.configuration import invalid, short
from aiozarr.codecs.core.registry import get_codec
from aiozarr.codecs.numcodecs.documents import (
    JsonDocument,
    LegacyJsonDocument,
    LegacyMsgpackDocument,
    MsgpackDocument,
)
from aiozarr.codecs.numcodecs.filters import ARRAY_FILTERS
from aiozarr.codecs.numcodecs.numbers import NumbersCodec, NumcodecsPcodecCodec, NumcodecsZfpyCodec
from aiozarr.codecs.numcodecs.objects import Categorize, ObjectFilter, VariableArray, VariableBytes, VariableText
from aiozarr.codecs.v2.stages import PREFIX, ArrayStage, BytesStage, ForeignStage, NumbersStage, ObjectStage, Stage
from aiozarr.errors import MetadataError, UnsupportedMetadataError

BYTES_CODEC_IDS = (
    *("blosc", "zstd", "zlib", "gzip", "bz2", "lzma", "lz4", "base64", "shuffle"),
    *("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"),
)
"""The ids of the bytes -> bytes codecs of numcodecs. Each is the codec `numcodecs.<id>`."""

OBJECT_FILTERS: Mapping[str, type[ObjectFilter]] = {
    kind.filter_id: kind
    for kind in (
        *(VariableText, VariableBytes, VariableArray, Categorize),
        *(JsonDocument, LegacyJsonDocument, MsgpackDocument, LegacyMsgpackDocument),
    )
}

_NUMBERS: Mapping[str, type[NumbersCodec]] = {
    kind.numcodecs_id: kind for kind in (NumcodecsPcodecCodec, NumcodecsZfpyCodec)
}
_UNSAFE = "pickle"


def build_stage(config: Mapping[str, JSON]) -> Stage:
    """Return the stage of a numcodecs configuration.

    Raises:
        InvalidMetadataError: the configuration is invalid.
        UnsupportedMetadataError: the id is not registered with numcodecs, or names pickle.
    """
    name = config.get("id")
    if not isinstance(name, str) or not name:
        raise invalid("id", f"a numcodecs configuration needs an id, not {short(name)}")
    refuse_pickle(config)
    rest = {key: value for key, value in config.items() if key != "id"}
    if name in BYTES_CODEC_IDS:
        codec = get_codec(PREFIX + name).from_json(_numcodecs_defaults(name, rest))
        return BytesStage(cast("BytesBytesCodec", codec))
    if name in ARRAY_FILTERS:
        # numcodecs uses the array's type for bitround.
        kind = ARRAY_FILTERS[name]
        return ArrayStage(name, rest, None if name == "bitround" else kind.from_json(rest, None))
    if name in _NUMBERS:
        return NumbersStage(_NUMBERS[name].from_json(rest))
    if name in OBJECT_FILTERS:
        return ObjectStage(OBJECT_FILTERS[name].from_json(rest))
    return _foreign(name, config)


def refuse_pickle(config: object) -> None:
    """Check that no part of a configuration names pickle, in any spelling. Unpickling would run code from the store.

    Raises:
        UnsupportedMetadataError: a part names pickle.
    """
    left = [config]
    while left:
        part = left.pop()
        if isinstance(part, Mapping):
            name = part.get("id")
            if isinstance(name, str) and _UNSAFE in name.casefold():
                raise UnsupportedMetadataError(
                    f"the codec {name[:200]!r} is never used: reading it would run code from the store",
                    member="id",
                    point="codec",
                    name=name[:200],
                )
            left.extend(part.values())
        elif isinstance(part, (list, tuple)):
            left.extend(part)


def _numcodecs_defaults(name: str, configuration: Mapping[str, JSON]) -> Mapping[str, JSON]:
    # In v3 the default size is that of the array's items. In numcodecs it is 4.
    return {"elementsize": 4, **configuration} if name == "shuffle" else configuration


def _nearest(name: str) -> str:
    close = get_close_matches(name[:200], [*BYTES_CODEC_IDS, *ARRAY_FILTERS, *OBJECT_FILTERS, *_NUMBERS], n=1)
    return f"did you mean {close[0]!r}? " if close else ""


def _foreign(name: str, config: Mapping[str, JSON]) -> Stage:
    try:
        codec: Any = get_numcodec(dict(config))
    except MetadataError:
        raise
    except Exception as error:  # the constructor of another package may raise anything
        if name in codec_registry:
            raise invalid("id", f"{name!r} refuses these parameters: {short(str(error))}") from error
        raise UnsupportedMetadataError(
            f"unknown numcodecs codec {name[:200]!r}; {_nearest(name)}Another one is registered with "
            "numcodecs.register_codec, or by an installed package with an entry point in the group 'numcodecs.codecs'",
            member="id",
            point="codec",
            name=name[:200],
        ) from error
    refuse_pickle({"id": str(getattr(codec, "codec_id", name))})
    return ForeignStage(PREFIX + name, codec)
