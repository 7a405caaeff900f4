"""The metadata of a new array of format 3 from the arguments of `create_array`. Resolves every default, without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import index as as_index
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.errors import LimitError
from aiozarr.hierarchy.attributes import checked_attributes
from aiozarr.hierarchy.new_array_layout import (
    ChunksLike,
    CodecLike,
    CodecsLike,
    ShardsLike,
    codec_chain,
    resolve_chunking,
    sharding,
)
from aiozarr.hierarchy.number_casts import AnyArray
from aiozarr.metadata.data_type import DataType, find_data_type
from aiozarr.metadata.document import MAX_NDIM
from aiozarr.metadata.extensions import parse_extension
from aiozarr.metadata.records import ArrayMetadata, NamedConfig
from aiozarr.model import is_unicode
from aiozarr.plugins import SharedResults
from aiozarr.stores.transformer import StorageTransformer

KeyEncodingLike: TypeAlias = str | tuple[str, str] | Mapping[str, Any] | None
"""`"default"` or `"v2"`, that name with a separator, or the JSON of a `chunk_key_encoding` member."""

DataTypeLike: TypeAlias = DTypeLike | DataType | Mapping[str, Any]
"""A data type as numpy accepts it, by its name in the registry (`"string"`, `"bfloat16"`), as JSON, or as an object."""

TransformerLike: TypeAlias = str | Mapping[str, Any] | StorageTransformer
"""A storage transformer by its name, as the JSON of a `storage_transformers` member, or as an object."""


_codecs_in_full: SharedResults[list[dict[str, Any]]] = SharedResults()


def new_v3_array(
    *,
    shape: SupportsIndex | Iterable[SupportsIndex],
    dtype: DataTypeLike,
    chunks: ChunksLike = "auto",
    shards: ShardsLike = None,
    codecs: CodecsLike = "auto",
    filters: CodecsLike | None = "auto",
    serializer: CodecLike = "auto",
    compressors: CodecsLike | None = "auto",
    fill_value: ArrayLike | None = None,
    order: Literal["C", "F"] = "C",
    dimension_names: Iterable[str | None] | None = None,
    attributes: Mapping[str, Any] | None = None,
    chunk_key_encoding: KeyEncodingLike = None,
    storage_transformers: Iterable[TransformerLike] = (),
) -> ArrayMetadata:
    """Return the metadata of a new array of format 3, with all defaults of its codecs resolved.

    Raises:
        TypeError, ValueError: an argument has a wrong type or value.
        InvalidMetadataError, UnsupportedMetadataError: a codec or data type is unknown or does not fit.
    """
    lengths = check_shape(shape)
    data_type, big_endian = resolve_dtype(dtype)
    chunking = resolve_chunking(lengths, chunks, shards, data_type.dtype.itemsize)
    fill = resolve_fill_value(fill_value, data_type)
    parts = {"filters": filters, "serializer": serializer, "compressors": compressors}
    chain = codec_chain(codecs, data_type, order=order, ndim=len(lengths), big_endian=big_endian, parts=parts)
    if chunking.inner is not None:
        chain = [sharding(chunking.inner, chain, chunking.index_location)]
    spec = ArraySpec(chunking.outer, data_type.dtype, fill)
    codecs_in_full = _codecs_in_full.get(
        [(each.name, each.configuration) for each in chain],
        spec.shape,
        data_type,
        data_type.fill_key(fill),
        make=lambda: CodecPipeline.resolve(chain, spec).to_json(),
    )
    return ArrayMetadata(
        zarr_format=3,
        shape=lengths,
        data_type=data_type,
        chunk_grid=NamedConfig(chunking.grid, chunking.configuration),
        chunk_key_encoding=resolve_key_encoding_like(chunk_key_encoding),
        fill_value=fill,
        codecs=tuple([NamedConfig(each["name"], each.get("configuration", {})) for each in codecs_in_full]),
        attributes=checked_attributes(attributes, finite=True),
        dimension_names=_dimension_names(dimension_names, len(lengths)),
        storage_transformers=resolve_transformers_like(storage_transformers),
        extra={},
    )


def check_shape(shape: SupportsIndex | Iterable[SupportsIndex], ndim: int | None = None) -> tuple[int, ...]:
    """Return `shape` as a tuple of lengths. A single number is the shape of a one-dimensional array.

    Raises:
        TypeError: a length is not an integer.
        ValueError: a length is negative, or 2^63 or more, or the number of dimensions is not `ndim`.
        LimitError: more than 32 dimensions.
    """
    parts = list(shape) if isinstance(shape, Iterable) else [shape]
    if any(isinstance(part, (bool, np.bool_)) for part in parts):
        raise TypeError(f"the lengths of a shape must be integers, not bool: {shape!r}")
    lengths = tuple([as_index(part) for part in parts])
    if not all(0 <= length < 1 << 63 for length in lengths):
        raise ValueError(f"every length of {lengths} must be at least 0 and less than 2^63")
    if ndim is not None and len(lengths) != ndim:
        raise ValueError(f"the shape {lengths} has {len(lengths)} dimensions, but the array has {ndim}")
    if len(lengths) > MAX_NDIM:
        raise LimitError(
            f"an array of {len(lengths)} dimensions; at most {MAX_NDIM} are allowed",
            limit="ndim",
            value=len(lengths),
            allowed=MAX_NDIM,
        )
    return lengths


def resolve_dtype(dtype: DataTypeLike) -> tuple[DataType, bool]:
    """Return the data type, and whether its values are stored big-endian, as for `">f4"`.

    Raises:
        TypeError: it is not a data type.
        InvalidMetadataError, UnsupportedMetadataError: the type or its parameters are unknown.
    """
    if isinstance(dtype, DataType):
        return dtype, False
    if isinstance(dtype, Mapping) and "name" in dtype:
        return DataType.from_json(dict(dtype)), False
    if isinstance(dtype, str) and find_data_type(dtype) is not None:
        return DataType.from_json(dtype), False
    if dtype is None:
        raise TypeError("dtype is missing")
    if isinstance(dtype, str) and not is_unicode(dtype):
        raise TypeError(f"{dtype!a} is not a data type")
    numpy_like: Any = dtype
    numpy_dtype = np.dtype(numpy_like)
    return DataType.from_numpy(numpy_dtype), _byte_orders(numpy_dtype) == {">"}


def resolve_fill_value(fill_value: Any, data_type: DataType) -> AnyArray:
    """Return the fill value as a 0-d array. A str is parsed as in a document (`"NaN"`, `"0x7fc00000"`).

    If the elements are text or times, a str is an element.

    Raises:
        TypeError, ValueError: the value is not one of the data type.
    """
    if isinstance(fill_value, str) and data_type.dtype.kind not in "SUTOMm":
        return data_type.parse_fill_value(fill_value)
    return data_type.make_fill_value(fill_value)


def resolve_key_encoding_like(given: KeyEncodingLike) -> NamedConfig:
    """Return the chunk key encoding with an explicit separator."""
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
        raise TypeError(f"a chunk key encoding needs a name, unlike {given!r}")
    if name in separators:
        configuration = {"separator": separators[name], **configuration}
    return NamedConfig(name, configuration)


def resolve_transformers_like(given: Iterable[TransformerLike]) -> tuple[NamedConfig, ...]:
    """Return the storage transformers as in documents. Making the handle checks that they are known.

    Raises:
        TypeError: one is not a name, a mapping or a `StorageTransformer`.
        InvalidMetadataError: a mapping is not valid in a document.
    """
    if isinstance(given, (str, Mapping)):
        raise TypeError(f"storage_transformers must be a list, not {type(given).__name__}")
    named: list[NamedConfig] = []
    for number, each in enumerate(given):
        if isinstance(each, StorageTransformer):
            named.append(NamedConfig(each.name, each.to_json()))
        elif isinstance(each, (str, Mapping)):
            value = each if isinstance(each, str) else dict(each)
            named.append(parse_extension(value, f"storage_transformers[{number}]"))
        else:
            raise TypeError(
                f"a storage transformer must be a name, a mapping or a StorageTransformer, not {type(each).__name__}"
            )
    return tuple(named)


def storage_order(metadata: ArrayMetadata) -> Literal["C", "F"]:
    """Return "F" if the first axis of a stored chunk is the fastest, else "C"."""
    codecs: Sequence[Any] = metadata.codecs
    # The helpers read both inner chains, which are JSON mappings, and the outer one, which is not.
    while codecs and _name_of(codecs[0]) == "sharding_indexed":
        codecs = _configuration_of(codecs[0]).get("codecs", ())
    if not codecs or _name_of(codecs[0]) != "transpose":
        return "C"
    order = _configuration_of(codecs[0]).get("order")
    return "F" if order == "F" or list(order or ()) == list(reversed(range(len(metadata.shape)))) else "C"


# --- helpers -----------------------------------------------------------------------------------------------------


def _byte_orders(dtype: np.dtype[Any]) -> set[str]:
    """Return the byte orders of a numpy type or of all its fields, without those of single bytes."""
    if dtype.subdtype is not None:
        return _byte_orders(dtype.subdtype[0])
    if dtype.names is not None:
        return set().union(*[_byte_orders(dtype[name]) for name in dtype.names])
    return {str(dtype.byteorder)} - {"|"}


def _dimension_names(names: Iterable[str | None] | None, ndim: int) -> tuple[str | None, ...] | None:
    if names is None:
        return None
    if isinstance(names, str):
        raise TypeError("dimension_names must be a sequence with one name or None per dimension, not a str")
    listed = tuple(names)
    if len(listed) != ndim:
        raise ValueError(f"dimension_names has {len(listed)} names, but the shape has {ndim} dimensions")
    for name in listed:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"a dimension name must be a str or None, not {type(name).__name__}")
    return listed


def _name_of(codec: Any) -> Any:
    return codec.get("name") if isinstance(codec, Mapping) else getattr(codec, "name", codec)


def _configuration_of(codec: Any) -> Mapping[str, Any]:
    configuration = codec.get("configuration") if isinstance(codec, Mapping) else getattr(codec, "configuration", {})
    return configuration if isinstance(configuration, Mapping) else {}
