"""Fetches in one schedule all that opening needs: the documents of all groups, then all coordinates and times."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from aiozarr import hierarchy
from aiozarr.common.concurrency import cancel_and_wait, gather_all
from aiozarr.engine import Engine, Target, opened_store, run
from aiozarr.errors import AiozarrError, NodeTypeError
from aiozarr.hierarchy import View
from aiozarr.hierarchy.internal import AnyArray, NodeAccess, child_of, list_folders, listed_levels, reopened
from aiozarr.integrations.xarray.lazy_array import Corners
from aiozarr.metadata.records import GroupMetadata
from aiozarr.schedule.events import current_recorder, observed
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores.blocking import BlockingStore

MAX_COORDINATE_BYTES = 64 << 20
"""Bytes of coordinates and times that are read when a data set is opened: 8 million values of eight bytes."""


@dataclass(frozen=True)
class OpenOptions:
    """Which nodes are opened, and how; the keywords of the engine that concern requests."""

    group: str | None = None
    zarr_format: int | None = None
    consolidated: bool | None = None
    storage_options: Mapping[str, Any] | None = None
    settings: Settings | None = None
    drop_variables: str | Iterable[str] | None = None
    max_coordinate_bytes: int = MAX_COORDINATE_BYTES
    group_filter: str | None = None

    @property
    def dropped(self) -> frozenset[str]:
        """Names of the variables that are not opened."""
        names = self.drop_variables
        return frozenset([names] if isinstance(names, str) else names or ())


@dataclass
class GroupContents:
    """One group of a hierarchy, opened.

    Attributes:
        name: the path relative to the opened group; "" is the opened group itself.
        group: the group.
        arrays: its arrays by name.
        values: the values of those arrays that were read with it.
        corners: the first and last elements of times that are too large for that.
    """

    name: str
    group: hierarchy.Group
    arrays: dict[str, hierarchy.Array] = field(default_factory=dict)
    values: dict[str, AnyArray] = field(default_factory=dict)
    corners: dict[str, Corners] = field(default_factory=dict)


@dataclass
class OpenedGroups:
    """The groups of one target, opened; the engine accepts it in place of a target.

    Attributes:
        options: how they were opened.
        groups: the opened group, then those below it if a tree was opened.
    """

    options: OpenOptions
    groups: list[GroupContents]

    @property
    def is_consolidated(self) -> bool:
        """Whether the documents come from consolidated metadata."""
        return self.root.metadata.consolidated is not None

    @property
    def root(self) -> hierarchy.Group:
        """The opened group."""
        return self.groups[0].group

    def __dask_tokenize__(self) -> tuple[object, ...]:
        arrays = [(each.name, sorted((n, hash(a.metadata)) for n, a in each.arrays.items())) for each in self.groups]
        return ("aiozarr.OpenedGroups", self.root.url, arrays)


@observed("open", lambda opened, *_: None if opened is None else opened.root.url)
async def fetch_groups(target: Target | hierarchy.Group, options: OpenOptions, *, deep: bool) -> OpenedGroups:
    """Open a group, its arrays and, with `deep`, everything below it, and read coordinates and times.

    With consolidated metadata, this takes one round trip for documents and one for coordinates and times. May be
    called from any loop.

    Raises:
        NodeNotFoundError: there is no group; also a `FileNotFoundError`.
        MetadataError, StoreError: a document could not be read.
    """
    return await run(
        lambda engine: _fetch(engine, target, options, deep=deep), timeout=settings_or_default(options.settings).timeout
    )


async def _fetch(engine: Engine, target: Target | hierarchy.Group, options: OpenOptions, *, deep: bool) -> OpenedGroups:
    root, folders = await _open_group(engine, target, options)
    try:
        groups = await _list_groups(root, options.dropped, folders, deep=deep)
        if options.group_filter is not None:
            groups = _matching(groups, options.group_filter)
        opened = OpenedGroups(options, groups)
        await _fetch_coordinates(opened)
    except BaseException:
        await root.aclose()
        raise
    return opened


async def _open_group(
    engine: Engine, target: Target | hierarchy.Group, options: OpenOptions
) -> tuple[hierarchy.Group, list[str] | None]:
    """Return the group, and its folders if it was listed while its document was read."""
    path = (options.group or "").strip("/")
    if isinstance(target, hierarchy.Group):
        # The caller's group stays open, because the group of the data set does not own the store.
        group = await _child_group(target, path) if path else target
        return reopened(group, options.settings or target.settings), None
    if isinstance(target, str | os.PathLike):
        target = _expanded(target)
    settings = settings_or_default(options.settings)
    async with opened_store(target, options.storage_options, settings) as (store, is_owned):

        async def open_at(path: str) -> hierarchy.Group:
            return await hierarchy.open_group(
                store,
                path,
                zarr_format=options.zarr_format,
                use_consolidated=options.consolidated if not path or options.consolidated is False else None,
                settings=settings,
            )

        listing = None
        if options.consolidated is False and store.supports.listable and not isinstance(store, BlockingStore):
            # Only here the listing is certainly needed, and saves a round trip.
            access = NodeAccess(engine, store, path, settings, current_recorder())
            listing = asyncio.ensure_future(list_folders(access))
        try:
            if not path or options.consolidated is False:
                group = await open_at(path)
            elif options.consolidated:
                group = await _child_group(await open_at(""), path)
            else:
                # Both at once, because `to_zarr` consolidates the metadata of all groups at the root.
                root, found = await gather_all([_found(open_at("")), _found(open_at(path))])
                if isinstance(root, hierarchy.Group) and root.metadata.consolidated is not None:
                    found = await _child_group(root, path)
                if isinstance(found, AiozarrError):
                    raise found
                group = found
            folders = None if listing is None else await listing
        finally:
            if listing is not None:
                await cancel_and_wait(listing)
        return reopened(group, settings, owns_store=is_owned), folders


async def _found(opening: Any) -> hierarchy.Group | AiozarrError:
    try:
        return await opening  # type: ignore[no-any-return]  # an opening of a group
    except AiozarrError as error:
        return error


async def _child_group(group: hierarchy.Group, path: str) -> hierarchy.Group:
    child = await group.open(path)
    if isinstance(child, hierarchy.Array):
        raise NodeTypeError(f"{child.url} is an array, not a group", url=child.url, path=child.path)
    return child


async def _list_groups(
    root: hierarchy.Group, dropped: frozenset[str], folders: list[str] | None, *, deep: bool
) -> list[GroupContents]:
    """Return the group with its arrays and, with `deep`, all groups below it, parents before their children."""
    groups = {"": GroupContents("", root)}
    async with aclosing(listed_levels(root, None if deep else 0, folders=folders)) as levels:
        async for batch in levels:
            for found in batch:
                parent, _, name = found.name.rpartition("/")
                is_dropped = name in dropped and not isinstance(found.metadata, GroupMetadata)
                if is_dropped or parent not in groups:
                    continue
                node = child_of(root, found)
                if isinstance(node, Exception):
                    raise node
                if isinstance(node, hierarchy.Array):
                    groups[parent].arrays[name] = node
                elif deep:
                    groups[found.name] = GroupContents(found.name, node)
    return list(groups.values())


def _matching(groups: list[GroupContents], pattern: str) -> list[GroupContents]:
    """Return the groups whose path matches, as in `DataTree.match`, and those above them."""
    kept = {""}
    for each in groups:
        path = PurePosixPath("/", each.name)
        if path.match(pattern):
            kept.update(str(above).removeprefix("/") for above in (path, *path.parents))
    return [each for each in groups if each.name in kept]


async def _fetch_coordinates(opened: OpenedGroups) -> None:
    """Read coordinates and times of all groups in one schedule, the smallest first, within the byte limit."""
    wanted = [
        (each, name, array)
        for each in opened.groups
        for name, array in each.arrays.items()
        if array.size and _is_read_at_opening(each, name, array)
    ]
    left = opened.options.max_coordinate_bytes
    views: list[View] = []
    whole: list[tuple[GroupContents, str]] = []
    ends: list[tuple[GroupContents, str, hierarchy.Array]] = []
    for each, name, array in sorted(wanted, key=lambda item: item[2].nbytes):
        left -= array.nbytes
        if left >= 0:
            whole.append((each, name))
            views.append(array[...])
        elif _is_time(array):
            ends.append((each, name, array))
    for _, _, array in ends:
        views += [array[(*index, ...)] for index in _end_indices(array)]
    if not views:
        return
    try:
        blocks = iter(await hierarchy.read_many(views))
    except AiozarrError:
        # One coordinate that cannot be read must not hide the others. xarray reads it later, and raises the error if
        # needed.
        return
    for each, name in whole:
        each.values[name] = np.asarray(next(blocks))
    for each, name, array in ends:
        each.corners[name] = {index: np.asarray(next(blocks)) for index in _end_indices(array)}


def _end_indices(array: hierarchy.Array) -> list[tuple[int, ...]]:
    return [(0,) * array.ndim, tuple([length - 1 for length in array.shape])]


def _is_read_at_opening(contents: GroupContents, name: str, array: hierarchy.Array) -> bool:
    """Return whether xarray reads the array when it opens the group, or soon after: coordinates and times."""
    if array.ndim > 1:
        return _is_time(array)
    return name in dims_of(array) or _is_time(array) or name in _coordinate_names(contents)


def _is_time(array: hierarchy.Array) -> bool:
    units = array.metadata.attributes.get("units")
    return isinstance(units, str) and " since " in units


def _coordinate_names(contents: GroupContents) -> frozenset[str]:
    """Return the names in the attributes `coordinates` of the group and its arrays (CF conventions, section 5)."""
    attributes = [contents.group.metadata.attributes, *[each.metadata.attributes for each in contents.arrays.values()]]
    texts = [each.get("coordinates") for each in attributes]
    return frozenset(chain.from_iterable(text.split() for text in texts if isinstance(text, str)))


def dims_of(array: hierarchy.Array) -> tuple[str, ...]:
    """Return the names of the dimensions, from the metadata or the references of NCZarr.

    Returns: the names; fewer than dimensions if there are none.
    """
    names = array.dimension_names
    if names is not None:
        return tuple([name for name in names if name is not None])
    nczarr = array.metadata.extra.get("_NCZARR_ARRAY") or array.metadata.attributes.get("_nczarr_array")
    references = nczarr.get("dimrefs") or nczarr.get("dimension_references") if isinstance(nczarr, Mapping) else None
    return tuple([str(each).rpartition("/")[2] for each in references or ()])


def _expanded(target: str | os.PathLike[str]) -> str | os.PathLike[str]:
    text = os.fspath(target)
    return os.path.expanduser(text) if text.startswith("~") else target
