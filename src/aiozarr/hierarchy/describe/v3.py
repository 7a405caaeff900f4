"""The metadata of a new array from what a caller of `create_array` writes; decides every default, and does no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import index as as_index
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from aiozarr.codecs import ArraySpec, Codec, CodecPipeline
from aiozarr.codecs.storage_type import has_byte_order
from aiozarr.errors import LimitError
from aiozarr.hierarchy.attributes import checked_attributes
from aiozarr.hierarchy.describe.chunking import ChunksLike, ShardsLike, resolve_chunking
from aiozarr.hierarchy.values.written import AnyArray
from aiozarr.metadata import ArrayMetadata, DataType, GroupMetadata, NamedConfig, make_fill_value, parse_fill_value
from aiozarr.metadata.data_type import find_data_type
from aiozarr.metadata.extensions import parse_extension
from aiozarr.stores.transformer import StorageTransformer

CodecLike: TypeAlias = str | Mapping[str, Any] | Codec
"""A codec by its name, as the JSON of a `codecs` member, or as an object."""
CodecsLike: TypeAlias = Literal["auto"] | Sequence[CodecLike]
KeyEncodingLike: TypeAlias = str | tuple[str, str] | Mapping[str, Any] | None
"""`"default"` or `"v2"`, that name with a separator, or the JSON of a `chunk_key_encoding` member."""

DataTypeLike: TypeAlias = DTypeLike | DataType | Mapping[str, Any]
"""A data type as numpy takes it, by its name in the registry (`"string"`, `"bfloat16"`), as JSON, or as an object."""

TransformerLike: TypeAlias = str | Mapping[str, Any] | StorageTransformer
"""A storage transformer by its name, as the JSON of a `storage_transformers` member, or as an object."""

MAX_NDIM = 32

# Configurations of codecs that are only named: the levels that the libraries call their defaults.
ZSTD = {"level": 3, "checksum": False}
GZIP = {"level": 6}
BLOSC_MAX_TYPESIZE = 255
BLOSC = {"cname": "zstd", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}


def new_group_metadata(attributes: Mapping[str, Any] | None, zarr_format: int = 3) -> GroupMetadata:
    """Return the metadata of a new group.

    Raises:
        TypeError, ValueError: `attributes` are no JSON values.
    """
    return GroupMetadata(zarr_format=zarr_format, attributes=checked_attributes(attributes), extra={})


def new_array_metadata(
    *,
    shape: SupportsIndex | Iterable[SupportsIndex],
    dtype: DataTypeLike,
    chunks: ChunksLike = "auto",
    shards: ShardsLike = None,
    codecs: CodecsLike = "auto",
    fill_value: ArrayLike | None = None,
    order: Literal["C", "F"] = "C",
    dimension_names: Iterable[str | None] | None = None,
    attributes: Mapping[str, Any] | None = None,
    chunk_key_encoding: KeyEncodingLike = None,
    storage_transformers: Iterable[TransformerLike] = (),
) -> ArrayMetadata:
    """Return the metadata of a new array of format 3; what the codecs leave open is resolved and written down.

    Raises:
        TypeError, ValueError: an argument that no array can have.
        InvalidMetadataError, UnsupportedMetadataError: codecs or data types that do not fit or are not known.
    """
    lengths = check_shape(shape)
    data_type, big_endian = resolve_dtype(dtype)
    chunking = resolve_chunking(lengths, chunks, shards, data_type.dtype.itemsize)
    fill = resolve_fill_value(fill_value, data_type)
    chain = _chain(codecs, data_type, order=order, ndim=len(lengths), big_endian=big_endian)
    if chunking.inner is not None:
        chain = [_sharding(chunking.inner, chain)]
    pipeline = CodecPipeline.resolve(chain, ArraySpec(chunking.outer, data_type.dtype, fill))
    return ArrayMetadata(
        zarr_format=3,
        shape=lengths,
        data_type=data_type,
        chunk_grid=NamedConfig(chunking.grid, chunking.configuration),
        chunk_key_encoding=resolve_key_encoding_like(chunk_key_encoding),
        fill_value=fill,
        codecs=tuple([NamedConfig(each["name"], each.get("configuration", {})) for each in pipeline.to_json()]),
        attributes=checked_attributes(attributes),
        dimension_names=_dimension_names(dimension_names, len(lengths)),
        storage_transformers=resolve_transformers_like(storage_transformers),
        extra={},
    )


def check_shape(shape: SupportsIndex | Iterable[SupportsIndex], ndim: int | None = None) -> tuple[int, ...]:
    """Return `shape` as a tuple of lengths; a single number is the shape of a one-dimensional array.

    Raises:
        TypeError: no integers.
        ValueError: a negative length, one of 2^63 or more, or, where `ndim` is given, another number of dimensions.
        LimitError: more than 32 dimensions.
    """
    parts = list(shape) if isinstance(shape, Iterable) else [shape]
    if any(isinstance(part, (bool, np.bool_)) for part in parts):
        raise TypeError(f"a shape is made of integers, not of bool: {shape!r}")
    lengths = tuple([as_index(part) for part in parts])
    if not all(0 <= length < 1 << 63 for length in lengths):
        raise ValueError(f"a length is at least 0 and below 2^63, which does not hold for all of {lengths}")
    if ndim is not None and len(lengths) != ndim:
        raise ValueError(f"the shape {lengths} has {len(lengths)} dimensions, the array has {ndim}")
    if len(lengths) > MAX_NDIM:
        raise LimitError(
            f"an array of {len(lengths)} dimensions; {MAX_NDIM} are allowed",
            limit="ndim",
            value=len(lengths),
            allowed=MAX_NDIM,
        )
    return lengths


def resolve_dtype(dtype: DataTypeLike) -> tuple[DataType, bool]:
    """Return the data type, and whether its values are to be stored big-endian, as `">f4"` asks for.

    Raises:
        TypeError: it is no data type.
        InvalidMetadataError, UnsupportedMetadataError: no such type is known, or not with these parameters.
    """
    if isinstance(dtype, DataType):
        return dtype, False
    if isinstance(dtype, Mapping) and "name" in dtype:
        return DataType.from_json(dict(dtype)), False
    if isinstance(dtype, str) and find_data_type(dtype) is not None:
        return DataType.from_json(dtype), False
    if dtype is None:
        raise TypeError("dtype is missing")
    numpys: Any = dtype
    given = np.dtype(numpys)
    return DataType.from_numpy(given), _byte_orders(given) == {">"}


def resolve_fill_value(fill_value: Any, data_type: DataType) -> AnyArray:
    """Return the fill value as a 0-d array; a str is taken as a document would hold it (`"NaN"`, `"0x7fc00000"`).

    Where elements are text or times, a str is one of them.

    Raises:
        TypeError, ValueError: the type has no such value.
    """
    if isinstance(fill_value, str) and data_type.dtype.kind not in "SUTOMm":
        return parse_fill_value(fill_value, data_type)
    return make_fill_value(fill_value, data_type)


def resolve_key_encoding_like(given: KeyEncodingLike) -> NamedConfig:
    """Return the chunk key encoding with its separator written down."""
    separators = {"default": "/", "v2": "."}
    name: Any
    configuration: Mapping[str, Any] = {}
    if given is None:
        name = "default"
    elif isinstance(given, str):
        name = given
    elif isinstance(given, Mapping):
        rest = {key: value for key, value in given.items() if key not in ("name", "configuration")}
        name, configuration = given.get("name"), {**given.get("configuration", {}), **rest}
    else:
        name, separator = given
        configuration = {"separator": separator}
    if not isinstance(name, str):
        raise TypeError(f"a chunk key encoding has a name, which {given!r} lacks")
    if name in separators:
        configuration = {"separator": separators[name], **configuration}
    return NamedConfig(name, configuration)


def resolve_transformers_like(given: Iterable[TransformerLike]) -> tuple[NamedConfig, ...]:
    """Return the storage transformers as documents name them; whether they are known is found out with the handle.

    Raises:
        TypeError: one is no name, mapping or `StorageTransformer`.
        InvalidMetadataError: a mapping is none that a document may hold.
    """
    if isinstance(given, (str, Mapping)):
        raise TypeError(f"storage_transformers is a list, not {type(given).__name__}")
    named: list[NamedConfig] = []
    for number, each in enumerate(given):
        if isinstance(each, StorageTransformer):
            named.append(NamedConfig(each.name, each.to_json()))
        elif isinstance(each, (str, Mapping)):
            value = each if isinstance(each, str) else dict(each)
            named.append(parse_extension(value, f"storage_transformers[{number}]"))
        else:
            raise TypeError(
                f"a storage transformer is a name, a mapping or a StorageTransformer, not {type(each).__name__}"
            )
    return tuple(named)


def storage_order(metadata: ArrayMetadata) -> Literal["C", "F"]:
    """Return "F" where the elements of a chunk are stored with the first axis running fastest, else "C"."""
    codecs: Sequence[Any] = metadata.codecs
    # Inner chains are JSON, the outer one is not: both are looked at as (name, configuration).
    while codecs and _name_of(codecs[0]) == "sharding_indexed":
        codecs = _configuration_of(codecs[0]).get("codecs", ())
    if not codecs or _name_of(codecs[0]) != "transpose":
        return "C"
    order = _configuration_of(codecs[0]).get("order")
    return "F" if order == "F" or list(order or ()) == list(reversed(range(len(metadata.shape)))) else "C"


# --- helpers -----------------------------------------------------------------------------------------------------


def _byte_orders(dtype: np.dtype[Any]) -> set[str]:
    """Return the byte orders of a numpy type's elements, or of all their fields; without those of single bytes."""
    if dtype.subdtype is not None:
        return _byte_orders(dtype.subdtype[0])
    if dtype.names is not None:
        return set().union(*[_byte_orders(dtype[name]) for name in dtype.names])
    return {str(dtype.byteorder)} - {"|"}


