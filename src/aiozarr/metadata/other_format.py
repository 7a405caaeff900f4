"""The metadata of a node in another format: format 3 for chunks that stay as they are, and codecs in each format."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aiozarr.errors import UnsupportedMetadataError
from aiozarr.metadata.extensions import ELEMENTS
from aiozarr.metadata.records import ATTRIBUTE, ArrayMetadata, NamedConfig
from aiozarr.metadata.v2_dtype import parse_dtype
from aiozarr.metadata.v2_encoding import BYTES_CODECS, PREFIX, Encoding, read_encoding

# Array filters of numcodecs that exist as codecs of format 3 with the same bytes, with their members that are types.
_ARRAY_FILTERS = ("delta", "bitround", "fixedscaleoffset", "quantize", "astype")
_TYPE_MEMBERS = ("dtype", "astype", "encode_dtype", "decode_dtype")
_OBJECT_CODECS = ("vlen-utf8", "vlen-bytes")
# The filters of blosc by numcodecs' numbers; -1 depends on the size of elements.
_SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")


def attributes_without_names(metadata: ArrayMetadata, zarr_format: int) -> dict[str, Any]:
    """Return the attributes of an array for a format, without the dimension names, which the metadata have as well."""
    names = metadata.dimension_names
    attributes = {key: value for key, value in metadata.attributes.items() if key != ATTRIBUTE or names is None}
    return attributes_in_format(attributes, zarr_format)


def attributes_in_format(attributes: Mapping[str, Any], zarr_format: int) -> dict[str, Any]:
    """Return attributes as a format stores them. In format 3, NaN and infinities become the strings of fill values."""
    return {key: _finite(value) if zarr_format == 3 else value for key, value in attributes.items()}


def v3_codecs(metadata: ArrayMetadata) -> tuple[NamedConfig, ...]:
    """Return the codec chain in format 3 that makes the same bytes.

    Raises:
        UnsupportedMetadataError: format 3 has no such chain; the message says what it lacks.
    """
    item_size = metadata.dtype.itemsize
    chain: list[NamedConfig] = []
    for codec in metadata.codecs:
        if codec.name == ELEMENTS:
            chain += _v3_elements(codec.configuration)
        elif codec.name.startswith(PREFIX):
            chain.append(_v3_compressor(codec.name.removeprefix(PREFIX), codec.configuration, item_size))
        else:
            chain.append(codec)
    return tuple(chain)


def encoding_in_v2(codecs: Sequence[NamedConfig], dtype: np.dtype[Any], ndim: int) -> Encoding:
    """Return order, type, filters and compressor of format 2 for a chain of any format and elements of `dtype`.

    For shards, pass the chain of the inner chunks.

    Raises:
        UnsupportedMetadataError: format 2 has no such chain.
    """
    chain = [_v2_codec(codec) for codec in codecs]
    before = [codec for codec in chain if codec.name.removeprefix(PREFIX) in _ARRAY_FILTERS]
    after = [codec for codec in chain if codec.name.startswith(PREFIX) and codec not in before]
    if not before and len(after) < 2:
        return read_encoding(chain, dtype, ndim)
    # Filters are in one member, and the last codec of bytes is the compressor.
    filters = [
        {**({} if codec.name == f"{PREFIX}bitround" else {"dtype": dtype.str}), **_numcodec(codec)} for codec in before
    ]
    others = [codec for codec in chain if codec not in before and codec not in after]
    encoding = read_encoding([*others, *after[-1:]], dtype, ndim)
    if before and str(encoding.dtype).startswith(">"):
        raise _lacks("filters of big-endian elements", 2)
    return replace(encoding, filters=(*filters, *encoding.filters, *[_numcodec(codec) for codec in after[:-1]]))


def numcodecs_configuration(codec: NamedConfig) -> dict[str, Any]:
    """Return the configuration, with its `id`, of the numcodecs codec that stores as `codec` of format 3."""
    return {"id": codec.name} if codec.name in _OBJECT_CODECS else _numcodec(_v2_codec(codec))


# --- helpers -----------------------------------------------------------------------------------------------------


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value


def _v3_elements(configuration: Mapping[str, Any]) -> list[NamedConfig]:
    stored = parse_dtype(configuration["dtype"])
    filters = [dict(each) for each in configuration.get("filters") or ()]
    if configuration.get("compressor") is not None:
        raise _lacks(f"the compressor {configuration['compressor'].get('id')!r}")
    if stored.kind == "O":
        name = filters.pop(0)["id"] if filters else "objects"
        if name not in _OBJECT_CODECS:
            raise _lacks(f"objects in {name!r}")
        return [NamedConfig(name), *[_v3_byte_filter(each) for each in filters]]
    chain: list[NamedConfig] = []
    while filters and filters[0]["id"] in _ARRAY_FILTERS:
        each = filters.pop(0)
        name = each.pop("id")
        types = {key: np.dtype(each[key]) for key in _TYPE_MEMBERS if key in each}
        if stored.byteorder == ">" or any(dtype.byteorder == ">" for dtype in types.values()):
            raise _lacks(f"the filter {name!r} of big-endian elements")
        chain.append(NamedConfig(PREFIX + name, each))
    orders = _byte_orders(stored)
    if len(orders) > 1 or (stored.names is not None and orders == {">"}):
        raise _lacks("structures of big-endian fields")
    endian = {"endian": "big" if orders == {">"} else "little"} if orders else {}
    return [*chain, NamedConfig("bytes", endian), *[_v3_byte_filter(each) for each in filters]]


def _v3_byte_filter(codec: Mapping[str, Any]) -> NamedConfig:
    name = str(codec["id"])
    if name not in BYTES_CODECS:
        raise _lacks(f"the filter {name!r} at its place")
    # The filters after an encoding of elements have bytes as input.
    return _v3_compressor(name, {key: value for key, value in codec.items() if key != "id"}, 1)


def _v3_compressor(name: str, configuration: Mapping[str, Any], item_size: int) -> NamedConfig:
    if name == "zstd" and configuration.keys() <= {"level", "checksum"}:
        level = configuration.get("level", 0)
        return NamedConfig("zstd", {"level": level, "checksum": configuration.get("checksum", False)})
    if name == "gzip" and configuration.keys() <= {"level"}:
        return NamedConfig("gzip", {"level": configuration.get("level", 1)})
    if name == "blosc" and configuration.get("shuffle", 1) in (-1, 0, 1, 2) and item_size <= 255:
        shuffle = configuration.get("shuffle", 1)
        number = (2 if item_size == 1 else 1) if shuffle == -1 else int(shuffle)
        members = {
            "cname": configuration.get("cname", "lz4"),
            "clevel": configuration.get("clevel", 5),
            "shuffle": _SHUFFLES[number],
            "typesize": max(item_size, 1),
            "blocksize": configuration.get("blocksize", 0),
        }
        return NamedConfig("blosc", members)
    return NamedConfig(PREFIX + name, dict(configuration))


def _numcodec(codec: NamedConfig) -> dict[str, Any]:
    return {"id": codec.name.removeprefix(PREFIX), **codec.configuration}


def _v2_codec(codec: NamedConfig) -> NamedConfig:
    to_v2 = _TO_V2.get(codec.name)
    return codec if to_v2 is None else to_v2(codec.configuration)


def _v2_blosc(configuration: Mapping[str, Any]) -> NamedConfig:
    members = {key: value for key, value in configuration.items() if key != "typesize"}
    shuffle = members.get("shuffle", "shuffle")
    return NamedConfig(PREFIX + "blosc", {**members, "shuffle": _SHUFFLES.index(shuffle)})


def _v2_zstd(configuration: Mapping[str, Any]) -> NamedConfig:
    # numcodecs' configuration of old releases has no checksum, and readers of format 2 may not know it.
    kept = {key: value for key, value in configuration.items() if key != "checksum" or value}
    return NamedConfig(PREFIX + "zstd", kept)


def _v2_objects(name: str) -> Callable[[Mapping[str, Any]], NamedConfig]:
    return lambda _: NamedConfig(ELEMENTS, {"dtype": "|O", "filters": [{"id": name}]})


_TO_V2: dict[str, Callable[[Mapping[str, Any]], NamedConfig]] = {
    "blosc": _v2_blosc,
    "zstd": _v2_zstd,
    "gzip": lambda configuration: NamedConfig(PREFIX + "gzip", configuration),
    **{name: _v2_objects(name) for name in _OBJECT_CODECS},
}


def _byte_orders(dtype: np.dtype[Any]) -> set[str]:
    """Return the byte orders of a type or of its fields, as `<` and `>`, without those of single bytes."""
    if dtype.subdtype is not None:
        return _byte_orders(dtype.subdtype[0])
    if dtype.names is not None:
        return set().union(*[_byte_orders(dtype[name]) for name in dtype.names])
    return {"<" if dtype.byteorder == "=" else str(dtype.byteorder)} - {"|"}


def _lacks(what: str, zarr_format: int = 3) -> UnsupportedMetadataError:
    return UnsupportedMetadataError(f"format {zarr_format} cannot describe {what}", member="codecs", point="codec")
