"""Resolves or chooses chunks, shards and codecs of a new array from the arguments of `create_array`, without I/O.

Short forms of codecs are completed, so that metadata are written in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import groupby
from math import gcd, prod
from operator import index as as_index
from types import MappingProxyType
from typing import Any, Literal, SupportsIndex, TypeAlias

from aiozarr.codecs import ArrayArrayCodec, ArrayBytesCodec, BytesBytesCodec, Codec, get_codec
from aiozarr.codecs.bytes import has_byte_order
from aiozarr.common.formatting import argument
from aiozarr.metadata.data_type import DataType
from aiozarr.metadata.records import NamedConfig

Lengths: TypeAlias = Sequence[SupportsIndex | Sequence[SupportsIndex]]
"""The lengths of the chunks of one dimension, each a number or a pair (length, count)."""
ChunksLike: TypeAlias = Literal["auto"] | bool | SupportsIndex | Sequence[SupportsIndex | Lengths | None] | None
"""Values of `chunks=`; -1 and None stand for a whole dimension, False for one chunk, True for "auto"."""
ShardsLike: TypeAlias = (
    Literal["auto"] | SupportsIndex | Sequence[SupportsIndex | Lengths | None] | Mapping[str, Any] | None
)
"""Values of `shards=`; None: no shards; a mapping has the `shape`, and the `index_location` "start" or "end"."""

AUTO_CHUNK_BYTES = 1 << 20
"""Limit of the decoded bytes of a chosen chunk, which makes an efficient request and one batch of a worker."""
AUTO_SHARD_BYTES = 64 << 20
"""Limit of the decoded bytes of a chosen shard, which is held in memory whole while it is written."""

# A length without a factor up to here counts as prime, so that hostile lengths do not cost a long factorisation.
_MAX_FACTOR = 1000


@dataclass(frozen=True)
class Chunking:
    """The chunk grid of a new array.

    Attributes:
        grid: the name of its chunk grid.
        configuration: the grid's configuration.
        outer: shape of a stored object; of a rectilinear grid, the largest one.
        inner: shape of the chunks inside shards; None without shards.
        index_location: the place of the index in a shard, "start" or "end".
    """

    grid: str
    configuration: Mapping[str, Any]
    outer: tuple[int, ...]
    inner: tuple[int, ...] | None
    index_location: str = "end"


def resolve_chunking(shape: Sequence[int], chunks: ChunksLike, shards: ShardsLike, itemsize: int) -> Chunking:
    """Return the chunking of an array of `shape`. Lists of lengths per dimension make a rectilinear grid.

    Raises:
        ValueError, TypeError: as `resolve_chunks`, or the lengths of a dimension do not reach its end.
    """
    if isinstance(shards, Mapping):
        lengths, index_location = _parse_shards(shards)
        return replace(resolve_chunking(shape, chunks, lengths, itemsize), index_location=index_location)
    listed = chunks if shards is None else shards
    if not isinstance(listed, Iterable) or isinstance(listed, str) or not any(map(_is_list, listed)):
        if isinstance(chunks, Iterable) and any(map(_is_list, chunks)):
            raise ValueError(
                "chunks inside shards must all have the same shape; list the lengths of the shards instead"
            )
        chunk, shard = resolve_chunks(shape, chunks, shards, itemsize)
        outer = chunk if shard is None else shard
        return Chunking("regular", {"chunk_shape": list(outer)}, outer, None if shard is None else chunk)
    named = argument("chunks") if shards is None else argument("shards")
    parts: list[Any] = list(listed)
    if len(parts) != len(shape):
        raise ValueError(f"{named} has {len(parts)} dimensions, but the shape {tuple(shape)} has {len(shape)}")
    runs = [_runs(named, part, whole) for part, whole in zip(parts, shape, strict=True)]
    configuration = {
        "kind": "inline",
        "chunk_shapes": [
            each[0][0] if not _is_list(part) else [n if count == 1 else [n, count] for n, count in each]
            for part, each in zip(parts, runs, strict=True)
        ],
    }
    longest = tuple([max([n for n, _ in each]) for each in runs])
    if shards is None:
        return Chunking("rectilinear", configuration, longest, None)
    common = [gcd(*[n for n, _ in each]) for each in runs]
    inner = auto_divisor(common, itemsize) if _is_auto(chunks) else _chunk_shape(common, chunks, itemsize)
    if any(outer % part for outer, part in zip(common, inner, strict=True)):
        raise ValueError(f"the chunk shape {inner} does not divide all shards")
    return Chunking("rectilinear", configuration, longest, inner)


def resolve_chunks(
    shape: Sequence[int], chunks: ChunksLike, shards: Any, itemsize: int
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Return the chunk shape and the shard shape (None: no shards) of an array of `shape`.

    Raises:
        ValueError: a wrong number of dimensions, a length below 1, or a shard that is not a multiple of the chunk.
        TypeError: a length is not a number.
    """
    if shards is None:
        return _chunk_shape(shape, chunks, itemsize), None
    if isinstance(shards, str):
        if shards != "auto":
            raise ValueError(f"shards must be a shape, 'auto' or None, not {shards!r}")
        chunk = _chunk_shape(shape, chunks, itemsize)
        return chunk, auto_shards(shape, chunk, itemsize)
    shard = _lengths(argument("shards"), shards, shape)
    chunk = auto_divisor(shard, itemsize) if _is_auto(chunks) else _chunk_shape(shard, chunks, itemsize)
    if any(outer % inner for outer, inner in zip(shard, chunk, strict=True)):
        raise ValueError(f"the shard shape {shard} is not a multiple of the chunk shape {chunk}")
    return chunk, shard


