"""The codec chain of a new array of format 3: short forms are completed, so that metadata are written in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from aiozarr.codecs import ArrayArrayCodec, ArrayBytesCodec, Codec, get_codec
from aiozarr.codecs.serializers.storage_type import has_byte_order
from aiozarr.metadata.data_type import DataType
from aiozarr.metadata.records import NamedConfig

CodecLike: TypeAlias = str | Mapping[str, Any] | Codec | Any
"""A codec by its name, as the JSON of a `codecs` member, with its parameters beside its name, or as an object."""
CodecsLike: TypeAlias = Literal["auto"] | CodecLike | Sequence[CodecLike]
"""Codecs in the order of encoding. A single one stands for a list of one."""

BLOSC_MAX_TYPESIZE = 255
# Names of blosc's filters by numcodecs' numbers.
SHUFFLES = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle", -1: "shuffle"}
INDEX_CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]


def codec_chain(
    codecs: CodecsLike, data_type: DataType, *, order: str, ndim: int, big_endian: bool
) -> list[NamedConfig]:
    """Return the complete chain of `codecs`: with a codec that makes bytes of elements, and configurations in full.

    Raises:
        TypeError, ValueError: a codec is not given in one of its forms.
        UnsupportedMetadataError: a codec is unknown.
    """
    if order not in ("C", "F"):
        raise ValueError(f"order is 'C' or 'F', not {order!r}")
    if isinstance(codecs, str) and codecs == "auto":
        codecs = ["zstd"]
    chain = _complete(list_codecs(codecs), _Defaults(data_type, big_endian=big_endian))
    if order == "F" and ndim > 1:
        chain.insert(0, NamedConfig("transpose", {"order": list(reversed(range(ndim)))}))
    return chain


def sharding(chunk: tuple[int, ...], inner: Sequence[NamedConfig], index_location: str = "end") -> NamedConfig:
    """Return the codec of shards with this inner chain."""
    return NamedConfig(
        "sharding_indexed",
        {
            "chunk_shape": list(chunk),
            "codecs": [as_json(codec) for codec in inner],
            "index_codecs": INDEX_CODECS,
            "index_location": index_location,
        },
    )


def as_json(codec: NamedConfig) -> dict[str, Any]:
    """Return the JSON of a codec."""
    if not codec.configuration:
        return {"name": codec.name}
    return {"name": codec.name, "configuration": dict(codec.configuration)}


class _Defaults:
    """The configurations of codecs for elements of one type."""

    def __init__(self, data_type: DataType, *, big_endian: bool) -> None:
        dtype = data_type.dtype
        # Elements of a single byte have no `endian` member.
        endian = {"endian": "big" if big_endian else "little"} if has_byte_order(dtype) else {}
        # Blosc shuffles the bytes of elements, which helps only if elements have few bytes.
        narrow = not data_type.is_variable and dtype.itemsize <= BLOSC_MAX_TYPESIZE
        self._of_elements: Mapping[str, Mapping[str, Any]] = {
            "bytes": endian,
            "blosc": {"typesize": dtype.itemsize if narrow else 1},
        }
        self.elements = NamedConfig("bytes", endian)
        if data_type.is_variable:
            self.elements = NamedConfig("vlen-utf8" if data_type.name == "string" else "vlen-bytes")

    def configuration(self, name: str) -> dict[str, Any]:
        """Return the configuration of a codec that is given by name alone."""
        return {**get_codec(name).default_configuration, **self._of_elements.get(name, {})}


def list_codecs(codecs: Any) -> Sequence[CodecLike]:
    """Return codecs as a list; a single one is a list of one.

    Raises:
        TypeError: it is neither a codec nor a list.
    """
    if isinstance(codecs, Sequence) and not isinstance(codecs, str):
        return codecs
    if isinstance(codecs, str | Mapping | Codec) or hasattr(codecs, "get_config") or hasattr(codecs, "to_dict"):
        return [codecs]
    raise TypeError(f"codecs is a list of codecs, such as codecs=['zstd'], not {codecs!r:.60}")


def _complete(codecs: Sequence[CodecLike], defaults: _Defaults) -> list[NamedConfig]:
    chain = [_named(codec, defaults) for codec in codecs]
    kinds = [get_codec(codec.name) for codec in chain]
    if not any(issubclass(kind, ArrayBytesCodec) for kind in kinds):
        place = sum(issubclass(kind, ArrayArrayCodec) for kind in kinds)
        chain.insert(place, defaults.elements)
    return chain


def _named(codec: CodecLike, defaults: _Defaults) -> NamedConfig:
    if isinstance(codec, Codec):
        return NamedConfig(codec.name, codec.to_json())
    if isinstance(codec, str):
        return NamedConfig(codec, defaults.configuration(codec))
    if hasattr(codec, "get_config"):
        codec = _from_numcodecs(codec.get_config())  # pyright: ignore[reportAttributeAccessIssue]  # hasattr, just above
    elif not isinstance(codec, Mapping) and hasattr(codec, "to_dict"):
        codec = codec.to_dict()
    if isinstance(codec, Mapping) and "id" in codec and "name" not in codec:
        codec = _from_numcodecs(codec)
    if not isinstance(codec, Mapping):
        raise TypeError(f"a codec is a name, a mapping, a Codec or a codec of numcodecs, not {type(codec).__name__}")
    name = codec.get("name")
    if not isinstance(name, str):
        raise TypeError(f"a codec has a name, which {dict(codec)!r} lacks")
    parameters = {key: value for key, value in codec.items() if key not in ("name", "configuration", "must_understand")}
    for parameter in parameters:
        if get_close_matches(parameter, ["configuration"]):
            raise ValueError(f"the codec {name!r} has a member {parameter!r}; did you mean 'configuration'?")
    if parameters and codec.get("configuration"):
        raise ValueError(f"the parameter {min(parameters)!r} of {name!r} goes into its configuration, which is given")
    configuration = dict(codec.get("configuration") or parameters)
    if name == "sharding_indexed":
        inner = configuration.get("codecs", ["zstd"])
        configuration["codecs"] = [as_json(each) for each in _complete(list_codecs(inner), defaults)]
        configuration.setdefault("index_codecs", INDEX_CODECS)
        configuration.setdefault("index_location", "end")
    return NamedConfig(name, {**defaults.configuration(name), **configuration})


def _from_numcodecs(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration of numcodecs as a codec of format 3: the registered one, else numcodecs' own name."""
    rest = {key: value for key, value in config.items() if key != "id"}
    match config["id"]:
        case "zstd":
            return {"name": "zstd", "configuration": {"level": rest["level"], "checksum": rest.get("checksum", False)}}
        case "gzip" | "crc32c" as name:
            return {"name": name, "configuration": {"level": rest["level"]} if name == "gzip" else {}}
        case "blosc":
            shuffle = SHUFFLES.get(rest.get("shuffle", 1), "shuffle")
            return {"name": "blosc", "configuration": {**rest, "shuffle": shuffle}}
        case str(name):
            return {"name": f"numcodecs.{name}", "configuration": rest}
        case other:
            raise TypeError(f"a configuration of numcodecs has an 'id', not {other!r}")