def _chain(codecs: CodecsLike, data_type: DataType, *, order: str, ndim: int, big_endian: bool) -> list[NamedConfig]:
    if order not in ("C", "F"):
        raise ValueError(f"order is 'C' or 'F', not {order!r}")
    dtype = data_type.dtype
    # `endian` says nothing about single bytes, and has no place there.
    endian = {"endian": "big" if big_endian else "little"} if has_byte_order(dtype) else {}
    if isinstance(codecs, str):
        if codecs != "auto":
            raise ValueError(f"codecs is 'auto' or a list, not {codecs!r}")
        elements = NamedConfig("bytes", endian)
        if data_type.is_variable:
            elements = NamedConfig("vlen-utf8" if data_type.name == "string" else "vlen-bytes")
        chain = [elements, NamedConfig("zstd", ZSTD)]
    else:
        # Blosc shuffles the bytes of elements, which is of use where these have a few bytes each.
        narrow = not data_type.is_variable and dtype.itemsize <= BLOSC_MAX_TYPESIZE
        blosc = {**BLOSC, "typesize": dtype.itemsize if narrow else 1}
        defaults: dict[str, Mapping[str, Any]] = {"bytes": endian, "zstd": ZSTD, "gzip": GZIP, "blosc": blosc}
        chain = [_named(codec, defaults) for codec in codecs]
    if order == "F" and ndim > 1:
        chain.insert(0, NamedConfig("transpose", {"order": list(reversed(range(ndim)))}))
    return chain


