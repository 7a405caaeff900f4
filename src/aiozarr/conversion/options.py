"""The options of a conversion, resolved for one array: the metadata of the result, and the region."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import index as as_index
from types import EllipsisType
from typing import Any, TypeAlias, get_args

import numcodecs
import numpy as np

from aiozarr.common.checks import Checks
from aiozarr.common.formatting import argument, did_you_mean
from aiozarr.conversion.named_selection import NamedSelection, parse_selection
from aiozarr.conversion.regions import Bounds
from aiozarr.errors import MetadataError
from aiozarr.hierarchy import Array, internal
from aiozarr.metadata.data_type import DataType
from aiozarr.metadata.extensions import parse_extension
from aiozarr.metadata.formats import render_node
from aiozarr.metadata.other_format import attributes_in_format, attributes_without_names, encoding_in_v2, v3_codecs
from aiozarr.metadata.records import ArrayMetadata, NamedConfig, with_dimension_names
from aiozarr.metadata.v2_dtype import parse_dtype
from aiozarr.metadata.v2_encoding import BYTES_CODECS, Encoding, read_encoding

ChunksOption: TypeAlias = internal.ChunksLike | Mapping[str, int | None]
"""Chunks in a form of `create_array`, or by dimension name; None: the same as the source's."""
ShardsOption: TypeAlias = internal.ShardsLike | bool | Mapping[str, int | None]
"""Shards in a form of `create_array`, or by dimension name; False: none; None: the same as the source's."""
RegionLike: TypeAlias = slice | EllipsisType | Sequence[slice | EllipsisType] | None
"""Slices of the source; None: all of it."""

Codecs: TypeAlias = list[Any] | Encoding | None
"""The codecs of a result: a list as in `create_array`, an encoding of formats 1 and 2, or None for the defaults."""

_V3_NAMES = ("zstd", "gzip", "blosc")


@dataclass(frozen=True)
class ConversionOptions:
    """The requested changes and their limits: the arguments of `convert` of the same names.

    Raises:
        TypeError, ValueError: the format, the rule of casts, the selection or a limit is not valid, or `region` and
            `select` are both given.
    """

    zarr_format: int | None = None
    chunks: ChunksOption = None
    shards: ShardsOption = None
    codecs: internal.CodecsLike | None = None
    dtype: internal.DataTypeLike | None = None
    casting: internal.Casting = "checked"
    region: RegionLike = None
    select: NamedSelection | None = None
    max_memory: int | None = None
    max_amplification: float = 3.0

    def __post_init__(self) -> None:
        if self.zarr_format is not None:
            internal.check_format(self.zarr_format)
        if self.casting not in get_args(internal.Casting):
            raise ValueError(f"casting must be {internal.CASTINGS}, not {self.casting!r}")
        if self.select is not None:
            if self.region is not None:
                raise TypeError(f"{argument('region')} and {argument('select')} are both given; give only one of them")
            parse_selection(self.select)
        if not self.max_amplification >= 1:
            raise ValueError(f"{argument('max_amplification')} must be at least 1, not {self.max_amplification!r}")
        if self.max_memory is not None:
            Checks().integer(self.max_memory, argument("max_memory"), 1)

    def check_names(self, arrays: Iterable[Array]) -> None:
        """Check that each dimension name in `chunks` and `shards` is that of a dimension of an array.

        Raises:
            ValueError: a name is not.
        """
        given = [name for each in (self.chunks, self.shards) if isinstance(each, Mapping) for name in each]
        known = sorted({name for array in arrays for name in array.dimension_names or () if name is not None})
        for name in given:
            if name not in known:
                hint = did_you_mean(name, known, f"the names are {known}" if known else "no array has dimension names")
                raise ValueError(f"unknown dimension {name!r} in chunks or shards; {hint}")


