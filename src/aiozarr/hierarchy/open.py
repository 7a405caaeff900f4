"""Opens what is stored: arrays and groups, by URL, local path or store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiozarr.engine import Engine, run
from aiozarr.engine.target import Target, opened_store
from aiozarr.errors import NodeTypeError, StoreTimeoutError
from aiozarr.hierarchy.array import Array
from aiozarr.hierarchy.changes.turns import ledger_of
from aiozarr.hierarchy.documents import Place, check_format, require_node
from aiozarr.hierarchy.group import AnyNode, Group, make_node
from aiozarr.hierarchy.node import Mode
from aiozarr.metadata import ArrayMetadata, GroupMetadata, check_path
from aiozarr.schedule import current_recorder
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores import Store


async def open(  # noqa: A001  # the public name
    target: Target,
    path: str = "",
    *,
    mode: Mode = "r",
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> AnyNode:
    """Open the array or group at `path` inside `target`.

    The result is an async context manager, which closes the store if it was made here.

    Args:
        target: a URL, a local path, or a `Store`.
        path: the node's path below that, such as `"a/b"`; `""` is the target itself.
        mode: "r": writes raise; "r+": they do not.
        zarr_format: the format that the node must have; None: any, and 3, 2, 1 where it has several. All documents
            are looked for at once, whether there is one format or three.
        storage_options: how to reach the store, for a URL: what fsspec's users pass.
        settings: limits and policies of reads and writes.

    Raises:
        NodeNotFoundError: there is no node, or none of `zarr_format`; also a `FileNotFoundError`.
        InvalidMetadataError, UnsupportedMetadataError: its document cannot be read.
        UnknownSchemeError: no store opens such URLs.
        InvalidKeyError: `path` is not one that a node can have.
        StoreError: the store could not be read.
        TypeError, ValueError: an argument is not what it should be.
    """
    return await _open(target, path, mode, zarr_format, storage_options, settings, (ArrayMetadata, GroupMetadata))


async def open_array(
    target: Target,
    path: str = "",
    *,
    mode: Mode = "r",
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> Array:
    """Open the array at `path` inside `target`; arguments and errors are those of `open`.

    Raises:
        NodeTypeError: there is a group.
    """
    node = await _open(target, path, mode, zarr_format, storage_options, settings, (ArrayMetadata,))
    assert isinstance(node, Array)
    return node


async def open_group(
    target: Target,
    path: str = "",
    *,
    mode: Mode = "r",
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> Group:
    """Open the group at `path` inside `target`; arguments and errors are those of `open`.

    Raises:
        NodeTypeError: there is an array.
    """
    node = await _open(target, path, mode, zarr_format, storage_options, settings, (GroupMetadata,))
    assert isinstance(node, Group)
    return node


async def _open(
    target: Target,
    path: str,
    mode: Mode,
    zarr_format: int | None,
    storage_options: Mapping[str, Any] | None,
    settings: Settings | None,
    kinds: tuple[type[ArrayMetadata] | type[GroupMetadata], ...],
) -> AnyNode:
    if mode not in ("r", "r+"):
        raise ValueError(f"mode is 'r' or 'r+', not {mode!r}; create_array and create_group create")
    check_format(zarr_format)
    path = check_path(path, zarr_format)
    settings = settings_or_default(settings)
    recorder = current_recorder()
    asked: list[Store] = []

    async def find(engine: Engine) -> AnyNode:
        async with opened_store(target, storage_options, settings) as (store, owned):
            asked.append(store)
            place = Place(engine, store, path, settings, recorder)
            # Before the documents: what is changed while they are on their way is found to be newer.
            seen = ledger_of(engine.desk).changes(store)
            metadata = await require_node(place, zarr_format)
            if not isinstance(metadata, kinds):
                found, wanted = (
                    ("an array", "a group") if isinstance(metadata, ArrayMetadata) else ("a group", "an array")
                )
                raise NodeTypeError(f"{place.url} is {found}, not {wanted}", url=place.url, path=path)
            node = make_node(store, path, metadata, settings=settings, mode=mode, owns_store=owned)
            if isinstance(node, Group):
                node._seen = seen
            return node

    try:
        return await run(find, timeout=settings.timeout)
    except StoreTimeoutError as error:
        # The clock of an operation knows no store.
        if error.store is None and asked:
            error.store, error.key = asked[0].url, path or None
        raise
