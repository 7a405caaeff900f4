"""Makes the metadata of a new array of format 2 or 1 by rendering its document and parsing that as a stored one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from aiozarr.common.formatting import argument
from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.hierarchy.attributes import checked_attributes
from aiozarr.hierarchy.new_array_layout import (
    ChunksLike,
    CodecsLike,
    is_auto_codecs,
    list_codecs,
    named_codec,
    resolve_chunks,
)
from aiozarr.hierarchy.new_metadata_v3 import DataTypeLike, check_shape, resolve_dtype, resolve_fill_value
from aiozarr.metadata.data_type import DataType, find_data_type
from aiozarr.metadata.format_rules import rules_of
from aiozarr.metadata.formats import parse_node, render_node
from aiozarr.metadata.other_format import numcodecs_configuration
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.metadata.v2_dtype import parse_dtype

CompressorLike: TypeAlias = Literal["auto"] | Mapping[str, Any] | Any | None
"""A configuration of numcodecs, such as `{"id": "zlib", "level": 1}`, one of its codecs, "auto", or None for none."""
# The default compressor of zarr-python 2.
BLOSC = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
# The options that a format 1 document must contain, by the name of the compression.
OPTIONS: dict[str, Any] = {
    "blosc": {"cname": "lz4", "clevel": 5, "shuffle": 1},
    "zlib": 1,
    "bz2": 1,
    "lzma": {"format": 1, "check": -1, "preset": 1, "filters": None},
    "none": None,
}
DIMENSIONS = "_ARRAY_DIMENSIONS"


def new_v2_array(
    *,
    shape: SupportsIndex | Iterable[SupportsIndex],
    dtype: DataTypeLike,
    chunks: ChunksLike,
    fill_value: ArrayLike | None,
    order: Literal["C", "F"],
    dimension_names: Iterable[str | None] | None,
    attributes: Mapping[str, Any] | None,
    filters: CodecsLike | None,
    compressor: CompressorLike,
    compressors: CodecsLike | None,
    dimension_separator: Literal[".", "/"] | None,
) -> ArrayMetadata:
    """Return the metadata of a new array of format 2; arguments and errors are the same as for `create_array`."""
    encoded, implied = encode_dtype(dtype)
    members, lengths = _members(shape, encoded, chunks, order)
    chain = implied if is_auto_codecs(filters) else _configurations(filters, "filters")
    if encoded == "|O" and not chain:
        raise ValueError("the first filter of an object array must be an object codec, such as {'id': 'vlen-utf8'}")
    separator = "." if dimension_separator is None else dimension_separator
    if separator not in (".", "/"):
        raise ValueError(f"dimension_separator must be '.' or '/', not {dimension_separator!r}")
    members |= {
        "zarr_format": 2,
        "dtype": encoded,
        "compressor": _compressor(compressor, compressors),
        "filters": chain or None,
        "dimension_separator": separator,
    }
    checked = checked_attributes(attributes, finite=False)
    if dimension_names is not None:
        checked[DIMENSIONS] = _names(dimension_names, len(lengths), checked.get(DIMENSIONS))
    return _parse_back(2, members, checked, fill_value)


def new_v1_array(
    *,
    shape: SupportsIndex | Iterable[SupportsIndex],
    dtype: DataTypeLike,
    chunks: ChunksLike,
    fill_value: ArrayLike | None,
    order: Literal["C", "F"],
    attributes: Mapping[str, Any] | None,
    compression: str | None,
    compression_opts: Any,
) -> ArrayMetadata:
    """Return the metadata of a new array of format 1; arguments and errors are the same as for `create_array`."""
    encoded, _ = encode_dtype(dtype)
    if encoded == "|O":
        raise UnsupportedMetadataError(
            "format 1 does not support object arrays; format 2 does", member="dtype", point="data_type", name="|O"
        )
    members, _ = _members(shape, encoded, chunks, order)
    name = {"auto": "blosc", None: "none"}.get(compression, compression)
    if not isinstance(name, str):
        raise TypeError(f"compression must be a name, 'auto' or None, not {type(compression).__name__}")
    if compression_opts is None:
        compression_opts = OPTIONS.get(name)
    members |= {"zarr_format": 1, "dtype": encoded, "compression": name, "compression_opts": compression_opts}
    return _parse_back(1, members, checked_attributes(attributes, finite=False), fill_value)


def encode_dtype(dtype: DataTypeLike) -> tuple[Any, list[dict[str, Any]]]:
    """Return `dtype` as documents of formats 1 and 2 write it, and the filters that it implies.

    `str` and numpy's strings of variable length are objects in `vlen-utf8`, `bytes` objects in `vlen-bytes`.

    Raises:
        UnsupportedMetadataError: these formats do not have the type.
        TypeError: it is not a type.
    """
    asked: Any = dtype
    given = None if asked is None or asked in (str, bytes) or _is_named(asked) else np.dtype(asked)
    if given is not None and given.kind == "O":
        return "|O", []
    if given is None or given.kind == "T":
        data_type, _ = resolve_dtype(dtype)
        if data_type.is_variable:
            return "|O", [{"id": "vlen-utf8" if data_type.name == "string" else "vlen-bytes"}]
        given = data_type.dtype
    if given.subdtype is not None:
        raise TypeError(f"{given} is the type of a sub-array; give the array itself those dimensions")
    return _encode(given), []


def codec_configuration(codec: Any) -> dict[str, Any]:
    """Return the configuration, with its `id`, of a compressor or filter.

    Raises:
        TypeError: it is not a name, a mapping, a codec of numcodecs or one of format 3.
    """
    found = codec.get_config() if hasattr(codec, "get_config") else codec
    if isinstance(found, str):
        return _default_configuration(found)
    if isinstance(found, Mapping) and "name" not in found and not isinstance(found.get("id"), str):
        raise TypeError(f"the configuration of a compressor or filter needs an 'id', unlike {dict(found)!r:.60}")
    return dict(found) if isinstance(found, Mapping) and "id" in found else numcodecs_configuration(named_codec(found))


# --- helpers -----------------------------------------------------------------------------------------------------


def _members(
    shape: SupportsIndex | Iterable[SupportsIndex], encoded: Any, chunks: ChunksLike, order: Literal["C", "F"]
) -> tuple[dict[str, Any], tuple[int, ...]]:
    if order not in ("C", "F"):
        raise ValueError(f"order must be 'C' or 'F', not {order!r}")
    lengths = check_shape(shape)
    # The size of an object is that of a pointer.
    chunk, _ = resolve_chunks(lengths, chunks, None, parse_dtype(encoded).itemsize)
    return {"shape": list(lengths), "chunks": list(chunk), "fill_value": None, "order": order}, lengths


def _is_named(dtype: DataTypeLike) -> bool:
    """Return whether `dtype` names a type of the registry, or is its JSON or object, and not one of numpy's types."""
    return isinstance(dtype, (DataType, Mapping)) or (isinstance(dtype, str) and find_data_type(dtype) is not None)