def resolve_region(region: RegionLike, shape: Sequence[int]) -> Bounds:
    """Return `region` as start and stop per dimension of an array of `shape`.

    Raises:
        TypeError: it has an item other than slices and `...`.
        ValueError: a step other than 1, or too many slices.
    """
    given: list[Any] = list(region) if isinstance(region, Sequence) else [] if region is None else [region]
    dots = [place for place, item in enumerate(given) if item is Ellipsis]
    if len(dots) > 1:
        raise ValueError("region may contain '...' only once")
    place = dots[0] if dots else len(given)
    before, after = given[:place], given[place + 1 :]
    missing = len(shape) - len(before) - len(after)
    if missing < 0:
        raise ValueError(f"region has {len(before) + len(after)} slices, but the array has {len(shape)} dimensions")
    bounds = []
    for item, length in zip([*before, *[slice(None)] * missing, *after], shape, strict=True):
        if not isinstance(item, slice):
            raise TypeError(
                f"region must consist of slices, such as {item}:{item + 1}"
                if isinstance(item, int)
                else f"region must consist of slices, not {type(item).__name__}"
            )
        start, stop, step = item.indices(length)
        if step != 1:
            raise ValueError(f"slices in region must have step 1, not {step}")
        bounds.append((start, max(start, stop)))
    return tuple(bounds)


def result_metadata(source: Array, shape: Sequence[int], options: ConversionOptions) -> tuple[ArrayMetadata, str]:
    """Return the metadata of the result for `source`, and a remark on what its format lacks, or "".

    Raises:
        TypeError, ValueError: an option has a wrong type or value, or the fill value cannot be cast.
        InvalidMetadataError, UnsupportedMetadataError: the format lacks the data type or a codec.
    """
    metadata = source.metadata
    zarr_format = options.zarr_format or metadata.zarr_format
    changes = (options.chunks, options.shards, options.codecs, options.dtype)
    if zarr_format == metadata.zarr_format and all(change is None for change in changes):
        _stored_lengths(source, shape)
        attributes = attributes_in_format(metadata.attributes, zarr_format)
        return replace(metadata, shape=tuple(shape), attributes=attributes), ""
    data_type = metadata.data_type if options.dtype is None else internal.resolve_dtype(options.dtype)[0]
    is_cast = data_type != metadata.data_type
    has_shards = _MAKERS[zarr_format] is _v3
    keeps_shards = options.shards is None and source.shards is not None
    notes = [] if has_shards or not keeps_shards else [f"format {zarr_format} has no shards, so chunks are objects"]
    keeps_shards = keeps_shards and has_shards
    chunks, shards = _result_chunks(source, shape, options, keeps_shards=keeps_shards)
    given: dict[str, Any] = {"shape": tuple(shape), "chunks": chunks, "shards": shards}
    given["dtype"] = data_type if options.dtype is None or isinstance(options.dtype, DataType) else options.dtype
    given["fill_value"] = _fill_value(metadata, data_type, options.casting) if metadata.has_fill_value else None
    given["attributes"] = attributes_without_names(metadata, zarr_format)
    given["dimension_names"] = metadata.dimension_names

    def make(codecs: Codecs, order: str = "C") -> ArrayMetadata:
        try:
            made = _MAKERS[zarr_format](metadata, {**given, "order": order}, codecs)
        except ValueError as error:
            if keeps_shards and options.chunks is not None:
                advice = f"the shards of the source are kept; {argument('shards', False)} stores chunks without shards"
                error.add_note(f"{argument('shards')} is not given, so {advice}")
            raise
        except TypeError as error:
            if options.zarr_format is None:
                error.add_note(f"{argument('zarr_format')} is not given, so the format of the source is kept")
            raise
        if keeps_shards:
            made = _with_shard_index(made, metadata)
        render_node(made)  # features that the format lacks are reported before anything is stored
        return made

    if options.codecs is not None:
        is_auto = isinstance(options.codecs, str) and options.codecs == "auto"
        codecs = None if is_auto else list(internal.list_codecs(options.codecs))
        return make(codecs, "C" if _has_transpose(codecs) else internal.storage_order(metadata)), "; ".join(notes)
    try:
        if not is_cast and _v3 not in (_MAKERS[metadata.zarr_format], _MAKERS[zarr_format]):
            # Formats 1 and 2 have the same filters, including those that format 3 lacks.
            return make(read_encoding(metadata.codecs, metadata.dtype, metadata.ndim)), "; ".join(notes)
        return make(_kept_codecs(metadata, is_cast=is_cast)), "; ".join(notes)
    except MetadataError as error:
        notes.append(f"the default codecs are used: {error.message}")
        return make(None, internal.storage_order(metadata)), "; ".join(notes)


