"""One opened group as xarray's data store: variables, attributes and encoding before CF decoding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xarray import Variable
from xarray.backends.common import AbstractDataStore
from xarray.backends.zarr import FillValueCoder
from xarray.core import indexing

from aiozarr import hierarchy
from aiozarr.integrations.xarray.group_contents import GroupContents, dims_of
from aiozarr.integrations.xarray.lazy_array import LazyArray
from aiozarr.metadata.records import ATTRIBUTE, NamedConfig
from aiozarr.metadata.v2_encoding import read_encoding
from aiozarr.sync.wait import wait


class GroupDataStore(AbstractDataStore):
    """The variables of one group. Making them does no I/O.

    Args:
        contents: the group.
        use_fill_value_as_mask: the fill value of the arrays masks missing values, as `_FillValue` does. None: in
            formats 1 and 2 only.
        masks: xarray's keyword `mask_and_scale`: whether it masks values, or a mapping by the names of variables.
        is_root: closing the data store closes the store of the group.
    """

    __slots__ = ("_contents", "_is_root", "_masks", "_masks_fill_value")

    def __init__(
        self, contents: GroupContents, use_fill_value_as_mask: bool | None, *, masks: Any = True, is_root: bool
    ) -> None:
        self._contents = contents
        self._is_root = is_root
        self._masks = masks
        self._masks_fill_value = (
            contents.group.zarr_format != 3 if use_fill_value_as_mask is None else use_fill_value_as_mask
        )

    def get_variables(self) -> dict[str, Variable]:
        """Return a lazy variable for each array."""
        return {name: self._variable(name, array) for name, array in self._contents.arrays.items()}

    def get_attrs(self) -> dict[str, Any]:
        """Return the attributes of the group without those of NCZarr."""
        return _shown_attributes(self._contents.group.metadata.attributes)

    def get_dimensions(self) -> dict[str, int]:
        """Return the lengths of all dimensions."""
        arrays = self._contents.arrays.values()
        return {name: length for array in arrays for name, length in zip(dims_of(array), array.shape, strict=False)}

    def close(self) -> None:
        """Close the store if opening made it."""
        if self._is_root:
            group = self._contents.group
            wait(lambda _: group.aclose())

    def _variable(self, name: str, array: hierarchy.Array) -> Variable:
        contents, metadata = self._contents, array.metadata
        dims = dims_of(array)
        if len(dims) != array.ndim:
            raise KeyError(
                f"{array.url} has no dimension names, which xarray needs; set `dimension_names` in format 3 or "
                f"the attribute {ATTRIBUTE!r} in format 2; drop_variables={name!r} opens the group without it"
            )
        attributes = dict(metadata.attributes)
        if metadata.zarr_format != 3:
            attributes = _shown_attributes(attributes)
        lazy = LazyArray(array, contents.values.get(name), contents.corners.get(name))
        encoding = chunk_encoding(array, dims) | codec_encoding(array)
        if lazy.dtype.kind == "T":
            encoding["dtype"] = lazy.dtype
        if self._shows_fill_value(name, metadata.zarr_format):
            if metadata.has_fill_value:
                attributes["_FillValue"] = array.fill_value
        else:
            if metadata.zarr_format == 3:
                encoding["fill_value"] = array.fill_value
            if "_FillValue" in attributes:
                attributes["_FillValue"] = FillValueCoder.decode(attributes["_FillValue"], array.dtype)
        return Variable(dims, indexing.LazilyIndexedArray(lazy), attributes, encoding)

    def _shows_fill_value(self, name: str, zarr_format: int) -> bool:
        """Return whether the fill value is the attribute `_FillValue`.

        In formats 1 and 2 it is, even if nothing is masked, because there `Dataset.to_zarr` stores the attribute as the
        fill value.
        """
        is_masked = self._masks.get(name, True) if isinstance(self._masks, Mapping) else self._masks
        return self._masks_fill_value or (zarr_format != 3 and is_masked is False)


def _shown_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes except those that describe the format: names of dimensions, and NCZarr's."""
    return {
        name: value for name, value in attributes.items() if name != ATTRIBUTE and not name.lower().startswith("_nc")
    }