def _encode(dtype: np.dtype[Any]) -> Any:
    if dtype.names is not None:
        return [_encode_field(name, dtype[name]) for name in dtype.names]
    # The names of types of other packages (bfloat16) are stored, because in the array protocol they are void.
    if dtype.isbuiltin == 2:
        return dtype.name
    if dtype.kind not in "?biufcmMSUV":
        raise UnsupportedMetadataError(
            f"formats 1 and 2 cannot store {dtype}; format 3 may", member="dtype", point="data_type", name=str(dtype)
        )
    if dtype.itemsize == 0:
        raise InvalidMetadataError(f"the type {dtype.str} has no length; give it one, as in 'S8'", member="dtype")
    return dtype.str


def _encode_field(name: str, dtype: np.dtype[Any]) -> list[Any]:
    base, shape = dtype.subdtype if dtype.subdtype is not None else (dtype, ())
    if base.kind in "OT":
        raise UnsupportedMetadataError(
            f"the field {name!r} is {base}; fields must have a fixed size in every format",
            member="dtype",
            point="data_type",
            name=str(base),
        )
    return [name, _encode(base), list(shape)] if shape else [name, _encode(base)]


def _compressor(given: CompressorLike, several: CodecsLike | None) -> dict[str, Any] | None:
    """Return the configuration of the compressor, which `compressor` or `several`, that is `compressors`, describes."""
    if is_auto_codecs(several):
        return dict(BLOSC) if is_auto_codecs(given) else None if given is None else codec_configuration(given)
    if not is_auto_codecs(given):
        raise TypeError(f"{argument('compressor')} and {argument('compressors')} mean the same; leave out one of them")
    listed = _configurations(several, "compressors")
    if len(listed) > 1:
        raise TypeError(f"format 2 allows one compressor; move the codecs before it to {argument('filters')}")
    return listed[0] if listed else None


def _configurations(codecs: CodecsLike | None, name: str) -> list[dict[str, Any]]:
    return [] if codecs is None else [codec_configuration(each) for each in list_codecs(codecs, name)]


def _default_configuration(name: str) -> dict[str, Any]:
    import numcodecs

    try:
        return dict(numcodecs.get_codec({"id": name}).get_config())
    except (ValueError, TypeError):  # unknown, or it needs parameters: parsing the document back says which
        return {"id": name}


def _names(names: Iterable[str | None], ndim: int, present: Any) -> list[str]:
    if isinstance(names, str):
        raise TypeError("dimension_names must be a sequence with one name per dimension, not a str")
    listed = list(names)
    if len(listed) != ndim:
        raise ValueError(f"dimension_names has {len(listed)} names, but the shape has {ndim} dimensions")
    if not all(isinstance(name, str) for name in listed):
        raise TypeError(f"format 2 stores dimension names in the attribute {DIMENSIONS}, which cannot contain None")
    if present is not None and present != listed:
        raise ValueError(f"dimension_names and the attribute {DIMENSIONS} differ")
    return [str(name) for name in listed]


def _parse_back(
    zarr_format: int, members: dict[str, Any], attributes: dict[str, Any], fill_value: Any
) -> ArrayMetadata:
    """Return the metadata parsed from these members, with the fill value, which they do not contain yet."""
    rules = rules_of(zarr_format)
    documents = {rules.array_key: members, str(rules.attributes_key): attributes}
    try:
        rendered = {key: json.dumps(document).encode() for key, document in documents.items()}
    except TypeError as error:
        raise TypeError(f"the configuration of a filter or compressor is not JSON: {error}") from error
    metadata = _parse_array(rendered, zarr_format)
    if fill_value is None:
        return metadata
    fill = resolve_fill_value(fill_value, metadata.data_type)
    # Rendered and parsed again: these formats do not store the payload of a NaN, so the fill value must not have one.
    return _parse_array(render_node(replace(metadata, fill_value=fill, has_fill_value=True)), zarr_format)


def _parse_array(documents: Mapping[str, bytes], zarr_format: int) -> ArrayMetadata:
    metadata = parse_node(documents, node="the new array", zarr_format=zarr_format)
    if not isinstance(metadata, ArrayMetadata):
        raise InvalidMetadataError("the documents do not describe an array", node="the new array")
    return metadata
