"""The encoding of a variable: what `Dataset.to_zarr` needs to store it again in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiozarr import hierarchy
from aiozarr.metadata import NamedConfig
from aiozarr.metadata.v2_encoding import read_encoding


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

    Returns: codecs of zarr-python, as `to_zarr` takes them; their JSON for codecs that it does not know, and for all
    where it is not installed.
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
    except Exception:  # a codec that numcodecs does not know: its document is all there is
        return dict(configuration)
