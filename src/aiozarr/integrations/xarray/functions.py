"""Coroutines that open data sets and trees, of one target or of many, without blocking the caller's loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Literal

import xarray
from anyio import to_thread

from aiozarr import hierarchy
from aiozarr.common.concurrency import map_concurrently
from aiozarr.engine import Target, run
from aiozarr.integrations.xarray.accessor import load_all
from aiozarr.integrations.xarray.backend import AiozarrBackendEntrypoint, source_of, warn_unless_consolidated
from aiozarr.integrations.xarray.group_contents import OpenedGroups, OpenOptions, fetch_groups

Combine = Literal["by_coords", "nested"]
MAX_OPENING_TARGETS = 64
"""Targets that `open_many` opens concurrently."""


async def open_dataset(target: Target | hierarchy.Group, **options: Any) -> xarray.Dataset:
    """Open a group as a data set, with the keywords of `xarray.open_dataset` and of the engine.

    All documents, then all coordinates and times, are fetched in one schedule. The caller's loop is never blocked. As
    the engine, it warns of a store without consolidated metadata unless `consolidated=False` is given.

    Raises:
        NodeNotFoundError: there is no group; also a `FileNotFoundError`.
        MetadataError, StoreError: a document could not be read.
    """
    opened, rest = await _fetch(target, options, deep=False)
    warn_unless_consolidated([(target, opened)])
    return await to_thread.run_sync(partial(_finish, xarray.open_dataset, opened, rest))


async def open_datatree(target: Target | hierarchy.Group, **options: Any) -> xarray.DataTree:
    """Open a group and everything below it as a tree, with the keywords of `xarray.open_datatree` and of the engine.

    The documents of all groups, then all their coordinates and times, are fetched in one schedule.

    Raises:
        NodeNotFoundError, MetadataError, StoreError: as `open_dataset`.
    """
    opened, rest = await _fetch(target, options, deep=True)
    warn_unless_consolidated([(target, opened)])
    return await to_thread.run_sync(partial(_finish, xarray.open_datatree, opened, rest))


async def open_many(
    targets: Iterable[Target | hierarchy.Group],
    *,
    combine: Combine | None = "by_coords",
    combine_options: Mapping[str, Any] | None = None,
    preprocess: Callable[[xarray.Dataset], xarray.Dataset] | None = None,
    **options: Any,
) -> Any:
    """Open many targets concurrently and combine their data sets.

    Lazy variables that are combined are loaded first, all in one schedule. With `chunks={}` they become dask arrays,
    and nothing is loaded.

    Args:
        targets: URLs, paths, stores or groups.
        combine: the function of xarray that combines them, `combine_by_coords` or `combine_nested`; None: none.
        combine_options: keywords of that function, such as `concat_dim`.
        preprocess: called with each data set, in a thread, before they are combined.
        options: the keywords of `xarray.open_dataset` and of the engine.

    Returns: one data set or, with `combine=None`, a list of data sets in the order of the targets.

    Raises:
        NodeNotFoundError, MetadataError, StoreError: as `open_dataset`; the first error ends all openings.
        ValueError: `combine` has another value, or the data sets cannot be combined.
    """
    if combine not in ("by_coords", "nested", None):
        raise ValueError(f"combine is 'by_coords', 'nested' or None, not {combine!r}")
    if combine is None and combine_options:
        raise TypeError("combine_options go with combine='by_coords' or 'nested'")
    each = list(targets)
    # The opening of all targets is one call to the I/O thread, so the first error ends it.
    opened = await run(
        lambda _: map_concurrently(partial(_fetch, options=options, deep=False), each, concurrency=MAX_OPENING_TARGETS)
    )
    warn_unless_consolidated(zip(each, [groups for groups, _ in opened], strict=True))

    def finish() -> list[xarray.Dataset]:
        found = [_finish(xarray.open_dataset, groups, rest) for groups, rest in opened]
        return found if preprocess is None else [preprocess(dataset) for dataset in found]

    datasets = await to_thread.run_sync(finish)
    if combine is None:
        return datasets
    await load_all(datasets)
    function = xarray.combine_by_coords if combine == "by_coords" else xarray.combine_nested
    return await to_thread.run_sync(partial(function, datasets, **(combine_options or {})))


async def _fetch(
    target: Target | hierarchy.Group, options: Mapping[str, Any], *, deep: bool
) -> tuple[OpenedGroups, dict[str, Any]]:
    """Fetch what opening needs; return it with the keywords that remain for xarray."""
    rest = dict(options)
    if "engine" in rest:
        raise TypeError("the engine is aiozarr here: engine= goes with xarray.open_dataset")
    if rest.pop("mode", "r") not in ("r", "r+"):
        raise ValueError("opening reads, with mode='r'; Dataset.to_zarr writes")
    rest |= rest.pop("backend_kwargs", None) or {}
    own = {name: rest.pop(name) for name in _OPTION_NAMES if name in rest}
    dropped = own.get("drop_variables")
    return await fetch_groups(source_of(target), OpenOptions(**own), deep=deep), {**rest, "drop_variables": dropped}


_OPTION_NAMES: Sequence[str] = tuple([each.name for each in fields(OpenOptions)])


def _finish(function: Callable[..., Any], opened: OpenedGroups, options: Mapping[str, Any]) -> Any:
    dataset = function(opened, engine=AiozarrBackendEntrypoint, **options)
    dataset.encoding["source"] = opened.root.url
    return dataset
