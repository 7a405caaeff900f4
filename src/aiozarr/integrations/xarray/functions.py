"""Coroutines that open data sets and trees of xarray, and the accessor `ds.aiozarr`.

The accessor loads all lazy variables in one schedule, and plans the cost of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal

import xarray
from anyio import to_thread

from aiozarr import hierarchy
from aiozarr.common.concurrency import map_concurrently
from aiozarr.engine import Plan, Target, run
from aiozarr.hierarchy import View
from aiozarr.hierarchy.internal import AnyArray
from aiozarr.integrations.xarray.backend import AiozarrBackendEntrypoint, source_of, warn_unless_consolidated
from aiozarr.integrations.xarray.group_contents import OpenedGroups, OpenOptions, fetch_groups
from aiozarr.integrations.xarray.lazy_array import load_variable, pending_view
from aiozarr.schedule.events import Report, record
from aiozarr.sync.wait import wait


@dataclass(frozen=True)
class LoadPlan:
    """The cost of loading the lazy variables of a data set, as bounds without I/O.

    Attributes:
        variables: the plan of each variable that is not in memory, by name; in a tree, by path.
    """

    variables: Mapping[str, Plan]

    @property
    def requests(self) -> int:
        """An upper bound on the requests for all variables."""
        return sum(plan.requests for plan in self.variables.values())

    @property
    def bytes(self) -> int:
        """An upper bound on the bytes fetched for all variables."""
        return sum(plan.bytes for plan in self.variables.values())

    def __str__(self) -> str:
        lines = [f"{len(self.variables)} variables: at most {self.requests} requests, {self.bytes} bytes"]
        lines += [
            f"  {name} {plan.shape}: at most {plan.requests} requests, {plan.bytes} bytes"
            for name, plan in self.variables.items()
        ]
        return "\n".join(lines)


class DatasetAccessor:
    """Loads the lazy variables of a `Dataset`, `DataArray` or `DataTree` that the engine `aiozarr` opened.

    xarray itself loads chunked variables and variables of other engines.
    """

    def __init__(self, data: Any) -> None:
        self._data = data
        self._report: Report | None = None

    @property
    def report(self) -> Report | None:
        """The report of the last `load` or `load_async` of this accessor; None before the first."""
        return self._report

    def plan(self) -> LoadPlan:
        """Return the cost of loading all variables that are not in memory, without I/O."""
        return LoadPlan({name: view.plan() for name, _, view in pending_variables(self._data)})

    def load(self) -> Any:
        """Load all variables in one schedule, in place, and return the object.

        Raises:
            StoreError, CodecError, MissingChunkError, LimitError: as `aiozarr.read_many`.
        """
        pending = pending_variables(self._data)
        with record() as report:
            self._report = report
            blocks = wait(lambda _: hierarchy.read_many([view for _, _, view in pending])) if pending else []
        _fill(pending, blocks)
        # Variables that are chunked or belong to another engine.
        self._data.load()
        return self._data

    async def load_async(self) -> Any:
        """Load all variables in one schedule, in place, and return the object. The caller's loop is never blocked.

        Raises:
            StoreError, CodecError, MissingChunkError, LimitError: as `aiozarr.read_many`.
        """
        with record() as report:
            self._report = report
            await load_all([self._data])
        await to_thread.run_sync(self._data.load)
        return self._data

    def __repr__(self) -> str:
        return f"<aiozarr.integrations.xarray.DatasetAccessor of a {type(self._data).__name__}>"


Pending = list[tuple[str, xarray.Variable, View]]


def pending_variables(data: Any) -> Pending:
    """Return the names, variables and views of the lazy variables of aiozarr in a data set, data array or tree."""
    seen: set[int] = set()
    found = []
    for name, variable in _variables(data):
        view = None if id(variable) in seen else pending_view(variable._data)
        seen.add(id(variable))
        if view is not None:
            found.append((name, variable, view))
    return found


async def load_all(objects: Sequence[Any]) -> None:
    """Load the lazy variables of aiozarr in all objects in one schedule, in place."""
    pending = [each for data in objects for each in pending_variables(data)]
    if pending:
        blocks = await hierarchy.read_many([view for _, _, view in pending])
        # In a thread, because CF decoding computes on all values.
        await to_thread.run_sync(_fill, pending, blocks)


def _fill(pending: Pending, blocks: list[AnyArray]) -> None:
    blocks.reverse()
    for _, variable, _ in pending:
        # Each block is released once its variable is decoded.
        load_variable(variable, blocks.pop())


def _variables(data: Any) -> Iterator[tuple[str, xarray.Variable]]:
    if isinstance(data, xarray.DataTree):
        for node in data.subtree:
            for name, variable in node.variables.items():
                yield f"{node.path.rstrip('/')}/{name}", variable
        return
    if isinstance(data, xarray.DataArray):
        yield str(data.name), data.variable
        for name, coordinate in data.coords.items():
            yield str(name), coordinate.variable
        return
    for name, variable in data.variables.items():
        yield str(name), variable


for register in (
    xarray.register_dataset_accessor,
    xarray.register_dataarray_accessor,
    xarray.register_datatree_accessor,
):
    register("aiozarr")(DatasetAccessor)  # type: ignore[no-untyped-call]  # xarray has no types for it

Combine = Literal["by_coords", "nested"]
MAX_OPENING_TARGETS = 64
"""Targets that `open_many` opens concurrently."""


async def open_dataset(target: Target | hierarchy.Group, **options: Any) -> xarray.Dataset:
    """Open a group as a data set, with the keywords of `xarray.open_dataset` and of the engine.

    All documents, then all coordinates and times, are fetched in one schedule. The caller's loop is never blocked. Like
    the engine, it warns about a store without consolidated metadata unless `consolidated=False` is given.

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
        combine: "by_coords" or "nested": combine the data sets by xarray's `combine_by_coords` or `combine_nested`.
            None: return a list.
        combine_options: keywords of that function, such as `concat_dim`.
        preprocess: called with each data set, in a thread, before they are combined.
        options: the keywords of `xarray.open_dataset` and of the engine.

    Returns: one data set or, with `combine=None`, a list of data sets in the order of the targets.

    Raises:
        NodeNotFoundError, MetadataError, StoreError: as `open_dataset`; the first error ends all openings.
        ValueError: `combine` has another value, or the data sets cannot be combined.
    """
    if combine not in ("by_coords", "nested", None):
        raise ValueError(f"combine must be 'by_coords', 'nested' or None, not {combine!r}")
    if combine is None and combine_options:
        raise TypeError("combine_options need combine='by_coords' or combine='nested'")
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
    """Fetch the groups that opening needs, and return them with the keywords that remain for xarray."""
    rest = dict(options)
    if "engine" in rest:
        raise TypeError("the engine is always aiozarr; use engine= in xarray.open_dataset instead")
    if rest.pop("mode", "r") not in ("r", "r+"):
        raise ValueError("mode must be 'r', because opening only reads; write with Dataset.to_zarr")
    rest |= rest.pop("backend_kwargs", None) or {}
    own = {name: rest.pop(name) for name in _OPTION_NAMES if name in rest}
    dropped = own.get("drop_variables")
    return await fetch_groups(source_of(target), OpenOptions(**own), deep=deep), {**rest, "drop_variables": dropped}


_OPTION_NAMES: Sequence[str] = tuple([each.name for each in fields(OpenOptions)])


def _finish(function: Callable[..., Any], opened: OpenedGroups, options: Mapping[str, Any]) -> Any:
    dataset = function(opened, engine=AiozarrBackendEntrypoint, **options)
    dataset.encoding["source"] = opened.root.url
    return dataset
