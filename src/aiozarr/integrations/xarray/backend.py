"""The engine `aiozarr` of `xarray.open_dataset`, `open_datatree` and `open_groups`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from xarray import Dataset, DataTree
from xarray.backends import BackendEntrypoint, StoreBackendEntrypoint
from xarray.backends.common import datatree_from_dict_with_io_cleanup

from aiozarr import hierarchy, sync
from aiozarr.common.formatting import did_you_mean
from aiozarr.integrations.xarray.data_store import GroupDataStore
from aiozarr.integrations.xarray.group_contents import GroupContents, OpenedGroups, OpenOptions, fetch_groups
from aiozarr.stores import Store
from aiozarr.sync.array import async_node
from aiozarr.sync.wait import wait

T = TypeVar("T")


@dataclass(frozen=True)
class DecodeOptions:
    """How variables are decoded; the keywords of xarray, with its defaults."""

    mask_and_scale: Any = True
    decode_times: Any = True
    concat_characters: Any = True
    decode_coords: Any = True
    use_cftime: Any = None
    decode_timedelta: Any = None
    use_zarr_fill_value_as_mask: bool | None = None


_OPEN_NAMES = tuple([each.name for each in fields(OpenOptions)])
_DECODE_NAMES = tuple([each.name for each in fields(DecodeOptions)])
_OTHER_NAMES = ("mode", "store", "engine", "cache_members")
"""`store` is opened in place of the target; `engine` and `cache_members` matter only to xarray's own engine."""


class AiozarrBackendEntrypoint(BackendEntrypoint):
    """Opens Zarr hierarchies: all documents, then all coordinates and times, each in one schedule.

    It accepts the keywords of xarray's own Zarr engine, and in addition:

    - `settings`: the `aiozarr.Settings` of all reads.
    - `max_coordinate_bytes`: the bytes of coordinates and times that are read at opening.
    - `group_filter`: a glob; a tree contains the groups whose path it matches, and the groups above them.
    """

    description = "Open Zarr hierarchies with aiozarr, also awaited"
    url = "https://docs.xarray.dev/en/stable/user-guide/io.html"
    supports_groups = True
    # xarray finds parameters by the signature only for engines that are given by name, and without `**`.
    open_dataset_parameters: ClassVar[tuple[Any, ...] | None] = (
        "filename_or_obj",
        *_DECODE_NAMES,
        *_OPEN_NAMES,
        *_OTHER_NAMES,
    )

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return True for aiozarr's own objects only, so that installing aiozarr does not change defaults."""
        return isinstance(filename_or_obj, Store | hierarchy.Group | sync.Group | OpenedGroups)

    def open_dataset(self, filename_or_obj: Any, **options: Any) -> Dataset:
        """Open one group as a data set.

        Raises:
            NodeNotFoundError: there is no group; also a `FileNotFoundError`.
            MetadataError, StoreError: a document could not be read.
            TypeError: a keyword is unknown.
        """
        opened, decoding = _open(filename_or_obj, options, deep=False)
        return _decode_group(opened.groups[0], decoding, opened.options)

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> DataTree:
        """Open a group and everything below it as a tree; raises the errors of `open_dataset`."""
        return datatree_from_dict_with_io_cleanup(self.open_groups_as_dict(filename_or_obj, **options))

    def open_groups_as_dict(self, filename_or_obj: Any, **options: Any) -> dict[str, Dataset]:
        """Open a group and everything below it, as data sets by path; raises the errors of `open_dataset`."""
        opened, decoding = _open(filename_or_obj, options, deep=True)
        # As xarray's own engine: names are relative to `group`, and absolute without one.
        root, prefix = (".", "") if opened.options.group else ("/", "/")
        return {
            f"{prefix}{each.name}" if each.name else root: _decode_group(each, decoding, opened.options)
            for each in opened.groups
        }


