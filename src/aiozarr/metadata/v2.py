"""Parse and render documents of Zarr v2 and v1.

Format 2 has `.zarray`, `.zgroup` and `.zattrs` (Zarr storage specification 2), and format 1 `meta` and `attrs`
(Zarr storage specification 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aiozarr.common.formatting import clip
from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.data_type import DataType
from aiozarr.metadata.document import CHECKS, Document, check_version, parse_lengths, required
from aiozarr.metadata.extensions import unsupported_member
from aiozarr.metadata.format_rules import ARRAY_KEY, ATTRIBUTES_KEY, ATTRS_KEY, CONSOLIDATED_MEMBER, GROUP_KEY, META_KEY
from aiozarr.metadata.records import (
    ArrayMetadata,
    FillValue,
    GroupMetadata,
    NamedConfig,
    dimension_names_of,
    with_dimension_names,
)
from aiozarr.metadata.text import ObjectType
from aiozarr.metadata.v2_dtype import parse_dtype
from aiozarr.metadata.v2_encoding import (
    BYTES_CODECS,
    Encoding,
    parse_compressor,
    parse_filters,
    parse_numcodec,
    read_encoding,
)
from aiozarr.metadata.v2_fill_value import NAMED_FLOATS, parse_v2_fill, render_float, render_v2_fill
from aiozarr.settings import Settings

_REQUIRED = ("shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters")
_MEMBERS = {"zarr_format", *_REQUIRED, "dimension_separator"}


def parse_v2_array(document: Document, attributes: Mapping[str, Any], settings: Settings) -> ArrayMetadata:
    """Return the metadata of a `.zarray`.

    Raises:
        InvalidMetadataError: the document violates the format; `member` names the member, if it is one.
        UnsupportedMetadataError: the document uses a feature that aiozarr lacks.
    """
    members = document.members
    strict = settings.strict
    check_members(document, 2, strict=strict)
    extra = _parse_extra(members, _MEMBERS, settings)
    shape = parse_lengths(required(members, "shape"), "shape", 0)
    dtype = parse_dtype(required(members, "dtype"))
    filters = parse_filters(_nullable(members, "filters", strict), item_size=dtype.itemsize, strict=strict)
    compressor = parse_compressor(_nullable(members, "compressor", strict), strict=strict)
    if dtype.kind == "O" and not filters and compressor and compressor["id"] not in BYTES_CODECS and not strict:
        # The betas of zarr-python 3 stored the encoding of objects there.
        filters, compressor = (compressor,), None
    described = "|O" if dtype.kind == "O" else members["dtype"]
    encoding = Encoding(parse_order(members), described, filters, compressor)
    elements = element_type(dtype, filters)
    fill_value, has_fill_value = parse_fill(_nullable(members, "fill_value", strict), elements, strict=strict)
    return ArrayMetadata(
        zarr_format=2,
        shape=shape,
        data_type=elements.data_type,
        chunk_grid=regular_grid(_parse_chunks(members, strict=strict), shape),
        chunk_key_encoding=NamedConfig("v2", {"separator": _parse_separator(members)}),
        fill_value=fill_value,
        has_fill_value=has_fill_value,
        codecs=encoding.codecs(len(shape)),
        attributes=attributes,
        dimension_names=dimension_names_of(attributes, len(shape)),
        extra=extra,
    )


def parse_v2_group(document: Document, attributes: Mapping[str, Any], settings: Settings) -> GroupMetadata:
    """Return the metadata of a `.zgroup`, with the errors of `parse_v2_array`."""
    check_members(document, 2, strict=settings.strict)
    # zarr-python 3 adds this v3 member, always empty, to the groups in a `.zmetadata`.
    return GroupMetadata(2, attributes, _parse_extra(document.members, {"zarr_format", CONSOLIDATED_MEMBER}, settings))


def parse_attributes(document: Document, settings: Settings) -> Mapping[str, Any]:
    """Return the attributes of a `.zattrs`, or of an `attrs` of v1.

    Unless strict, NaN, duplicate keys and lone surrogates are read.

    Raises:
        InvalidMetadataError: the document is not valid JSON.
    """
    for name, value in document.members.items():
        if settings.strict:
            document.check(value, clip(name))
    if settings.strict and id(document.members) in document.duplicates:
        raise InvalidMetadataError("duplicate member", member=clip(document.duplicates[id(document.members)]))
    return document.members


def v2_members(metadata: ArrayMetadata | GroupMetadata) -> dict[str, dict[str, Any]]:
    """Return the members of the documents of a node by key. Empty attributes have a document, too.

    Raises:
        UnsupportedMetadataError: v2 cannot represent `metadata`.
    """
    if isinstance(metadata, GroupMetadata):
        return {
            GROUP_KEY: {"zarr_format": 2, **metadata.extra},
            ATTRIBUTES_KEY: dict(metadata.attributes),
        }
    encoding = read_encoding(metadata.codecs, metadata.dtype, metadata.ndim)
    members = {
        "zarr_format": 2,
        "shape": list(metadata.shape),
        "chunks": chunk_lengths(metadata),
        "dtype": encoding.dtype,
        "compressor": None if encoding.compressor is None else dict(encoding.compressor),
        "fill_value": render_fill(metadata, encoding),
        "order": encoding.order,
        "filters": [dict(each) for each in encoding.filters] or None,
        "dimension_separator": separator_of(metadata),
    }
    return {
        ARRAY_KEY: members | dict(metadata.extra),
        ATTRIBUTES_KEY: with_dimension_names(metadata.attributes, metadata.dimension_names),
    }


# --- shared with v1 ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ElementType:
    """The type of the elements of an array.

    Attributes:
        stored: numpy type of the `dtype` member, in stored byte order.
        data_type: the type in the model.
        kind: kind of the numpy type; `T` for strings and `B` for bytes of variable length.
    """

    stored: np.dtype[Any]
    data_type: DataType
    kind: str


# The first filter defines the type of objects. Filters not listed here give Python objects.
_OBJECT_TYPES = {"vlen-utf8": ("string", "T"), "vlen-bytes": ("variable_length_bytes", "B")}


def element_type(stored: np.dtype[Any], filters: tuple[Mapping[str, Any], ...] = ()) -> ElementType:
    """Return the element type of a stored numpy type and its filters.

    Raises:
        InvalidMetadataError: objects without a filter.
        UnsupportedMetadataError: a type that aiozarr lacks.
    """
    if stored.kind != "O":
        return ElementType(stored, DataType.from_numpy(stored.newbyteorder("=")), stored.kind)
    if not filters:
        raise InvalidMetadataError("objects need a filter that turns them into bytes", member="filters")
    name, kind = _OBJECT_TYPES.get(filters[0]["id"], ("object", "O"))
    return ElementType(stored, ObjectType() if kind == "O" else DataType.from_json(name), kind)


def parse_fill(
    value: object, elements: ElementType, *, strict: bool, plain_text: bool = False
) -> tuple[FillValue, bool]:
    """Return the fill value, or the default of the type for null, and whether the member is not null."""
    data_type, kind = elements.data_type, elements.kind
    if value is None:
        return data_type.default_fill_value, False
    if kind != "V" or elements.stored.names is None:
        return parse_v2_fill(value, data_type.dtype, kind=kind, strict=strict, plain_text=plain_text), True
    # Bytes of a record have the layout of the stored type.
    fill = parse_v2_fill(value, elements.stored, kind=kind, strict=strict).astype(data_type.dtype)
    fill.setflags(write=False)
    return fill, True


def render_fill(metadata: ArrayMetadata, encoding: Encoding, *, plain_text: bool = False) -> Any:
    """Return the `fill_value` member."""
    if not metadata.has_fill_value:
        return None
    elements = element_type(parse_dtype(encoding.dtype), tuple(encoding.filters))
    fill = metadata.fill_value
    if elements.stored.names is not None:
        fill = fill.astype(elements.stored)
    return render_v2_fill(fill, kind=elements.kind, plain_text=plain_text)


def check_members(document: Document, zarr_format: int, *, strict: bool) -> None:
    """Check the format version, and that the members that the format defines are strict JSON."""
    if id(document.members) in document.duplicates:
        raise InvalidMetadataError("duplicate member", member=document.duplicates[id(document.members)])
    for name, value in document.members.items():
        # NaN and infinities as bare tokens are what zarr-python and netCDF-C write.
        document.check(value, clip(name), finite=strict or name != "fill_value")
    check_version(document.members, zarr_format)


def regular_grid(chunks: tuple[int, ...], shape: tuple[int, ...]) -> NamedConfig:
    """Return the grid of chunks of one shape."""
    if len(chunks) != len(shape):
        raise InvalidMetadataError(
            f"the chunks have {len(chunks)} dimensions, the array has {len(shape)}", member="chunks"
        )
    return NamedConfig("regular", {"chunk_shape": list(chunks)})


def parse_order(members: Mapping[str, Any]) -> str:
    """Return the `order` member."""
    return CHECKS.one_of(required(members, "order"), "order", ("C", "F"))


def chunk_lengths(metadata: ArrayMetadata) -> list[int]:
    """Return the `chunks` member."""
    grid = metadata.chunk_grid
    if grid.name != "regular":
        raise unsupported_member(
            "chunk_grid", f"formats 1 and 2 support chunks of one shape only, not the grid {clip(grid.name)!r}"
        )
    return list(grid.configuration["chunk_shape"])


def separator_of(metadata: ArrayMetadata) -> str:
    """Return the separator of the coordinates in chunk keys."""
    encoding = metadata.chunk_key_encoding
    if encoding.name != "v2":
        raise unsupported_member(
            "chunk_key_encoding", f"formats 1 and 2 do not support the chunk key encoding {clip(encoding.name)!r}"
        )
    return str(encoding.configuration.get("separator", "."))


def _parse_chunks(members: Mapping[str, Any], *, strict: bool) -> tuple[int, ...]:
    chunks = parse_lengths(required(members, "chunks"), "chunks", 1 if strict else 0)
    # zarr-python 3.1 writes 0 for empty dimensions, which may have grown since. No chunk can have been stored under it.
    return tuple([max(1, chunk) for chunk in chunks])


def _nullable(members: Mapping[str, Any], name: str, strict: bool) -> Any:
    """Return a member that may be null. Unless strict, a missing member is null, too."""
    return required(members, name) if strict else members.get(name)


def _parse_separator(members: Mapping[str, Any]) -> str:
    return CHECKS.one_of(members.get("dimension_separator", "."), "dimension_separator", (".", "/"))


def _parse_extra(members: Mapping[str, Any], known: set[str], settings: Settings) -> dict[str, Any]:
    extra = {name: value for name, value in members.items() if name not in known}
    for name in extra:
        # NCZarr and others add members. The specification forbids them; later revisions let readers ignore them.
        if settings.strict:
            raise InvalidMetadataError("unknown member of the format", member=clip(name))
    return extra


_V1_REQUIRED = ("shape", "chunks", "dtype", "compression", "compression_opts", "fill_value", "order")
_V1_MEMBERS = {"zarr_format", *_V1_REQUIRED}
# Compressors whose only option is a number.
_LEVELS = ("zlib", "gzip", "bz2", "zstd")


def parse_v1(document: Document, attributes: Mapping[str, Any], settings: Settings) -> ArrayMetadata:
    """Return the metadata of a `meta`. Format 1 has arrays only.

    Raises:
        InvalidMetadataError: the document violates the format; `member` names the member, if it is one.
        UnsupportedMetadataError: the document uses a feature that aiozarr lacks.
    """
    members = document.members
    check_members(document, 1, strict=settings.strict)
    fill = required(members, "fill_value")
    shape = parse_lengths(required(members, "shape"), "shape", 0)
    elements = element_type(parse_dtype(required(members, "dtype")))
    compressor = _parse_compression(required(members, "compression"), members.get("compression_opts"), settings)
    order = parse_order(members)
    if settings.v1_order_f == "written" and (compressor is None or compressor["id"] != "blosc"):
        # zarr-python 1 wrote chunks in C order in spite of `meta`. Only blosc compressed the memory as it is.
        order = "C"
    # v1 allows any scalar, so `strict` makes no difference.
    fill_value, has_fill_value = parse_fill(_as_token(fill), elements, strict=False, plain_text=True)
    return ArrayMetadata(
        zarr_format=1,
        shape=shape,
        data_type=elements.data_type,
        chunk_grid=regular_grid(_parse_chunks(members, strict=settings.strict), shape),
        chunk_key_encoding=NamedConfig("v2", {"separator": "."}),
        fill_value=fill_value,
        has_fill_value=has_fill_value,
        codecs=Encoding(order, members["dtype"], (), compressor).codecs(len(shape)),
        attributes=attributes,
        dimension_names=dimension_names_of(attributes, len(shape)),
        extra={name: value for name, value in members.items() if name not in _V1_MEMBERS},
    )


def v1_members(metadata: ArrayMetadata) -> dict[str, dict[str, Any]]:
    """Return the members of the documents by key.

    Raises:
        UnsupportedMetadataError: v1 cannot represent `metadata`.
    """
    encoding = read_encoding(metadata.codecs, metadata.dtype, metadata.ndim)
    if encoding.filters:
        raise UnsupportedMetadataError("format 1 does not support filters", member="codecs", point="codec")
    if separator_of(metadata) != ".":
        raise UnsupportedMetadataError(
            "the separator of chunk keys must be a period in format 1", member="chunk_key_encoding"
        )
    compression, options = _render_compression(encoding.compressor)
    members = {
        "zarr_format": 1,
        "shape": list(metadata.shape),
        "chunks": chunk_lengths(metadata),
        "dtype": encoding.dtype,
        "compression": compression,
        "compression_opts": options,
        "fill_value": _as_number(render_fill(metadata, encoding, plain_text=True), encoding.dtype),
        "order": encoding.order,
    }
    return {
        META_KEY: members | dict(metadata.extra),
        ATTRS_KEY: with_dimension_names(metadata.attributes, metadata.dimension_names),
    }


def _parse_compression(name: object, options: object, settings: Settings) -> Mapping[str, Any] | None:
    if name is None and not settings.strict:
        name = "none"
    name = CHECKS.check(name, "compression", str, "a string")
    if name == "none":
        return None
    if options is None:
        options = {}
    elif type(options) is int and name in _LEVELS:
        options = {"level": options}
    if not isinstance(options, dict):
        raise InvalidMetadataError(f"these are not options of {name[:100]!r}", member="compression_opts")
    return parse_numcodec({**options, "id": name}, "compression")


def _render_compression(compressor: Mapping[str, Any] | None) -> tuple[str, Any]:
    if compressor is None:
        return "none", None
    options = {key: value for key, value in compressor.items() if key != "id"}
    name = str(compressor["id"])
    if name in _LEVELS and options.keys() <= {"level"}:
        return name, options.get("level")
    # In v1 blosc always chooses the block size itself.
    if name == "blosc" and options.get("blocksize") == 0:
        del options["blocksize"]
    return name, options or None


def _as_token(fill: object) -> object:
    """Return NaN and infinities, bare tokens in v1, as the strings of v2."""
    return render_float(fill) if type(fill) is float else fill


def _as_number(fill: Any, dtype: object) -> Any:
    if isinstance(dtype, str) and dtype[1:2] == "c" and fill is not None and str(fill[1]) == "0.0":
        return _as_number(fill[0], "<f8")
    is_float = isinstance(dtype, str) and dtype[1:2] == "f"
    return NAMED_FLOATS[fill] if is_float and isinstance(fill, str) else fill
