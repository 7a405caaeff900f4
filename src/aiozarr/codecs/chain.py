"""Parses the `codecs` member of a metadata document into codec objects, and checks their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

from aiozarr.codecs.codec import JSON, ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec, Codec
from aiozarr.codecs.registry import get_codec, unsupported
from aiozarr.common.formatting import shown
from aiozarr.errors import InvalidMetadataError, MetadataError, UnsupportedMetadataError

MAX_CODECS = 32
"""The most codecs of one chain. A longer list is refused before any codec is built."""

MAX_DEPTH = 4
"""The most levels of chains inside the configurations of other chains, such as shards in shards."""


class NamedCodec(Protocol):
    """A codec as a metadata document names it. It may have a `must_understand` attribute, which may be false."""

    @property
    def name(self) -> str:
        """The codec's name."""
        ...

    @property
    def configuration(self) -> Mapping[str, JSON]:
        """The `configuration` member, or an empty mapping if it is absent."""
        ...


@dataclass(frozen=True)
class CodecChain:
    """Codecs in the order of encoding: array -> array, one array -> bytes, bytes -> bytes (v3 core, "Codecs")."""

    array_array: tuple[ArrayArrayCodec, ...]
    array_bytes: ArrayBytesCodec
    bytes_bytes: tuple[BytesBytesCodec, ...]

    @property
    def codecs(self) -> tuple[Codec, ...]:
        """All codecs, in the order of encoding."""
        return (*self.array_array, self.array_bytes, *self.bytes_bytes)

    def for_items(self, item_size: int) -> CodecChain:
        """Return the chain with its bytes -> bytes codecs set to items of `item_size` bytes."""
        return replace(self, bytes_bytes=tuple(codec.for_items(item_size) for codec in self.bytes_bytes))

    def to_json(self) -> list[dict[str, JSON]]:
        """Return the `codecs` member of a metadata document."""
        return [
            # zarr-python refuses a codec of numcodecs without a configuration, although the specification allows it.
            {"name": codec.name, "configuration": configuration}
            if configuration or codec.name.startswith("numcodecs.")
            else {"name": codec.name}
            for codec in self.codecs
            for configuration in [codec.to_json()]
        ]


def strict_copy(part: Any) -> Any:
    """Return a codec or chain of aiozarr with `_is_strict` set in all codecs and filters inside."""
    if type(part) is tuple:
        return tuple(map(strict_copy, part))
    if not is_dataclass(part) or isinstance(part, type) or not type(part).__module__.startswith("aiozarr.codecs"):
        return part
    names = [each.name for each in fields(part) if each.init]
    return replace(part, **{name: name == "_is_strict" or strict_copy(getattr(part, name)) for name in names})


class _Named(NamedTuple):
    name: str
    configuration: Mapping[str, JSON]
    must_understand: bool = True


_JSONOrNamed: TypeAlias = Any


def parse_chain(configs: Sequence[NamedCodec] | JSON, *, member: str = "codecs") -> CodecChain:
    """Build the codecs of a chain (v3 core specification, "Codecs").

    An unknown codec with `"must_understand": false` is left out.

    Args:
        configs: named codecs, or the JSON value of a `codecs` member.
        member: the path of that member in the document, for errors.

    Raises:
        InvalidMetadataError: the value is not a list, the order is illegal, or a codec refuses its configuration.
        UnsupportedMetadataError: a codec is unknown, or there are more than `MAX_CODECS` codecs or `MAX_DEPTH` levels.
            The `member` of both errors is a path such as `codecs[1].configuration.level`.
    """
    if not isinstance(configs, (list, tuple)):
        raise InvalidMetadataError(f"the codecs must be a list, not {shown(configs)}", member=member)
    if len(configs) > MAX_CODECS:
        raise UnsupportedMetadataError(
            f"{len(configs)} codecs in one chain; at most {MAX_CODECS} are allowed", member=member, point="codec"
        )
    _check_depth(configs, member)
    return _in_order([_build(config, f"{member}[{i}]") for i, config in enumerate(configs)], member)


