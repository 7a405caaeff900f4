"""Creates arrays and groups, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, SupportsIndex

from numpy.typing import ArrayLike

from aiozarr.engine import Engine, run
from aiozarr.engine.target import Target, opened_store
from aiozarr.hierarchy.array import Array
from aiozarr.hierarchy.changes.nodes import create_node
from aiozarr.hierarchy.describe.chunking import ChunksLike, ShardsLike
from aiozarr.hierarchy.describe.node import describe_array, describe_group
from aiozarr.hierarchy.describe.v2 import CompressorLike, FiltersLike
from aiozarr.hierarchy.describe.v3 import CodecsLike, DataTypeLike, KeyEncodingLike, TransformerLike
from aiozarr.hierarchy.documents import NodeMetadata, Place
from aiozarr.hierarchy.group import AnyNode, Group, make_node
from aiozarr.metadata import check_path
from aiozarr.schedule import current_recorder
from aiozarr.settings import Settings, settings_or_default


async def create_array(
    target: Target,
    path: str = "",
    *,
    shape: SupportsIndex | Iterable[SupportsIndex],
    dtype: DataTypeLike,
    chunks: ChunksLike = "auto",
    shards: ShardsLike = None,
    codecs: CodecsLike = "auto",
    fill_value: ArrayLike | None = None,
    order: Literal["C", "F"] = "C",
    dimension_names: Iterable[str | None] | None = None,
    attributes: Mapping[str, Any] | None = None,
    chunk_key_encoding: KeyEncodingLike = None,
    storage_transformers: Iterable[TransformerLike] = (),
    filters: FiltersLike = "auto",
    compressor: CompressorLike = "auto",
    dimension_separator: Literal[".", "/"] | None = None,
    compression: str | None = "auto",
    compression_opts: Any = None,
    zarr_format: int = 3,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> Array:
    """Create an array at `path` inside `target`, and the groups above it that are not there yet; it can be written.

    Format 1 has no groups: there, nothing is made above it.

    Everything is checked before anything is stored. No chunk is: an array holds its fill value until it is written.

    Args:
        target: a URL, a local path, or a `Store`.
        path: the array's path below that; `""` makes the target itself the array.
        shape: lengths of the dimensions; may be empty; lengths may be 0.
        dtype: type of the elements, as numpy names it, or `"r24"` and the like for raw bits. Stored
            little-endian, unless the byte order is given, as in `">f4"`.
        chunks: shape of the chunks, one length for all dimensions, "auto" (at most 1 MiB), or None for a single
            chunk. In a shape, -1 or None stands for a whole dimension.
        shards: shape of the stored objects that hold several chunks, a multiple of `chunks`; "auto" (at most
            64 MiB); None: each chunk is an object of its own.
        codecs: how a chunk becomes bytes: "auto" (`bytes` and `zstd`), or a list in the order of encoding, of names, of
            mappings with `name` and `configuration`, or of codec objects. With `shards`, the chain of the inner chunks.
        fill_value: what missing chunks hold; None: zero, and in formats 1 and 2 none, which is written as null and
            read as zero. A str is taken as documents write it, such as "NaN".
        order: "F" stores the first axis of a chunk as the fastest one; in format 3 by a `transpose` codec.
        dimension_names: one name or None per dimension; format 2 keeps them in the attribute `_ARRAY_DIMENSIONS`.
        attributes: the user's own JSON.
        chunk_key_encoding: "default" (`c/0/1`) or "v2" (`0.1`); with a separator, `("v2", "/")`; or a mapping
            as documents write it.
        storage_transformers: format 3 only: what lies between chunks and store, as the document then says: a list of
            names, of mappings with `name` and `configuration`, or of objects; their classes are registered.
        filters: format 2 only: a list of numcodecs configurations such as `{"id": "delta", "dtype": "<i4"}`, or
            codecs of numcodecs, in the order of encoding; None or empty: none. "auto": the codec of strings and bytes
            of variable length (`dtype=str`, `bytes`), else none. Other objects need theirs here.
        compressor: format 2 only, as a filter is given; None: none. "auto": blosc with lz4, level 5, shuffle, as in
            zarr-python 2.
        dimension_separator: format 2 only: "." or "/" between the numbers in chunk keys; None: ".".
        compression: format 1 only: "blosc", "zlib", "bz2", "lzma" or None; "auto": blosc.
        compression_opts: format 1 only: the options of `compression`; None: those that its library calls defaults.
        zarr_format: 3, 2 or 1. An option of another format is a TypeError: in formats 1 and 2 there are no `codecs`, no
            `shards` and no `chunk_key_encoding`.
        overwrite: erase first what is stored there, with everything below it.
        storage_options: how to reach the store, for a URL.
        settings: limits and policies of reads and writes.

    Raises:
        NodeExistsError: something is stored there. Of two that create one array at the same time, one gets this.
        NodeTypeError: a node above is an array, or a group of another format.
        UnsupportedOperationError: the store cannot write.
        UnsupportedMetadataError, InvalidMetadataError: a type or codec is not known, or does not fit.
        UnknownSchemeError, InvalidKeyError, StoreError: as `open`.
        TypeError, ValueError: an argument is not what it should be.
    """
    options = {
        "shape": shape,
        "dtype": dtype,
        "chunks": chunks,
        "shards": shards,
        "codecs": codecs,
        "fill_value": fill_value,
        "order": order,
        "dimension_names": dimension_names,
        "attributes": attributes,
        "chunk_key_encoding": chunk_key_encoding,
        "storage_transformers": storage_transformers,
        "filters": filters,
        "compressor": compressor,
        "dimension_separator": dimension_separator,
        "compression": compression,
        "compression_opts": compression_opts,
    }
    metadata = describe_array(zarr_format, options)
    node = await _create(target, path, metadata, overwrite, storage_options, settings)
    assert isinstance(node, Array)
    return node


async def create_group(
    target: Target,
    path: str = "",
    *,
    attributes: Mapping[str, Any] | None = None,
    zarr_format: int = 3,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> Group:
    """Create a group at `path` inside `target`, and the groups above it that are not there yet; it can be written.

    Arguments and errors are those of `create_array`.

    Raises:
        ValueError: format 1, which has no groups.
    """
    metadata = describe_group(zarr_format, attributes)
    node = await _create(target, path, metadata, overwrite, storage_options, settings)
    assert isinstance(node, Group)
    return node


async def _create(
    target: Target,
    path: str,
    metadata: NodeMetadata,
    overwrite: bool,
    storage_options: Mapping[str, Any] | None,
    settings: Settings | None,
) -> AnyNode:
    path = check_path(path, metadata.zarr_format)
    settings = settings_or_default(settings)
    recorder = current_recorder()

    async def create(engine: Engine) -> AnyNode:
        async with opened_store(target, storage_options, settings) as (store, owned):
            # The handle first: making it checks the metadata as a reader will.
            node = make_node(store, path, metadata, settings=settings, mode="r+", owns_store=owned)
            node._check_writeable()
            await create_node(Place(engine, store, path, settings, recorder), metadata, overwrite=overwrite)
            return node

    return await run(create, timeout=settings.timeout)