# --- helpers -----------------------------------------------------------------------------------------------------


def _v3(metadata: ArrayMetadata, given: dict[str, Any], codecs: Codecs) -> ArrayMetadata:
    is_same_format = _MAKERS[metadata.zarr_format] is _v3
    encoding = metadata.chunk_key_encoding
    kept: dict[str, Any] = {}
    if is_same_format:
        kept["chunk_key_encoding"] = {"name": encoding.name, "configuration": dict(encoding.configuration)}
        kept["storage_transformers"] = [internal.as_json(each) for each in metadata.storage_transformers]
    chain = {"codecs": codecs} if isinstance(codecs, list) else {}
    return internal.new_array_metadata(3, {**given, **kept, **chain})


def _v2(metadata: ArrayMetadata, given: dict[str, Any], codecs: Codecs) -> ArrayMetadata:
    names = given["dimension_names"]
    if names is not None and None in names:
        # In format 2, `create_array` cannot store a name that is None, and readers expect all names or none.
        given["dimension_names"] = None
    encoding = metadata.chunk_key_encoding
    separator = encoding.configuration.get("separator", ".") if encoding.name == "v2" else "."
    given["dimension_separator"] = separator
    encoded = _encoding(metadata, given, codecs)
    if encoded is not None:
        filters = [dict(each) for each in encoded.filters]
        given |= {"dtype": parse_dtype(encoded.dtype), "filters": filters or None, "order": encoded.order}
        given["compressor"] = None if encoded.compressor is None else dict(encoded.compressor)
    return internal.new_array_metadata(2, given)


def _v1(metadata: ArrayMetadata, given: dict[str, Any], codecs: Codecs) -> ArrayMetadata:
    given["attributes"] = with_dimension_names(given["attributes"], given.pop("dimension_names"))
    encoded = _encoding(metadata, given, codecs)
    if encoded is not None:
        compressor = dict(encoded.compressor or {"id": None})
        name = compressor.pop("id")
        given |= {"dtype": parse_dtype(encoded.dtype), "order": encoded.order, "compression": name}
        given["compression_opts"] = compressor["level"] if compressor.keys() == {"level"} else compressor or None
    return internal.new_array_metadata(1, given)


_MAKERS: dict[int, Callable[[ArrayMetadata, dict[str, Any], Codecs], ArrayMetadata]] = {3: _v3, 2: _v2, 1: _v1}


def _encoding(metadata: ArrayMetadata, given: Mapping[str, Any], codecs: Codecs) -> Encoding | None:
    """Return the encoding of format 2 of these codecs, in any of their forms, or None for the defaults."""
    if codecs is None or isinstance(codecs, Encoding):
        return codecs
    data_type, big_endian = internal.resolve_dtype(given["dtype"])
    ndim = len(metadata.shape)
    named = [_with_defaults(codec) for codec in codecs]
    chain = internal.codec_chain(named, data_type, order=given["order"], ndim=ndim, big_endian=big_endian)
    return encoding_in_v2(chain, data_type.dtype, ndim)


def _with_defaults(codec: Any) -> Any:
    """Return the default configuration of a numcodecs codec that is given by name alone."""
    if isinstance(codec, str) and codec in BYTES_CODECS and codec not in _V3_NAMES:
        return numcodecs.get_codec({"id": codec})
    return codec


def _kept_codecs(metadata: ArrayMetadata, *, is_cast: bool) -> list[Any]:
    """Return the source's codec chain, in shards that of inner chunks, as JSON of format 3."""
    chain: list[NamedConfig] = list(v3_codecs(metadata))
    while (shard := _shard_codec(chain)) is not None:
        inner = shard.configuration.get("codecs", ())
        chain = [*chain[: chain.index(shard)], *[parse_extension(codec, "codecs") for codec in inner]]
    if is_cast:
        # Codecs of elements depend on the type. Compressors are kept, with the size of the new elements.
        chain = [
            NamedConfig(codec.name, {key: value for key, value in codec.configuration.items() if key != "typesize"})
            for codec in chain
            if codec.name == "transpose" or codec.name.removeprefix("numcodecs.") in BYTES_CODECS
        ]
    return [internal.as_json(codec) for codec in chain]