def auto_chunks(shape: Iterable[int], itemsize: int) -> tuple[int, ...]:
    """Return a chunk shape of at most `AUTO_CHUNK_BYTES` decoded bytes. The longest side is halved until it fits.

    Of equal sides the first is halved first, so that runs along the last axis stay long.
    """
    lengths = [max(1, length) for length in shape]
    while prod(lengths) * itemsize > AUTO_CHUNK_BYTES and max(lengths, default=1) > 1:
        longest = lengths.index(max(lengths))
        lengths[longest] = -(-lengths[longest] // 2)
    return tuple(lengths)


def auto_divisor(shard: Iterable[int], itemsize: int) -> tuple[int, ...]:
    """Return a chunk shape that divides `shard`, of at most `AUTO_CHUNK_BYTES` if its lengths have factors."""
    lengths = list(shard)
    while prod(lengths) * itemsize > AUTO_CHUNK_BYTES:
        factors = [_smallest_factor(length) for length in lengths]
        divisible = [axis for axis, factor in enumerate(factors) if factor is not None]
        if not divisible:
            break
        longest = max(divisible, key=lambda axis: (lengths[axis], -axis))
        lengths[longest] //= factors[longest] or 1
    return tuple(lengths)


def auto_shards(shape: Sequence[int], chunk: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return a multiple of `chunk` of at most `AUTO_SHARD_BYTES` decoded bytes, but at least one chunk."""
    shard = list(chunk)
    while True:
        room = [axis for axis, length in enumerate(shape) if shard[axis] < length]
        if not room or 2 * prod(shard) * itemsize > AUTO_SHARD_BYTES:
            return tuple(shard)
        shortest = min(room, key=lambda axis: (shard[axis] / shape[axis], -axis))
        shard[shortest] *= 2


def _parse_shards(shards: Mapping[str, Any]) -> tuple[Any, str]:
    """Return the shape and the index location from a mapping, the form that zarr-python accepts."""
    unknown = [name for name in shards if name not in ("shape", "index_location")]
    if unknown or "shape" not in shards:
        raise ValueError(f"a mapping for shards must have 'shape' and may have 'index_location', not {sorted(shards)}")
    location = shards.get("index_location", "end")
    if location not in ("start", "end"):
        raise ValueError(f"index_location in shards must be 'start' or 'end', not {location!r}")
    return shards["shape"], str(location)


def _chunk_shape(shape: Sequence[int], chunks: ChunksLike, itemsize: int) -> tuple[int, ...]:
    if isinstance(chunks, str):
        if chunks != "auto":
            raise ValueError(f"chunks must be a shape, a length, 'auto', None or False, not {chunks!r}")
        return auto_chunks(shape, itemsize)
    if chunks is True:
        return auto_chunks(shape, itemsize)
    if chunks is False or chunks is None:
        return tuple([max(1, length) for length in shape])
    return _lengths(argument("chunks"), chunks, shape)


def _is_auto(chunks: object) -> bool:
    # An ndarray is compared element by element.
    return chunks is True or (isinstance(chunks, str) and chunks == "auto")


def _is_list(part: object) -> bool:
    return isinstance(part, Iterable) and not isinstance(part, str)


def _runs(argument: str, given: Any, whole: int) -> list[tuple[int, int]]:
    """Return the chunks of one dimension as run-length pairs (length, count)."""
    if not _is_list(given):
        return [(_length(argument, given, whole), 1)]
    runs: list[tuple[int, int]] = []
    for item in given:
        length, count = item if _is_list(item) else (item, 1)
        run = as_index(length), as_index(count)
        if min(run) < 1:
            raise ValueError(f"lengths and counts in {argument} must be at least 1, unlike {item!r}")
        runs.append(run)
    end = sum([length * count for length, count in runs])
    if not runs or end < whole:
        raise ValueError(f"the lengths of {argument} end at {end}, the dimension at {whole}")
    return [(length, sum([count for _, count in group])) for length, group in groupby(runs, key=lambda run: run[0])]


def _lengths(argument: str, given: SupportsIndex | Sequence[Any], shape: Sequence[int]) -> tuple[int, ...]:
    """Return `given` as one length per dimension of `shape`. A single number applies to all dimensions."""
    parts = list(given) if isinstance(given, Iterable) else [given] * len(shape)
    if len(parts) != len(shape):
        raise ValueError(
            f"{argument} {tuple(parts)} has {len(parts)} dimensions, the shape {tuple(shape)} has {len(shape)}"
        )
    return tuple([_length(argument, part, whole) for part, whole in zip(parts, shape, strict=True)])


def _length(argument: str, given: SupportsIndex | None, whole: int) -> int:
    if given is None:
        return max(1, whole)
    if _is_list(given):
        raise TypeError(f"{argument} has a list of lengths for a dimension, which only format 3 supports")
    if isinstance(given, bool):
        raise TypeError(f"a length in {argument} must be an integer, -1 or None, not {given!r}")
    try:
        length = as_index(given)
    except TypeError:
        raise TypeError(f"a length in {argument} must be an integer, -1 or None, not {given!r}") from None
    if length == -1:
        return max(1, whole)
    if length < 1:
        raise ValueError(f"a length in {argument} must be at least 1 (-1 or None: the whole dimension), not {length}")
    return length


def _smallest_factor(length: int) -> int | None:
    for factor in range(2, min(length, _MAX_FACTOR) + 1):
        if length % factor == 0:
            return factor
    return None


CodecLike: TypeAlias = str | Mapping[str, Any] | Codec | Any
"""A codec by its name, as the JSON of a `codecs` member, with its parameters beside its name, or as an object."""
CodecsLike: TypeAlias = Literal["auto"] | CodecLike | Sequence[CodecLike]
"""Codecs in the order of encoding. A single one stands for a list of one."""

BLOSC_MAX_TYPESIZE = 255
# Names of blosc's filters by numcodecs' numbers.
SHUFFLES = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle", -1: "shuffle"}
_PARTS: dict[str, Any] = {"filters": ArrayArrayCodec, "serializer": ArrayBytesCodec, "compressors": BytesBytesCodec}
"""The parts of a chain that zarr-python has a keyword for, in order, with the kind of their codecs."""
INDEX_CODECS = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]


def codec_chain(
    codecs: CodecsLike,
    data_type: DataType,
    *,
    order: str,
    ndim: int,
    big_endian: bool,
    parts: Mapping[str, CodecsLike | None] = MappingProxyType({}),
) -> list[NamedConfig]:
    """Return the complete chain of `codecs`, including a codec from arrays to bytes, with full configurations.

    `parts` are zarr-python's `filters`, `serializer` and `compressors`, which describe the same chain, by keyword.

    Raises:
        TypeError, ValueError: a codec is not given in one of its forms, or there are both `codecs` and `parts`.
        UnsupportedMetadataError: a codec is unknown.
    """
    if order not in ("C", "F"):
        raise ValueError(f"order must be 'C' or 'F', not {order!r}")
    defaults = _Defaults(data_type, big_endian=big_endian)
    is_auto = is_auto_codecs(codecs)
    given = {name: value for name, value in parts.items() if not is_auto_codecs(value)}
    if given and not is_auto:
        raise TypeError(f"{argument('codecs')} is the whole chain; leave out {' and '.join(map(argument, given))}")
    listed = _listed_parts(given, defaults) if given else list_codecs(["zstd"] if is_auto else codecs)
    chain = _complete(listed, defaults)
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
        self.typesize = dtype.itemsize if narrow else 1
        self._of_elements: Mapping[str, Mapping[str, Any]] = {
            "bytes": endian,
            "blosc": {"typesize": self.typesize},
        }
        self.elements = NamedConfig("bytes", endian)
        if data_type.is_variable:
            self.elements = NamedConfig("vlen-utf8" if data_type.name == "string" else "vlen-bytes")

    def configuration(self, name: str) -> dict[str, Any]:
        """Return the configuration of a codec that is given by name alone."""
        return {**get_codec(name).default_configuration, **self._of_elements.get(name, {})}


def is_auto_codecs(codecs: object) -> bool:
    """Return whether the codecs are `"auto"`."""
    return isinstance(codecs, str) and codecs == "auto"


def _listed_parts(given: Mapping[str, CodecsLike | None], defaults: _Defaults) -> list[CodecLike]:
    """Return the codecs of zarr-python's keywords, `given` by keyword, in one list.

    Raises:
        TypeError: a codec belongs to another keyword, or there is not one serializer.
    """
    parts = {"compressors": "zstd", **given}
    chain: list[NamedConfig] = []
    for name in _PARTS:
        listed = () if parts.get(name) is None else list_codecs(parts[name], name)
        if name == "serializer" and name in given and len(listed) != 1:
            raise TypeError(f"{argument(name)} is one codec or 'auto', not {given[name]!r:.60}")
        for codec in listed:
            named = _named(codec, defaults)
            belongs = next(part for part, kind in _PARTS.items() if issubclass(get_codec(named.name), kind))
            if belongs != name:
                raise TypeError(f"the codec {named.name!r} in {argument(name)} belongs in {argument(belongs)}")
            chain.append(named)
    return [as_json(codec) for codec in chain]


def list_codecs(codecs: Any, name: str = "codecs") -> Sequence[CodecLike]:
    """Return codecs as a list; a single one is a list of one. `name` is their keyword.

    Raises:
        TypeError: it is neither a codec nor a list.
    """
    if isinstance(codecs, Sequence) and not isinstance(codecs, str):
        return codecs
    if isinstance(codecs, str | Mapping | Codec) or hasattr(codecs, "get_config") or hasattr(codecs, "to_dict"):
        return [codecs]
    raise TypeError(f"{name} must be a list of codecs, such as {name}=['zstd'], not {codecs!r:.60}")


def _complete(codecs: Sequence[CodecLike], defaults: _Defaults) -> list[NamedConfig]:
    chain = [_named(codec, defaults) for codec in codecs]
    kinds = [get_codec(codec.name) for codec in chain]
    if not any(issubclass(kind, ArrayBytesCodec) for kind in kinds):
        place = sum(issubclass(kind, ArrayArrayCodec) for kind in kinds)
        chain.insert(place, defaults.elements)
    return chain


def _named(codec: CodecLike, defaults: _Defaults) -> NamedConfig:
    named = named_codec(codec)
    if isinstance(codec, Codec):
        return named
    configuration = dict(named.configuration)
    # What the caller of zarr-python's `BloscCodec` has left open is shown as for elements of one byte.
    for name in getattr(codec, "_tunable_attrs", ()) if defaults.typesize > 1 else ():
        configuration.pop(name, None)
    if named.name == "sharding_indexed":
        inner = configuration.get("codecs", ["zstd"])
        configuration["codecs"] = [as_json(each) for each in _complete(list_codecs(inner), defaults)]
        configuration.setdefault("index_codecs", INDEX_CODECS)
        configuration.setdefault("index_location", "end")
    if named.name == "bytes" and not defaults.elements.configuration:
        configuration.pop("endian", None)  # elements without a byte order
    return NamedConfig(named.name, {**defaults.configuration(named.name), **configuration})


def named_codec(codec: CodecLike) -> NamedConfig:
    """Return the name of a codec and its configuration as far as it is given.

    Raises:
        TypeError, ValueError: it is not in one of the forms of a codec.
    """
    if isinstance(codec, Codec):
        return NamedConfig(codec.name, codec.to_json())
    if isinstance(codec, str):
        return NamedConfig(codec)
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
        raise TypeError(f"a codec needs a name, unlike {dict(codec)!r}")
    parameters = {key: value for key, value in codec.items() if key not in ("name", "configuration", "must_understand")}
    for parameter in parameters:
        if get_close_matches(parameter, ["configuration"]):
            raise ValueError(f"the codec {name!r} has a member {parameter!r}; did you mean 'configuration'?")
    if parameters and codec.get("configuration"):
        raise ValueError(f"the parameter {min(parameters)!r} of {name!r} belongs in its configuration")
    return NamedConfig(name, dict(codec.get("configuration") or parameters))


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
            raise TypeError(f"a numcodecs configuration needs an 'id', unlike {other!r}")