def _open(target: Any, options: Mapping[str, Any], *, deep: bool) -> tuple[OpenedGroups, DecodeOptions]:
    """Open the groups of a target, and return them with the options of decoding."""
    for name in options:
        if name not in (*_OPEN_NAMES, *_DECODE_NAMES, *_OTHER_NAMES):
            known = (*_OPEN_NAMES, *_DECODE_NAMES)
            hint = did_you_mean(name, known, f"expected one of {', '.join(known)}")
            raise TypeError(f"unknown option {name!r} of the engine; {hint}")
    if (store := options.get("store")) is not None:
        target = store
    opened = open_target(target, options.get("mode", "r"), _selected(OpenOptions, _OPEN_NAMES, options), deep=deep)
    return opened, _selected(DecodeOptions, _DECODE_NAMES, options)


def _selected(kind: type[T], names: tuple[str, ...], options: Mapping[str, Any]) -> T:
    return kind(**{name: options[name] for name in names if name in options})


def open_target(target: Any, mode: str, options: OpenOptions, *, deep: bool) -> OpenedGroups:
    """Open the groups of a target, blocking. Groups that are already open are returned unchanged."""
    if mode not in ("r", "r+"):
        raise ValueError(f"mode must be 'r', not {mode!r}, because the engine only reads; write with Dataset.to_zarr")
    if isinstance(target, OpenedGroups):
        return target
    source = source_of(target)
    opened = wait(lambda _: fetch_groups(source, options, deep=deep))
    warn_unless_consolidated([(target, opened)])
    return opened


def warn_unless_consolidated(pairs: Iterable[tuple[Any, OpenedGroups]]) -> None:
    """Warn once if opened targets of a user could have had consolidated metadata but had none."""
    found = [opened.root.store.url for target, opened in pairs if _lacks_consolidated(target, opened)]
    if not found:
        return
    others = f" and {len(found) - 1} others have none" if len(found) > 1 else " has none"
    # The words of xarray's own warning, by which programs filter it.
    warnings.warn(
        f"Failed to open Zarr store with consolidated metadata: {found[0]}{others}, so opening took two more "
        "round trips; add it with aiozarr.consolidate_metadata, or silence this warning with consolidated=False",
        RuntimeWarning,
        stacklevel=_caller_level(),
    )


def _lacks_consolidated(target: Any, opened: OpenedGroups) -> bool:
    return (
        opened.options.consolidated is None
        and not opened.is_consolidated
        and not isinstance(target, hierarchy.Group | sync.Group)
        and bool(getattr(target, "supports_consolidated_metadata", True))
    )


def _caller_level() -> int:
    """Return the level in the stack of the first caller outside of xarray and this package."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("aiozarr", "xarray"):
        level, frame = level + 1, frame.f_back
    return level + 1


def source_of(target: Any) -> str | os.PathLike[str] | Store | hierarchy.Group:
    """Return the target that aiozarr opens for a target of xarray's users.

    Raises:
        TypeError: it is not a target.
    """
    if isinstance(target, sync.Group):
        return async_node(target)
    if isinstance(target, str | os.PathLike | Store | hierarchy.Group):
        return target
    if (mapped := _zarr_store(target)) is not None:
        return mapped
    raise TypeError(
        f"expected a URL, a path, or an aiozarr store or group, not {type(target).__name__}; open other "
        "zarr-python stores with engine='zarr'"
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
    from aiozarr.stores.zarr_python_mapping import native_store

    return native_store(target)


def _decode_group(contents: GroupContents, decoding: DecodeOptions, opening: OpenOptions) -> Dataset:
    decoders = {name: getattr(decoding, name) for name in _DECODE_NAMES}
    use_fill_value_as_mask = decoders.pop("use_zarr_fill_value_as_mask")
    store = GroupDataStore(contents, use_fill_value_as_mask, masks=decoding.mask_and_scale, is_root=not contents.name)
    try:
        return StoreBackendEntrypoint().open_dataset(store, drop_variables=opening.drop_variables, **decoders)
    except BaseException:
        store.close()
        raise