def _fill_value(metadata: ArrayMetadata, data_type: DataType, casting: internal.Casting) -> Any:
    fill = metadata.fill_value
    if data_type == metadata.data_type:
        return fill[()]
    try:
        return internal.convert_values(np.asarray(fill), data_type.dtype, casting)[()]
    except (TypeError, ValueError, OverflowError) as error:
        error.add_note(f"casting the fill value {fill} to {data_type.name}")
        raise


def _shard_codec(codecs: Iterable[NamedConfig]) -> NamedConfig | None:
    return next((codec for codec in codecs if codec.name == "sharding_indexed"), None)


def _with_shard_index(made: ArrayMetadata, metadata: ArrayMetadata) -> ArrayMetadata:
    """Return the metadata of the result with the location and codecs of the source's shard index."""
    new, old = _shard_codec(made.codecs), _shard_codec(metadata.codecs)
    if new is None or old is None:
        return made
    index = {name: value for name, value in old.configuration.items() if name.startswith("index_")}
    codec = NamedConfig(new.name, {**new.configuration, **index})
    return replace(made, codecs=tuple([codec if each is new else each for each in made.codecs]))


def _has_transpose(codecs: Iterable[Any] | None) -> bool:
    names = [
        codec.get("name") if isinstance(codec, Mapping) else getattr(codec, "name", codec) for codec in codecs or ()
    ]
    return "transpose" in names


def _result_chunks(
    source: Array, shape: Sequence[int], options: ConversionOptions, *, keeps_shards: bool
) -> tuple[Any, Any]:
    """Return `chunks` and `shards` of the result in the forms of `create_array`."""
    chunks: Any = options.chunks
    shards: Any = "auto" if options.shards is True else options.shards
    if keeps_shards:
        shards = _stored_lengths(source, shape)
    elif shards is None:
        shards = False
    if chunks is None:
        chunks = source.chunks if source.shards is not None else _stored_lengths(source, shape)
    elif isinstance(chunks, Mapping):
        chunks = _by_name(source, source.chunks, chunks, "chunks")
    if keeps_shards and options.chunks is not None:
        chunks = _in_array(chunks, shape)
    if isinstance(shards, Mapping):
        shards = _by_name(source, source.shards or chunks, shards, "shards")
    return chunks, None if shards is False else shards


def _in_array(chunks: Any, shape: Sequence[int]) -> Any:
    """Return chunks whose -1 and None mean a whole dimension of the array, not of the shard as in `create_array`."""
    if isinstance(chunks, str) or chunks is True:
        return chunks
    parts = chunks if isinstance(chunks, Sequence) else [chunks or -1] * len(shape)
    if len(parts) != len(shape):
        return chunks
    return [max(1, whole) if part in (None, -1) else part for part, whole in zip(parts, shape, strict=True)]


def _stored_lengths(source: Array, shape: Sequence[int]) -> Sequence[Any]:
    """Return the lengths of stored objects, including those after the array's end, in a form of `create_array`."""
    grid = source.metadata.chunk_grid
    lengths: Sequence[Any] = source.shards or source.chunks
    if grid.name == "rectilinear":
        lengths = tuple(grid.configuration["chunk_shapes"])
    if tuple(shape) != source.shape and not all(isinstance(length, int) for length in lengths):
        raise ValueError(f"chunks of the source have different lengths; set {argument('chunks')} to convert a region")
    return lengths


def _by_name(source: Array, lengths: Sequence[Any], given: Mapping[str, Any], argument: str) -> tuple[Any, ...]:
    names: Sequence[str | None] = source.dimension_names or (None,) * source.ndim
    found: list[Any] = []
    for name, length in zip(names, lengths, strict=True):
        if name is not None and name in given:
            value = given[name]
            found.append(None if value is None else as_index(value))
        elif isinstance(length, tuple):
            raise ValueError(f"{argument} of the source have different lengths; give one for dimension {name!r}")
        else:
            found.append(length)
    return tuple(found)