def chunk_encoding(array: hierarchy.Array, dims: Sequence[str]) -> dict[str, Any]:
    """Return `chunks`, `shards` and `preferred_chunks`: the stored objects, which one dask task should read whole."""
    chunks = _compact(array.chunks)
    shards = None if array.shards is None else _compact(array.shards)
    return {
        "chunks": chunks,
        "shards": shards,
        "preferred_chunks": dict(zip(dims, chunks if shards is None else shards, strict=True)),
    }


def codec_encoding(array: hierarchy.Array) -> dict[str, Any]:
    """Return `compressors`, `filters` and, for format 3, `serializer`.

    Returns: codecs of zarr-python, as `to_zarr` accepts them; the JSON of codecs that it does not know, and of all
    codecs if it is not installed.
    """
    metadata = array.metadata
    if metadata.zarr_format != 3:
        encoding = read_encoding(metadata.codecs, metadata.dtype, metadata.ndim)
        compressor = [] if encoding.compressor is None else [encoding.compressor]
        # `to_zarr` stores such texts with a fixed length, which the filter does not suit.
        own_filters = [each for each in encoding.filters if array.dtype.kind != "T" or each.get("id") != "vlen-utf8"]
        return {
            "compressors": tuple([_numcodec(each) for each in compressor]),
            "filters": tuple([_numcodec(each) for each in own_filters]),
        }
    filters: list[Any] = []
    serializer: Any = None
    compressors: list[Any] = []
    for codec in _inner_codecs(metadata.codecs):
        kind, value = _zarr_codec(codec, after_serializer=serializer is not None)
        if kind == "serializer":
            serializer = value
        else:
            (filters if kind == "filter" else compressors).append(value)
    return {"compressors": tuple(compressors), "filters": tuple(filters), "serializer": serializer}


def _compact(lengths: Iterable[Any]) -> tuple[Any, ...]:
    """Return one integer for each regular dimension, and for others the tuple of their chunk lengths."""
    result: list[Any] = []
    for each in lengths:
        if not isinstance(each, tuple):
            result.append(int(each))
        elif not each:
            result.append((0,))
        elif len(set(each[:-1])) <= 1 and each[-1] <= each[0]:
            result.append(each[0])
        else:
            result.append(each)
    return tuple(result)


def _inner_codecs(codecs: Sequence[NamedConfig]) -> list[NamedConfig]:
    """Return the codecs of the inner chunks: those of the innermost shards, if there are shards."""
    for codec in codecs:
        if codec.name == "sharding_indexed":
            inner = codec.configuration["codecs"]
            return _inner_codecs([_named(each) for each in inner])
    return list(codecs)


def _named(codec: Mapping[str, Any] | str) -> NamedConfig:
    if isinstance(codec, str):
        return NamedConfig(codec)
    return NamedConfig(codec["name"], codec.get("configuration", {}))


def _zarr_codec(codec: NamedConfig, *, after_serializer: bool) -> tuple[str, Any]:
    """Return the kind of a codec, "filter", "serializer" or "compressor", and zarr-python's object of it."""
    document: dict[str, Any] = {"name": codec.name}
    if codec.configuration:
        document["configuration"] = dict(codec.configuration)
    kind = "compressor" if after_serializer else "filter"
    try:
        from zarr.abc.codec import ArrayBytesCodec, BytesBytesCodec
        from zarr.registry import get_codec_class

        made = get_codec_class(codec.name).from_dict(document)
    except Exception:
        # zarr-python is not installed, does not know the codec, or reads other configurations. Opening needs no codec.
        return ("serializer" if codec.name in _SERIALIZERS else kind), document
    if isinstance(made, ArrayBytesCodec):
        kind = "serializer"
    elif isinstance(made, BytesBytesCodec):
        kind = "compressor"
    return kind, made


_SERIALIZERS = frozenset({"bytes", "vlen-utf8", "vlen-bytes", "packbits", "numcodecs.pcodec", "numcodecs.zfpy", "zfp"})


def _numcodec(configuration: Mapping[str, Any]) -> Any:
    import numcodecs

    try:
        return numcodecs.get_codec(dict(configuration))
    except Exception:  # numcodecs does not know the codec, so its document is returned
        return dict(configuration)
