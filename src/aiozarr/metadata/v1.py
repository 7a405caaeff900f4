"""Zarr v1 documents: `meta` and `attrs` to the model and back (Zarr storage specification 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.document import CHECKS, Document, parse_lengths, required
from aiozarr.metadata.format_rules import ATTRS_KEY, META_KEY
from aiozarr.metadata.records import ArrayMetadata, NamedConfig, dimension_names_of, with_dimension_names
from aiozarr.metadata.v2 import (
    check_members,
    chunk_lengths,
    element_type,
    parse_fill,
    parse_order,
    regular_grid,
    render_fill,
    separator_of,
)
from aiozarr.metadata.v2_dtype import parse_dtype
from aiozarr.metadata.v2_encoding import Encoding, parse_numcodec, read_encoding
from aiozarr.settings import Settings

_REQUIRED = ("shape", "chunks", "dtype", "compression", "compression_opts", "fill_value", "order")
_MEMBERS = {"zarr_format", *_REQUIRED}
# Compressors whose only option is a number.
_LEVELS = ("zlib", "gzip", "bz2", "zstd")


def parse_v1(document: Document, attributes: Mapping[str, Any], settings: Settings) -> ArrayMetadata:
    """Return the metadata of a `meta`. Format 1 has arrays only.

    Raises:
        InvalidMetadataError: the document violates the format; `member` names the member, if it is one.
        UnsupportedMetadataError: the document uses a feature that aiozarr lacks.
    """
    members = document.members
    check_members(document, 1)
    # The specification asks for a scalar and does not mention NaN, which zarr-python 1 writes as a bare token.
    fill = required(members, "fill_value")
    document.check(fill, "fill_value", finite=settings.strict)
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
        chunk_grid=regular_grid(parse_lengths(required(members, "chunks"), "chunks", 1), shape),
        chunk_key_encoding=NamedConfig("v2", {"separator": "."}),
        fill_value=fill_value,
        has_fill_value=has_fill_value,
        codecs=Encoding(order, members["dtype"], (), compressor).codecs(len(shape)),
        attributes=attributes,
        dimension_names=dimension_names_of(attributes, len(shape)),
        extra={name: value for name, value in members.items() if name not in _MEMBERS},
    )


def v1_members(metadata: ArrayMetadata) -> dict[str, dict[str, Any]]:
    """Return the members of the documents by key.

    Raises:
        UnsupportedMetadataError: v1 cannot represent `metadata`.
    """
    encoding = read_encoding(metadata.codecs, metadata.dtype, metadata.ndim)
    if encoding.filters:
        raise UnsupportedMetadataError("Zarr v1 has no filters", member="codecs", point="codec")
    if separator_of(metadata) != ".":
        raise UnsupportedMetadataError("the chunk keys of Zarr v1 have periods", member="chunk_key_encoding")
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
        raise InvalidMetadataError(f"these are no options of {name[:100]!r}", member="compression_opts")
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
    if type(fill) is float and fill != fill:
        return "NaN"
    if type(fill) is float and fill in (float("inf"), float("-inf")):
        return "Infinity" if fill > 0 else "-Infinity"
    return fill


def _as_number(fill: Any, dtype: object) -> Any:
    if isinstance(dtype, str) and dtype[1:2] == "c" and fill is not None and str(fill[1]) == "0.0":
        return _as_number(fill[0], "<f8")
    tokens = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
    is_float = isinstance(dtype, str) and dtype[1:2] == "f"
    return tokens[fill] if is_float and isinstance(fill, str) else fill
