"""Creates arrays and groups, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, SupportsIndex

from numpy.typing import ArrayLike, DTypeLike

from aiozarr.engine import Engine, run
from aiozarr.engine.target import Target, opened_store
from aiozarr.hierarchy.array import Array
from aiozarr.hierarchy.changes import create_node
from aiozarr.hierarchy.chunking import ChunksLike, ShardsLike
from aiozarr.hierarchy.describe import CodecsLike, KeyEncodingLike, new_array_metadata, new_group_metadata
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
    dtype: DTypeLike,
    chunks: ChunksLike = "auto",
    shards: ShardsLike = None,
    codecs: CodecsLike = "auto",
    fill_value: ArrayLike | None = None,
    order: Literal["C", "F"] = "C",
    dimension_names: Iterable[str | None] | None = None,
    attributes: Mapping[str, Any] | None = None,
    chunk_key_encoding: KeyEncodingLike = None,
    zarr_format: int = 3,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> Array:
    """Create an array at `path` inside `target`, and the groups above it that are not there yet; it can be written.

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
        fill_value: what missing chunks hold; None: zero. A str is taken as documents write it, such as "NaN".
        order: "F" stores the first axis of a chunk as the fastest one, by a `transpose` codec.
        dimension_names: one name or None per dimension.
        attributes: the user's own JSON.
        chunk_key_encoding: "default" (`c/0/1`) or "v2" (`0.1`); with a separator, `("v2", "/")`; or a mapping
            as documents write it.
        zarr_format: 3.
        overwrite: erase first what is stored there, with everything below it.
        storage_options: how to reach the store, for a URL.
        settings: limits and policies of reads and writes.

    Raises:
        NodeExistsError: something is stored there. Of two that create one array at the same time, one gets this.
        NodeTypeError: a node above is an array.
        UnsupportedOperationError: the store cannot write.
        UnsupportedMetadataError, InvalidMetadataError: a type or codec is not known, or does not fit.
        UnknownSchemeError, InvalidKeyError, StoreError: as `open`.
        TypeError, ValueError: an argument is not what it should be.
    """
    metadata = new_array_metadata(
        shape=shape,
        dtype=dtype,
        chunks=chunks,
        shards=shards,
        codecs=codecs,
        fill_value=fill_value,
        order=order,
        dimension_names=dimension_names,
        attributes=attributes,
        chunk_key_encoding=chunk_key_encoding,
        zarr_format=zarr_format,
    )
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
    """
    metadata = new_group_metadata(attributes, zarr_format)
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
    path = check_path(path)
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
