"""Reads a stored `zarr.json` as strictly as TensorStore does."""

from __future__ import annotations

import json
from collections.abc import Mapping

from typing_extensions import Buffer

from aiozarr.codecs.serializers.storage_type import has_byte_order
from aiozarr.driver.array_facts import ArrayFacts, with_index_location
from aiozarr.driver.codec_resolve import Elements, resolve_chain
from aiozarr.driver.codec_spec import SHARDING, CodecChainSpec
from aiozarr.driver.json_members import JSON, invalid
from aiozarr.driver.metadata_constraints import MetadataConstraints
from aiozarr.errors import InvalidMetadataError, InvalidSpecError

REQUIRED = (
    *("zarr_format", "node_type", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"),
)
_REQUIRED_OPTIONS = {
    "transpose": ("order",),
    "gzip": ("level",),
    "zstd": ("level",),
    "blosc": ("cname", "clevel", "shuffle", "blocksize"),
    SHARDING: ("chunk_shape", "codecs", "index_codecs"),
}


def parse_stored(data: Buffer, *, node: str, key: str) -> ArrayFacts:
    """Return the metadata of a stored array.

    Raises:
        InvalidMetadataError: the document is not JSON, or not that of an array that the driver reads.
    """
    try:
        document = json.loads(bytes(data))
    except ValueError as error:
        raise InvalidMetadataError(f"the document is not JSON: {error}", node=node, key=key) from error
    try:
        return _parse(document)
    except InvalidSpecError as error:
        raise InvalidMetadataError(error.message, node=node, key=key, member=error.member) from error


def _parse(document: JSON) -> ArrayFacts:
    if not isinstance(document, Mapping):
        raise invalid("", "the document is not an object")
    if document.get("node_type") != "array":
        raise invalid("node_type", f"the node is {document.get('node_type')!r}, not 'array'")
    for name in REQUIRED:
        if name not in document:
            raise invalid(name, "the member is missing")
    found = MetadataConstraints.parse(document, "")
    shape, data_type, chunk_shape = found.shape, found.data_type, found.chunk_shape
    encoding, fill, codecs = found.chunk_key_encoding, found.fill_value, found.codecs
    assert shape is not None
    assert data_type is not None
    assert chunk_shape is not None
    assert encoding is not None
    assert fill is not None
    assert codecs is not None
    byte_order = has_byte_order(data_type.dtype)
    _check_names(document["codecs"], "codecs")
    _check_complete(codecs, "codecs", byte_order)
    elements = Elements(len(shape), data_type.dtype.itemsize, byte_order, chunk_shape)
    resolve_chain(codecs, elements, "codecs")
    return ArrayFacts(
        shape=shape,
        data_type=data_type,
        chunk_shape=chunk_shape,
        chunk_key_encoding=encoding,
        fill_value=fill,
        codecs=with_index_location(codecs),
        dimension_names=found.dimension_names or (None,) * len(shape),
        dimension_units=found.dimension_units,
        attributes=found.attributes,
        extra=found.extra,
    )


def _check_names(codecs: JSON, path: str) -> None:
    """Refuse codecs that are only names, which specs allow and documents do not."""
    for number, codec in enumerate(codecs):
        where = f"{path}[{number}]"
        if isinstance(codec, str):
            raise invalid(where, f"expected an object, not {codec!r}")
        configuration = codec.get("configuration", {})
        for name in ("codecs", "index_codecs"):
            if name in configuration:
                _check_names(configuration[name], f"{where}.configuration.{name}")


def _check_complete(chain: CodecChainSpec, path: str, byte_order: bool) -> None:
    """Refuse a chain that leaves something open."""
    serializer = chain.array_to_bytes
    if serializer is None:
        raise invalid(path, "no codec makes bytes of arrays")
    for codec in (*chain.array_to_array, serializer, *chain.bytes_to_bytes):
        for option in _REQUIRED_OPTIONS.get(codec.name, ()):
            if option not in codec.options:
                raise invalid(path, f"the codec {codec.name!r} lacks {option!r}")
        if codec.name == "blosc" and codec.options["shuffle"] != "noshuffle" and "typesize" not in codec.options:
            raise invalid(path, "the codec 'blosc' lacks 'typesize'")
    if serializer.name == "bytes" and byte_order and "endian" not in serializer.options:
        raise invalid(path, "the codec 'bytes' lacks 'endian'")
    if serializer.name == SHARDING:
        _check_complete(chain.inner, f"{path}.configuration.codecs", byte_order)
        _check_complete(serializer.options["index_codecs"], f"{path}.configuration.index_codecs", True)
