"""Conversion of the order, type, filters and compressor of v1 and v2 arrays to a codec chain, and back.

For error messages, member paths of the model are translated to member paths of the stored document.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.extensions import ELEMENTS, MAX_EXTENSIONS, MAX_NAME_LENGTH, refuse_pickle, unsupported_member
from aiozarr.metadata.format_rules import rules_of
from aiozarr.metadata.records import ArrayMetadata, NamedConfig
from aiozarr.metadata.v2_dtype import DTypeJSON, parse_dtype, render_dtype

PREFIX = "numcodecs."
BYTES_CODECS = frozenset(
    (
        *("blosc", "zstd", "zlib", "gzip", "bz2", "lzma", "lz4"),
        *("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3", "shuffle"),
    )
)
"""Ids of numcodecs that encode bytes to bytes as compressors and that are codecs of their own in aiozarr."""
# Their bytes contain the shape, and the elements in C order for any memory order.
_SHAPED = ("json2", "msgpack2")
# GDAL writes these names as the `shuffle` of blosc; the index is the number.
_GDAL_SHUFFLES = ("NONE", "BYTE", "BIT")


@dataclass(frozen=True, slots=True)
class Encoding:
    """The encoding of chunks in a v1 or v2 document.

    Attributes:
        order: `C` or `F`.
        dtype: the `dtype` member.
        filters: numcodecs configurations, each with an `id`, in the order of encoding.
        compressor: a numcodecs configuration, or None.
    """

    order: str
    dtype: DTypeJSON
    filters: Sequence[Mapping[str, Any]] = ()
    compressor: Mapping[str, Any] | None = None

    def codecs(self, ndim: int) -> tuple[NamedConfig, ...]:
        """Return the codec chain for arrays of `ndim` dimensions."""
        chain: list[NamedConfig] = []
        shaped = bool(self.filters) and self.filters[0]["id"] in _SHAPED
        if self.order == "F" and ndim > 1 and not shaped:
            chain.append(NamedConfig("transpose", {"order": list(reversed(range(ndim)))}))
        compressor = self.compressor
        known = compressor is None or compressor["id"] in BYTES_CODECS
        dtype = parse_dtype(self.dtype)
        if known and not self.filters and dtype.names is None and dtype.kind != "O":
            chain.append(_bytes_codec(dtype))
        else:
            configuration: dict[str, Any] = {"dtype": self.dtype, "filters": [dict(each) for each in self.filters]}
            if shaped and self.order == "F":
                configuration["order"] = "F"
            if not known:
                configuration["compressor"] = dict(compressor or {})
            chain.append(NamedConfig(ELEMENTS, configuration))
        if known and compressor is not None:
            configuration = {key: value for key, value in compressor.items() if key != "id"}
            chain.append(NamedConfig(PREFIX + compressor["id"], configuration))
        return tuple(chain)


def read_encoding(codecs: Sequence[NamedConfig], dtype: np.dtype[Any], ndim: int) -> Encoding:
    """Return the encoding of a v1 or v2 document for a codec chain and elements of `dtype` in memory.

    Raises:
        UnsupportedMetadataError: these formats cannot represent the chain; `member` is the path of the codec.
    """
    rest = list(codecs)
    order = "C"
    if rest and rest[0].name == "transpose":
        axes = list(rest.pop(0).configuration.get("order", ()))
        if axes == list(reversed(range(ndim))):
            order = "F" if ndim > 1 else "C"
        elif axes != list(range(ndim)):
            raise _not_representable(codecs, 0, "only the order of all axes can be reversed")
    if not rest or rest[0].name not in ("bytes", ELEMENTS):
        raise _not_representable(codecs, len(codecs) - len(rest), f"expected the codec 'bytes' or {ELEMENTS!r}")
    elements = rest.pop(0)
    compressor: Mapping[str, Any] | None = None
    filters: Sequence[Mapping[str, Any]] = ()
    if elements.name == "bytes":
        described = render_dtype(dtype, ">" if elements.configuration.get("endian") == "big" else "<")
    else:
        described = elements.configuration["dtype"]
        order = elements.configuration.get("order", order)
        filters = elements.configuration.get("filters") or ()
        compressor = elements.configuration.get("compressor")
    if rest and compressor is None:
        compressor = _compressor(codecs, rest.pop(0))
    if rest:
        raise _not_representable(codecs, len(codecs) - len(rest), "at most one compressor is allowed")
    return Encoding(order, described, tuple(filters), compressor)


def parse_filters(value: object, *, item_size: int, strict: bool) -> tuple[Mapping[str, Any], ...]:
    """Return the configurations of a `filters` member: null, or a list.

    Raises:
        InvalidMetadataError: the member has another form.
        UnsupportedMetadataError: pickle, or more than 64 filters.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidMetadataError("expected a list of filters or null", member="filters")
    if not value and strict:
        # zarrita and early zarr-python 3 write an empty list.
        raise InvalidMetadataError("use null, not an empty list, for no filters", member="filters")
    if len(value) > MAX_EXTENSIONS:
        raise unsupported_member("filters", f"at most {MAX_EXTENSIONS} are allowed, not {len(value)}")
    parts = [parse_numcodec(part, f"filters[{i}]") for i, part in enumerate(value)]
    return tuple([_with_item_size(part, f"filters[{i}]", item_size, strict) for i, part in enumerate(parts)])


