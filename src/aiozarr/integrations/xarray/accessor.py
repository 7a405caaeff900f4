"""`ds.aiozarr`: loads all lazy variables in one schedule, and plans what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import xarray
from anyio import to_thread

from aiozarr import hierarchy
from aiozarr.engine import Plan
from aiozarr.hierarchy import View
from aiozarr.hierarchy.internal import AnyArray
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
        """An upper bound of the requests of all variables."""
        return sum(plan.requests for plan in self.variables.values())

    @property
    def bytes(self) -> int:
        """An upper bound of the bytes that are fetched for all variables."""
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

    Variables of other engines, and chunked ones, are loaded as `xarray` does it.
    """

    def __init__(self, data: Any) -> None:
        self._data = data
        self._report: Report | None = None

    @property
    def report(self) -> Report | None:
        """The report of the last `load` or `aload` of this accessor; None before."""
        return self._report

    def plan(self) -> LoadPlan:
        """Return the cost of loading all variables that are not in memory. Does no I/O."""
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
        # What is chunked or belongs to another engine.
        self._data.load()
        return self._data

    async def aload(self) -> Any:
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
    """Return the lazy variables of aiozarr in a data set, data array or tree: names, variables, and what they read."""
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
        # In a thread: CF decoding computes on all values.
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