def _build(config: _JSONOrNamed, member: str) -> Codec | None:
    named = _named(config, member)
    try:
        codec_class = get_codec(named.name)
    except UnsupportedMetadataError as error:
        if getattr(named, "must_understand", True) is False:
            return None
        error.member = f"{member}.name"
        raise
    try:
        return codec_class.from_json(named.configuration)
    except MetadataError as error:
        error.member = member if error.member is None else f"{member}.{error.member}"
        raise


def _named(config: _JSONOrNamed, member: str) -> NamedCodec:
    if isinstance(config, str):
        return _Named(config, {})
    if not isinstance(config, Mapping):
        if isinstance(_member(config, "name"), str) and isinstance(_member(config, "configuration"), Mapping):
            named: NamedCodec = config
            return named
        raise InvalidMetadataError(f"a codec must be an object, not {shown(config)}", member=member)
    name, configuration = config.get("name"), config.get("configuration", {})
    must_understand = config.get("must_understand", True)
    if not isinstance(name, str) or not name:
        raise InvalidMetadataError(f"a codec needs a name, not {shown(name)}", member=f"{member}.name")
    if not isinstance(configuration, Mapping):
        raise InvalidMetadataError(
            f"a configuration must be an object, not {shown(configuration)}", member=f"{member}.configuration"
        )
    if not isinstance(must_understand, bool):
        raise InvalidMetadataError("it must be true or false", member=f"{member}.must_understand")
    for key in config:
        if key not in ("name", "configuration", "must_understand"):
            raise unsupported(f"a codec has no member {key!r}", name, member=f"{member}.{key}")
    return _Named(name, configuration, must_understand)


def _in_order(codecs: Sequence[Codec | None], member: str) -> CodecChain:
    array_array: list[ArrayArrayCodec] = []
    array_bytes: ArrayBytesCodec | None = None
    bytes_bytes: list[BytesBytesCodec] = []
    for i, codec in enumerate(codecs):
        if codec is None:
            continue
        if isinstance(codec, BytesBytesCodec):
            if array_bytes is None:
                raise _misplaced(codec, "it encodes bytes, and no array -> bytes codec precedes it", member, i)
            bytes_bytes.append(codec)
        elif array_bytes is not None:
            raise _misplaced(codec, f"it encodes arrays, and {array_bytes.name!r} before it yields bytes", member, i)
        elif isinstance(codec, ArrayBytesCodec):
            array_bytes = codec
        elif isinstance(codec, ArrayArrayCodec):
            array_array.append(codec)
    if array_bytes is None:
        raise InvalidMetadataError("an array -> bytes codec such as 'bytes' is missing", member=member)
    return CodecChain(tuple(array_array), array_bytes, tuple(bytes_bytes))


def _misplaced(codec: Codec, reason: str, member: str, position: int) -> InvalidMetadataError:
    return InvalidMetadataError(f"codec {codec.name!r} is out of place: {reason}", member=f"{member}[{position}]")


def _check_depth(configs: Sequence[Any], member: str) -> None:
    # Level by level and without recursion: a document that is too deep must not exhaust the interpreter's stack.
    level = [_configuration(config) for config in configs]
    for _ in range(MAX_DEPTH + 1):
        level = [
            _configuration(inner)
            for configuration in level
            for value in configuration.values()
            if isinstance(value, (list, tuple))
            for inner in value
            if isinstance(inner, Mapping)
        ]
        if not level:
            return
    raise unsupported(f"codecs are nested more than {MAX_DEPTH} deep", "sharding_indexed", member=member)


def _configuration(config: Any) -> Mapping[str, Any]:
    value = _member(config, "configuration")
    return value if isinstance(value, Mapping) else {}


def _member(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)