def parse_compressor(value: object, *, strict: bool) -> Mapping[str, Any] | None:
    """Return the configuration of a `compressor` member: null, or an object.

    Raises:
        InvalidMetadataError: the member has another form.
        UnsupportedMetadataError: pickle.
    """
    if value is None:
        return None
    compressor = parse_numcodec(value, "compressor")
    if compressor["id"] == "blosc" and compressor.get("shuffle") in _GDAL_SHUFFLES:
        if strict:
            raise InvalidMetadataError("shuffle must be a number", member="compressor.shuffle")
        return {**compressor, "shuffle": _GDAL_SHUFFLES.index(compressor["shuffle"])}
    if compressor["id"] != "lzma" or "delta" not in compressor:
        return compressor
    # GDAL adds `delta`, unknown to numcodecs, to equivalent filters; null means none.
    if strict:
        raise InvalidMetadataError("lzma has no member 'delta'; use its 'filters' instead", member="compressor.delta")
    return compressor if compressor["delta"] is not None else {k: v for k, v in compressor.items() if k != "delta"}


def parse_numcodec(value: object, member: str) -> Mapping[str, Any]:
    """Return a numcodecs configuration: an object with an `id` other than pickle."""
    if not isinstance(value, dict):
        raise InvalidMetadataError("a codec must be an object", member=member)
    name = value.get("id")
    if not isinstance(name, str) or not name:
        raise InvalidMetadataError("the id of a codec must be a string", member=f"{member}.id")
    if len(name) > MAX_NAME_LENGTH:
        raise unsupported_member(
            f"{member}.id", f"a name may have at most {MAX_NAME_LENGTH} characters, not {len(name)}"
        )
    refuse_pickle(name, member)
    return value


def _with_item_size(part: Mapping[str, Any], member: str, item_size: int, strict: bool) -> Mapping[str, Any]:
    if part["id"] != "shuffle" or part.get("elementsize") not in (0, "0"):
        return part
    # netCDF-C writes 0, and releases before 4.10 "0", for the size of the elements.
    if strict:
        raise InvalidMetadataError("an element must have at least one byte", member=f"{member}.elementsize")
    return {**part, "elementsize": item_size}


def _bytes_codec(dtype: np.dtype[Any]) -> NamedConfig:
    if dtype.itemsize == 1 or dtype.kind in "SV":
        # Types of ml_dtypes have kind V. The two-byte ones have a byte order, little-endian as in TensorStore.
        return NamedConfig("bytes", {"endian": "little"} if dtype.name == "bfloat16" else {})
    return NamedConfig("bytes", {"endian": "big" if dtype.byteorder == ">" else "little"})


def _compressor(codecs: Sequence[NamedConfig], codec: NamedConfig) -> Mapping[str, Any]:
    name = codec.name.removeprefix(PREFIX)
    if name == codec.name:
        raise _not_representable(codecs, codecs.index(codec), f"the name of a compressor must begin with {PREFIX!r}")
    return {"id": name, **codec.configuration}


def _not_representable(codecs: Sequence[NamedConfig], i: int, reason: str) -> UnsupportedMetadataError:
    name = codecs[i].name if i < len(codecs) else None
    return UnsupportedMetadataError(
        f"Zarr v1 and v2 cannot represent this chain: {reason}", member=f"codecs[{i}]", point="codec", name=name
    )


_CODEC_PATH = re.compile(r"codecs\[([0-9]+)\](?:\.name|\.configuration)?(.*)", re.DOTALL)
_RENAMED_MEMBERS = {"chunk_grid": "chunks", "chunk_key_encoding": "dimension_separator"}


def stored_member_path(metadata: ArrayMetadata, member: str | None) -> tuple[str, str | None]:
    """Return the key, relative to the node, of the document with `member` of the model, and the path there.

    Documents of formats 1 and 2 have no codecs: `codecs[1].configuration.level` of the model is their
    `compressor.level`.
    """
    key = rules_of(metadata.zarr_format).array_key
    if metadata.zarr_format == 3 or member is None:
        return key, member
    found = _CODEC_PATH.fullmatch(member)
    if found is None:
        return key, _RENAMED_MEMBERS.get(member.partition(".")[0], member)
    number, rest = int(found[1]), found[2].replace(".configuration.", ".")
    name = metadata.codecs[number].name if number < len(metadata.codecs) else ""
    if name == "transpose":
        return key, "order"
    if name in ("bytes", ELEMENTS) and not rest.startswith(".compressor"):
        # The type of the elements stands for the codec `bytes`.
        return key, rest.removeprefix(".") if name == ELEMENTS and rest else "dtype"
    rest = rest.removeprefix(".compressor")
    if metadata.zarr_format == 2:
        return key, f"compressor{rest}"
    return key, f"compression_opts{rest}" if rest.removeprefix(".id") else "compression"
