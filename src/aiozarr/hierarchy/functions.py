"""Creates arrays and groups, each whole or not at all, and reads several views as one schedule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex, TypeAlias, TypeVar, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aiozarr.engine import run
from aiozarr.engine.open_store import Target
from aiozarr.grid.axis_layout import new_array
from aiozarr.hierarchy.array import Array, make_array
from aiozarr.hierarchy.changes import erasures
from aiozarr.hierarchy.group import Group, make_group
from aiozarr.hierarchy.new_metadata import (
    AnyFormatOptions,
    new_array_with_data,
    new_group_metadata,
    with_options,
)
from aiozarr.hierarchy.new_metadata_v3 import DataTypeLike
from aiozarr.hierarchy.node import HandleOptions, MakeNode, check_store_writable
from aiozarr.hierarchy.node_access import NodeAccess, NodeMetadata, run_at_target
from aiozarr.hierarchy.node_changes import create_all
from aiozarr.hierarchy.opening import check_no_mode, opens
from aiozarr.hierarchy.view import View
from aiozarr.schedule.events import current_recorder, observed
from aiozarr.settings import Settings

N = TypeVar("N", Array, Group)


@opens
@with_options(AnyFormatOptions)
async def create_array(
    target: Target,
    path: str = "",
    *,
    shape: SupportsIndex | Iterable[SupportsIndex] | None = None,
    dtype: DataTypeLike | None = None,
    data: ArrayLike | None = None,
    zarr_format: int = 3,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    **options: Unpack[AnyFormatOptions],
) -> Array:
    """Create an array at `path` inside `target`, and the missing groups above it, and return it opened for writing.

    Format 1 has no groups, so no groups are created.

    All arguments are checked before anything is stored. Without `data`, no chunks are stored: the array reads as its
    fill value until it is written. If writing `data` fails, the array remains with the values written so far, and a
    note on the error says so.

    Args:
        target: a URL, a local path, a `Store`, or an object with obspec's methods, such as an obstore store.
        path: the array's path inside `target`; `""` makes the target itself the array.
        shape: lengths of the dimensions. May be empty; lengths may be 0. It must equal the shape of `data`, if given.
        dtype: type of the elements by numpy's name, or for raw bits a name such as `"r24"`. Stored little-endian,
            unless the byte order is given, as in `">f4"`.
        data: the values to write, which determine shape and dtype unless these are given. A different `dtype` must
            represent every value.
        zarr_format: 3, 2 or 1. An option of another format is a TypeError: formats 1 and 2 have no `codecs`, no
            `shards` and no `chunk_key_encoding`.
        overwrite: first erase the node and everything else stored below `path`.
        storage_options: options of the store, for a URL.
        settings: limits and policies of reads and writes.
        options: the keywords below.

    Keyword Args:
        chunks: shape of the chunks, one length for all dimensions, "auto" (at most 1 MiB), or None for a single
            chunk. In a shape, -1 or None stands for a whole dimension.
        shards: shape of the stored objects that contain several chunks, a multiple of `chunks`; "auto" (at most 64
            MiB); None: each chunk is a separate object.
        codecs: how a chunk becomes bytes: "auto" (`bytes` and `zstd`), or a list in the order of encoding, of names, of
            mappings with `name` and `configuration`, or of codec objects, including objects of numcodecs and
            zarr-python. With `shards`, the chain of the inner chunks.
        filters: the codecs before the serializer, in the order of encoding, each in a form of `codecs`; one codec, or a
            list. None or empty: no filters. "auto": in format 2 the codec of strings and bytes of variable length
            (`dtype=str`, `bytes`), else no filters. Other objects in format 2 need an explicit codec here.
        serializer: the codec from arrays to bytes, such as `{"name": "bytes", "configuration": {"endian": "big"}}`. Not
            for format 2.
        compressors: the codecs after the serializer, one codec or a list; None or empty: uncompressed. "auto": `zstd`,
            in format 2 blosc with lz4, level 5, shuffle, as in zarr-python 2. Format 2 has at most one. `filters`,
            `serializer` and `compressors` are the keywords of zarr-python. In format 3 they describe the same chain as
            `codecs`, so give one or the other.
        fill_value: the value of missing chunks. None: zero; in formats 1 and 2 null is stored, and read as zero. A str
            is written as in documents, such as "NaN".
        order: "F" stores chunks with the first axis varying fastest; format 3 uses a `transpose` codec for this.
        dimension_names: one name or None per dimension. Format 2 stores them in the attribute `_ARRAY_DIMENSIONS`.
        attributes: the user's own JSON.
        chunk_key_encoding: "default" (`c/0/1`) or "v2" (`0.1`); with a separator, `("v2", "/")`; or a mapping
            as in documents.
        storage_transformers: format 3 only: transformers between chunks and store, recorded in the document: a list of
            names, of mappings with `name` and `configuration`, or of objects of registered classes.
        compressor: format 2 only: zarr-python 2's name of `compressors`; None: uncompressed.
        dimension_separator: format 2 only: "." or "/" between the numbers in chunk keys; None: ".".
        compression: format 1 only: "blosc", "zlib", "bz2", "lzma" or None; "auto": blosc.
        compression_opts: format 1 only: the options of `compression`; None: the defaults of its library.

    Raises:
        NodeExistsError: something is stored there. If two tasks create the same array at the same time, one of them
            gets this error.
        NodeTypeError: a node above is an array, or a group of another format.
        UnsupportedOperationError: the store cannot write.
        UnsupportedMetadataError, InvalidMetadataError: a type or codec is unknown or does not fit.
        UnknownSchemeError, InvalidKeyError, StoreError: as `open`.
        TypeError, ValueError: an argument has a wrong type or value.
    """
    metadata, values = await new_array_with_data(zarr_format, {"shape": shape, "dtype": dtype, **options}, data)
    array = await _create(make_array, target, path, metadata, overwrite, storage_options, settings)
    if values is not None:
        await array._write_first(values)
    return array


@opens
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
    """Create a group at `path` inside `target`, and the missing groups above it, and return it opened for writing.

    Arguments and errors are the same as for `create_array`.

    Raises:
        ValueError: `zarr_format` is 1, which has no groups.
    """
    metadata = new_group_metadata(zarr_format, attributes)
    return await _create(make_group, target, path, metadata, overwrite, storage_options, settings)


@observed("create", lambda node, *_: None if node is None else node.url)
async def _create(
    make: MakeNode[N],
    target: Target,
    path: str,
    metadata: NodeMetadata,
    overwrite: bool,
    storage_options: Mapping[str, Any] | None,
    settings: Settings | None,
) -> N:
    check_no_mode(path)

    async def create(access: NodeAccess, owns_store: bool) -> N:
        # The handle is made first, because that checks the metadata as opening does.
        node = make(access.store, access.path, metadata, HandleOptions(access.settings, "r+", owns_store))
        check_store_writable(access.store)
        await create_all([access], [metadata], overwrite=overwrite)
        node._mark_stored()
        return node

    return await run_at_target(
        create, target, path, zarr_format=metadata.zarr_format, storage_options=storage_options, settings=settings
    )


AnyArray: TypeAlias = NDArray[Any]


def _url_of_reads(_: object, views: Sequence[View | Array]) -> str | None:
    """Return the URL of the array that all views select from, or None if there are several."""
    urls = {view.url if isinstance(view, Array) else view.array.url for view in views}
    return urls.pop() if len(urls) == 1 else None


@observed("read", _url_of_reads)
async def read_many(views: Sequence[View | Array]) -> list[AnyArray]:
    """Read several views, of any arrays and stores, in one schedule, and return their values in order.

    The settings of the first view apply to all. The first error ends all reads.

    Raises:
        TypeError: an item is not a view or array, or belongs to `aiozarr.sync`.
        StoreError, CodecError, MissingChunkError, LimitError, TimeoutError: as `View.read`.
    """
    requested = [_as_view(view) for view in views]
    for view in requested:
        if view._array._erasures_seen != erasures.count:
            await view._array._check_before_read()
        await view._check_size()
    targets = [new_array(view._transform, view.dtype) for view in requested]
    pairs = [(view, target) for view, target in zip(requested, targets, strict=True) if view.size]
    planned = [(target, *view._reading(target, new=True)) for view, target in pairs]
    if planned:
        reads = [read for _, read, _ in planned]
        settings, report = requested[0]._settings, current_recorder()
        await run(lambda engine: engine.read(reads, settings=settings, report=report), timeout=settings.timeout)
        copies = [(target, filled) for target, _, filled in planned if filled is not target]
        if copies:
            await run(lambda engine: engine.run_in_worker(lambda: _copy_arrays(copies)), timeout=settings.timeout)
    return [view._result(target) for view, target in zip(requested, targets, strict=True)]


def _copy_arrays(pairs: Sequence[tuple[AnyArray, AnyArray]]) -> None:
    for target, filled in pairs:
        np.copyto(target, filled)


def _as_view(view: object) -> View:
    if isinstance(view, View):
        return view
    if isinstance(view, Array):
        return view._whole()
    raise wrong_view_error("aiozarr", view)


def wrong_view_error(module: str, view: object) -> TypeError:
    """Return the error of the `read_many` of `module`, which accepts the views and arrays of that module only."""
    kind = type(view)
    home = "aiozarr.sync" if kind.__module__.startswith("aiozarr.sync") else kind.__module__.partition(".")[0]
    return TypeError(f"{module}.read_many takes {module}.View and {module}.Array, not {home}.{kind.__qualname__}")