def _named(codec: CodecLike, defaults: Mapping[str, Mapping[str, Any]]) -> NamedConfig:
    if isinstance(codec, Codec):
        return NamedConfig(codec.name, codec.to_json())
    if isinstance(codec, str):
        return NamedConfig(codec, defaults.get(codec, {}))
    if isinstance(codec, Mapping):
        if not isinstance(codec.get("name"), str):
            raise TypeError(f"a codec has a name, which {dict(codec)!r} lacks")
        unknown = set(codec) - {"name", "configuration"}
        if unknown:
            raise ValueError(f"a codec has a name and a configuration, and no {min(unknown)!r}")
        return NamedConfig(codec["name"], codec.get("configuration") or {})
    raise TypeError(f"a codec is a name, a mapping or a Codec, not {type(codec).__name__}")


def _sharding(chunk: tuple[int, ...], inner: Sequence[NamedConfig]) -> NamedConfig:
    return NamedConfig(
        "sharding_indexed",
        {
            "chunk_shape": list(chunk),
            "codecs": [_as_json(codec) for codec in inner],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "index_location": "end",
        },
    )


def _as_json(codec: NamedConfig) -> dict[str, Any]:
    return (
        {"name": codec.name, "configuration": dict(codec.configuration)}
        if codec.configuration
        else {"name": codec.name}
    )


def _dimension_names(names: Iterable[str | None] | None, ndim: int) -> tuple[str | None, ...] | None:
    if names is None:
        return None
    if isinstance(names, str):
        raise TypeError("dimension_names is a sequence with one name or None per dimension, not a str")
    listed = tuple(names)
    if len(listed) != ndim:
        raise ValueError(f"{len(listed)} dimension names for {ndim} dimensions")
    for name in listed:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"a dimension name is a str or None, not {type(name).__name__}")
    return listed


def _name_of(codec: Any) -> Any:
    return codec.get("name") if isinstance(codec, Mapping) else getattr(codec, "name", codec)


def _configuration_of(codec: Any) -> Mapping[str, Any]:
    configuration = codec.get("configuration") if isinstance(codec, Mapping) else getattr(codec, "configuration", {})
    return configuration if isinstance(configuration, Mapping) else {}
