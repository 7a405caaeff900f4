"""The engine `aiozarr` of `xarray.open_dataset`, `open_datatree` and `open_groups`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from xarray import Dataset, DataTree
from xarray.backends import BackendEntrypoint, StoreBackendEntrypoint
from xarray.backends.common import datatree_from_dict_with_io_cleanup

from aiozarr import hierarchy, sync
from aiozarr.integrations.xarray.data_store import GroupDataStore
from aiozarr.integrations.xarray.group_contents import (
    MAX_COORDINATE_BYTES,
    GroupContents,
    OpenedGroups,
    OpenOptions,
    fetch_groups,
)
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.sync.wait import wait


class AiozarrBackendEntrypoint(BackendEntrypoint):
    """Opens Zarr hierarchies: all documents, then all coordinates and times, each in one schedule.

    Keywords besides those of xarray's own engine for Zarr: `settings`, the `aiozarr.Settings` of all reads, and
    `max_coordinate_bytes`, the bytes of coordinates and times that are read at opening.
    """

    description = "Open Zarr hierarchies with aiozarr, also awaited"
    url = "https://docs.xarray.dev/en/stable/user-guide/io.html"
    supports_groups = True
    # xarray finds the parameters by the signature only for engines that are given by name.
    open_dataset_parameters: ClassVar[tuple[Any, ...] | None] = (
        "filename_or_obj",
        "mask_and_scale",
        "decode_times",
        "concat_characters",
        "decode_coords",
        "drop_variables",
        "use_cftime",
        "decode_timedelta",
        "group",
        "mode",
        "consolidated",
        "storage_options",
        "zarr_format",
        "store",
        "engine",
        "use_zarr_fill_value_as_mask",
        "cache_members",
        "settings",
        "max_coordinate_bytes",
    )

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return True for objects of aiozarr alone, so that installing it changes no default."""
        return isinstance(filename_or_obj, Store | hierarchy.Group | sync.Group | OpenedGroups)

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        mode: str = "r",
        consolidated: bool | None = None,
        storage_options: Mapping[str, Any] | None = None,
        zarr_format: int | None = None,
        store: Any = None,
        engine: Any = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        cache_members: bool = True,
        settings: Settings | None = None,
        max_coordinate_bytes: int = MAX_COORDINATE_BYTES,
    ) -> Dataset:
        """Open one group as a data set. `store`, `engine` and `cache_members` are accepted for xarray's own engine.

        Raises:
            NodeNotFoundError: there is no group; also a `FileNotFoundError`.
            MetadataError, StoreError: a document could not be read.
        """
        opened = open_target(
            filename_or_obj if store is None else store,
            mode,
            OpenOptions(
                group, zarr_format, consolidated, storage_options, settings, drop_variables, max_coordinate_bytes
            ),
            deep=False,
        )
        return _decode_group(
            opened.groups[0],
            use_zarr_fill_value_as_mask,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> DataTree:
        """Open a group and everything below it as a tree; keywords and errors are those of `open_groups_as_dict`."""
        return datatree_from_dict_with_io_cleanup(self.open_groups_as_dict(filename_or_obj, **options))

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        mode: str = "r",
        consolidated: bool | None = None,
        storage_options: Mapping[str, Any] | None = None,
        zarr_format: int | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        settings: Settings | None = None,
        max_coordinate_bytes: int = MAX_COORDINATE_BYTES,
    ) -> dict[str, Dataset]:
        """Open a group and everything below it, as data sets by path; errors are those of `open_dataset`."""
        opened = open_target(
            filename_or_obj,
            mode,
            OpenOptions(
                group, zarr_format, consolidated, storage_options, settings, drop_variables, max_coordinate_bytes
            ),
            deep=True,
        )
        # As xarray's own engine: names are relative to `group`, and absolute without one.
        root, prefix = (".", "") if opened.options.group else ("/", "/")
        return {
            f"{prefix}{each.name}" if each.name else root: _decode_group(
                each,
                use_zarr_fill_value_as_mask,
                mask_and_scale=mask_and_scale,
                decode_times=decode_times,
                concat_characters=concat_characters,
                decode_coords=decode_coords,
                drop_variables=drop_variables,
                use_cftime=use_cftime,
                decode_timedelta=decode_timedelta,
            )
            for each in opened.groups
        }


def open_target(target: Any, mode: str, options: OpenOptions, *, deep: bool) -> OpenedGroups:
    """Open the groups of a target, blocking. Groups that are opened already are returned as they are."""
    if mode not in ("r", "r+"):
        raise ValueError(f"the engine reads, with mode='r', not {mode!r}; Dataset.to_zarr writes")
    if isinstance(target, OpenedGroups):
        return target
    source = source_of(target)
    return wait(lambda _: fetch_groups(source, options, deep=deep))


def source_of(target: Any) -> str | os.PathLike[str] | Store | hierarchy.Group:
    """Return what aiozarr opens for a target of xarray's users.

    Raises:
        TypeError: it is no target.
    """
    if isinstance(target, sync.Group):
        return target._async
    if isinstance(target, str | os.PathLike | Store | hierarchy.Group):
        return target
    if (mapped := _zarr_store(target)) is not None:
        return mapped
    raise TypeError(
        f"the engine opens a URL, a path, and stores and groups of aiozarr, not {type(target).__name__}; "
        "engine='zarr' opens other stores of zarr-python"
    )


def _zarr_store(target: Any) -> Store | None:
    """Return the store for one of zarr-python's, or for a dictionary of its buffers.

    Returns: a store of the same objects, or None if the target is something else, or has no exact counterpart.
    """
    zarr = sys.modules.get("zarr")
    if zarr is None:
        return None
    if isinstance(target, dict):
        target = zarr.storage.MemoryStore(target)
    if not isinstance(target, zarr.abc.store.Store):
        return None
    from aiozarr.integrations.zarr.store_mapping import native_store

    return native_store(target)


def _decode_group(contents: GroupContents, use_fill_value_as_mask: bool | None, **decoders: Any) -> Dataset:
    store = GroupDataStore(contents, use_fill_value_as_mask, is_root=not contents.name)
    try:
        return StoreBackendEntrypoint().open_dataset(store, **decoders)
    except BaseException:
        store.close()
        raise
